//! BLU-META-1: the room of the metadata is promised before a transaction happens.

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_blue_store::{BlueErrorKind, CollectionId, ObjectId, Options, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice, Survival, contents};
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

/// BLU-META-1: promises are ample, so those who come together wait for each other before one is refused.
#[test]
fn small_transactions_that_come_together_all_find_the_room_that_there_is() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = made(&rt).await;
        let id = ObjectId::new(1, "object");
        let mut filled = 0;
        while store.stats().metadata_room_bytes > 900_000 {
            store.submit(at, set(&id, format!("filled {filled:03}"), 100_000)).await.unwrap();
            filled += 1;
        }
        device.set_latency(std::time::Duration::from_micros(100));
        let together = (0..400).map(|number| store.submit(at, set(&id, format!("short {number:03}"), 100)));
        for (number, ended) in join_all(together.collect::<Vec<_>>()).await.into_iter().enumerate() {
            ended.unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        let keys = reopened(&rt, &device).await.omap_list(&id, b"", 1000).await.unwrap();
        assert_eq!(keys.len(), filled + 400);
    });
}

/// BLU-META-1 and BLU-PASS-1: one that passes does not wait for the promise of the one that it passes.
#[test]
fn one_that_passes_without_room_for_its_metadata_has_its_turn() {
    Sim::new(3).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 42, 0, 12)).await;
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), patient()).await.unwrap();
        let at = collection(0, 0);
        store.create_collection(at).await.unwrap();
        let (name, filler) = (|number: u64| ObjectId::new(1, format!("o{number}")), ObjectId::new(1, "filler"));
        let write = |number: u64, length: u64| {
            let mut transaction = Transaction::new();
            transaction.write(&name(number), 0, contents(number, 0, length));
            store.submit(at.id, transaction)
        };
        let mut count = 0;
        while write(count, 20_000).await.is_ok() {
            count += 1;
        }
        let mut filled = 0;
        while store.stats().metadata_room_bytes > 200_000 {
            store.submit(at.id, set(&filler, format!("filled {filled:03}"), 30_000)).await.unwrap();
            filled += 1;
        }
        let mut removal = Transaction::new();
        for number in (0..count).step_by(7) {
            removal.remove(&name(number));
        }
        device.set_latency(std::time::Duration::from_millis(20));
        store.submit(at.id, removal).await.unwrap();
        let mut passing = set(&filler, "long".to_owned(), 300_000);
        passing.may_pass();
        let (wrote, passed) = futures_util::future::join(write(count, 330_000), store.submit(at.id, passing)).await;
        wrote.unwrap();
        assert_eq!(passed.unwrap_err().kind, BlueErrorKind::NoSpace);
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
