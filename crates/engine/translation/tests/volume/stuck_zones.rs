//! TL-CLEAN-1, ZK-ZONE-4: zones that could not be emptied, because reads failed, or not reset, are tried again. TL-WRITE-4: zones of copies fail.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::BlockStore;
use shingle_translation::{Volume, ZoneUse, ZoneView};
use shingle_zoned::{Geometry, ZoneState, ZonedDevice};

use crate::common::{largest, put};

/// A volume of which each sector was written, on its drive, and the number of its sectors.
async fn filled(rt: &Runtime, volatile_cache: bool) -> (SimDevice, Volume, u64) {
    let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
    let (device, volume) = largest(rt, &geometry).await;
    let sectors = volume.size_bytes() / 4096;
    for lba in 0..sectors {
        put(&volume, lba, 1, 1).await.expect("it is filled");
    }
    (device, volume, sectors)
}

#[test]
fn zones_that_can_be_read_again_give_room_again() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume, sectors) = filled(&rt, false).await;
            let zones = volume.data_zones();
            for zone in zones.start..zones.start + 20 {
                device.medium().fail_reads(device.geometry().start_of(ZoneId(zone)), Blocks(64), None);
            }
            let mut refused = 0;
            for _ in 0..2 * sectors {
                refused += u64::from(put(&volume, random.below(sectors), 1, 2).await.is_err());
            }
            assert!(refused > 0, "seed {seed}: the room was never used up");
            device.medium().heal();
            rt.sleep(Duration::from_secs(60)).await;
            for number in 0..sectors {
                let written = put(&volume, random.below(sectors), 1, 3).await;
                written.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
            }
            assert!(volume.control().zones().iter().all(|zone| !zone.stuck), "seed {seed}");
            volume.close().await.expect("it closes");
        });
    }
}

/// Nobody waits for room: the drive is left alone for minutes at a time.
#[test]
fn zones_that_cannot_be_read_are_tried_seldom() {
    Sim::new(1).run(|rt| async move {
        let (device, volume, sectors) = filled(&rt, false).await;
        let zones = volume.data_zones();
        device.medium().fail_reads(
            device.geometry().start_of(ZoneId(zones.start)),
            Blocks(64 * u64::from(zones.end - zones.start)),
            None,
        );
        let mut random = Random::new(1);
        while put(&volume, random.below(sectors), 1, 2).await.is_ok() {}
        rt.sleep(Duration::from_secs(1)).await;
        let before = device.counts().reads.0;
        rt.sleep(Duration::from_secs(590)).await;
        assert_eq!(device.counts().reads.0, before, "nobody waits");
        rt.sleep(Duration::from_secs(3600)).await;
        let reads = device.counts().reads.0 - before;
        assert!(reads > 0 && reads < 8 * 64 * u64::from(zones.end - zones.start), "{reads} reads in an hour");
    });
}

/// ZK-ZONE-4: writers wait for a drive that resets no zone for some seconds, and no zone is out of use afterwards.
#[test]
fn resets_that_fail_for_a_while_cost_no_zone() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume, sectors) = filled(&rt, false).await;
            let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::CommandError };
            let others = (0..volume.data_zones().start).map(ZoneId);
            device.set_faults(Faults::new([rule]).sparing(others));
            let (healed, sleeper) = (device.clone(), rt.clone());
            rt.spawn_detached(async move {
                sleeper.sleep(Duration::from_secs(5)).await;
                healed.set_faults(Faults::default());
            });
            for number in 0..2 * sectors {
                let written = put(&volume, random.below(sectors), 1, 2).await;
                written.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
            }
            assert!(device.faults().is_empty(), "seed {seed}: it was over before resets succeeded");
            assert!(volume.control().zones().iter().all(|zone| zone.used != ZoneUse::Dead), "seed {seed}");
            volume.close().await.expect("it closes");
        });
    }
}

/// Has a zone of copies go offline at the first flush behind copies of which none was flushed before. Returns a place for the zone.
fn fail_copies(volume: &Volume, device: &SimDevice) -> Rc<Cell<Option<ZoneId>>> {
    let (volume, failed, written) = (volume.clone(), Rc::new(Cell::new(None)), Cell::new(None));
    let told = failed.clone();
    device.on_command(move |command, device| match command.kind {
        CommandKind::Write => written.set(command.zone),
        CommandKind::Flush if failed.get().is_none() => {
            let control = volume.control();
            let is_fresh = |view: &ZoneView| view.used == ZoneUse::Copies && view.live == 0 && view.blocks > 0;
            let zone = control.zones().into_iter().find(|view| Some(view.name.zone) == written.get() && is_fresh(view));
            control.detach();
            failed.set(zone.map(|view| view.name.zone));
            failed.get().iter().for_each(|zone| device.medium().set_state(*zone, ZoneState::Offline));
        }
        _ => {}
    });
    told
}

/// TL-WRITE-4: no write shows that a zone has failed with copies, and the flush behind them succeeds.
#[test]
fn a_zone_that_fails_with_copies_costs_no_original() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume, sectors) = filled(&rt, true).await;
            let (failed, mut bytes) = (fail_copies(&volume, &device), vec![1; sectors as usize]);
            for number in 0..4 * sectors {
                if failed.get().is_some() {
                    break;
                }
                let lba = random.below(sectors);
                bytes[lba as usize] = 2;
                let written = put(&volume, lba, 1, 2).await;
                written.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
            }
            assert!(failed.get().is_some(), "seed {seed}: no zone of copies failed");
            rt.sleep(Duration::from_secs(10)).await;
            for (lba, byte) in (0..sectors).zip(bytes) {
                let read = volume.read(lba * 4096, 4096).await;
                let read = read.unwrap_or_else(|error| panic!("seed {seed}, sector {lba}: {error}"));
                assert!(read == vec![byte; 4096], "seed {seed}, sector {lba}");
            }
            volume.close().await.expect("it closes");
        });
    }
}

/// TL-WRITE-4: a drive that tells nothing of its zones for a while costs time, and no zone; copies are not written again and again meanwhile.
#[test]
fn copies_wait_for_a_drive_that_tells_nothing() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume, sectors) = filled(&rt, true).await;
            let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::ReadError };
            device.set_faults(Faults::new([rule]));
            let (healed, sleeper) = (device.clone(), rt.clone());
            rt.spawn_detached(async move {
                sleeper.sleep(Duration::from_secs(20)).await;
                healed.set_faults(Faults::default());
            });
            for number in 0..2 * sectors {
                let written = put(&volume, random.below(sectors), 1, 2).await;
                written.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
            }
            assert!(device.faults().is_empty(), "seed {seed}: it was over before copies counted");
            assert!(volume.control().zones().iter().all(|zone| zone.used != ZoneUse::Dead), "seed {seed}");
            volume.close().await.expect("it closes");
        });
    }
}
