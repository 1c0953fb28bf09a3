//! LOG-1 to LOG-4: wherever the power fails, and whatever writes fail, the log yields its newest complete checkpoint and
//! every acknowledged entry behind it, in order, none twice.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_record::{MetaLog, MetaLogConfig, MetaLogError, Recovered, SequenceSource};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

fn config() -> MetaLogConfig {
    MetaLogConfig { store: StoreId(9), zones: 2..10, zone_kind: 1, read_depth: 4 }
}

fn medium(random: &mut Random) -> MemoryDevice {
    let geometry = Geometry::hm_smr(Blocks(16 + random.below(32)), 12, 0, 8);
    MemoryDevice::new(Geometry { volatile_cache: random.chance(0.5), ..geometry })
}

async fn open(rt: &Runtime, device: &SimDevice) -> Result<(MetaLog, Recovered), MetaLogError> {
    let device: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    MetaLog::open(rt, &device, config(), SequenceSource::default()).await
}

/// What was asked of the log, and answered.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Every entry, in order; the number of an entry is its bytes.
    entries: u64,
    /// Entries acknowledged: all before this one.
    acked: u64,
    /// Entries that lay before the start of the newest checkpoint that was acknowledged.
    checkpoint: u64,
}

/// Appends entries and makes checkpoints, several things at once.
async fn work(rt: Runtime, log: MetaLog, asked: Rc<RefCell<Asked>>, mut random: Random, steps: u64) {
    let mut sequence = 1_000_000;
    for _ in 0..steps {
        if random.chance(0.15) || !log.has_journal_room() {
            let before = asked.borrow().entries;
            let begun = log.begin_checkpoint();
            let Ok(mut writer) = begun.await else { return };
            let mut failed = false;
            for part in 0..1 + random.below(3) {
                let text = format!("{before} {part} {}", "x".repeat(random.below(500) as usize));
                failed |= writer.part(text.into_bytes()).await.is_err();
            }
            if failed || writer.finish().await.is_err() {
                return;
            }
            let mut asked = asked.borrow_mut();
            asked.checkpoint = asked.checkpoint.max(before);
            continue;
        }
        let mut waiting = Vec::new();
        for _ in 0..1 + random.below(4) {
            let number = asked.borrow().entries;
            asked.borrow_mut().entries += 1;
            sequence += 1;
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(8 + random.below(200) as usize, 7);
            waiting.push((number, log.append(bytes, sequence)));
        }
        for (number, answer) in waiting {
            if answer.await.is_err() {
                return;
            }
            let mut asked = asked.borrow_mut();
            asked.acked = asked.acked.max(number + 1);
        }
        rt.sleep(Duration::from_micros(random.below(200))).await;
    }
}

fn holds(recovered: &Recovered, asked: &Asked, context: &str) -> u64 {
    let start: u64 = match recovered.parts.first() {
        // The empty checkpoint that formatting writes.
        None => 0,
        Some(part) => {
            let text = std::str::from_utf8(part).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        }
    };
    for (number, part) in recovered.parts.iter().enumerate() {
        assert!(
            part.starts_with(format!("{start} {number} ").as_bytes()),
            "{context}: part {number} is of another checkpoint"
        );
    }
    assert!(start >= asked.checkpoint, "{context}: checkpoint at {start}, {} was acknowledged", asked.checkpoint);
    for (at, entry) in recovered.journal.iter().enumerate() {
        let number = u64::from_le_bytes(entry.bytes[..8].try_into().unwrap());
        assert_eq!(number, start + at as u64, "{context}: entry {at} behind {start}");
    }
    let end = start + recovered.journal.len() as u64;
    assert!(end >= asked.acked, "{context}: {end} entries, {} were acknowledged", asked.acked);
    assert!(end <= asked.entries, "{context}: {end} entries, only {} were asked for", asked.entries);
    end
}

