//! Blocks that deferred writes take are promised, too: BLU-ROOM-1.

use std::time::Duration;

use shingle_base::Blocks;
use shingle_blue_store::{BlueErrorKind, CollectionId, ObjectId, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice, contents};
use shingle_zoned::Geometry;

use crate::common::{collection, format, open};

/// Blocks of a zone.
const ZONE: u64 = 64;

fn object(name: &str) -> ObjectId {
    ObjectId::new(1, name)
}

async fn write(store: &Store, at: CollectionId, name: &str, offset: u64, length: u64) -> Result<(), BlueErrorKind> {
    let mut transaction = Transaction::new();
    transaction.write(&object(name), offset, contents(offset, 0, length));
    store.submit(at, transaction).await.map_err(|error| error.kind)
}

async fn remove(store: &Store, at: CollectionId, number: u64) {
    let mut transaction = Transaction::new();
    transaction.remove(&object(&number.to_string()));
    store.submit(at, transaction).await.unwrap();
}

/// A drive each of whose zones is full of one object, but for one with six blocks left, and three for copies.
async fn full(rt: &Runtime) -> (SimDevice, Store, CollectionId) {
    let device = format(rt, &Geometry::hm_smr(Blocks(ZONE), 35, 0, 12)).await;
    let (store, _) = open(rt, &device).await.unwrap();
    let info = collection(0, 0);
    store.create_collection(info).await.unwrap();
    let mut count = 0u64;
    while write(&store, info.id, &count.to_string(), 0, ZONE * 4096).await.is_ok() {
        count += 1;
    }
    write(&store, info.id, "last", 0, (ZONE - 6) * 4096).await.unwrap();
    let stats = store.stats();
    assert_eq!((stats.room_bytes, stats.zones_free), (6 * 4096, 3), "{stats:?}");
    (device, store, info.id)
}

/// A gathering of deferred writes waits for room; meanwhile many more come to the same shard.
#[test]
fn a_gathering_takes_no_more_than_it_was_promised() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = full(&rt).await;
        for number in 0..8 {
            write(&store, at, "small", number * 2_000, 100).await.unwrap();
        }
        device.set_latency(Duration::from_millis(50));
        // Room is on its way.
        let removing = remove(&store, at, 0);
        let gathering = async {
            rt.sleep(Duration::from_millis(2)).await;
            store.flush_deferred().await
        };
        let more = async {
            rt.sleep(Duration::from_millis(3)).await;
            let more = (8..200).map(|number| write(&store, at, "small", number * 2_000, 100));
            let more = futures_util::future::join_all(more).await;
            assert!(more.iter().all(Result::is_ok), "{more:?}");
        };
        let ((), gathered, ()) = futures_util::future::join3(removing, gathering, more).await;
        assert_eq!(gathered.map_err(|error| error.kind), Err(BlueErrorKind::NoSpace), "{:?}", store.stats());
        let stats = store.stats();
        assert!(stats.zones_free >= 3, "{stats:?}");
        device.set_latency(Duration::ZERO);
        for number in 1..5 {
            remove(&store, at, number).await;
        }
        store.flush_deferred().await.unwrap();
        assert_eq!(store.stats().deferred_bytes, 0);
        for number in 0..200 {
            assert!(
                store.read(&object("small"), number * 2_000, 100).await.unwrap() == contents(number * 2_000, 0, 100)
            );
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// As many bytes are deferred as may be, so copies of them for a clone are written to zones.
#[test]
fn a_clone_of_deferred_writes_takes_no_room_but_its_own() {
    Sim::new(1).run(|rt| async move {
        for (ranges, again) in [(false, false), (true, false), (false, true)] {
            let (_device, store, at) = full(&rt).await;
            let mut number = 0;
            while store.stats().deferred_bytes < 80_000 {
                write(&store, at, "small", number * 8_192, 7_000).await.unwrap();
                number += 1;
            }
            let clone = || {
                let (small, to) = (object("small"), object("small").at_generation(1));
                let mut transaction = Transaction::new();
                match (ranges, again) {
                    (true, _) => transaction.clone_range(&small, 0, 100_000, &to, 5),
                    (_, true) => {
                        let between = object("small").at_generation(2);
                        transaction.clone_object(&small, &between).clone_object(&between, &to).remove(&between)
                    }
                    _ => transaction.clone_object(&small, &to),
                };
                transaction
            };
            let refused = store.submit(at, clone()).await.map_err(|error| error.kind);
            assert_eq!(refused, Err(BlueErrorKind::NoSpace), "{ranges}, {again}: {:?}", store.stats());
            assert!(store.stats().zones_free >= 2, "{:?}", store.stats());
            for number in 0..3 {
                remove(&store, at, number).await;
            }
            store.submit(at, clone()).await.unwrap();
            let (from, to) = (object("small"), object("small").at_generation(1));
            let read = store.read(&to, if ranges { 5 } else { 0 }, 90_000).await.unwrap();
            assert!(read == store.read(&from, 0, 90_000).await.unwrap(), "{ranges}, {again}");
            assert_eq!(store.check(true).await.unwrap(), []);
        }
    });
}
