//! One drive of several that hangs: what lies on it waits, and nothing else does.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use shingle_chunk_store::Request;
use shingle_runtime::Runtime;
use shingle_sim::{Sim, seeds};
use shingle_store_api::{ListRequest, ObjectStore};

use crate::world::{World, bytes_of, commit, put};

const BUCKET: &str = "bucket";
/// Far more than what can wait in a queue of the store.
const OBJECTS: u64 = 120;
/// In several segments.
const SIZE: u64 = 20_000;
/// How long a reader waits before it leaves.
const STAYS: Duration = Duration::from_secs(100);

async fn in_time<T>(rt: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    match select(Box::pin(work), Box::pin(rt.sleep(Duration::from_secs(60)))).await {
        Either::Left((found, _)) => found,
        Either::Right(_) => panic!("{what} waits for a drive that hangs"),
    }
}

/// RD-1: readers of a drive that hangs take no place of the store's, so that what lies elsewhere is read, listed and
/// written; and those that leave let go of what they held.
#[test]
fn readers_of_a_drive_that_hangs_hold_up_no_others() {
    for seed in seeds(4) {
        let world = World::new(seed, 2, 16 << 20, 40 << 10);
        Sim::new(seed).run(move |rt| async move {
            let (_engine, store, _) = world.open(&rt).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..OBJECTS {
                put(&store, BUCKET, &number.to_string(), &bytes_of(number, SIZE as usize), commit("e")).await.unwrap();
            }
            world.drives[0].hang(|request| matches!(request, Request::Read { .. }));
            let done = Rc::new(Cell::new(0));
            let reader = |number: u64| {
                let (rt, store, done) = (rt.clone(), store.clone(), done.clone());
                async move {
                    let reader = in_time(&rt, "an open", store.open(BUCKET, &number.to_string())).await.unwrap();
                    let read = reader.read(0, SIZE);
                    // It leaves before there is an answer.
                    if let Either::Left((bytes, _)) = select(read, Box::pin(rt.sleep(STAYS))).await {
                        assert!(bytes.unwrap() == bytes_of(number, SIZE as usize), "seed {seed}");
                        done.set(done.get() + 1);
                    }
                }
            };
            let readers: Vec<_> = (0..OBJECTS).map(|number| rt.spawn(reader(number))).collect();
            rt.sleep(STAYS / 2).await;
            let held = world.drives[0].held();
            assert!(held > 16, "seed {seed}: the case is not met: {held} reads are held");
            in_time(&rt, "a listing", store.list(BUCKET, ListRequest::default())).await.unwrap();
            for number in OBJECTS..OBJECTS + 20 {
                let name = number.to_string();
                let data = bytes_of(number, 3000);
                in_time(&rt, "a put", put(&store, BUCKET, &name, &data, commit("e"))).await.unwrap();
            }
            join_all(readers).await;
            // All that hangs is answered, late; nobody holds anything any more.
            world.drives[0].hang(|_| false);
            for number in 0..OBJECTS + 20 {
                assert!(store.delete(BUCKET, &number.to_string()).await.unwrap());
            }
            store.collect_garbage().await.unwrap();
            let stats = store.stats().await.unwrap();
            assert!(stats.file_bytes < 1000, "seed {seed}: readers that left hold files: {stats:?}");
        });
    }
}
