//! RC-LOG-5, RC-LOG-6 and RC-LOG-9 where a zone at the log's end is begun a second time, cannot be, or fails.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use common::{config, open};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ZoneId};
use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

fn fresh() -> MemoryDevice {
    MemoryDevice::new(Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(24), 12, 0, 8) })
}

async fn formatted(rt: &Runtime) -> (SimDevice, MetaLog) {
    let device = SimDevice::new(rt, &fresh());
    let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    let log = MetaLog::format(rt, &shared, config(), SequenceSource::default()).await.unwrap();
    (device, log)
}

/// The entries that an opening finds.
async fn entries(rt: &Runtime, image: &MemoryDevice) -> Vec<Bytes> {
    let (_, recovered) = open(rt, &SimDevice::new(rt, image)).await.unwrap();
    recovered.journal.into_iter().map(|entry| entry.bytes).collect()
}

fn used(device: &SimDevice) -> Vec<ZoneId> {
    let image = device.image();
    config().zones.map(ZoneId).filter(|zone| image.zone(*zone).written > Blocks::ZERO).collect()
}

/// Appends until an entry is the first in the second zone. Returns the zone, the entry, and the drive with the link to it and nothing in it.
async fn reach_next_zone(device: &SimDevice, log: &MetaLog) -> (ZoneId, Bytes, MemoryDevice) {
    let linked = Rc::new(RefCell::new(None));
    let seen = linked.clone();
    device.on_command(move |command, device| {
        let image = device.image();
        let begins = command.kind == CommandKind::Write
            && command.zone.is_some_and(|zone| image.zone(zone).written == Blocks::ZERO);
        if begins {
            seen.replace(Some(image));
        }
    });
    for number in 0..100u8 {
        let before = used(device);
        let entry = Bytes::from(vec![number; 100]);
        log.append(entry.to_vec(), 2_000_000 + u64::from(number)).await.unwrap();
        if let Some(next) = used(device).into_iter().find(|zone| !before.contains(zone)) {
            return (next, entry, linked.take().unwrap());
        }
    }
    panic!("no second zone");
}

/// A linked zone's first write is torn, and an opening does not show its entry. A host writes over the zone in place, and a block of
/// that first life comes back: it must not pass for one of the second.
#[test]
fn a_zone_is_never_begun_again_in_the_same_generation() {
    Sim::new(1).run(|rt| async move {
        let (device, log) = formatted(&rt).await;
        let (next, lost, linked) = reach_next_zone(&device, &log).await;
        let start = linked.zone(next).start;
        let block = device.image().read_now(start + Blocks(1), Blocks(1)).unwrap();
        let mut torn = AlignedBuf::zeroed(Blocks(3));
        torn[BLOCK_SIZE..2 * BLOCK_SIZE].copy_from_slice(&block);
        linked.write_now(start, vec![torn.freeze()]).unwrap();

        let device = SimDevice::new(&rt, &linked);
        let (log, recovered) = open(&rt, &device).await.unwrap();
        assert!(recovered.journal.iter().all(|entry| entry.bytes != lost));
        let written = Bytes::from(vec![200; 100]);
        log.append(written.to_vec(), 3_000_000).await.unwrap();
        let image = device.image();
        assert_eq!(image.zone(next).written, Blocks(3));
        image.corrupt(start + Blocks(1), |bytes| bytes.copy_from_slice(&block));
        let found = entries(&rt, &image).await;
        assert!(!found.contains(&lost) && found.contains(&written), "{} entries", found.len());
    });
}

/// The zone before those of a checkpoint that was cut short would not prove that one that is offline is not the next; they do.
#[test]
fn an_offline_zone_stops_no_opening_if_the_log_ends_elsewhere() {
    Sim::new(1).run(|rt| async move {
        let (device, log) = formatted(&rt).await;
        log.append(vec![1; 100], 2_000_000).await.unwrap();
        device.medium().set_state(ZoneId(9), ZoneState::Offline);
        device.medium().set_state(used(&device)[0], ZoneState::ReadOnly);
        let mut checkpoint = log.begin_checkpoint().await.unwrap();
        checkpoint.part(vec![7; 9000]).await.unwrap();
        device.power_off_at(0);
        drop(checkpoint);
        let device = SimDevice::new(&rt, &device.image());
        let (log, recovered) = open(&rt, &device).await.unwrap();
        assert_eq!(recovered.journal.len(), 1);
        log.append(vec![2; 100], 3_000_000).await.unwrap();
        assert_eq!(entries(&rt, &device.image()).await, [vec![1; 100], vec![2; 100]]);
    });
}

/// RC-LOG-9: an opening after an opening finds all, until a checkpoint makes the zone free.
#[test]
fn the_log_goes_on_behind_an_unneeded_zone_that_the_drive_does_not_reset() {
    Sim::new(1).run(|rt| async move {
        let (device, log) = formatted(&rt).await;
        log.append(vec![1; 100], 2_000_000).await.unwrap();
        let before = used(&device);
        let mut checkpoint = log.begin_checkpoint().await.unwrap();
        while used(&device) == before {
            checkpoint.part(vec![7; 9000]).await.unwrap();
        }
        device.power_off_at(0);
        drop(checkpoint);
        let unneeded = used(&device).into_iter().find(|zone| !before.contains(zone)).unwrap();
        let mut image = device.image();
        for number in 2..6u8 {
            let device = SimDevice::new(&rt, &image);
            let trigger = Trigger::Zone(CommandKind::Reset, unneeded);
            device.set_faults(Faults::new([FaultRule { trigger, fault: Fault::CommandError }]));
            let (log, recovered) = open(&rt, &device).await.unwrap();
            assert_eq!(recovered.journal.len() + 1, usize::from(number));
            log.append(vec![number; 100], u64::from(number) * 1_000_000).await.unwrap();
            if number == 4 {
                log.begin_checkpoint().await.unwrap().finish().await.unwrap();
                return;
            }
            image = device.image();
        }
    });
}

/// A zone turns read-only at a write, and for longer than the log tries the drive does not say so when it is asked. The error of the command
/// said it.
#[test]
fn a_zone_that_turns_read_only_is_left_even_if_reports_fail() {
    for nth in 0..4 {
        Sim::new(1).run(move |rt| async move {
            let (device, log) = formatted(&rt).await;
            log.append(vec![0; 100], 2_000_000).await.unwrap();
            let silent = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::ReadError };
            let dies = FaultRule { trigger: Trigger::Nth(CommandKind::Write, nth), fault: Fault::ZoneReadOnly };
            device.set_faults(Faults::new([silent, dies]));
            let (clock, faulty) = (rt.clone(), device.clone());
            rt.spawn_detached(async move {
                clock.sleep(Duration::from_millis(100)).await;
                faulty.set_faults(Faults::default());
            });
            for number in 1..6u8 {
                let appended = log.append(vec![number; 100], 2_000_000 + u64::from(number)).await;
                appended.unwrap_or_else(|error| panic!("write {nth}, entry {number}: {error}"));
            }
            assert!(
                device.faults().injected().iter().any(|(_, _, fault)| *fault == Fault::ZoneReadOnly),
                "write {nth}"
            );
            let all: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 100]).collect();
            assert_eq!(entries(&rt, &device.image()).await, all, "write {nth}");
        });
    }
}
