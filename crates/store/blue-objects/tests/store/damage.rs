//! Data that rot, drives that fail reads, and stores that were tampered with: BO-CHECK-1. Nothing that cannot be read is forgotten.

use std::rc::Rc;

use shingle_base::{Blocks, ZoneId};
use shingle_blue_objects::{check, repair};
use shingle_blue_store::kv::{Batch, KeyValue, LogKv, LogKvOptions};
use shingle_blue_store::{CollectionId, OPERATORS, ObjectId, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};
use shingle_zone_files::ZoneFiles;
use shingle_zoned::{Geometry, Share, ZoneRange, ZonedDevice};

use crate::scene::{assert_no_leftovers, blue_options, formatted, geometry, open, powered};

const SIZE: usize = 30_000;

/// A deep check names the objects whose data rot; reads of them fail, all others are as they were, and all can be deleted.
#[test]
fn a_check_names_the_objects_whose_data_rot() {
    let mut found = 0;
    for seed in seeds(20) {
        found += Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            let at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            for number in 0..8u64 {
                put(&at.client, "b", &number.to_string(), &bytes_of(number, SIZE), commit("e")).await.unwrap();
            }
            let zones = at.store.data_zones();
            at.engine.close().await.unwrap();
            let medium = device.kill();
            let mut random = Random::new(seed);
            for _ in 0..1 + random.below(4) {
                let zone = ZoneId(zones.start + random.below(2) as u32);
                let written = medium.image().zone(zone).written;
                if written > Blocks::ZERO {
                    let block = device.geometry().start_of(zone) + Blocks(random.below(written.0));
                    medium.rot(block, random.number());
                }
            }
            let at = open(&rt, &SimDevice::resume(&rt, medium)).await.unwrap();
            let mut bad = Vec::new();
            for number in 0..8u64 {
                match get(&at.client, "b", &number.to_string()).await {
                    Ok(bytes) => assert!(bytes == bytes_of(number, SIZE), "seed {seed}: {number}"),
                    Err(error) => {
                        assert_eq!(error.kind, StoreErrorKind::Corrupt, "seed {seed}: {error}");
                        bad.push(("b".to_owned(), number.to_string()));
                    }
                }
            }
            let checked = check(&at.store, true, |_| ()).await.unwrap();
            let mut named: Vec<_> = checked.findings.iter().flat_map(|finding| &finding.objects.first).collect();
            named.sort();
            named.dedup();
            let named: Vec<_> = named.into_iter().filter_map(|named| named.object.clone()).collect();
            assert_eq!(named, bad, "seed {seed}: {:?}", checked.findings);
            assert_eq!(check(&at.store, false, |_| ()).await.unwrap().findings, [], "seed {seed}: names are whole");
            for number in 0..8u64 {
                assert!(at.client.delete("b", &number.to_string()).await.unwrap(), "seed {seed}");
            }
            assert_no_leftovers(&rt, &at, &format!("seed {seed}")).await;
            usize::from(!bad.is_empty())
        });
    }
    assert!(found > 5 || std::env::var_os("SHINGLE_SEED").is_some(), "only {found} drives were damaged");
}

/// Reads of the metadata fail while the store opens: it refuses, or it is whole; and it is whole once they succeed again.
#[test]
fn an_opening_with_read_errors_refuses_and_forgets_nothing() {
    let mut refused = 0;
    for seed in seeds(40) {
        refused += Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            let at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            for number in 0..6u64 {
                put(&at.client, "b", &number.to_string(), &bytes_of(number, SIZE), commit("e")).await.unwrap();
            }
            let zones = at.store.data_zones();
            let medium = device.kill();
            let mut random = Random::new(seed);
            let failing = medium.image();
            for _ in 0..1 + random.below(5) {
                let zone = ZoneId(random.below(u64::from(zones.start)) as u32);
                let written = failing.zone(zone).written;
                if written > Blocks::ZERO {
                    let block = device.geometry().start_of(zone) + Blocks(random.below(written.0));
                    failing.fail_reads(block, Blocks(1), None);
                }
            }
            let all_there = async |device: SimDevice| {
                let at = open(&rt, &device).await?;
                for number in 0..6u64 {
                    assert!(get(&at.client, "b", &number.to_string()).await? == bytes_of(number, SIZE), "seed {seed}");
                }
                assert_no_leftovers(&rt, &at, &format!("seed {seed}")).await;
                Ok::<(), shingle_store_api::StoreError>(())
            };
            let first = all_there(powered(&rt, &failing)).await;
            if let Err(error) = &first {
                let kinds = [StoreErrorKind::Device, StoreErrorKind::Corrupt, StoreErrorKind::Unavailable];
                assert!(kinds.contains(&error.kind), "seed {seed}: {error}");
            }
            all_there(SimDevice::resume(&rt, medium)).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            usize::from(first.is_err())
        });
    }
    assert!(refused > 3 || std::env::var_os("SHINGLE_SEED").is_some(), "only {refused} openings met an error");
}

