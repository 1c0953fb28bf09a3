//! Readers and writers that meet.

use std::rc::Rc;

use bytes::Bytes;
use shingle_chunk_store::Stream;
use shingle_runtime::memory::Memory;
use shingle_sim::{Sim, seeds};
use shingle_store_api::{Commit, CompletedPart, Condition, ObjectStore, StoreErrorKind};

use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// OS-FIL-2.
#[test]
fn a_reader_keeps_its_version_through_overwrite_delete_and_gc() {
    for seed in seeds(10) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let (small, large) = (bytes_of(1, 3000), bytes_of(2, 90_000));
            put(&store, BUCKET, "small", &small, commit("s")).await.unwrap();
            put(&store, BUCKET, "large", &large, commit("l")).await.unwrap();
            let readers = [store.open(BUCKET, "small").await.unwrap(), store.open(BUCKET, "large").await.unwrap()];
            put(&store, BUCKET, "small", &bytes_of(3, 50_000), commit("s2")).await.unwrap();
            put(&store, BUCKET, "large", &bytes_of(4, 10), commit("l2")).await.unwrap();
            store.collect_garbage().await.unwrap();
            assert!(store.delete(BUCKET, "small").await.unwrap() && store.delete(BUCKET, "large").await.unwrap());
            for number in 0..30 {
                put(&store, BUCKET, "filler", &bytes_of(number, 9000), commit("f")).await.unwrap();
            }
            store.collect_garbage().await.unwrap();
            assert_eq!(readers[0].read(0, 3000).await.unwrap(), small);
            assert_eq!(readers[1].read(0, 90_000).await.unwrap(), large);
            for (from, length) in [(0, 1), (4095, 2), (4096, 4096), (8000, 20_000), (89_999, 1), (90_000, 0)] {
                let bytes = readers[1].read(from, length).await.unwrap();
                assert_eq!(bytes, large.slice(from as usize..(from + length) as usize), "{length} from {from}");
            }
            assert_eq!(readers[1].read(89_999, 2).await.unwrap_err().kind, StoreErrorKind::Invalid);
            drop(readers);
            store.delete(BUCKET, "filler").await.unwrap();
            store.collect_garbage().await.unwrap();
            let stats = store.stats().await.unwrap();
            assert!(stats.file_bytes < 1000, "what readers held is garbage now: {stats:?}");
        });
    }
}

/// OS-DIRECT-1.
#[test]
fn an_open_that_meets_an_overwrite_reads_one_version_or_the_other() {
    for seed in seeds(30) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let size = |number: u64| if number.is_multiple_of(3) { 1000 } else { 9000 };
            let value = move |number: u64| (bytes_of(number, size(number)), commit(&number.to_string()));
            let (data, first) = value(0);
            put(&store, BUCKET, "key", &data, first).await.unwrap();
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let store = store.clone();
                    runtime.spawn(async move {
                        for _ in 0..40 {
                            let reader = store.open(BUCKET, "key").await.unwrap();
                            let number: u64 = reader.info().etag.parse().unwrap();
                            let bytes = reader.read(0, reader.info().size).await.unwrap();
                            assert_eq!(bytes, value(number).0, "seed {seed}, version {number}");
                        }
                    })
                })
                .collect();
            for number in 1..40 {
                let (data, commit) = value(number);
                put(&store, BUCKET, "key", &data, commit).await.unwrap();
                if number.is_multiple_of(8) {
                    store.collect_garbage().await.unwrap();
                }
            }
            for reader in readers {
                reader.await.unwrap();
            }
        });
    }
}

#[test]
fn of_conditional_writers_that_race_exactly_one_wins() {
    for seed in seeds(40) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let absent = Condition { absent: true, etag: None };
            let present = Condition { absent: false, etag: Some("0".to_owned()) };
            for (round, condition) in [absent, present].into_iter().enumerate() {
                let etag = |number: usize| if round == 0 { "0".to_owned() } else { format!("{number}") };
                let tasks: Vec<_> = (1..=5)
                    .map(|number| {
                        let store = store.clone();
                        let commit = Commit { condition: condition.clone(), ..commit(&etag(number)) };
                        // Large and small ones race, too.
                        let data = bytes_of(number as u64, 3000 * number);
                        runtime.spawn(async move { put(&store, BUCKET, "key", &data, commit).await })
                    })
                    .collect();
                let mut winners = Vec::new();
                for (number, task) in tasks.into_iter().enumerate() {
                    match task.await.unwrap() {
                        Ok(info) => winners.push((number + 1, info)),
                        Err(error) => assert_eq!(error.kind, StoreErrorKind::PreconditionFailed, "{error}"),
                    }
                }
                assert_eq!(winners.len(), 1, "seed {seed}, round {round}");
                let (number, info) = &winners[0];
                assert_eq!(store.head(BUCKET, "key").await.unwrap(), *info);
                assert_eq!(get(&store, BUCKET, "key").await.unwrap(), bytes_of(*number as u64, 3000 * number));
            }
        });
    }
}

