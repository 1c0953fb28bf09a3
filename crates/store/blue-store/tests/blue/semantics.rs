//! Single calls, and what they promise.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{
    Access, BlueErrorKind, Compression, FormatOptions, Hints, ObjectId, Options, Store, Transaction,
};
use shingle_sim::{Random, Sim, SimDevice, contents, seeds};
use shingle_zoned::{Geometry, ZonedDevice};

use crate::common::{TURN, collection, format, fresh, open, options};

fn id(name: &str) -> ObjectId {
    ObjectId { hash: 0, ..ObjectId::new(1, name) }
}

fn one(build: impl FnOnce(&mut Transaction) -> &mut Transaction) -> Transaction {
    let mut transaction = Transaction::new();
    build(&mut transaction);
    transaction
}

#[test]
fn a_transaction_that_fails_has_no_effect() {
    Sim::new(1).run(|rt| async move {
        let (_, store, at) = fresh(&rt).await;
        store.submit(at, one(|t| t.write(&id("a"), 0, "first"))).await.unwrap();
        let failed = |build: &dyn Fn(&mut Transaction) -> &mut Transaction| {
            let running = store.submit(at, one(|t| build(t)));
            async { running.await.unwrap_err().kind }
        };
        assert_eq!(failed(&|t| t.write(&id("a"), 0, "other").remove(&id("b"))).await, BlueErrorKind::NotFound);
        assert_eq!(failed(&|t| t.remove(&id("a")).create(&id("b")).create(&id("b"))).await, BlueErrorKind::Exists);
        assert_eq!(failed(&|t| t.remove(&id("a")).clone_object(&id("a"), &id("b"))).await, BlueErrorKind::NotFound);
        assert_eq!(failed(&|t| t.touch(&ObjectId::new(2, "x"))).await, BlueErrorKind::Invalid);
        assert_eq!(store.read(&id("a"), 0, 100).await.unwrap(), "first");
        assert_eq!(store.stat(&id("b")).await.unwrap_err().kind, BlueErrorKind::NotFound);
        assert_eq!(store.list(at, None, 10).await.unwrap(), [id("a")]);
        let other = collection(1, 1).id;
        assert_eq!(store.submit(other, Transaction::new()).await.unwrap_err().kind, BlueErrorKind::NotFound);
        let created = store.create_collection(collection(0, 1)).await;
        assert_eq!(created.unwrap_err().kind, BlueErrorKind::Exists);
        assert_eq!(store.remove_collection(at).await.unwrap_err().kind, BlueErrorKind::Invalid);
        store.submit(at, one(|t| t.remove(&id("a")))).await.unwrap();
        store.remove_collection(at).await.unwrap();
        assert_eq!(store.collections(), []);
        let late = store.clone();
        store.close().await.unwrap();
        assert_eq!(late.submit(at, Transaction::new()).await.unwrap_err().kind, BlueErrorKind::Unavailable);
    });
}

/// Clones share their bytes, and each of them keeps what it shows.
#[test]
fn clones_share_bytes_until_they_are_written() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        let (a, b) = (id("a"), id("b"));
        store.submit(at, one(|t| t.write(&a, 0, contents(1, 0, 300_000)).set_attribute(&a, "x", "y"))).await.unwrap();
        let before = store.stats().live_bytes;
        store.submit(at, one(|t| t.clone_object(&a, &b).omap_set(&b, "k", "v"))).await.unwrap();
        store.submit(at, one(|t| t.clone_range(&a, 1_000, 50_000, &b, 400_000))).await.unwrap();
        assert_eq!(store.stats().live_bytes, before);
        assert_eq!(store.attribute(&b, b"x").await.unwrap(), Some(Bytes::from_static(b"y")));
        store.submit(at, one(|t| t.write(&a, 100_000, contents(2, 0, 20_000)))).await.unwrap();
        assert_eq!(store.read(&b, 0, 300_000).await.unwrap(), contents(1, 0, 300_000));
        assert_eq!(store.read(&b, 300_000, 100_000).await.unwrap(), vec![0; 100_000]);
        assert_eq!(store.read(&b, 400_000, 90_000).await.unwrap(), contents(1, 1_000, 50_000));
        assert_eq!(store.read_extents(&b).await.unwrap(), [0..300_000, 400_000..450_000]);
        store.submit(at, one(|t| t.remove(&a))).await.unwrap();
        assert_eq!(store.read(&b, 0, 300_000).await.unwrap(), contents(1, 0, 300_000));
        assert_eq!(store.check(true).await.unwrap(), []);
        let medium = device.kill();
        let (store, _) = open(&rt, &SimDevice::resume(&rt, medium)).await.unwrap();
        assert_eq!(store.read(&b, 400_000, 90_000).await.unwrap(), contents(1, 1_000, 50_000));
        assert_eq!(store.omap_get(&b, b"k").await.unwrap(), Some(Bytes::from_static(b"v")));
        store.submit(at, one(|t| t.remove(&b))).await.unwrap();
        assert_eq!((store.stats().live_bytes, store.check(true).await.unwrap()), (0, vec![]));
    });
}

