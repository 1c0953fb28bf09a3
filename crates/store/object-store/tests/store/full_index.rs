//! An index whose disk is full: reads go on, writing and purging wait for room.

use std::time::Duration;

use shingle_object_store::{Depth, Index, IndexOrigin, ObjectStoreClient};
use shingle_sim::Sim;
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::recovery::{fill, filled, find, with_store};
use crate::world::{bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// OS-IDXG-1: while the index is full, blobs that died are not forgotten in vain again and again; they are once it takes
/// changes.
#[test]
fn while_the_index_is_full_purging_waits() {
    let world = filled(1, 3);
    let index = world.index.clone();
    with_store(&world, move |store, runtime| async move {
        put(&store, BUCKET, "large", &bytes_of(1, 30_000), commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "large").await.unwrap();
        assert!(store.delete(BUCKET, "large").await.unwrap());
        index.fail(true);
        put(&store, BUCKET, "refused", &bytes_of(1, 10), commit("e")).await.unwrap_err();
        drop(reader);
        runtime.sleep(Duration::from_secs(3)).await;
        let before = store.stats().await.unwrap().live_bytes;
        index.fail(false);
        runtime.sleep(Duration::from_secs(3)).await;
        let after = store.stats().await.unwrap().live_bytes;
        assert!(after + 30_000 < before, "{before} bytes were live, {after} are");
    });
}

/// Once the index takes changes again it lacks nothing: parts of uploads that end then give their room back, without a new opening.
#[test]
fn once_the_index_takes_changes_again_parts_that_go_give_room() {
    let world = filled(1, 3);
    let index = world.index.clone();
    with_store(&world, move |store, runtime| async move {
        let upload = store.begin_upload(BUCKET, "parts", Default::default()).await.unwrap().id;
        for number in 1..4 {
            let mut writer = store.begin_part(BUCKET, "parts", upload, number).await.unwrap();
            writer.write(bytes_of(u64::from(number), 30_000)).await.unwrap();
            writer.commit(commit("e")).await.unwrap();
        }
        index.fail(true);
        put(&store, BUCKET, "refused", &bytes_of(1, 10), commit("e")).await.unwrap_err();
        index.fail(false);
        runtime.sleep(Duration::from_secs(3)).await;
        let before = store.stats().await.unwrap().live_bytes;
        store.abort_upload(BUCKET, "parts", upload).await.unwrap();
        runtime.sleep(Duration::from_secs(3)).await;
        let after = store.stats().await.unwrap().live_bytes;
        assert!(after + 80_000 < before, "{before} bytes were live, {after} are");
    });
}

async fn listed(store: &ObjectStoreClient) -> usize {
    let request = shingle_store_api::ListRequest { limit: 100, ..Default::default() };
    store.list(BUCKET, request).await.unwrap().objects.len()
}

/// OS-IDXG-1: the file system of the index is full for a while. Existing objects can be read, listed and headed; writes
/// are refused for want of space, deletes too, and go on by themselves. Nothing acknowledged is lost, and an entry that
/// was in the log and not in the index when it failed is there or not, whole.
#[test]
fn while_the_index_is_full_reads_go_on_and_writing_resumes_by_itself() {
    for seed in 1..10 {
        let world = filled(1, 10);
        let index = world.index.clone();
        let moved = world.clone();
        let landed = Sim::new(seed).run(move |runtime| async move {
            let (engine, store, _) = moved.open(&runtime).await;
            let putting: Vec<_> = (10..20)
                .map(|number| {
                    let store = store.clone();
                    runtime.spawn(async move {
                        put(&store, BUCKET, &format!("k{number}"), &bytes_of(number, 2000), commit("e"))
                            .await
                            .map_or_else(|error| Some(error.kind), |_| None)
                    })
                })
                .collect();
            runtime.sleep(Duration::from_micros(20 * seed)).await;
            index.fail(true);
            let mut acknowledged = Vec::new();
            for put in putting {
                acknowledged.push(put.await.unwrap());
            }
            let _ = put(&store, BUCKET, "sure to meet it", &bytes_of(1, 10), commit("e")).await.unwrap_err();
            let error = put(&store, BUCKET, "k", &bytes_of(1, 10), commit("e")).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
            assert_eq!(store.delete(BUCKET, "k1").await.unwrap_err().kind, StoreErrorKind::NoSpace);
            find(&store, 0, 10).await;
            assert!(listed(&store).await >= 10);
            runtime.sleep(Duration::from_secs(5)).await;
            find(&store, 0, 10).await;
            index.fail(false);
            runtime.sleep(Duration::from_secs(2)).await;
            fill(&store, 20, 5).await;
            assert!(store.delete(BUCKET, "k1").await.unwrap());
            fill(&store, 1, 1).await;
            store.collect_garbage().await.unwrap();
            find(&store, 0, 10).await;
            engine.close().await;
            acknowledged
        });
        for index_lost in [false, true] {
            let landed = landed.clone();
            let report = with_store(&world, move |store, _| async move {
                find(&store, 0, 10).await;
                find(&store, 20, 5).await;
                for (number, refused) in (10..20).zip(landed) {
                    match get(&store, BUCKET, &format!("k{number}")).await {
                        Ok(bytes) => {
                            assert_eq!(bytes, bytes_of(number, 2000));
                            let nothing = refused == Some(StoreErrorKind::NoSpace);
                            assert!(!nothing, "seed {seed}: k{number} was refused, and is there");
                        }
                        Err(error) => assert!(refused.is_some(), "seed {seed}: k{number} was acknowledged: {error}"),
                    }
                }
                assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
            });
            assert_eq!(report.index == IndexOrigin::Kept, !index_lost, "seed {seed}: {report:?}");
            world.index.clear().unwrap();
        }
    }
}
