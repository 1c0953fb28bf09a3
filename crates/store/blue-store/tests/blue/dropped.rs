//! Calls whose futures are dropped half-way go on to their end: BLU-DROP-1.

use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_blue_store::{BlueErrorKind, CollectionInfo, ObjectId, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice, contents};

use crate::common::{collection, fresh, open};

fn object(number: u64) -> ObjectId {
    ObjectId { hash: 0, ..ObjectId::new(1, format!("{number}")) }
}

fn write(number: u64, length: u64) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.write(&object(number), 0, contents(number, 0, length));
    transaction
}

/// Waits for a call for some time, and then drops it. False if it ended before.
async fn drop_after<T>(rt: &Runtime, time: Duration, call: impl Future<Output = T>) -> bool {
    let (call, time) = (std::pin::pin!(call), std::pin::pin!(rt.sleep(time)));
    matches!(select(call, time).await, Either::Right(_))
}

/// Drops a call after each of several times, once a store in which it can be made is `ready`; then goes on with the store by `then`. Says
/// how many were dropped.
fn at_each_time<C: Future, D: Future<Output = ()>>(
    made: impl AsyncFn(&Store) + Copy + 'static,
    call: impl Fn(Store) -> C + Copy + 'static,
    then: impl Fn(Runtime, SimDevice, Store) -> D + Copy + 'static,
) {
    let mut dropped = 0;
    for time in 0..24 {
        dropped += u32::from(Sim::new(time).run(move |rt| async move {
            let (device, store, _) = fresh(&rt).await;
            made(&store).await;
            device.set_latency(Duration::from_millis(5));
            let dropped = drop_after(&rt, Duration::from_micros(time * time * 50), call(store.clone())).await;
            then(rt, device, store).await;
            dropped
        }));
    }
    assert!((3..24).contains(&dropped), "{dropped} calls were dropped");
}

/// The store shows the collections that the metadata have.
async fn same_collections(rt: Runtime, device: SimDevice, store: Store) {
    rt.sleep(Duration::from_secs(1)).await;
    let before: Vec<CollectionInfo> = store.collections();
    let (store, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
    assert_eq!(store.collections(), before);
}

#[test]
fn what_a_collection_that_is_removed_has_taken_is_there() {
    let then = |rt: Runtime, device: SimDevice, store: Store| async move {
        let taken = store.submit(collection(0, 0).id, write(1, 20_000)).await;
        let (store, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        match taken {
            Ok(()) => assert_eq!(store.list(collection(0, 0).id, None, 2).await.unwrap(), [object(1)]),
            Err(error) => {
                assert_eq!(error.kind, BlueErrorKind::NotFound, "{error}");
                assert_eq!(store.collections(), []);
            }
        }
    };
    let call = |store: Store| async move { store.remove_collection(collection(0, 0).id).await.unwrap() };
    at_each_time(async |_: &Store| {}, call, then);
}

#[test]
fn collections_are_those_of_the_metadata_whatever_was_dropped() {
    let create = |store: Store| async move {
        let other = CollectionInfo { id: shingle_blue_store::CollectionId { pool: 2, seed: 0 }, bits: 0 };
        store.create_collection(other).await.unwrap();
    };
    at_each_time(async |_: &Store| {}, create, same_collections);
    let split = |store: Store| async move { drop(store.split(collection(0, 0).id, 2).await.unwrap()) };
    at_each_time(async |_: &Store| {}, split, same_collections);
    let merge = |store: Store| async move { store.merge(collection(0, 0).id, 0).await.unwrap() };
    let made = async |store: &Store| drop(store.split(collection(0, 0).id, 2).await.unwrap());
    at_each_time(made, merge, same_collections);
}

#[test]
fn deferred_writes_are_gathered_and_stores_closed_whoever_waits() {
    let made = async |store: &Store| {
        for number in 0..5 {
            store.submit(collection(0, 0).id, write(number, 3_000)).await.unwrap();
        }
    };
    let gather = |store: Store| async move { store.flush_deferred().await.unwrap() };
    let gathered = |rt: Runtime, _: SimDevice, store: Store| async move {
        rt.sleep(Duration::from_secs(1)).await;
        let stats = store.stats();
        assert_eq!((stats.deferred_bytes, stats.live_bytes), (0, 5 * 4096));
        assert_eq!(store.check(true).await.unwrap(), []);
    };
    at_each_time(made, gather, gathered);
    let close = |store: Store| async move { store.close().await.unwrap() };
    let closed = |rt: Runtime, device: SimDevice, store: Store| async move {
        // The second one ends when all is closed, and not before.
        store.close().await.unwrap();
        let device = SimDevice::resume(&rt, device.kill());
        let (store, report) = open(&rt, &device).await.unwrap();
        assert_eq!(report.deferred, 0);
        assert_eq!(store.check(true).await.unwrap(), []);
    };
    at_each_time(made, close, closed);
}
