//! ZF-CLOSE-1, CS-HOST-1 for files: the file system under an emulated drive is full.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::Blocks;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, contents, seeds};
use shingle_zone_files::{FileKind, FilesErrorKind};
use shingle_zoned::Geometry;

use crate::common::{format, of, open};

fn full_host() -> Faults {
    Faults::new([FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::HostFull }])
}

/// Closing tells that something is not written, and does not wait for room that may never come.
#[test]
fn a_full_host_does_not_hold_up_a_close() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let device =
                format(&rt, &Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) }).await;
            device.set_latency(Duration::from_micros(100 * (seed % 3)));
            let (files, _) = open(&rt, &device).await.unwrap();
            let log = files.create("000001.log", of(FileKind::Wal)).await.unwrap();
            let table = files.create("000002.sst", of(FileKind::Sst)).await.unwrap();
            for (number, file) in [(1, &log), (2, &table)] {
                file.append(vec![Bytes::from(contents(number, 0, 50_000))]).await.unwrap();
                file.sync().await.unwrap();
            }
            device.set_faults(full_host());
            if seed % 4 > 0 {
                log.append(vec![Bytes::from(contents(1, 50_000, 30_000))]).await.unwrap();
            }
            if seed % 4 > 1 {
                table.append(vec![Bytes::from(contents(2, 50_000, 30_000))]).await.unwrap();
            }
            rt.sleep(Duration::from_millis(seed * 300)).await;
            match select(pin!(files.close()), pin!(rt.sleep(Duration::from_secs(20)))).await {
                Either::Left((closed, _)) => assert!(closed.is_err(), "seed {seed}: nothing could be written"),
                Either::Right(_) => panic!("seed {seed}: closing does not end"),
            }
            let again = SimDevice::resume(&rt, device.kill());
            let (files, _) = open(&rt, &again).await.unwrap();
            for (number, name) in [(1, "000001.log"), (2, "000002.sst")] {
                let found = files.open_file(name).unwrap().read(0, u64::MAX).await.unwrap();
                assert!(
                    found.len() >= 50_000 && found == contents(number, 0, found.len() as u64),
                    "seed {seed}: {name}"
                );
            }
            files.close().await.unwrap();
        });
    }
}

/// Once there is room, all that waited for it is written, and no zone was given up.
#[test]
fn writers_go_on_once_the_host_has_room() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let table = files.create("000002.sst", of(FileKind::Sst)).await.unwrap();
            device.set_faults(full_host());
            table.append(vec![Bytes::from(contents(2, 0, 90_000))]).await.unwrap();
            let (healing, sleeper) = (device.clone(), rt.clone());
            rt.spawn_detached(async move {
                sleeper.sleep(Duration::from_millis(700 * seed)).await;
                healing.set_faults(Faults::default());
            });
            match table.sync().await {
                Ok(()) => {}
                Err(error) => panic!("seed {seed}: {:?}", (error.kind == FilesErrorKind::NoSpace, error)),
            }
            assert_eq!(files.stats().zones_broken, 0, "seed {seed}: want of room is no fault of the drive");
            files.close().await.unwrap();
        });
    }
}