#[test]
fn a_part_that_is_replaced_while_its_upload_completes_does_not_hurt_the_object() {
    for seed in seeds(60) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let id = store.begin_upload(BUCKET, "key", Default::default()).await.unwrap().id;
            let part = |number: u64| {
                let store = store.clone();
                async move {
                    let mut writer = store.begin_part(BUCKET, "key", id, 1).await?;
                    writer.write(bytes_of(number, 6000)).await?;
                    writer.commit(commit(&number.to_string())).await
                }
            };
            part(1).await.unwrap();
            let replace = runtime.spawn(part(2));
            let pause = std::time::Duration::from_nanos(runtime.random() % 30_000);
            runtime.sleep(pause).await;
            let named = vec![CompletedPart { number: 1, etag: "1".to_owned() }];
            let completed = store.complete_upload(BUCKET, "key", id, named, commit("whole-1")).await;
            let replaced = replace.await.unwrap();
            match (&completed, &replaced) {
                (Ok(_), Err(error)) => assert_eq!(error.kind, StoreErrorKind::NoSuchUpload),
                (Err(error), Ok(_)) => assert_eq!(error.kind, StoreErrorKind::InvalidPart),
                _ => panic!("seed {seed}: completed {completed:?}, replaced {replaced:?}"),
            }
            if completed.is_err() {
                store.abort_upload(BUCKET, "key", id).await.unwrap();
            }
            store.collect_garbage().await.unwrap();
            if completed.is_ok() {
                assert_eq!(get(&store, BUCKET, "key").await.unwrap(), bytes_of(1, 6000), "seed {seed}");
            }
            let check = store.check(shingle_object_store::Depth::Full).await.unwrap();
            assert_eq!(check.damage, Vec::new(), "seed {seed}");
            let live = store.stats().await.unwrap().live_bytes;
            assert!(live < if completed.is_ok() { 7000 } else { 300 }, "seed {seed}: {live} bytes are live");
        });
    }
}

#[test]
fn a_commit_whose_caller_goes_away_happens_wholly_or_not_at_all() {
    let mut happened = 0;
    for seed in seeds(80) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        happened += Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let data = bytes_of(seed, 18_000);
            let patience = runtime.sleep(std::time::Duration::from_nanos(runtime.random() % 150_000));
            let put = put(&store, BUCKET, "key", &data, commit("e"));
            let _ = futures_util::future::select(Box::pin(put), Box::pin(patience)).await;
            runtime.sleep(std::time::Duration::from_millis(1)).await;
            store.collect_garbage().await.unwrap();
            let found = get(&store, BUCKET, "key").await;
            let live = store.stats().await.unwrap().live_bytes;
            match &found {
                Ok(bytes) => assert_eq!(*bytes, data, "seed {seed}"),
                Err(error) => assert_eq!(error.kind, StoreErrorKind::NoSuchKey, "seed {seed}: {error}"),
            }
            assert!(live < if found.is_ok() { 19_000 } else { 300 }, "seed {seed}: {live} bytes are live");
            assert!(store.check(shingle_object_store::Depth::Full).await.unwrap().is_clean(), "seed {seed}");
            u64::from(found.is_ok())
        });
    }
    assert!(happened > 0, "no caller was patient enough");
}

#[test]
fn a_bucket_is_not_deleted_under_an_object_being_put() {
    for seed in seeds(40) {
        let world = World::new(seed, 1, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut writer = store.begin_put(BUCKET, "key").await.unwrap();
            writer.write(bytes_of(1, 100)).await.unwrap();
            let delete = runtime.spawn({
                let store = store.clone();
                async move { store.delete_bucket(BUCKET).await }
            });
            let committed = writer.commit(commit("e")).await;
            let deleted = delete.await.unwrap();
            match (&committed, &deleted) {
                (Ok(_), Err(error)) => assert_eq!(error.kind, StoreErrorKind::BucketNotEmpty),
                (Err(error), Ok(())) => assert_eq!(error.kind, StoreErrorKind::NoSuchBucket),
                _ => panic!("seed {seed}: committed {committed:?}, deleted {deleted:?}"),
            }
        });
    }
}

