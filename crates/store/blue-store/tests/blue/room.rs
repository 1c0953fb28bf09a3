//! BLU-META-1: the room of the metadata is promised before a transaction happens.

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_blue_store::{BlueErrorKind, CollectionId, ObjectId, Options, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice, Survival};
use shingle_zoned::Geometry;

use crate::common::{collection, format, options};

const LONG: usize = 600 << 10;

fn patient() -> Options {
    Options { waiting_bytes: 256 << 20, ..options() }
}

async fn made(rt: &Runtime) -> (SimDevice, Store, CollectionId) {
    let device = format(rt, &Geometry::hm_smr(Blocks(256), 60, 0, 16)).await;
    let (store, _) = Store::open(rt, Rc::new(device.clone()), patient()).await.unwrap();
    let info = collection(0, 0);
    store.create_collection(info).await.unwrap();
    (device, store, info.id)
}

async fn reopened(rt: &Runtime, device: &SimDevice) -> Store {
    let again = SimDevice::new(rt, &device.crash_image_with(1, Survival::Prefix));
    again.set_latency(std::time::Duration::ZERO);
    Store::open(rt, Rc::new(again), patient()).await.unwrap().0
}

fn set(id: &ObjectId, key: String, length: usize) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.omap_set(id, key, vec![7; length]);
    transaction
}

/// BLU-META-1: of writers that come together, some have room, and the others are told so; none of those is there later.
#[test]
fn writers_that_come_together_do_not_share_one_room() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt).await;
        let id = ObjectId::new(1, "object");
        let mut filled = 0;
        while store.stats().metadata_room_bytes > 2_500_000 {
            store.submit(at, set(&id, format!("filled {filled:03}"), 100_000)).await.unwrap();
            filled += 1;
        }
        device.set_latency(std::time::Duration::from_micros(100));
        let together = (0..40).map(|number| store.submit(at, set(&id, format!("long {number:02}"), LONG)));
        let ended = join_all(together.collect::<Vec<_>>()).await;
        let mut expected: Vec<Vec<u8>> = (0..filled).map(|number| format!("filled {number:03}").into()).collect();
        for (number, ended) in ended.iter().enumerate() {
            match ended {
                Ok(()) => expected.push(format!("long {number:02}").into()),
                Err(error) => assert_eq!(error.kind, BlueErrorKind::NoSpace, "{number}: {error}"),
            }
        }
        let good = ended.iter().filter(|ended| ended.is_ok()).count();
        assert!((1..30).contains(&good), "{good} had room");
        for store in [&store, &reopened(&rt, &device).await] {
            let found = store.omap_list(&id, b"", 1000).await.unwrap();
            assert_eq!(found.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), expected);
            let mut transaction = Transaction::new();
            transaction.omap_clear(&id);
            store.submit(at, transaction).await.unwrap();
            assert_eq!(store.check(true).await.unwrap(), []);
        }
    });
}

/// BLU-META-1: what is written again and again keeps its room, which the log has.
#[test]
fn the_room_of_the_log_is_won_before_a_transaction_is_refused() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt).await;
        let id = ObjectId::new(1, "object");
        // Each value is in the log, and then in a table.
        let free = store.stats().metadata_room_bytes * 2;
        // A third of it stays, and is written again for ten times as much.
        let keys = free / 3 / LONG as u64;
        for number in 0..keys * 10 {
            let done = store.submit(at, set(&id, format!("key {}", number % keys), LONG)).await;
            done.unwrap_or_else(|error| panic!("write {number} of {keys} keys: {error}"));
        }
        // Without room for more, the log gives up all it has.
        let mut more = 0;
        while store.submit(at, set(&id, format!("more {more}"), 50_000)).await.is_ok() {
            more += 1;
        }
        let held = keys * LONG as u64 + more * 50_000;
        // A table is written beside another one, and a quarter more is kept.
        assert!(held * 10 > free * 4, "{held} of {free} bytes");
        drop(store);
        let store = reopened(&rt, &device).await;
        assert_eq!(store.omap_list(&id, b"", 1000).await.unwrap().len() as u64, keys + more);
    });
}
