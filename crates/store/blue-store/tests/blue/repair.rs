//! Objects whose metadata are damaged: BLU-MEND-1.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_blue_store::kv::{Batch, KeyValue, KvErrorKind, LogKv, LogKvOptions, Order};
use shingle_blue_store::{
    Access, BlueErrorKind, CollectionId, Hints, OPERATORS, ObjectId, Options, Store, Transaction,
};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, contents, seeds};
use shingle_zone_files::ZoneFiles;
use shingle_zoned::{Share, ZoneRange};

use crate::common::{fresh, open, options};
use crate::watched::{Watch, Watched};

/// Has values of the metadata changed: `spoil` gets each key and its value, and returns another one.
pub(crate) async fn spoil(rt: &Runtime, device: &SimDevice, mut spoil: impl FnMut(&[u8], &Bytes) -> Option<Bytes>) {
    let share = Share { open_zones_max: Some(8), active_zones_max: None };
    let zones = ZoneRange::new(Rc::new(device.clone()), ZoneId(2), 21, share).await.unwrap();
    let (files, _) = ZoneFiles::open(rt, Rc::new(zones), Default::default()).await.unwrap();
    let kv = LogKv::open(rt, files.clone(), OPERATORS, LogKvOptions::default(), false).await.unwrap();
    let all =
        kv.scan(Bytes::from_static(b"\0")..Bytes::from_static(b"\xff"), Order::Forward, usize::MAX).await.unwrap();
    let mut batch = Batch::default();
    for (key, value) in all {
        if let Some(other) = spoil(&key, &value) {
            batch.put(key, other);
        }
    }
    kv.write(batch).await.unwrap();
    kv.close().await.unwrap();
    files.close().await.unwrap();
}

fn object(number: u64) -> ObjectId {
    ObjectId { hash: 0, ..ObjectId::new(1, format!("{number}")) }
}

/// Objects of several shards, with an omap, a clone of some of their bytes, and deferred ones at their end.
async fn fill(store: &Store, at: CollectionId, objects: u64) {
    for number in 0..objects {
        let (one, clone) = (object(number), object(number).at_generation(1));
        let mut transaction = Transaction::new();
        // Short units, so that the map is long.
        transaction.set_hints(&one, Hints { access: Access::Random, ..Hints::default() });
        transaction.write(&one, 0, contents(number, 0, 2_300_000)).omap_set(&one, "key", number.to_string());
        store.submit(at, transaction).await.unwrap();
        let mut transaction = Transaction::new();
        transaction.clone_range(&one, 100_000, 600_000, &clone, 0).append(&one, contents(number, 2_300_000, 500));
        store.submit(at, transaction).await.unwrap();
    }
}

async fn good(store: &Store, number: u64, seed: u64) {
    let (one, clone) = (object(number), object(number).at_generation(1));
    let read = store.read(&one, 0, u64::MAX).await.unwrap();
    assert!(read == contents(number, 0, 2_300_500), "seed {seed}: {number}");
    assert_eq!(store.omap_get(&one, b"key").await.unwrap().unwrap(), number.to_string(), "seed {seed}");
    let read = store.read(&clone, 0, u64::MAX).await.unwrap();
    assert!(read == contents(number, 100_000, 600_000), "seed {seed}: clone of {number}");
}

