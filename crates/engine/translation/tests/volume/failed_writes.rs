//! TL-SNAP-2, TL-SNAP-3, TL-SNAP-4: writes that fail while a snapshot is taken, or before. TL-LOSS-1: zones that fail with writes that no flush had
//! covered.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join, select};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Survival, Trigger, seeds};
use shingle_store_api::{BlockStore, StoreErrorKind};
use shingle_translation::Volume;
use shingle_zoned::{Geometry, MemoryDevice, ZoneState};

use crate::common::{format, open, put};

const SECTORS: u64 = 200;

async fn bytes_of(volume: &Volume) -> Bytes {
    volume.at_snapshot("s").expect("it is there").read(0, 2 * SECTORS * 4096).await.expect("it can be read")
}

/// The drive at each command, and the snapshot's bytes.
fn history(seed: u64, fault: Fault) -> (Vec<(u64, MemoryDevice)>, Bytes) {
    Sim::new(seed).run(move |rt| async move {
        let (device, _, zones) = format(&rt, &Geometry::hm_smr(Blocks(1000), 24, 0, 8), 4096).await;
        let (volume, _) = open(&rt, &device).await.unwrap();
        put(&volume, 0, 2 * SECTORS, 1).await.unwrap();
        device.set_latency(Duration::from_micros(200));
        let frontier = ZoneId(zones.start);
        let trigger = Trigger::Zone(CommandKind::Write, frontier);
        // The judgement on the zone takes long.
        let slow = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 0.5), fault: Fault::Slow };
        device.set_faults(Faults::new([FaultRule { trigger, fault }, slow]));
        let cuts = device.cut_at_every_command(seed, Survival::Prefix);
        // Pairs of one command: the first may land whole.
        let writer = Rc::new(volume.clone());
        let writes = rt.spawn(async move {
            let (first, second) = join(put(&writer, 0, SECTORS, 2), put(&writer, SECTORS, SECTORS, 3)).await;
            first.and(second).expect("they go elsewhere");
        });
        rt.sleep(Duration::from_micros(seed % 4 * 60)).await;
        volume.take_snapshot("s").await.unwrap();
        let bytes = bytes_of(&volume).await;
        writes.await.unwrap();
        assert!(!device.faults().injected().is_empty(), "seed {seed}: no write failed");
        device.set_faults(Faults::default());
        for lba in 0..5 {
            put(&volume, lba * 50, 20, 4).await.unwrap();
        }
        device.on_command(|_, _| {});
        assert!(bytes_of(&volume).await == bytes, "seed {seed}: the snapshot has changed");
        volume.close().await.unwrap();
        (cuts.take().into_iter().map(|(command, image)| (command.number, image)).collect(), bytes)
    })
}

/// A write of which some landed is in a snapshot after a power cut if it was in it before, and only then.
#[test]
fn a_write_that_failed_is_in_no_snapshot() {
    let mut compared = 0;
    for seed in seeds(40) {
        let (cuts, bytes) = history(seed, [Fault::WriteError, Fault::HostFullInside][seed as usize / 4 % 2]);
        for (command, image) in cuts {
            let (context, bytes) = (format!("seed {seed}, cut at command {command}"), bytes.clone());
            compared += Sim::new(seed).run(move |rt| async move {
                let (volume, _) = open(&rt, &SimDevice::new(&rt, &image)).await.expect("it opens");
                let found = volume.snapshots().len();
                assert!(found == 0 || bytes_of(&volume).await == bytes, "{context}: another snapshot");
                found
            });
        }
    }
    assert!(compared > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "only {compared} snapshots");
}