#[test]
fn unreadable_bytes_give_an_error_and_leave_other_objects_alone() {
    let world = World::new(1, 1, 4 << 20, 40 << 10);
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        for (key, number) in [("a", 1), ("b", 2), ("c", 3)] {
            put(&store, BUCKET, key, &bytes_of(number, 3000), commit(key)).await.unwrap();
        }
        let chunk = world.drives[0].chunks(Stream::Data)[0];
        // The middle of the second object's data.
        world.drives[0].corrupt(chunk, 4800, 4801);
        let error = get(&store, BUCKET, "b").await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Corrupt);
        // A client knows its object, and no chunk; the log gets both.
        assert!(error.message.starts_with("bucket/b: ") && !error.message.contains(&chunk.to_string()), "{error}");
        assert!(std::error::Error::source(&error).unwrap().to_string().contains(&chunk.to_string()), "{error:?}");
        let check = store.check(shingle_object_store::Depth::Full).await.unwrap();
        assert_eq!(check.damage.len(), 1, "{:?}", check.damage);
        let named: Vec<String> = check.damaged_objects.iter().map(ToString::to_string).collect();
        assert_eq!(named, ["bucket/b"]);
        assert_eq!(check.damage[0].objects.first, [shingle_store_api::Named::object(BUCKET, "b")]);
        assert!(check.damage[0].words.ends_with("; it touches `bucket/b`"), "{:?}", check.damage);
        // GC takes what it can read, and keeps the file for what it cannot.
        put(&store, BUCKET, "c", &bytes_of(4, 3000), commit("c")).await.unwrap();
        store.collect_garbage().await.unwrap();
        assert_eq!(store.stats().await.unwrap().gc_damaged_files, 1);
        assert_eq!(get(&store, BUCKET, "a").await.unwrap(), bytes_of(1, 3000));
        assert_eq!(get(&store, BUCKET, "c").await.unwrap(), bytes_of(4, 3000));
        assert_eq!(get(&store, BUCKET, "b").await.unwrap_err().kind, StoreErrorKind::Corrupt);
        assert!(store.delete(BUCKET, "b").await.unwrap());
        let chunks = Rc::new(world.drives[0].chunks(Stream::Data));
        assert!(chunks.contains(&chunk));
    });
}

#[test]
fn names_and_metadata_that_are_too_long_are_refused() {
    let world = World::new(1, 1, 4 << 20, 400 << 10);
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        for name in ["", "a\0b"] {
            assert_eq!(store.create_bucket(name).await.unwrap_err().kind, StoreErrorKind::Invalid, "{name:?}");
        }
        store.create_bucket(BUCKET).await.unwrap();
        let long = "k".repeat(5000);
        assert_eq!(store.begin_put(BUCKET, &long).await.err().unwrap().kind, StoreErrorKind::Invalid);
        let mut large = commit("e");
        large.metadata.insert("x".to_owned(), "y".repeat(300 << 10));
        let error = put(&store, BUCKET, "k", &bytes_of(1, 1), large).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Invalid);
        // Keys may hold any character.
        for key in ["", "\0", "a\0b", "ü/\u{10ffff}"] {
            put(&store, BUCKET, key, &bytes_of(9, 10), commit("e")).await.unwrap();
            assert_eq!(get(&store, BUCKET, key).await.unwrap(), bytes_of(9, 10), "{key:?}");
        }
        assert_eq!(get(&store, "nowhere", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
    });
}

/// RT-MEM-2: where there is no memory for segments, objects have small ones, and nobody waits.
#[test]
fn writers_without_memory_have_small_segments() {
    for seed in seeds(10) {
        let mut world = World::new(seed, 1, 8 << 20, 256 << 10);
        world.options.segment_bytes = 64 << 10;
        let memory = Memory::new(256 << 10, 8);
        world.options.memory = memory.clone();
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut writers = Vec::new();
            for number in 0..6 {
                let mut writer = store.begin_put(BUCKET, &number.to_string()).await.unwrap();
                // The last one is small, and one says nothing of its length.
                let data = bytes_of(number, if number == 5 { 4000 } else { 100_000 + number as usize });
                if number != 4 {
                    writer.expect(data.len() as u64);
                }
                writer.write(data.slice(..data.len() / 2)).await.unwrap();
                writers.push((number, writer, data));
            }
            assert_eq!(memory.common_used(), 128 << 10, "seed {seed}: two have whole segments");
            for (_, writer, data) in &mut writers {
                writer.write(data.slice(data.len() / 2..)).await.unwrap();
            }
            for (number, writer, data) in writers {
                writer.commit(commit("e")).await.unwrap();
                assert_eq!(get(&store, BUCKET, &number.to_string()).await.unwrap(), data, "seed {seed}, {number}");
            }
            assert_eq!(memory.common_used(), 0);
            let depth = shingle_object_store::Depth::Full;
            assert!(store.check(depth).await.unwrap().is_clean());
        });
    }
}