/// A shard, a head, or a shared blob makes no sense: a repair takes those objects away that have it, and no others, and all their blocks.
#[test]
fn a_repair_takes_damaged_objects_away_with_all_they_had() {
    let mut lost = [0; 3];
    for seed in seeds(24) {
        let (kind, gone) = Sim::new(seed).run(move |rt| async move {
            let (device, store, at) = fresh(&rt).await;
            fill(&store, at, 4).await;
            let mut random = Random::new(seed);
            // Deferred bytes are in zones after a close, and in the metadata after a kill.
            if random.chance(0.5) {
                store.close().await.unwrap();
            }
            let device = SimDevice::resume(&rt, device.kill());
            let kind = random.below(3) as usize;
            let space = [b'E', b'O', b'X'][kind];
            let (mut victims, mut seen) = (1 + random.below(2), 0);
            let count = std::cell::Cell::new(0);
            spoil(&rt, &device, |key, _| {
                count.set(count.get() + u64::from(key[0] == space));
                None
            })
            .await;
            let first = random.below(count.get());
            spoil(&rt, &device, |key, value| {
                let hit = key[0] == space && seen >= first && victims > 0;
                seen += u64::from(key[0] == space);
                victims -= u64::from(hit);
                hit.then(|| value.slice(..value.len() / 2))
            })
            .await;
            let (store, _) = open(&rt, &device).await.unwrap();
            assert_ne!(store.check(false).await.unwrap(), [], "seed {seed}");
            // One that is needed stays, and then all do.
            let before = store.dump();
            let refused = store.repair(|_| false).await.unwrap_err();
            assert_eq!(refused.kind, BlueErrorKind::Corrupt, "seed {seed}: {refused}");
            let (store, _) = open(&rt, &device).await.unwrap();
            assert_eq!(
                store.dump().iter().map(|zone| zone.live).sum::<u64>(),
                before.iter().map(|zone| zone.live).sum()
            );
            let repaired = store.repair(|_| true).await.unwrap();
            assert!(!repaired.removed.is_empty(), "seed {seed}");
            let (store, _) = open(&rt, &device).await.unwrap();
            assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
            for number in 0..4 {
                let (one, clone) = (object(number), object(number).at_generation(1));
                match (repaired.removed.contains(&one), repaired.removed.contains(&clone)) {
                    (false, false) => good(&store, number, seed).await,
                    (of_one, of_clone) => {
                        for (id, gone) in [(one, of_one), (clone, of_clone)] {
                            let found = store.read(&id, 0, u64::MAX).await;
                            assert_eq!(found.is_err(), gone, "seed {seed}: {id}");
                        }
                    }
                }
            }
            // Nothing is left behind those that are removed now.
            for id in store.list(at, None, 100).await.unwrap() {
                let mut transaction = Transaction::new();
                transaction.remove(&id);
                store.submit(at, transaction).await.unwrap();
            }
            assert_eq!(store.stats().live_bytes, 0, "seed {seed}");
            assert_eq!(store.check(false).await.unwrap(), [], "seed {seed}");
            fill(&store, at, 4).await;
            good(&store, 3, seed).await;
            store.close().await.unwrap();
            (kind, repaired.removed.len())
        });
        lost[kind] += gone;
    }
    assert!(lost.iter().all(|lost| *lost > 0) || std::env::var_os("SHINGLE_SEED").is_some(), "{lost:?}");
}

/// Without damage a repair changes nothing.
#[test]
fn a_repair_of_a_whole_store_changes_nothing() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        fill(&store, at, 3).await;
        assert_eq!(store.repair(|_| true).await.unwrap(), Default::default());
        let (store, _) = open(&rt, &device).await.unwrap();
        for number in 0..3 {
            good(&store, number, 1).await;
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-MEND-1: metadata that could not be read are no metadata that make no sense, whatever the store of metadata calls it. Each read of a
/// repair is the one that fails, once.
#[test]
fn a_repair_that_cannot_read_the_metadata_once_changes_nothing() {
    let mut failed = 0;
    for kind in [KvErrorKind::Corrupt, KvErrorKind::Device] {
        for nth in 0.. {
            let refused = Sim::new(1).run(move |rt| async move {
                let (device, store, at) = fresh(&rt).await;
                fill(&store, at, 2).await;
                let device = SimDevice::resume(&rt, device.kill());
                let watch = Rc::new(Watch::default());
                let log = Rc::new(Watched(LogKvOptions::default(), watch.clone()));
                // Objects are read each time.
                let watched = Options { log, cache_bytes: 0, ..options() };
                let (store, _) = Store::open(&rt, Rc::new(device.clone()), watched).await.unwrap();
                // The holders of a zone differ, and are gathered in another pass.
                let keys = store.dump_metadata(b"G", 1).await.unwrap();
                *watch.hidden.borrow_mut() = keys[0].0.clone();
                *watch.failing.borrow_mut() = Some((b"", nth, kind));
                let repaired = store.repair(|_| true).await;
                let reached = watch.failing.borrow().is_none();
                assert_eq!(repaired.is_err(), reached, "read {nth}, {kind:?}: {repaired:?}");
                let (store, _) = open(&rt, &device).await.unwrap();
                for number in 0..2 {
                    good(&store, number, 1).await;
                }
                assert_eq!(store.check(true).await.unwrap(), [], "read {nth}, {kind:?}");
                reached
            });
            if !refused {
                break;
            }
            failed += 1;
        }
    }
    assert!(failed > 40, "{failed} reads");
}