/// A large object has its map in shards, of which a small write changes one.
#[test]
fn a_small_write_to_a_large_object_changes_one_shard() {
    Sim::new(1).run(|rt| async move {
        let (_, store, at) = fresh(&rt).await;
        let large = id("large");
        let mut model = contents(1, 0, 6 << 20);
        store.submit(at, one(|t| t.write(&large, 0, model.clone()))).await.unwrap();
        let mut random = Random::new(1);
        for number in 0..300u64 {
            let (from, length) = (random.below((6 << 20) - 12_000) as usize, 100 + random.below(12_000) as usize);
            let data = contents(100 + number, 0, length as u64);
            store.submit(at, one(|t| t.write(&large, from as u64, data.clone()))).await.unwrap();
            model[from..from + length].copy_from_slice(&data);
        }
        let before = store.stats().counters.metadata_bytes;
        store.submit(at, one(|t| t.write(&large, 3 << 20, vec![1; 9_000]))).await.unwrap();
        model[3 << 20..][..9_000].fill(1);
        let bytes = store.stats().counters.metadata_bytes - before;
        assert!(bytes < 6_000, "{bytes} bytes of metadata for a small write");
        assert_eq!(store.read(&large, 0, u64::MAX).await.unwrap(), model);
        store.flush_deferred().await.unwrap();
        assert_eq!(store.stats().deferred_bytes, 0);
        assert_eq!(store.read(&large, 1_000_000, 5_000_000).await.unwrap(), model[1_000_000..6_000_000]);
        store.submit(at, one(|t| t.truncate(&large, 700_000).write(&large, 900_000, "end"))).await.unwrap();
        model.truncate(700_000);
        model.resize(900_000, 0);
        model.extend(b"end");
        assert_eq!(store.read(&large, 0, u64::MAX).await.unwrap(), model);
        assert_eq!(store.check(true).await.unwrap(), []);
        store.submit(at, one(|t| t.remove(&large))).await.unwrap();
        assert_eq!((store.stats().live_bytes, store.check(true).await.unwrap()), (0, vec![]));
    });
}

/// BLU-DEFER-1: a small write is one write of the metadata's log, and no write of data.
#[test]
fn small_writes_wait_in_the_metadata() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        store.close().await.unwrap();
        // No table takes the log's place meanwhile.
        let options = Options { log: Rc::new(LogKvOptions::default()), ..options() };
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options).await.unwrap();
        store.submit(at, one(|t| t.write(&id("a"), 0, contents(1, 0, 100)))).await.unwrap();
        let before = device.counts().commands;
        for number in 0..50u64 {
            store.submit(at, one(|t| t.append(&id("a"), contents(1, 100 + number * 10, 10)))).await.unwrap();
        }
        let stats = store.stats();
        assert_eq!((stats.counters.writes, device.counts().commands - before), (0, 50), "a command each");
        assert!(stats.deferred_bytes > 0);
        let (store, report) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        assert_eq!(report.deferred, 51);
        assert_eq!(store.read(&id("a"), 0, 1000).await.unwrap(), contents(1, 0, 600));
        store.flush_deferred().await.unwrap();
        let stats = store.stats();
        assert_eq!((stats.deferred_bytes, stats.live_bytes), (0, 4096), "51 writes in one block");
        assert_eq!(store.read(&id("a"), 0, 1000).await.unwrap(), contents(1, 0, 600));
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// Batches of collections that are under way together share syncs, and so do their data.
#[test]
fn transactions_that_come_together_share_commands() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(512), 60, 0, 16)).await;
        let (store, _) = open(&rt, &device).await.unwrap();
        for seed in 0..8 {
            store.create_collection(collection(seed, 3)).await.unwrap();
        }
        device.set_latency(std::time::Duration::from_millis(1));
        let before = device.counts().commands;
        let running = (0..64u32).map(|number| {
            let object = ObjectId { hash: number, ..ObjectId::new(1, format!("{number}")) };
            store.submit(collection(number % 8, 3).id, one(|t| t.write(&object, 0, vec![number as u8; 20_000])))
        });
        let ended: Vec<_> = join_all(running).await;
        assert!(ended.iter().all(Result::is_ok));
        let commands = device.counts().commands - before;
        assert!(commands <= 24, "{commands} commands for 64 transactions in 8 collections");
    });
}

