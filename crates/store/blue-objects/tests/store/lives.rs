//! Openings, readers and writers that go away, and what stays of them.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_blue_objects::{BlueEngine, Options};
use shingle_blue_store::{CollectionId, CollectionInfo, Compression, ObjectId, Store, Transaction};
use shingle_runtime::memory::Memory;
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::{CompletedPart, ListRequest, ObjectStore, StoreErrorKind};

use crate::scene::{assert_no_leftovers, blue_options, formatted, geometry, open, open_with, options, powered};

/// BO-OBJ-3, BO-PIN-1: readers open and read keys that are replaced and deleted all the time, also as the first of them is submitted.
#[test]
fn a_reader_has_its_version_while_the_key_changes() {
    for seed in seeds(8) {
        Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            device.set_latency(Duration::from_micros(20));
            let at = Rc::new(open(&rt, &device).await.unwrap());
            at.client.create_bucket("b").await.unwrap();
            let mut tasks = Vec::new();
            for task in 0..4u64 {
                let (store, sleeper) = (at.client.clone(), rt.clone());
                let mut random = Random::new(seed * 10 + task);
                tasks.push(rt.spawn(async move {
                    for round in 0..40 {
                        let key = format!("k{}", random.below(2));
                        if task < 2 {
                            let (number, length) = (task << 32 | round, random.between(1, 30_000) as usize);
                            match random.chance(0.7) {
                                // The ETag says which bytes it has.
                                true => put(&store, "b", &key, &bytes_of(number, length), commit(&number.to_string()))
                                    .await
                                    .map(drop),
                                false => store.delete("b", &key).await.map(drop),
                            }
                            .unwrap();
                            continue;
                        }
                        let reader = match store.open("b", &key).await {
                            Ok(reader) => reader,
                            Err(error) if error.kind == StoreErrorKind::NoSuchKey => continue,
                            Err(error) => panic!("seed {seed}: {error}"),
                        };
                        sleeper.sleep(Duration::from_micros(random.below(3000))).await;
                        let (size, number) = (reader.info().size, reader.info().etag.parse().unwrap());
                        let read = reader.read(0, size).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                        assert!(read == bytes_of(number, size as usize), "seed {seed}: {key} of {size} bytes");
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            assert_no_leftovers(&rt, &at, &format!("seed {seed}")).await;
        });
    }
}

/// BO-OBJ-3, BO-OBJ-4: a reader keeps bytes that were deleted, and they go with the power if not before.
#[test]
fn bytes_that_a_reader_kept_go_after_a_power_cut() {
    for multipart in [false, true] {
        let medium = Sim::new(1).run(move |rt| async move {
            let device = formatted(&rt, &geometry(1)).await;
            let at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            if multipart {
                let id = at.client.begin_upload("b", "k", Default::default()).await.unwrap().id;
                for number in 1..=2 {
                    let mut part = at.client.begin_part("b", "k", id, number).await.unwrap();
                    part.write(bytes_of(u64::from(number), 25_000)).await.unwrap();
                    part.commit(commit("e")).await.unwrap();
                }
                let parts = [1, 2].map(|number| CompletedPart { number, etag: "e".to_owned() });
                at.client.complete_upload("b", "k", id, parts.to_vec(), commit("whole")).await.unwrap();
            } else {
                put(&at.client, "b", "k", &bytes_of(1, 25_000), commit("e")).await.unwrap();
            }
            let reader = at.client.open("b", "k").await.unwrap();
            assert!(at.client.delete("b", "k").await.unwrap());
            rt.sleep(Duration::from_millis(100)).await;
            assert_eq!(at.client.figures().await.unwrap().purging, 1);
            assert_eq!(reader.read(0, 25_000).await.unwrap(), bytes_of(1, 25_000));
            device.crash_image(1)
        });
        Sim::new(1).run(move |rt| async move {
            let at = open(&rt, &powered(&rt, &medium)).await.unwrap();
            assert_no_leftovers(&rt, &at, "after a power cut").await;
            assert_eq!(at.store.stats().live_bytes, 0);
        });
    }
}

/// A large body is written with hardly any memory; several pieces make it, and ranges over their ends are read.
#[test]
fn a_large_object_needs_little_memory() {
    for (compression, seed) in [(Compression::None, 1), (Compression::Zstd, 2), (Compression::Lz4, 3)] {
        Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            // With more of it, segments are long enough to be compressed.
            let (least, plain) = (Memory::new(30_000, 1), compression == Compression::None);
            let memory = if plain { least } else { Memory::unbounded() };
            let segment_bytes = if plain { 6000 } else { 16_000 };
            let own = Options { memory: memory.clone(), compression, segment_bytes, ..options() };
            let at = open_with(&rt, &device, own).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            let whole: Bytes = (0..200_000u32).map(|at| (at / 700) as u8 ^ seed as u8).collect();
            let mut writer = at.client.begin_put("b", "k").await.unwrap();
            for piece in whole.chunks(1700) {
                writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
                // One segment is gathered while two are written.
                assert!(memory.used() <= 3 * segment_bytes as u64, "{} bytes are held", memory.used());
            }
            writer.commit(commit("e")).await.unwrap();
            assert_eq!(memory.used(), 0);
            assert_eq!(get(&at.client, "b", "k").await.unwrap(), whole);
            let reader = at.client.open("b", "k").await.unwrap();
            for (from, length) in [(19_990, 20), (39_000, 50_000), (199_999, 1), (0, 1)] {
                let read = reader.read(from, length).await.unwrap();
                assert_eq!(read, whole[from as usize..(from + length) as usize]);
            }
            drop(reader);
            at.store.flush_deferred().await.unwrap();
            let live = at.store.stats().live_bytes;
            assert_eq!(live < 150_000, !plain, "{live} bytes, {compression:?}");
            assert_no_leftovers(&rt, &at, "a large object").await;
        });
    }
}

/// A store that is opened for reading alone shows all, changes nothing, and refuses changes.
#[test]
fn an_opening_to_read_changes_nothing() {
    Sim::new(1).run(|rt| async move {
        let device = formatted(&rt, &geometry(1)).await;
        let examined = async || {
            let (store, _) = Store::examine(&rt, Rc::new(device.clone()), blue_options()).await.unwrap();
            BlueEngine::open_to_read(rt.clone(), store, options()).await.unwrap()
        };
        let engine = examined().await;
        assert_eq!(engine.client().list_buckets().await.unwrap(), [], "it was never opened with buckets");
        engine.close().await.unwrap();
        let at = open(&rt, &device).await.unwrap();
        at.client.create_bucket("b").await.unwrap();
        put(&at.client, "b", "k", &bytes_of(1, 10_000), commit("e")).await.unwrap();
        at.engine.close().await.unwrap();
        device.on_command(|command, _| {
            assert!(matches!(command.kind, CommandKind::Report | CommandKind::Read), "{command:?}");
        });
        let engine = examined().await;
        let client = engine.client();
        assert_eq!(get(&client, "b", "k").await.unwrap(), bytes_of(1, 10_000));
        assert_eq!(
            client.list("b", ListRequest { limit: 9, ..ListRequest::default() }).await.unwrap().objects.len(),
            1
        );
        assert!(put(&client, "b", "k", &bytes_of(1, 10), commit("e")).await.is_err());
        assert!(client.delete("b", "k").await.is_err() && client.create_bucket("c").await.is_err());
        engine.close().await.unwrap();
    });
}

/// A store with other objects is not taken over.
#[test]
fn a_store_of_others_is_refused() {
    Sim::new(1).run(|rt| async move {
        for pool in [1, 7] {
            let device = formatted(&rt, &geometry(1)).await;
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), blue_options()).await.unwrap();
            let id = CollectionId { pool, seed: 0 };
            store.create_collection(CollectionInfo { id, bits: 0 }).await.unwrap();
            let mut transaction = Transaction::new();
            transaction.touch(&ObjectId::new(pool, "other"));
            store.submit(id, transaction).await.unwrap();
            store.close().await.unwrap();
            let refused = open(&rt, &device).await.err().expect("it is refused");
            assert_eq!(refused.kind, StoreErrorKind::Invalid, "{refused}");
        }
    });
}

