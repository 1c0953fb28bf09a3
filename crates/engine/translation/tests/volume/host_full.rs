//! TL-CLOSE-1, CS-HOST-1 for volumes: the file system under an emulated drive is full.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::BlockStore;
use shingle_zoned::Geometry;

use crate::common::{format, open, put};

fn full_host() -> Faults {
    Faults::new([FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::HostFull }])
}

/// Closes a volume with writes that have no room on the host. `spared`: zones that have room are those of metadata.
fn close_without_room(seed: u64, spared: bool) {
    Sim::new(seed).run(move |rt| async move {
        let geometry = Geometry { volatile_cache: !seed.is_multiple_of(2), ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
        let (device, _, zones) = format(&rt, &geometry, 4096).await;
        device.set_latency(Duration::from_micros(100 * (seed % 3)));
        let (volume, _) = open(&rt, &device).await.unwrap();
        put(&volume, 0, 100, 1).await.unwrap();
        volume.flush().await.unwrap();
        let spare = if spared { 0..zones.start } else { 0..0 };
        device.set_faults(full_host().sparing(spare.map(ZoneId)));
        let writer = volume.clone();
        let writes = rt.spawn(async move {
            let count = seed % 4;
            join_all((0..count).map(|run| put(&writer, 200 + 50 * run, 40, 2))).await
        });
        rt.sleep(Duration::from_millis(seed * 300)).await;
        match select(pin!(volume.close()), pin!(rt.sleep(Duration::from_secs(20)))).await {
            Either::Left((closed, _)) => assert!(spared || closed.is_err(), "seed {seed}: nothing could be written"),
            Either::Right(_) => panic!("seed {seed}: closing does not end"),
        }
        assert!(writes.await.unwrap().iter().all(Result::is_err), "seed {seed}: nothing could be written");
        let again = SimDevice::resume(&rt, device.kill());
        let (volume, _) = open(&rt, &again).await.unwrap();
        assert_eq!(volume.read(0, 100 * 4096).await.unwrap(), vec![1; 100 * 4096], "seed {seed}");
        put(&volume, 200, 200, 3).await.unwrap();
        volume.close().await.unwrap();
    });
}

/// Closing tells that something is not written, and does not wait for room that may never come.
#[test]
fn a_full_host_does_not_hold_up_a_close() {
    seeds(12).for_each(|seed| close_without_room(seed, false));
}

/// As above, and the volume does not go through its zones again and again while it closes.
#[test]
fn a_host_that_has_room_for_metadata_alone_does_not_hold_up_a_close() {
    seeds(12).for_each(|seed| close_without_room(seed, true));
}

/// Once there is room, all that waited for it is written, and no zone was given up.
#[test]
fn writers_go_on_once_the_host_has_room() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            device.set_faults(full_host());
            let (healing, sleeper) = (device.clone(), rt.clone());
            rt.spawn_detached(async move {
                sleeper.sleep(Duration::from_millis(700 * seed)).await;
                healing.set_faults(Faults::default());
            });
            put(&volume, 0, 200, 1).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(volume.stats().zones_broken, 0, "seed {seed}: want of room is no fault of the drive");
            volume.close().await.unwrap();
        });
    }
}