#[test]
fn compressed_bytes_take_less_room() {
    Sim::new(1).run(|rt| async move {
        let (_, store, at) = fresh(&rt).await;
        for compression in [Compression::Lz4, Compression::Zstd] {
            let (name, hints) = (id("packed"), Hints { compression, access: Access::Sequential, ..Hints::default() });
            let data: Vec<u8> = (0..400_000u32).map(|at| (at / 3_000) as u8).collect();
            store.submit(at, one(|t| t.set_hints(&name, hints).write(&name, 0, data.clone()))).await.unwrap();
            assert!(store.stats().live_bytes < 60_000, "{:?}", store.stats());
            assert_eq!(store.stat(&name).await.unwrap().hints, hints);
            let mut model = data;
            for from in [5_000usize, 130_000, 262_000] {
                store.submit(at, one(|t| t.write(&name, from as u64, contents(9, 0, 10_000)))).await.unwrap();
                model[from..from + 10_000].copy_from_slice(&contents(9, 0, 10_000));
            }
            assert_eq!(store.read(&name, 0, u64::MAX).await.unwrap(), model);
            assert_eq!(store.check(true).await.unwrap(), []);
            store.submit(at, one(|t| t.remove(&name))).await.unwrap();
        }
    });
}

/// BLU-SPLIT-1, BLU-HASH-1.
#[test]
fn collections_are_split_and_merged_under_load() {
    for seed in seeds(10) {
        Sim::new(seed).run(move |rt| async move {
            let (device, store, at) = fresh(&rt).await;
            device.set_latency(std::time::Duration::from_micros(100));
            let mut random = Random::new(seed);
            let object = |number: u64| ObjectId::new(1, format!("object {number}"));
            let mut made = 0;
            for round in 0..6 {
                let mut running = Vec::new();
                for _ in 0..10 {
                    let id = object(made);
                    let of = store.collections().into_iter().find(|one| one.holds(1, id.hash)).expect("all are there");
                    running.push(store.submit(of.id, one(|t| t.write(&id, 0, contents(made, 0, 20_000)))));
                    made += 1;
                }
                let change = async {
                    match round % 3 {
                        0 => drop(store.split(at, 2).await.unwrap()),
                        1 => drop(store.split(collection(0b10, 2).id, 3 + random.below(2) as u8).await.unwrap()),
                        _ => drop(store.merge(at, 0).await.unwrap()),
                    }
                };
                let (ended, ()) = futures_util::future::join(join_all(running), change).await;
                assert!(ended.iter().all(Result::is_ok), "seed {seed}, round {round}: {ended:?}");
                let mut found = Vec::new();
                for one in store.collections() {
                    let some = store.list(one.id, None, 1000).await.unwrap();
                    assert!(some.is_sorted() && some.iter().all(|id| one.holds(1, id.hash)), "seed {seed}");
                    found.extend(some);
                }
                assert_eq!((found.len() as u64, store.check(false).await.unwrap()), (made, vec![]), "seed {seed}");
            }
            let (store, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
            assert_eq!(store.collections(), [collection(0, 0)]);
            for number in 0..made {
                assert_eq!(store.read(&object(number), 0, 30_000).await.unwrap(), contents(number, 0, 20_000));
            }
            let refused = [store.split(at, 0).await.map(drop), store.merge(at, 1).await.map(drop)];
            assert!(refused.iter().all(|refused| refused.as_ref().unwrap_err().kind == BlueErrorKind::Invalid));
        });
    }
}

/// BLU-OPEN-2.
#[test]
fn an_examination_writes_nothing() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        store.submit(at, one(|t| t.write(&id("a"), 0, contents(1, 0, 30_000)).write(&id("b"), 0, "b"))).await.unwrap();
        let again = SimDevice::resume(&rt, device.kill());
        let dev: Rc<dyn ZonedDevice> = Rc::new(again.clone());
        let (store, report) = Store::examine(&rt, dev.clone(), options()).await.unwrap();
        assert_eq!((report.deferred, store.check(true).await.unwrap()), (1, vec![]));
        assert_eq!(store.read(&id("a"), 5, 100).await.unwrap(), contents(1, 5, 100));
        assert_eq!(store.submit(at, Transaction::new()).await.unwrap_err().kind, BlueErrorKind::ReadOnly);
        assert!(store.dump().iter().any(|zone| zone.state == "closed" && zone.live == 8));
        let lines = store.dump_metadata(b"", 1000).await.unwrap();
        assert!(lines.iter().any(|(_, line)| line.starts_with("object 1:00000000::a: number")), "{lines:?}");
        store.close().await.unwrap();
        let geometry = again.geometry();
        let written = |device: &SimDevice| -> Vec<_> {
            (0..geometry.zone_count).map(|zone| device.image().zone(shingle_base::ZoneId(zone)).written).collect()
        };
        assert_eq!(written(&again), written(&device));
        let refused = Store::format(&rt, dev.clone(), FormatOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind, BlueErrorKind::Invalid, "{refused}");
        let forced = Store::format(&rt, dev.clone(), FormatOptions { force: true, ..FormatOptions::default() }).await;
        assert_eq!(Store::identify(&dev).await.unwrap(), forced.unwrap());
        let (store, _) = Store::open(&rt, dev, Options::default()).await.unwrap();
        assert_eq!(store.collections(), []);
    });
}

