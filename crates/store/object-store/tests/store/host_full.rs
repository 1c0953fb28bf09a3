//! The file systems under all drives are full for a while, below the whole stack.

use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_object_store::{Depth, MemoryIndex};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::world::{bytes_of, commit, get, put};
use crate::zones::{formatted, object_options, open};

const BUCKET: &str = "bucket";
const SIZE: usize = 20_000;

async fn in_time<T>(rt: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    match select(Box::pin(work), Box::pin(rt.sleep(Duration::from_secs(10)))).await {
        Either::Left((found, _)) => found,
        Either::Right(_) => panic!("{what} waits for room on the host"),
    }
}

#[test]
fn while_all_hosts_are_full_puts_are_refused_and_gets_served_and_then_all_goes_on() {
    for seed in seeds(6) {
        let media = formatted(seed, 2);
        let (image, index, known) = Sim::new(seed).run(move |rt| async move {
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let index = MemoryIndex::new();
            let (_engine, store, _) = open(&rt, &devices, index.clone(), object_options(true)).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut known: Vec<u64> = (0..5 + seed % 5).collect();
            for &number in &known {
                put(&store, BUCKET, &number.to_string(), &bytes_of(number, SIZE), commit("e")).await.unwrap();
            }
            // Not of both drives at once: one may take what the other refuses.
            for (at, device) in devices.iter().enumerate() {
                let full = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::HostFull };
                device.set_faults(Faults::new([full]));
                for number in 100..104 {
                    let (number, what) = (number + at as u64 * 10, format!("seed {seed}: put {number} ({at})"));
                    let (key, data) = (number.to_string(), bytes_of(number, SIZE));
                    let done = put(&store, BUCKET, &key, &data, commit("e"));
                    match in_time(&rt, &what, done).await {
                        Ok(_) if at == 0 => known.push(number),
                        Err(error) if at == 1 => {
                            assert_eq!(error.kind, StoreErrorKind::NoSpace, "{what}: {error}");
                            // Clients know objects, no chunks.
                            let words = error.to_string();
                            let named = words.starts_with(&format!("bucket/{number}: "));
                            assert!(named && !words.contains("chunk 0"), "{what}: {words}");
                        }
                        Ok(_) => panic!("{what}: there is no room"),
                        Err(error) => panic!("{what}: {error}"),
                    }
                    rt.sleep(Duration::from_secs(7)).await;
                }
                for &number in &known {
                    let what = format!("seed {seed}: get {number}");
                    let found = in_time(&rt, &what, get(&store, BUCKET, &number.to_string())).await;
                    assert!(found.unwrap() == bytes_of(number, SIZE), "{what}");
                }
            }
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            rt.sleep(Duration::from_secs(1)).await;
            for number in 200..210 {
                let what = format!("seed {seed}: put {number} with room");
                let (key, data) = (number.to_string(), bytes_of(number, SIZE));
                let done = put(&store, BUCKET, &key, &data, commit("e"));
                in_time(&rt, &what, done).await.unwrap();
                known.push(number);
            }
            let image: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
            (image, index, known)
        });
        Sim::new(seed).run(move |rt| async move {
            if seed % 2 == 0 {
                shingle_object_store::Index::clear(&index).unwrap();
            }
            let devices: Vec<SimDevice> = image.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (engine, store, report) = open(&rt, &devices, index, object_options(false)).await;
            assert_eq!(report.damage, Vec::new(), "seed {seed}");
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
            for number in known {
                let found = get(&store, BUCKET, &number.to_string()).await.unwrap();
                assert!(found == bytes_of(number, SIZE), "seed {seed}: {number}");
            }
            engine.close().await;
        });
    }
}