/// BO-CHECK-1: objects that lost bytes, and bytes that nobody names, are found.
#[test]
fn a_check_finds_missing_bytes_and_bytes_that_nobody_names() {
    Sim::new(1).run(|rt| async move {
        let device = formatted(&rt, &geometry(1)).await;
        let at = open(&rt, &device).await.unwrap();
        at.client.create_bucket("b").await.unwrap();
        for key in ["k", "l"] {
            put(&at.client, "b", key, &bytes_of(1, SIZE), commit("e")).await.unwrap();
        }
        at.engine.close().await.unwrap();
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), blue_options()).await.unwrap();
        let pool = CollectionId { pool: 1, seed: 0 };
        let all = store.list(pool, None, 100).await.unwrap();
        let mut pieces: Vec<ObjectId> =
            all.into_iter().filter(|id| id.name.first() == Some(&b'b') && id.name.len() == 13).collect();
        pieces.sort_by(|one, other| one.name.cmp(&other.name));
        let [first, second, ..] = &pieces[..] else { panic!("{pieces:?}") };
        let mut transaction = Transaction::new();
        transaction.remove(second);
        transaction.touch(&ObjectId { name: [&first.name[..5], &[9; 8]].concat(), ..first.clone() });
        store.submit(pool, transaction).await.unwrap();
        let checked = check(&store, false, |_| ()).await.unwrap();
        let words: Vec<String> = checked.findings.iter().map(ToString::to_string).collect();
        assert!(words.iter().any(|words| words == "`b/k`: it has 20000 bytes of 30000"), "{words:?}");
        assert!(words.iter().any(|words| words.contains("nothing names it")), "{words:?}");
        assert_eq!(words.len(), 2, "{words:?}");
        store.close().await.unwrap();
        let at = open(&rt, &device).await.unwrap();
        let missing = get(&at.client, "b", "k").await.unwrap_err();
        assert_eq!(missing.kind, StoreErrorKind::Corrupt, "{missing}");
        assert!(at.client.delete("b", "k").await.unwrap());
    });
}

/// Makes values of the metadata of a drive of [`Geometry::hm_smr`] senseless.
async fn spoil(rt: &Runtime, device: &SimDevice, keys: Vec<bytes::Bytes>) {
    let share = Share { open_zones_max: Some(8), active_zones_max: None };
    let zones = ZoneRange::new(Rc::new(device.clone()), ZoneId(2), 21, share).await.unwrap();
    let (files, _) = ZoneFiles::open(rt, Rc::new(zones), Default::default()).await.unwrap();
    let kv = LogKv::open(rt, files.clone(), OPERATORS, LogKvOptions::default(), false).await.unwrap();
    let mut batch = Batch::default();
    keys.into_iter().for_each(|key| batch.put(key, vec![0xEE; 9]));
    kv.write(batch).await.unwrap();
    kv.close().await.unwrap();
    files.close().await.unwrap();
}

/// BLU-MEND-1 for buckets: bytes with damaged metadata hold room until a repair. Their objects can be deleted before it and behind it, and
/// nothing is left then, pieces behind a missing one included. Names are never taken away.
#[test]
fn a_repair_frees_bytes_with_damaged_metadata() {
    for (seed, of_names) in [(1, false), (2, false), (3, true)] {
        Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &Geometry::hm_smr(Blocks(64), 50, 0, 12)).await;
            let at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            for number in 0..6u64 {
                put(&at.client, "b", &number.to_string(), &bytes_of(number, SIZE), commit("e")).await.unwrap();
            }
            // First pieces: object `b`, a number of eight bytes, and the piece's number of four.
            let first = |id: &ObjectId| id.name.len() == 13 && id.name[0] == b'b' && id.name.ends_with(&[0; 4]);
            let all = at.store.list(CollectionId { pool: 1, seed: 0 }, None, 1000).await.unwrap();
            let wanted: Vec<ObjectId> = match of_names {
                false => all.into_iter().filter(first).take(2).collect(),
                true => all.into_iter().filter(|id| id.name.first() == Some(&b'n')).collect(),
            };
            let dumped = at.store.dump_metadata(b"O", 10_000).await.unwrap();
            let of = |words: &str| wanted.iter().any(|id| words.starts_with(&format!("object {id}: number")));
            let keys: Vec<_> = dumped.into_iter().filter(|(_, words)| of(words)).map(|(key, _)| key).collect();
            assert_eq!(keys.len(), wanted.len());
            at.engine.close().await.unwrap();
            spoil(&rt, &device, keys).await;
            if of_names {
                let (store, _) = Store::open(&rt, Rc::new(device.clone()), blue_options()).await.unwrap();
                let refused = repair(store).await.unwrap_err();
                assert_eq!(refused.kind, StoreErrorKind::Corrupt, "{refused}");
                return;
            }
            let at = open(&rt, &device).await.unwrap();
            let mut bad = Vec::new();
            for number in 0..6u64 {
                match get(&at.client, "b", &number.to_string()).await {
                    Ok(bytes) => assert!(bytes == bytes_of(number, SIZE), "{number}"),
                    Err(_) => bad.push(number.to_string()),
                }
            }
            assert_eq!(bad.len(), 2);
            // One goes before the repair, and its bytes stay; the other one behind it.
            assert!(at.client.delete("b", &bad[0]).await.unwrap());
            rt.sleep(std::time::Duration::from_secs(1)).await;
            at.engine.close().await.unwrap();
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), blue_options()).await.unwrap();
            assert_eq!(repair(store).await.unwrap().removed.len(), 2);
            let at = open(&rt, &device).await.unwrap();
            assert!(get(&at.client, "b", &bad[1]).await.is_err());
            assert!(at.client.delete("b", &bad[1]).await.unwrap());
            assert_no_leftovers(&rt, &at, "repaired").await;
            for number in (0..6u64).filter(|number| !bad.contains(&number.to_string())) {
                assert!(get(&at.client, "b", &number.to_string()).await.unwrap() == bytes_of(number, SIZE));
                assert!(at.client.delete("b", &number.to_string()).await.unwrap());
            }
            assert_no_leftovers(&rt, &at, "deleted").await;
            assert_eq!(at.store.stats().live_bytes, 0);
        });
    }
}