/// The end of a zone that a write failed in may need a checkpoint, which waits for the snapshot, which waits for that zone's end.
#[test]
fn failing_writes_and_snapshots_do_not_wait_for_each_other() {
    for seed in seeds(100) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, zones) = format(&rt, &Geometry::hm_smr(Blocks(24), 80, 0, 8), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            volume.resize(volume.size_max_bytes() / 3).await.unwrap();
            device.set_latency(Duration::from_micros(200));
            let trigger = Trigger::Rate(CommandKind::Write, 0.3);
            // The judgement on a zone takes so long that the journal fills up with copies meanwhile.
            let slow = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 0.5), fault: Fault::Slow };
            let faults = Faults::new([FaultRule { trigger, fault: Fault::WriteError }, slow]);
            device.set_faults(faults.sparing((0..zones.start).map(ZoneId)));
            let over = Rc::new(Cell::new(false));
            let writers = (0..3).map(|number| {
                let (volume, over) = (volume.clone(), over.clone());
                rt.spawn(async move {
                    for round in (0..).take_while(|_| !over.get()) {
                        match put(&volume, number * 40 + round % 7 * 5, 5, round as u8).await {
                            Err(error) if error.kind == StoreErrorKind::NoSpace => {}
                            written => written.unwrap_or_else(|error| panic!("seed {seed}: {error}")),
                        }
                    }
                })
            });
            let mut writers: Vec<_> = writers.collect();
            let (control, ended) = (volume.control(), over.clone());
            writers.push(rt.spawn(async move {
                let range = 0..120;
                while !ended.get() {
                    // A refusal does not stop it.
                    drop(control.copy(std::slice::from_ref(&range), None).await);
                    control.sleep(Duration::from_micros(100)).await;
                }
            }));
            for round in 0..30 {
                let changes = async {
                    volume.take_snapshot("s").await?;
                    volume.remove_snapshot("s").await
                };
                match select(pin!(changes), pin!(rt.sleep(Duration::from_secs(60)))).await {
                    Either::Left((changed, _)) => changed.unwrap_or_else(|error| panic!("seed {seed}: {error}")),
                    Either::Right(_) => panic!("seed {seed}: round {round} stands still"),
                }
            }
            over.set(true);
            for writer in writers {
                writer.await.unwrap();
            }
            device.set_faults(Faults::default());
            volume.close().await.unwrap();
        });
    }
}

fn with_cache() -> Geometry {
    Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) }
}

/// TL-SNAP-4: a zone turns read-only with writes that were answered, and the keeper is busy: the checkpoint that has them is not written yet.
#[test]
fn a_snapshot_waits_for_what_a_failed_zone_holds() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &with_cache(), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            put(&volume, 0, 120, 1).await.unwrap();
            volume.close().await.unwrap();
            let (volume, _) = open(&rt, &device).await.unwrap();
            let every = |kind, fault| Faults::new([FaultRule { trigger: Trigger::Rate(kind, 1.0), fault }]);
            device.set_faults(every(CommandKind::Reset, Fault::Hang));
            put(&volume, 0, 120, 2).await.unwrap();
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(device.hung(), 1, "seed {seed}: the keeper resets the zone in which nothing lives");
            put(&volume, 200, 1 + seed, 3).await.unwrap();
            let fault = FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault: Fault::ZoneReadOnly };
            device.set_faults(Faults::new([fault]));
            put(&volume, 300, 1, 4).await.unwrap();
            volume.take_snapshot("s").await.unwrap();
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let snapshot = volume.at_snapshot("s").expect("it was taken");
            for lba in 200..201 + seed {
                assert!(snapshot.read(lba * 4096, 4096).await.unwrap() == vec![3; 4096], "seed {seed}: sector {lba}");
            }
            assert!(snapshot.read(300 * 4096, 4096).await.unwrap() == vec![4; 4096], "seed {seed}");
        });
    }
}

/// TL-SNAP-4: what a zone took along is told before there is a snapshot without it, and to the next flush.
#[test]
fn no_snapshot_is_taken_of_writes_that_are_lost() {
    let mut refused = 0;
    for seed in seeds(12) {
        refused += Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &with_cache(), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            put(&volume, 0, 10, 1).await.unwrap();
            let fault = FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault: Fault::ZoneLosesCache };
            device.set_faults(Faults::new([fault]));
            put(&volume, 20, 10, 2).await.unwrap();
            let lost = volume.read(0, 10 * 4096).await.is_err();
            let expected = if lost { Err(StoreErrorKind::Device) } else { Ok(()) };
            for _ in 0..2 {
                let taken = volume.take_snapshot("s").await.map_err(|error| error.kind);
                assert_eq!(taken, expected, "seed {seed}");
                if taken.is_ok() {
                    volume.remove_snapshot("s").await.unwrap();
                }
            }
            assert_eq!(volume.flush().await.map_err(|error| error.kind), expected, "seed {seed}");
            volume.take_snapshot("s").await.unwrap_or_else(|error| panic!("seed {seed}: it was told: {error}"));
            volume.close().await.unwrap();
            u32::from(lost)
        });
    }
    assert!(refused > 0 || std::env::var_os("SHINGLE_SEED").is_some(), "nothing was ever lost");
}

