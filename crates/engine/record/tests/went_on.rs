//! RC-LOG-6, RC-LOG-9: a log that an opening went on with holds what was acknowledged since, or says that it does not, whichever zone is lost then.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Asked, append, config, history, holds, open};
use shingle_base::{Blocks, ZoneId};
use shingle_record::{MetaLog, MetaLogError, Recovered, SequenceSource};
use shingle_sim::{CommandKind, Faults, Sim, SimDevice, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

fn reopen(image: &MemoryDevice) -> Result<Recovered, MetaLogError> {
    let image = image.snapshot();
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &image);
        open(&rt, &device).await.map(|(_, recovered)| recovered)
    })
}

/// Goes on where a power cut ended the log, with one entry. The drive then.
fn gone_on(image: &MemoryDevice, asked: &mut Asked, context: &str) -> MemoryDevice {
    let (image, was, context) = (image.snapshot(), asked.clone(), context.to_owned());
    let (after, now) = Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &image);
        let (log, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        let asked = Rc::new(RefCell::new(was));
        let end = holds(&recovered, &asked.borrow(), &context);
        asked.borrow_mut().reopened(end);
        append(&log, &asked).await.unwrap();
        (device.image(), asked.take())
    });
    *asked = now;
    after
}

/// Power cuts at the first write of each zone, while a checkpoint of many zones is written behind so many entries.
fn cuts_of_a_long_checkpoint(entries: u64) -> Vec<(u64, MemoryDevice, Asked)> {
    let geometry = Geometry { active_zones_max: Some(8), ..Geometry::hm_smr(Blocks(16), 12, 0, 8) };
    Sim::new(entries).run(move |rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        let asked = Rc::new(RefCell::new(Asked::default()));
        for _ in 0..entries {
            if !log.has_journal_room() {
                let covered = asked.borrow().acked;
                let mut writer = log.begin_checkpoint().await.unwrap();
                writer.part(format!("{covered} 0 ").into_bytes()).await.unwrap();
                writer.finish().await.unwrap();
                asked.borrow_mut().checkpoint = covered;
            }
            append(&log, &asked).await.unwrap();
        }
        let cuts = Rc::new(RefCell::new(Vec::new()));
        let (taken, told) = (cuts.clone(), asked.clone());
        device.on_command(move |command, device| {
            let image = device.crash_image(command.number);
            let begins = command.zone.is_some_and(|zone| image.zone(zone).written == Blocks(0));
            if command.kind == CommandKind::Write && begins {
                taken.borrow_mut().push((command.number, image, told.borrow().clone()));
            }
        });
        let mut writer = log.begin_checkpoint().await.unwrap();
        for number in 0..30 {
            // Fails once there are no more zones.
            if writer.part(format!("{entries} {number} {}", "x".repeat(8000)).into_bytes()).await.is_err() {
                break;
            }
        }
        device.on_command(|_, _| {});
        cuts.take()
    })
}

/// RC-LOG-9: the log goes on in the zone that the last link names, also if that was full of parts of a checkpoint that never ended.
#[test]
fn a_zone_that_is_lost_after_the_log_went_on_never_rolls_it_back() {
    let (mut opened, mut refused) = (0, 0);
    let long =
        (0..120).flat_map(|entries| cuts_of_a_long_checkpoint(entries).into_iter().map(move |cut| (entries, cut)));
    let short =
        seeds(25).flat_map(|seed| history(seed, Faults::default(), true).into_iter().map(move |cut| (seed, cut)));
    for (seed, (command, image, mut asked)) in long.chain(short) {
        let context = format!("seed {seed}, cut at command {command}");
        let image = gone_on(&image, &mut asked, &context);
        for zone in config().zones.map(ZoneId).filter(|&zone| image.zone(zone).written > Blocks(0)) {
            let offline = image.snapshot();
            offline.set_state(zone, ZoneState::Offline);
            match reopen(&offline) {
                Ok(found) => {
                    holds(&found, &asked, &format!("{context}, {zone} lost"));
                    opened += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(opened > 1000 && refused > 1000, "{opened} opened, {refused} refused");
}
