//! One drive of several that is slow: what puts wait for.

use std::time::Duration;

use shingle_object_store::MemoryIndex;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::ObjectStore;

use crate::world::{bytes_of, commit, get, put};
use crate::zones::{formatted, object_options, open};

const BUCKET: &str = "bucket";

/// The longest that a drive takes for a command; a slow one takes a thousand times as long.
const LATENCY: Duration = Duration::from_millis(2);

/// OS-SLOWD-1: puts and deletes wait for a drive that is slow a few times and no more; it is tried again, and written to once it is well.
#[test]
fn puts_go_to_drives_that_are_not_slow() {
    for seed in seeds(4) {
        let media = formatted(seed, 3);
        Sim::new(seed).run(move |rt| async move {
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (engine, store, _) = open(&rt, &devices, MemoryIndex::new(), object_options(false)).await;
            devices.iter().for_each(|device| device.set_latency(LATENCY));
            store.create_bucket(BUCKET).await.unwrap();
            let data = |number: u64| bytes_of(number, 3000);
            let mut took = Vec::new();
            for number in 0..400 {
                if number == 50 {
                    let slow = |kind| FaultRule { trigger: Trigger::Rate(kind, 1.0), fault: Fault::Slow };
                    devices[seed as usize % 3].set_faults(Faults::new([slow(CommandKind::Write)]));
                }
                let began = rt.now();
                put(&store, BUCKET, &(number % 40).to_string(), &data(number), commit("e")).await.unwrap();
                took.push(rt.now().since(began));
                rt.sleep(Duration::from_millis(200)).await;
            }
            let waited = took[50..].iter().filter(|took| **took > Duration::from_millis(200)).count();
            assert!(took[..50].iter().all(|took| *took < Duration::from_millis(100)), "seed {seed}");
            assert!(waited <= 14, "seed {seed}: {waited} of 350 puts waited for the slow drive");
            // Well again: it has its share.
            let drive = &devices[seed as usize % 3];
            drive.set_faults(Faults::default());
            rt.sleep(Duration::from_secs(320)).await;
            let before = drive.counts().writes.0;
            let puts = (400..480).map(|number| {
                let (store, data) = (store.clone(), data(number));
                rt.spawn(
                    async move { put(&store, BUCKET, &(number % 40).to_string(), &data, commit("e")).await.map(drop) },
                )
            });
            for put in puts.collect::<Vec<_>>() {
                put.await.unwrap().unwrap();
            }
            assert!(drive.counts().writes.0 > before + 5, "seed {seed}: it is spared for ever");
            for number in 0..40 {
                assert_eq!(get(&store, BUCKET, &number.to_string()).await.unwrap().len(), 3000, "seed {seed}");
            }
            engine.close().await;
        });
    }
}