/// BLU-READ-1: bytes that were read or written lately come from memory.
#[test]
fn bytes_that_were_used_come_from_memory() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        store.submit(at, one(|t| t.write(&id("a"), 0, contents(1, 0, 100_000)))).await.unwrap();
        let before = device.counts().commands;
        assert_eq!(store.read(&id("a"), 0, 100_000).await.unwrap(), contents(1, 0, 100_000));
        assert_eq!(device.counts().commands, before, "as it was written");
        let (store, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        for _ in 0..2 {
            assert_eq!(store.read(&id("a"), 50_000, 100_000).await.unwrap(), contents(1, 50_000, 50_000));
        }
        let stats = store.stats();
        assert!(stats.data_hits > 0 && stats.data_misses > 0 && stats.cache_bytes <= 300_000, "{stats:?}");
    });
}

/// BLU-COMMIT-1: on a disk, transactions whose data are written one after the other share one flush of them, and one of their metadata.
#[test]
fn a_disk_leaves_its_data_once_for_all_that_come_together() {
    let flushes = |revolution| {
        Sim::new(1).run(move |rt| async move {
            let geometry = Geometry { volatile_cache: true, revolution, ..Geometry::hm_smr(Blocks(4096), 40, 0, 16) };
            let device = format(&rt, &geometry).await;
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), Options::default()).await.unwrap();
            for seed in 0..4 {
                store.create_collection(collection(seed, 2)).await.unwrap();
            }
            device.set_latency(std::time::Duration::from_millis(2));
            let before = device.counts();
            let running = (0..32u32).map(|number| {
                let object = ObjectId { hash: number, ..ObjectId::new(1, format!("{number}")) };
                store.submit(collection(number % 4, 2).id, one(|t| t.write(&object, 0, vec![number as u8; 1 << 20])))
            });
            assert!(join_all(running).await.iter().all(Result::is_ok));
            let after = device.counts();
            assert!(after.writes.0 - before.writes.0 > 8, "several commands");
            after.flushes - before.flushes
        })
    };
    assert_eq!(flushes(Some(TURN)), 2);
    assert!(flushes(None) > 2);
}
