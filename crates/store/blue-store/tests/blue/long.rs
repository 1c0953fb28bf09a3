//! BLU-META-2: batches and values of metadata have bounds, also those of clones and of objects with many attributes.

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_blue_store::{
    ATTRIBUTE_MAX, ATTRIBUTES_MAX, BlueErrorKind, BlueResult, CollectionId, ObjectId, Options, Store, Transaction,
};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice, Survival};
use shingle_zoned::Geometry;

use crate::common::{collection, format, options};

async fn made(rt: &Runtime, options: Options) -> (SimDevice, Store, CollectionId) {
    let device = format(rt, &Geometry::hm_smr(Blocks(256), 60, 0, 16)).await;
    let (store, _) = Store::open(rt, Rc::new(device.clone()), options).await.unwrap();
    let info = collection(0, 0);
    store.create_collection(info).await.unwrap();
    (device, store, info.id)
}

async fn reopened(rt: &Runtime, device: &SimDevice) -> Store {
    let again = SimDevice::new(rt, &device.crash_image_with(1, Survival::Prefix));
    again.set_latency(std::time::Duration::ZERO);
    Store::open(rt, Rc::new(again), options()).await.unwrap().0
}

async fn change(
    store: &Store,
    at: CollectionId,
    build: impl FnOnce(&mut Transaction) -> &mut Transaction,
) -> BlueResult<()> {
    let mut transaction = Transaction::new();
    build(&mut transaction);
    store.submit(at, transaction).await
}

fn id(name: &str) -> ObjectId {
    ObjectId { hash: 7, ..ObjectId::new(1, name) }
}

/// BLU-META-2: the omap of a clone is one batch, though it was written in several.
#[test]
fn a_clone_of_more_than_a_batch_holds_is_refused() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt, Options { batch_bytes: 64 << 10, ..options() }).await;
        let (a, b, c) = (id("a"), id("b"), id("c"));
        for number in 0..10 {
            change(&store, at, |t| t.omap_set(&a, format!("key {number}"), vec![number; 10_000])).await.unwrap();
        }
        let refused = change(&store, at, |t| t.clone_object(&a, &b)).await.unwrap_err();
        assert_eq!(refused.kind, BlueErrorKind::Invalid, "{refused}");
        assert_eq!(store.stat(&b).await.unwrap_err().kind, BlueErrorKind::NotFound);
        // Half of it fits once, and not twice.
        change(&store, at, |t| t.omap_clear(&a).omap_set(&a, "key", vec![1; 40_000])).await.unwrap();
        let refused = change(&store, at, |t| t.clone_object(&a, &b).clone_object(&b, &c)).await.unwrap_err();
        assert_eq!(refused.kind, BlueErrorKind::Invalid, "{refused}");
        change(&store, at, |t| t.clone_object(&a, &b)).await.unwrap();
        change(&store, at, |t| t.clone_object(&b, &c)).await.unwrap();
        let store = reopened(&rt, &device).await;
        for id in [&a, &b, &c] {
            assert_eq!(store.omap_list(id, b"", 9).await.unwrap(), [(b"key".to_vec(), vec![1; 40_000].into())]);
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-META-1: what clones bring is promised, too.
#[test]
fn a_clone_without_room_for_its_omap_stops_nothing() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt, options()).await;
        let (a, b) = (id("a"), id("b"));
        let mut keys = 0;
        while store.stats().metadata_room_bytes > 1_500_000 {
            change(&store, at, |t| t.omap_set(&a, format!("key {keys:04}"), vec![1; 40_000])).await.unwrap();
            keys += 1;
        }
        let refused = change(&store, at, |t| t.clone_object(&a, &b)).await.unwrap_err();
        assert_eq!(refused.kind, BlueErrorKind::NoSpace, "{refused}");
        change(&store, at, |t| t.omap_remove(&a, "key 0000")).await.unwrap();
        let store = reopened(&rt, &device).await;
        assert_eq!(store.omap_list(&a, b"", 1000).await.unwrap().len(), keys - 1);
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-META-2: all attributes of an object are one value.
#[test]
fn the_attributes_of_an_object_have_a_bound() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt, options()).await;
        let a = id("a");
        let set = async |number: u64, length: usize| {
            change(&store, at, |t| t.set_attribute(&a, format!("{number:04}"), vec![number as u8; length])).await
        };
        let mut count = 0;
        let refused = loop {
            match set(count, ATTRIBUTE_MAX).await {
                Ok(()) => count += 1,
                Err(refused) => break refused,
            }
            assert!(count < 40, "no bound");
        };
        assert_eq!(refused.kind, BlueErrorKind::Invalid, "{refused}");
        assert_eq!(count, (ATTRIBUTES_MAX / (ATTRIBUTE_MAX + 4)) as u64);
        // Those that are there may change, and go, and others may come then.
        set(0, ATTRIBUTE_MAX).await.unwrap();
        change(&store, at, |t| t.remove_attribute(&a, "0000").write(&a, 0, vec![1; 100])).await.unwrap();
        set(count, ATTRIBUTE_MAX).await.unwrap();
        assert_eq!(set(0, ATTRIBUTE_MAX).await.unwrap_err().kind, BlueErrorKind::Invalid);
        let store = reopened(&rt, &device).await;
        assert_eq!(store.stat(&a).await.unwrap().attributes.len() as u64, count);
    });
}

/// BLU-META-1: a small change of an object with many attributes writes all of them again.
#[test]
fn changes_of_long_heads_without_room_stop_nothing() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt, Options { waiting_bytes: 64 << 20, ..options() }).await;
        let (a, b) = (id("a"), id("b"));
        for number in 0..15 {
            let name = format!("{number}");
            change(&store, at, |t| t.set_attribute(&a, name, vec![7; ATTRIBUTE_MAX])).await.unwrap();
        }
        let mut keys = 0;
        while store.stats().metadata_room_bytes > 400_000 {
            change(&store, at, |t| t.omap_set(&b, format!("key {keys:04}"), vec![1; 40_000])).await.unwrap();
            keys += 1;
        }
        device.set_latency(std::time::Duration::from_micros(100));
        let changes = (0..60u64).map(|number| change(&store, at, move |t| t.write(&id("a"), number * 10, vec![1; 10])));
        for done in futures_util::future::join_all(changes.collect::<Vec<_>>()).await {
            assert!(done.is_ok() || done.as_ref().is_err_and(|error| error.kind == BlueErrorKind::NoSpace), "{done:?}");
        }
        change(&store, at, |t| t.remove(&b)).await.unwrap();
        change(&store, at, |t| t.write(&a, 0, vec![2; 10])).await.unwrap();
        let store = reopened(&rt, &device).await;
        assert_eq!(store.read(&a, 0, 10).await.unwrap(), vec![2; 10]);
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}
