//! The keeper does nothing for nothing: BLU-VICTIM-1, and its rest where the metadata fail.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{ObjectId, Options, Store, Transaction};
use shingle_sim::{CommandKind, Sim, SimDevice, contents};

use crate::common::{collection, format, fresh, geometry, open, options};
use crate::watched::{Watch, Watched};

fn object(number: u64) -> ObjectId {
    ObjectId::new(1, format!("{number}"))
}

/// BLU-VICTIM-1: on a drive that is full of live data, transactions do not have all zones looked at; and once something is worth it, it is
/// found.
#[test]
fn a_full_drive_is_not_looked_through_for_each_transaction() {
    Sim::new(1).run(|rt| async move {
        let (_device, store, at) = fresh(&rt).await;
        let zones = u64::from(store.stats().zones);
        let mut number = 0;
        while u64::from(store.stats().zones_free) * 100 > zones * 15 {
            let mut transaction = Transaction::new();
            transaction.write(&object(number), 0, contents(number, 0, 100_000));
            store.submit(at, transaction).await.unwrap();
            number += 1;
        }
        let before = store.stats().counters;
        for round in 0..400u64 {
            let mut transaction = Transaction::new();
            transaction.omap_set(&object(round % number), b"key", round.to_le_bytes().to_vec());
            store.submit(at, transaction).await.unwrap();
        }
        let after = store.stats().counters;
        assert_eq!(after.cleaned, before.cleaned, "nothing is worth it");
        let looked_at = after.zones_looked_at - before.zones_looked_at;
        assert!(looked_at < 10 * zones, "{looked_at} looks at {zones} zones, for 400 transactions");
        // Removals make zones worth it one by one.
        for gone in (0..number).filter(|number| number % 5 > 1) {
            let mut transaction = Transaction::new();
            transaction.remove(&object(gone));
            store.submit(at, transaction).await.unwrap();
        }
        rt.sleep(Duration::from_secs(1)).await;
        let stats = store.stats();
        assert!(stats.counters.cleaned > 5 && u64::from(stats.zones_free) * 5 >= zones, "{stats:?}");
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// Metadata that cannot be read do not keep the keeper busy, and deferred writes are gathered once they can.
#[test]
fn deferred_writes_rest_where_the_metadata_fail() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &geometry(&mut shingle_sim::Random::new(1))).await;
        let watch = Rc::new(Watch::default());
        let log = Rc::new(Watched(LogKvOptions::default(), watch.clone()));
        // No object stays in memory.
        let options = Options { log, cache_bytes: 0, ..options() };
        let limit = options.deferred_bytes;
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options.clone()).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let mut number = 0;
        while store.stats().deferred_bytes + 6_000 < limit {
            let mut transaction = Transaction::new();
            transaction.write(&object(number), 0, contents(number, 0, 3_000));
            store.submit(info.id, transaction).await.unwrap();
            number += 1;
        }
        // Objects with deferred writes stay in memory, until the store is opened anew.
        let device = SimDevice::resume(&rt, device.kill());
        let fewer = Options { deferred_bytes: limit / 2, ..options };
        let (store, report) = Store::open(&rt, Rc::new(device), fewer).await.unwrap();
        assert_eq!(report.deferred, number);
        // The last transaction has its object loaded before the metadata fail.
        let mut transaction = Transaction::new();
        transaction.write(&object(number), 0, contents(number, 0, 7_000));
        let last = store.submit(info.id, transaction);
        let failing = watch.clone();
        let fails = async move {
            while failing.gets.get() == 0 {
                rt.yield_now().await;
            }
            failing.fails.set(true);
            rt
        };
        watch.gets.set(0);
        let (done, rt) = futures_util::future::join(last, fails).await;
        done.unwrap();
        let begun = watch.gets.get();
        let began = rt.now();
        while rt.now().since(began) < Duration::from_secs(60) {
            rt.sleep(Duration::from_millis(100)).await;
            let tried = watch.gets.get() - begun;
            assert!(tried < 10_000, "{tried} looks within {:?}", rt.now().since(began));
        }
        let tried = watch.gets.get() - begun;
        assert!((30..100 * (number + 1)).contains(&tried), "{tried} after {begun}, {:?}", store.stats());
        watch.fails.set(false);
        rt.sleep(Duration::from_secs(3)).await;
        assert_eq!(store.stats().deferred_bytes, 0);
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// A close while deferred writes are being gathered waits for their end.
#[test]
fn a_close_waits_for_deferred_writes_that_are_being_gathered() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        device.set_latency(Duration::from_millis(20));
        let (data, seen) = (store.data_zones(), Rc::new(Cell::new(false)));
        let told = seen.clone();
        device.on_command(move |command, _| {
            let in_data = command.zone.is_some_and(|zone| data.contains(&zone.0));
            told.set(told.get() || command.kind == CommandKind::Write && in_data);
        });
        for number in 0..16 {
            let mut transaction = Transaction::new();
            transaction.write(&object(number), 0, contents(number, 0, 3_000));
            store.submit(at, transaction).await.unwrap();
        }
        // It has begun, and takes 20 ms.
        let begun = rt.now();
        while !seen.get() {
            assert!(rt.now().since(begun) < Duration::from_secs(1), "nothing is gathered");
            rt.sleep(Duration::from_millis(1)).await;
        }
        store.close().await.unwrap();
        device.on_command(|_, _| {});
        let (store, report) = open(&rt, &device).await.unwrap();
        assert_eq!(report.deferred, 0);
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-DEFER-2: many small writes at one place are gathered long before there are many bytes.
#[test]
fn many_small_writes_do_not_make_a_long_map() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &geometry(&mut shingle_sim::Random::new(1))).await;
        let options = Options { deferred_bytes: 8 << 20, ..options() };
        let (store, _) = Store::open(&rt, Rc::new(device), options).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let mut most = 0;
        for number in 0..6_000 {
            let mut transaction = Transaction::new();
            transaction.append(&object(0), contents(1, number * 50, 50));
            store.submit(info.id, transaction).await.unwrap();
            most = most.max(store.stats().deferred_bytes);
        }
        assert!(most < 200 * 50, "{most} bytes were deferred");
        assert!(store.read(&object(0), 0, u64::MAX).await.unwrap() == contents(1, 0, 300_000));
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}
