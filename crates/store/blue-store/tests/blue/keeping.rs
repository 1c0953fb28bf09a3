//! The keeper does nothing for nothing: BLU-VICTIM-1, and its rest where the metadata fail.

use std::rc::Rc;
use std::time::Duration;

use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{ObjectId, Options, Store, Transaction};
use shingle_sim::{Sim, SimDevice, contents};

use crate::common::{collection, format, fresh, geometry, options};
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
