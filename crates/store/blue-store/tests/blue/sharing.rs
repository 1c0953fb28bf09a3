//! Bytes that objects share, and the collections that their moves are jobs of: BLU-CLEAN-2.

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_store::{ObjectId, Store, Transaction};
use shingle_sim::{Sim, SimDevice, contents};
use shingle_zoned::Geometry;

use crate::common::{collection, format, open};
use crate::repair::spoil;

fn object(name: &str, hash: u32) -> ObjectId {
    ObjectId { hash, ..ObjectId::new(1, name) }
}

/// The data zone of the one shared blob.
async fn zone_of_shared(store: &Store) -> u32 {
    let keys = store.dump_metadata(b"G", usize::MAX).await.unwrap();
    let [zone] =
        &keys.iter().filter(|(key, line)| key[0] == b'G' && line.contains("shared blob")).collect::<Vec<_>>()[..]
    else {
        panic!("{keys:?}")
    };
    u32::from_be_bytes(*zone.0[1..].first_chunk().unwrap())
}

/// A transaction that shares bytes of some objects changes one of another hash, too, whose collection is split off and removed. Once in this
/// store, and once in one that has noted that other hash with the bytes, as stores of earlier builds have.
#[test]
fn shared_bytes_move_whatever_becomes_of_others_in_their_transaction() {
    for noted in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 34, 0, 12)).await;
            let (mut store, _) = open(&rt, &device).await.unwrap();
            let whole = collection(0, 0);
            store.create_collection(whole).await.unwrap();
            let (a, b, x, filler) = (object("a", 1), object("b", 1), object("x", 0), object("filler", 1));
            let mut transaction = Transaction::new();
            transaction.write(&a, 0, contents(1, 0, 60_000)).write(&filler, 0, contents(2, 0, 150_000));
            store.submit(whole.id, transaction).await.unwrap();
            let mut transaction = Transaction::new();
            transaction.write(&x, 0, contents(3, 0, 20_000)).clone_object(&a, &b);
            store.submit(whole.id, transaction).await.unwrap();
            store.split(whole.id, 1).await.unwrap();
            let mut transaction = Transaction::new();
            transaction.remove(&x);
            store.submit(whole.id, transaction).await.unwrap();
            store.remove_collection(whole.id).await.unwrap();
            if noted {
                let device = SimDevice::resume(&rt, device.kill());
                let mut spoilt = 0;
                spoil(&rt, &device, |key, value| {
                    // The hash is behind version and pool.
                    let hit = key[0] == b'X';
                    spoilt += u32::from(hit);
                    hit.then(|| Bytes::from([&value[..9], &[0], &value[10..]].concat()))
                })
                .await;
                assert_eq!(spoilt, 1);
                (store, _) = open(&rt, &device).await.unwrap();
            }
            let (left, before) = (collection(1, 1).id, zone_of_shared(&store).await);
            let mut transaction = Transaction::new();
            transaction.remove(&filler);
            store.submit(left, transaction).await.unwrap();
            // So many that zones have to be won.
            let mut ballast = Vec::new();
            while store.stats().zones_free > 4 {
                let id = object(&format!("ballast {}", ballast.len()), 1);
                let mut transaction = Transaction::new();
                transaction.write(&id, 0, contents(9, 0, 200_000));
                store.submit(left, transaction).await.unwrap();
                ballast.push(id);
            }
            let mut moved = false;
            for number in 0..200 {
                let mut transaction = Transaction::new();
                transaction.touch(&filler).remove(&filler).write(&filler, 0, contents(number, 0, 100_000));
                store.submit(left, transaction).await.unwrap();
                moved |= zone_of_shared(&store).await != before;
            }
            assert!(moved, "noted {noted}: {:?}", store.stats());
            // A copy that is under way is counted twice.
            rt.sleep(std::time::Duration::from_secs(2)).await;
            let live = 15 + 25 + 49 * ballast.len() as u64;
            assert_eq!(store.stats().live_bytes, live * 4096, "noted {noted}: {:?}", store.stats());
            for id in [&a, &b] {
                assert!(store.read(id, 0, u64::MAX).await.unwrap() == contents(1, 0, 60_000), "noted {noted}");
            }
            assert_eq!(store.check(true).await.unwrap(), [], "noted {noted}");
            for id in [a, b, filler].into_iter().chain(ballast) {
                let mut transaction = Transaction::new();
                transaction.remove(&id);
                store.submit(left, transaction).await.unwrap();
            }
            // As above.
            rt.sleep(std::time::Duration::from_secs(2)).await;
            assert_eq!((store.stats().live_bytes, store.check(true).await.unwrap()), (0, vec![]), "noted {noted}");
        });
    }
}