/// BO-END-1: the drive fails a flush, so the store below stops. Its owner ends, and what was acknowledged is there after the next opening.
#[test]
fn a_store_that_stopped_ends_its_owner() {
    for seed in [2, 5, 8] {
        Sim::new(seed).run(move |rt| async move {
            let device = formatted(&rt, &geometry(seed)).await;
            let at = open(&rt, &device).await.unwrap();
            at.client.create_bucket("b").await.unwrap();
            put(&at.client, "b", "k", &bytes_of(1, 20_000), commit("e")).await.unwrap();
            let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Flush, 1.0), fault: Fault::CommandError };
            device.set_faults(Faults::new([rule]));
            let failed = put(&at.client, "b", "l", &bytes_of(2, 20_000), commit("e")).await.unwrap_err();
            let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::Device];
            assert!(kinds.contains(&failed.kind), "seed {seed}: {failed}");
            // Somebody who still asks is told, and the owner ends without being told to.
            let _ = put(&at.client, "b", "m", &bytes_of(3, 20_000), commit("e")).await;
            assert!(at.engine.closed().await.is_err(), "seed {seed}");
            let at = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
            assert_eq!(get(&at.client, "b", "k").await.unwrap(), bytes_of(1, 20_000), "seed {seed}");
            assert_no_leftovers(&rt, &at, &format!("seed {seed}")).await;
        });
    }
}