/// A report names objects and uploads by bucket and key, whichever of their entries is damaged.
#[test]
fn a_check_names_what_damage_is_of() {
    let world = World::new(1, 1, 8 << 20, 400 << 10);
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        put(&store, BUCKET, "first", &bytes_of(1, 20_000), commit("e")).await.unwrap();
        put(&store, BUCKET, "large\x1b[2J", &bytes_of(2, 20_000), commit("e")).await.unwrap();
        let upload = store.begin_upload(BUCKET, "upload", Default::default()).await.unwrap().id;
        let mut part = store.begin_part(BUCKET, "upload", upload, 7).await.unwrap();
        part.write(bytes_of(3, 9000)).await.unwrap();
        part.commit(commit("e")).await.unwrap();
        put(&store, BUCKET, "last", &bytes_of(4, 3000), commit("e")).await.unwrap();
        let names = |names: &std::collections::BTreeSet<shingle_object_store::ObjectName>| {
            names.iter().map(ToString::to_string).collect::<Vec<String>>()
        };
        let depth = shingle_object_store::Depth::Full;
        let steps = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = steps.clone();
        let progress = move |now: shingle_object_store::CheckProgress| told.lock().unwrap().push((now.done, now.all));
        assert!(store.check_with(depth, progress).await.unwrap().is_clean());
        assert!(steps.lock().unwrap().iter().is_sorted(), "it goes on");
        // In the second object's segments, then in the part: the first object takes 20,000 bytes and some.
        let chunk = world.drives[0].chunks(Stream::Data)[0];
        world.drives[0].corrupt(chunk, 30_000, 30_001);
        let check = store.check(depth).await.unwrap();
        assert_eq!(
            (names(&check.damaged_objects), names(&check.damaged_uploads)),
            (vec!["bucket/large\\u{1b}[2J".to_owned()], vec![]),
            "{:?}",
            check.damage
        );
        let ends = |number: usize, words: &str, damage: &[shingle_store_api::Finding]| {
            assert!(damage.len() == number + 1 && damage[number].words.ends_with(words), "{damage:?}");
        };
        ends(0, "; it touches `bucket/large\\u{1b}[2J`", &check.damage);
        world.drives[0].corrupt(chunk, 45_000, 45_001);
        let check = store.check(depth).await.unwrap();
        ends(1, "; it touches the upload in progress of `bucket/upload`", &check.damage);
        assert_eq!(
            (check.damaged_objects.len(), names(&check.damaged_uploads)),
            (1, vec!["bucket/upload".to_owned()]),
            "{:?}",
            check.damage
        );
    });
}

/// A lost drive damages many objects: a report tells the first of them, how many more there are, and that not all are named.
#[test]
fn a_report_of_much_damage_stays_bounded() {
    use shingle_object_store::DAMAGE_MAX;
    let mut world = World::new(1, 2, 64 << 20, 4 << 20);
    (world.options.file_bytes, world.options.reserve_bytes) = (Some(4 << 20), None);
    let count = 2 * DAMAGE_MAX as u64 + 1000;
    let filled = world.clone();
    Sim::new(1).run(move |runtime| async move {
        let (engine, store, _) = filled.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        for number in 0..count {
            put(&store, BUCKET, &format!("k{number}"), &Bytes::from_static(b"small"), commit("e")).await.unwrap();
        }
        engine.close().await;
    });
    (world.away, world.options.allow_missing_drives) = (Some(0), true);
    Sim::new(2).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        let check = store.check(shingle_object_store::Depth::Quick).await.unwrap();
        let (told, more) = (check.damage.len(), check.damage_more);
        let lost = told as u64 + more;
        assert!(told == DAMAGE_MAX && lost < count, "{told} are told, and {more} more");
        assert!(more > 0 && check.unnamed, "the case is not met");
        assert_eq!((check.damaged_objects.len(), check.objects), (DAMAGE_MAX, count));
    });
}
