//! Full drives, and full metadata: refusals say so, and what is deleted makes room, also after an opening.

use std::rc::Rc;

use shingle_blue_store::{BlueErrorKind, CollectionId, ObjectId, Transaction};
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{Random, Sim, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::scene::{assert_no_leftovers, formatted, geometry, open};

/// The drive is filled and emptied for several times its size; every object is what was acknowledged, and nothing of a refused one stays.
#[test]
fn a_full_drive_takes_objects_again_once_others_are_deleted() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            let mut at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            let usage = at.client.usage().await.unwrap();
            // Nobody is told of room that the store leaves to copies.
            assert_eq!(usage.available_bytes, at.store.stats().room_bytes, "seed {seed}: {usage:?}");
            let capacity = usage.capacity_bytes;
            let mut random = Random::new(seed);
            let (mut live, mut written, mut refused) = (Vec::<(u64, usize)>::new(), 0, 0u64);
            for number in 0u64.. {
                if written > capacity * 3 {
                    break;
                }
                let length = match random.below(4) {
                    0 => random.between(0, 3000),
                    _ => random.between(5000, 300_000),
                } as usize;
                match put(&at.client, "b", &number.to_string(), &bytes_of(number, length), commit("e")).await {
                    Ok(_) => {
                        written += length as u64;
                        live.push((number, length));
                        continue;
                    }
                    Err(error) => assert_eq!(error.kind, StoreErrorKind::NoSpace, "seed {seed}: {error}"),
                }
                refused += 1;
                if refused % 8 == 0 {
                    // A full drive opens, and nothing of what was refused stays.
                    at.engine.close().await.unwrap();
                    at = open(&rt, &device).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    assert_no_leftovers(&rt, &at, &format!("seed {seed}, refused {refused}")).await;
                }
                for _ in 0..1 + random.below(4) {
                    if !live.is_empty() {
                        let (gone, _) = live.swap_remove(random.below(live.len() as u64) as usize);
                        let deleted = at.client.delete("b", &gone.to_string()).await;
                        assert!(deleted.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
                    }
                }
            }
            assert!(refused > 8, "seed {seed}: it was never full");
            for (number, length) in &live {
                assert!(
                    get(&at.client, "b", &number.to_string()).await.unwrap() == bytes_of(*number, *length),
                    "{seed}"
                );
            }
            assert_no_leftovers(&rt, &at, &format!("seed {seed}")).await;
        });
    }
}

/// Metadata without room refuse puts, and objects that are read, or were uploaded in parts, can be deleted all the same.
#[test]
fn full_metadata_let_objects_be_deleted() {
    Sim::new(1).run(|rt| async move {
        let device = formatted(&rt, &geometry(1)).await;
        let at = Rc::new(open(&rt, &device).await.unwrap());
        at.client.create_bucket("b").await.unwrap();
        for key in ["read", "other"] {
            put(&at.client, "b", key, &bytes_of(1, 30_000), commit("e")).await.unwrap();
        }
        let id = at.client.begin_upload("b", "parts", Default::default()).await.unwrap().id;
        // Keys of somebody else take the room of the metadata, to the last bytes that anybody may use.
        let (pool, ballast) = (CollectionId { pool: 1, seed: 0 }, ObjectId::new(1, "going"));
        let fill = async |from: u64, size: usize| {
            for number in from.. {
                let mut transaction = Transaction::new();
                transaction.omap_set(&ballast, format!("zz{number:08}"), bytes_of(number, size));
                if let Err(error) = at.store.submit(pool, transaction).await {
                    assert_eq!(error.kind, BlueErrorKind::NoSpace, "{error}");
                    return;
                }
            }
        };
        fill(0, 20_000).await;
        fill(1_000_000, 100).await;
        let refused = put(&at.client, "b", "new", &bytes_of(1, 10), commit("e")).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::NoSpace, "{refused}");
        let reader = at.client.open("b", "read").await.unwrap();
        assert!(at.client.delete("b", "read").await.unwrap() && at.client.delete("b", "other").await.unwrap());
        at.client.abort_upload("b", "parts", id).await.unwrap();
        assert_eq!(reader.read(0, 30_000).await.unwrap(), bytes_of(1, 30_000));
        assert_eq!(at.client.delete_bucket("b").await.map_err(|error| error.kind), Ok(()));
        drop(reader);
        for _ in 0..100 {
            rt.sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!((at.client.figures().await.unwrap().purging, at.store.stats().live_bytes), (0, 0));
    });
}