/// TL-LOSS-1: a zone takes along writes that were answered. The next flush says so, and another opening finds all that was flushed.
#[test]
fn a_flush_tells_of_writes_that_were_lost_with_their_zone() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &with_cache(), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            put(&volume, 0, 10, 1).await.unwrap();
            volume.flush().await.unwrap();
            for lba in 10..12 + seed % 3 {
                put(&volume, lba, 1, 2).await.unwrap();
            }
            let fault = [Fault::ZoneLosesCache, Fault::ZoneOffline][usize::from(seed % 6 == 5)];
            let trigger = Trigger::Nth(CommandKind::Write, 0);
            device.set_faults(Faults::new([FaultRule { trigger, fault }]));
            put(&volume, 20, 10, 3).await.unwrap();
            device.set_faults(Faults::default());
            if seed % 2 == 0 {
                rt.sleep(Duration::from_secs(1)).await;
            }
            let mut lost = false;
            for lba in 10..12 + seed % 3 {
                lost |= volume.read(lba * 4096, 4096).await.is_err();
            }
            let (first, beside) = join(volume.flush(), volume.flush()).await;
            for flushed in [first, beside] {
                let told = flushed.map_err(|error| error.kind);
                assert_eq!(told, if lost { Err(StoreErrorKind::Device) } else { Ok(()) }, "seed {seed}");
            }
            volume.flush().await.unwrap_or_else(|error| panic!("seed {seed}: it is told once: {error}"));
            let mut found = Vec::new();
            for lba in 0..30 {
                found.push(volume.read(lba * 4096, 4096).await.ok());
            }
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            for (lba, found) in (0..30).zip(found) {
                assert!(volume.read(lba * 4096, 4096).await.ok() == found, "seed {seed}: sector {lba}");
            }
            assert!(volume.read(20 * 4096, 4096).await.unwrap() == vec![3; 4096], "seed {seed}");
            assert!(fault == Fault::ZoneOffline || volume.read(0, 4096).await.unwrap() == vec![1; 4096], "seed {seed}");
        });
    }
}

/// TL-LOSS-1: the same without a flush: the volume sees to it that the next opening depends on no block of the zone.
#[test]
fn a_zone_that_fails_with_its_cache_refuses_no_opening() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &with_cache(), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            for lba in 0..2 + seed % 3 {
                put(&volume, lba, 1, 2).await.unwrap();
            }
            let (trigger, fault) = (Trigger::Nth(CommandKind::Write, 0), Fault::ZoneLosesCache);
            device.set_faults(Faults::new([FaultRule { trigger, fault }]));
            put(&volume, 20, 10, 3).await.unwrap();
            rt.sleep(Duration::from_secs(1)).await;
            let again = SimDevice::resume(&rt, device.kill());
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(volume.read(20 * 4096, 4096).await.unwrap() == vec![3; 4096], "seed {seed}");
        });
    }
}

/// TL-LOSS-1: no write shows that the zone has failed, but the look at its end does.
#[test]
fn a_zone_that_fails_at_its_end_is_told_of_and_refuses_no_opening() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, zones) = format(&rt, &with_cache(), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            put(&volume, 0, 10, 1).await.unwrap();
            volume.flush().await.unwrap();
            let (frontier, failed) = (ZoneId(zones.start), Rc::new(Cell::new(false)));
            let told = failed.clone();
            device.on_command(move |command, device| {
                if command.kind == CommandKind::Flush && !told.replace(true) {
                    device.medium().set_state(frontier, ZoneState::Offline);
                }
            });
            // Until another zone is written.
            let mut next = 10;
            while !failed.get() {
                put(&volume, next, 1 + seed % 3, 2).await.unwrap();
                next += 1 + seed % 3;
            }
            rt.sleep(Duration::from_secs(1)).await;
            assert!(volume.read(11 * 4096, 4096).await.is_err(), "seed {seed}: it was in the zone");
            let told = volume.flush().await.map_err(|error| error.kind);
            assert_eq!(told, Err(StoreErrorKind::Device), "seed {seed}");
            volume.flush().await.unwrap_or_else(|error| panic!("seed {seed}: it is told once: {error}"));
            let last = volume.read((next - 1) * 4096, 4096).await.ok();
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(volume.read(11 * 4096, 4096).await.is_err(), "seed {seed}");
            assert!(volume.read((next - 1) * 4096, 4096).await.ok() == last && last.is_some(), "seed {seed}");
        });
    }
}
