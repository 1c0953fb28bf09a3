//! RC-LOG-1 to RC-LOG-7 through chains of lives under all faults at once: the log holds what was acknowledged or refuses to open,
//! and it forgets nothing while it refuses. Entries carry the number of the life that asked for them.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Asked, config, holds, medium, open, out_of_zones, work};
use shingle_record::{MetaLog, MetaLogError, SequenceSource};
use shingle_sim::lives::{Harm, Life, wear};
use shingle_sim::{Fault, Medium, Random, Sim, SimDevice, seeds};
use shingle_zoned::{DeviceErrorKind, MemoryDevice, ZoneState, ZonedDevice};

/// Blocks that a fault may have spoiled: one alone costs nothing (RC-LOG-7).
fn spoiled(device: &SimDevice) -> u64 {
    let of_fault = |fault: &Fault| match fault {
        Fault::BitFlip => 1,
        Fault::TornWrite | Fault::Misdirected | Fault::ZoneOffline => 2,
        _ => 0,
    };
    device.faults().injected().iter().map(|(_, _, fault)| of_fault(fault)).sum()
}

fn offline(image: &MemoryDevice) -> bool {
    config().zones.any(|zone| image.zone(shingle_base::ZoneId(zone)).state == ZoneState::Offline)
}

fn is_of_a_dead_zone(error: &MetaLogError) -> bool {
    let MetaLogError::Device(error) = error else { return false };
    matches!(error.kind, DeviceErrorKind::ZoneReadOnly | DeviceErrorKind::ZoneOffline)
}

/// Results of the openings of a chain.
#[derive(Default)]
struct Openings {
    opened: u64,
    refused: u64,
}

fn chain(seed: u64) -> Openings {
    let mut random = Random::new(seed);
    let fresh = medium(&mut random);
    let geometry = fresh.geometry().clone();
    let formatted = Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &fresh);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        device.image()
    });
    let mut medium = Medium::from(&formatted);
    let asked = Rc::new(RefCell::new(Asked::default()));
    let (mut harm, mut bad, mut unread) = (Harm::None, 0, false);
    let mut openings = Openings::default();
    for number in 0..8 {
        let life = Life::draw(&mut random, &config().zones, geometry.zone_count, 250);
        let context = format!("seed {seed}, life {number}, {:?} at {}", life.end, life.last_command);
        let (given, asked, drawn) = (life.clone(), asked.clone(), Random::new(random.number()));
        let (worst, opened);
        (medium, worst, opened) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let opened = open(&rt, &device).await;
            let bad = bad + spoiled(&device);
            let harm = harm.max(if spoiled(&device) > 0 { given.harm } else { Harm::None });
            let unread = unread || offline(&device.image());
            let ended = device.is_gone();
            let is_open = opened.is_ok();
            match opened {
                Ok((log, recovered)) => {
                    let lost = harm == Harm::Silent && bad >= 2;
                    let least = asked.borrow().clone();
                    let least = match lost {
                        // Of a zone whose link is rotten in both blocks nobody knows that a zone that is lost followed.
                        true if unread => least.without_promises(),
                        true => least.without_the_last_write(),
                        false => least,
                    };
                    let end = holds(&recovered, &least, &context);
                    asked.borrow_mut().reopened(end);
                    let found = asked.borrow().promises();
                    let worked = work(rt.clone(), log, asked.clone(), drawn, 30).await;
                    let ended = device.is_gone();
                    // RC-LOG-9: one that was to be reset before the first write died after the opening.
                    let nothing_written = asked.borrow().promises() == found;
                    let explained = |error: &MetaLogError| {
                        ended || out_of_zones(&device.image()) || nothing_written && is_of_a_dead_zone(error)
                    };
                    let stops = worked.err().filter(|error| !explained(error));
                    assert!(stops.is_none(), "{context}: the log stops: {stops:?}");
                }
                Err(error) => {
                    let known = matches!(
                        error,
                        MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint | MetaLogError::Device(_)
                    );
                    assert!(known, "{context}: {error}");
                    // Of a torn write nobody can tell either how much of it a block had that cannot be read.
                    let harmless = bad <= 1 && !unread && given.harm == Harm::None;
                    assert!(ended || !harmless, "{context}: the log does not open: {error}");
                }
            }
            (given.end(&device, seed * 31 + number), (bad + spoiled(&device)).max(bad), is_open)
        });
        openings.opened += u64::from(opened);
        openings.refused += u64::from(!opened);
        // Faults of commands that spoiled nothing that lasts.
        harm = harm.max(if life.harm > Harm::Passing { life.harm } else { Harm::None });
        bad = worst;
        let worn = wear(&mut random, &medium, &geometry, &config().zones);
        harm = harm.max(worn);
        unread |= worn == Harm::Lasting || offline(&medium.image());
        bad += u64::from(worn > Harm::None);
    }
    openings
}

#[test]
fn what_was_acknowledged_is_found_or_the_log_refuses_through_chains_of_lives() {
    let (mut opened, mut refused) = (0, 0);
    // In 15777 the head of a torn zone hid an entry until that zone was reset.
    for seed in seeds(300).chain([15777]) {
        let openings = chain(seed);
        opened += openings.opened;
        refused += openings.refused;
    }
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(one || opened > 1000 && refused > 100, "{opened} opened, {refused} did not");
}