fn history(seed: u64, faults: Faults, cut: bool) -> Vec<(u64, MemoryDevice, Asked)> {
    let mut random = Random::new(seed);
    let medium = medium(&mut random);
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        device.set_faults(faults);
        let asked = Rc::new(RefCell::new(Asked::default()));
        let cuts = Rc::new(RefCell::new(Vec::new()));
        if cut {
            let (cuts, asked) = (cuts.clone(), asked.clone());
            device.on_command(move |command, device| {
                let image = device.crash_image(seed * 7919 + command.number);
                cuts.borrow_mut().push((command.number, image, asked.borrow().clone()));
            });
        }
        work(rt.clone(), log, asked.clone(), random, 40).await;
        device.on_command(|_, _| {});
        let last = (u64::MAX, device.image(), asked.borrow().clone());
        cuts.borrow_mut().push(last);
        cuts.take()
    })
}

#[test]
fn cut_at_every_command() {
    let mut pairs = 0;
    for seed in seeds(40) {
        for (command, image, mut asked) in history(seed, Faults::default(), true) {
            pairs += 1;
            let context = format!("seed {seed}, cut at command {command}");
            Sim::new(seed ^ command).run(move |rt| async move {
                let device = SimDevice::new(&rt, &image);
                let (log, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let end = holds(&recovered, &asked, &context);
                // It goes on from there, and a second opening finds what came after, too.
                (asked.entries, asked.acked) = (end, end);
                let asked = Rc::new(RefCell::new(asked));
                work(rt.clone(), log, asked.clone(), Random::new(command), 3).await;
                let again = SimDevice::new(&rt, &device.crash_image(seed));
                let (_, recovered) =
                    open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
                holds(&recovered, &asked.borrow(), &format!("{context}, and again"));
            });
        }
    }
    assert!(pairs > 1000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {pairs} cuts");
}

#[test]
fn failed_writes_and_dying_zones_lose_no_acknowledged_entry() {
    for seed in seeds(100) {
        let rate = |kind, share, fault| FaultRule { trigger: Trigger::Rate(kind, share), fault };
        let rules = vec![
            rate(CommandKind::Write, 0.06, Fault::WriteError),
            rate(CommandKind::Write, 0.01, Fault::ZoneReadOnly),
            rate(CommandKind::Reset, 0.05, Fault::ZoneReadOnly),
        ];
        for (_, image, asked) in history(seed, Faults::new(rules), false) {
            let context = format!("seed {seed}");
            Sim::new(seed).run(move |rt| async move {
                let device = SimDevice::new(&rt, &image);
                let (_, recovered) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                holds(&recovered, &asked, &context);
            });
        }
    }
}

#[test]
fn a_record_that_rots_in_front_of_others_is_damage_and_not_passed_over() {
    let mut noticed = 0;
    for seed in seeds(200) {
        let Some((_, image, asked)) = history(seed, Faults::default(), false).pop() else { continue };
        let mut random = Random::new(seed);
        let zone = ZoneId(2 + random.below(8) as u32);
        let written = image.zone(zone).written;
        if written < Blocks(3) {
            continue;
        }
        let block = 1 + random.below(written.0 - 2);
        image.corrupt(image.geometry().start_of(zone) + Blocks(block), |bytes| bytes[100] ^= 1);
        let context = format!("seed {seed}, {zone}, block {block}");
        noticed += Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            match open(&rt, &device).await {
                Err(MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint) => 1,
                Err(error) => panic!("{context}: {error}"),
                // It lay in a zone, or a part of a record, that is not needed; or it was the last record.
                Ok((_, recovered)) => {
                    let start = recovered.parts.len() + recovered.journal.len();
                    assert!(start > 0 || asked.entries == 0, "{context}: everything is gone");
                    0
                }
            }
        });
    }
    assert!(noticed > 3 || std::env::var_os("SHINGLE_SEED").is_some(), "rot was noticed only {noticed} times");
}
