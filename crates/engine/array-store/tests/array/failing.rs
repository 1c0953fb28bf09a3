//! Drives that answer and fail their reads. (AS-EVICT-2)

use std::time::Duration;

use bytes::Bytes;
use shingle_array_store::Options;
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{Fault, Sim, SimDevice, seeds};

use crate::common::{content, open, powered};
use crate::slow::{OBJECTS, filled, filled_with, name, object, read, reads};

/// AS-EVICT-2: a drive that fails its reads all over is given up, and what was on it is rebuilt; nobody wrote to it.
#[test]
fn a_drive_that_fails_most_reads_is_given_up() {
    for seed in seeds(4) {
        for share in [1.0, 0.6] {
            Sim::new(seed).run(move |rt| async move {
                let options = Options { slow_for_most: None, ..Options::default() };
                let (devices, store) = filled_with(&rt, 1, options).await;
                let objects = 5 * OBJECTS;
                for number in OBJECTS..objects {
                    store.put(name(number), content(object(number)), Bytes::new()).await.unwrap();
                }
                devices[(seed % 7) as usize].set_faults(reads(Fault::ReadError, share));
                for number in 0..3 * objects {
                    read(&rt, &store, number % objects, u64::MAX).await;
                    // Slow for its errors by now, it is asked now and then.
                    rt.sleep(Duration::from_millis(100)).await;
                }
                rt.sleep(Duration::from_secs(100)).await;
                let stats = store.stats().unwrap();
                // Rebuilt, it is no part of the array any more.
                assert_eq!((stats.drives, stats.drives_missing), (6, 0), "seed {seed}, {share}: {stats:?}");
                for number in 0..objects {
                    read(&rt, &store, number, u64::MAX).await;
                }
            });
        }
    }
}

/// Bad blocks are no bad drive: however often they are read, they are made up for and written anew.
#[test]
fn bad_blocks_cost_no_drive() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = filled(&rt).await;
            let victim = &devices[(seed % 6) as usize];
            let written = (2..14).map(ZoneId).filter(|zone| victim.image().zone(*zone).written.0 > 10);
            for zone in written.take(4) {
                let start = victim.image().zone(zone).start;
                for block in [12, 40, 80] {
                    victim.medium().fail_reads(start + Blocks(block), Blocks(2), None);
                }
            }
            for _ in 0..20 {
                for number in 0..OBJECTS {
                    read(&rt, &store, number, u64::MAX).await;
                }
            }
            let stats = store.stats().unwrap();
            assert_eq!(stats.drives_missing, 0, "seed {seed}: {stats:?}");
            assert!(stats.repairs_waiting > 0, "seed {seed}: nobody read a bad block");
        });
    }
}

/// AS-EVICT-1: where another drive is away, what a failing one can still read may be needed.
#[test]
fn a_drive_that_fails_reads_is_kept_while_no_parity_would_be_left() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = filled(&rt).await;
            store.close().await.unwrap();
            let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
            let devices = powered(&rt, &images[1..]);
            let (store, _) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
            devices[(seed % 5) as usize].set_faults(reads(Fault::ReadError, 0.6));
            for number in 0..10 * OBJECTS {
                read(&rt, &store, number % OBJECTS, u64::MAX).await;
                rt.sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(store.stats().unwrap().drives_missing, 1, "seed {seed}");
            assert!(store.open_object(name(1)).is_ok());
        });
    }
}
