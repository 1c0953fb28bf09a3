//! Space: it comes back, and when there is none nothing is lost.

use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_object_store::Depth;
use shingle_sim::{Random, Sim, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::chunks::Faults;
use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

fn gc_on(world: &mut World) {
    world.options.gc.enabled = true;
}

#[test]
fn after_everything_is_deleted_all_space_is_back() {
    for seed in seeds(10) {
        let world = World::new(seed, 2, 4 << 20, 40 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut random = Random::new(seed);
            for number in 0..150 {
                let data = bytes_of(number, random.below(20 << 10) as usize);
                put(&store, BUCKET, &format!("k{}", number % 100), &data, commit("e")).await.unwrap();
            }
            store.begin_upload(BUCKET, "left over", Default::default()).await.unwrap();
            let full = store.stats().await.unwrap();
            for upload in store.list_uploads(BUCKET, "", None, 10).await.unwrap().uploads {
                store.abort_upload(BUCKET, &upload.key, upload.id).await.unwrap();
            }
            for number in 0..100 {
                assert!(store.delete(BUCKET, &format!("k{number}")).await.unwrap());
            }
            store.delete_bucket(BUCKET).await.unwrap();
            store.collect_garbage().await.unwrap();
            let empty = store.stats().await.unwrap();
            assert!(full.file_bytes > 500_000, "{full:?}");
            assert_eq!((empty.live_bytes, empty.objects, empty.object_bytes), (0, 0, 0), "seed {seed}: {empty:?}");
            assert!(empty.file_bytes == 0, "seed {seed}: {empty:?}");
            let chunks: usize = world.drives.iter().map(|drive| drive.chunks(Stream::Data).len()).sum();
            assert!(chunks <= 4, "{chunks} chunks are left");
        });
    }
}

/// OS-OBJ-4: without GC the drive is full after a tenth of it.
#[test]
fn a_drive_takes_many_times_its_size_in_overwrites() {
    for seed in seeds(4) {
        let mut world = World::new(seed, 1, 1 << 20, 40 << 10);
        gc_on(&mut world);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut random = Random::new(seed);
            // Up to 600 KiB of 1 MiB live, ten times over.
            let mut last = std::collections::BTreeMap::new();
            for number in 0..900 {
                let key = format!("k{}", random.below(50));
                let size = random.between(8 << 10, 12 << 10) as usize;
                let put = put(&store, BUCKET, &key, &bytes_of(number, size), commit("e")).await;
                put.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
                last.insert(key, (number, size));
            }
            for (key, (number, size)) in last {
                assert_eq!(get(&store, BUCKET, &key).await.unwrap(), bytes_of(number, size));
            }
            let stats = store.stats().await.unwrap();
            assert!(stats.gc_freed_bytes > 5 << 20, "{stats:?}");
            assert!(stats.gc_copied_bytes < 3 * stats.put_bytes, "{stats:?}");
        });
    }
}

#[test]
fn a_full_drive_refuses_writes_loses_nothing_and_can_be_emptied() {
    for (seed, gc) in seeds(3).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut world = World::new(seed, 1, 1 << 20, 40 << 10);
        world.options.gc.enabled = gc;
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut stored = Vec::new();
            for number in 0..1000 {
                let key = format!("k{number}");
                match put(&store, BUCKET, &key, &bytes_of(number, 9000), commit("e")).await {
                    Ok(_) => stored.push((key, number)),
                    Err(error) => {
                        assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
                        break;
                    }
                }
            }
            assert!(stored.len() > 90, "only {} of 100 fit", stored.len());
            // An object larger than what is left, and one larger than the drive.
            for size in [200 << 10, 3 << 20] {
                let error = put(&store, BUCKET, "large", &bytes_of(1, size), commit("e")).await.unwrap_err();
                assert_eq!(error.kind, StoreErrorKind::NoSpace);
                assert!(error.message.starts_with("bucket/large: ") && !error.message.contains("chunk 0"), "{error}");
                assert_eq!(get(&store, BUCKET, "large").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
            }
            for (key, number) in &stored {
                assert_eq!(get(&store, BUCKET, key).await.unwrap(), bytes_of(*number, 9000), "{key}");
            }
            let usage = store.usage().await.unwrap();
            assert_eq!((usage.objects, usage.live_bytes), (stored.len() as u64, 9000 * stored.len() as u64));
            for (key, _) in &stored {
                assert!(store.delete(BUCKET, key).await.unwrap(), "{key}");
            }
            if !gc {
                store.collect_garbage().await.unwrap();
            }
            put(&store, BUCKET, "large", &bytes_of(1, 600 << 10), commit("e")).await.unwrap();
            assert_eq!(get(&store, BUCKET, "large").await.unwrap(), bytes_of(1, 600 << 10));
            // GC may be in the middle of something, which a check would take for damage.
            if !gc {
                assert!(store.check(Depth::Full).await.unwrap().is_clean());
            }
        });
    }
}

/// OS-RSV-1: one drive is full, and the other has failed a moment ago and works again. Puts go there; while it fails, and where it does not work,
/// the store says that there is no room, and soon.
#[test]
fn a_drive_that_failed_is_tried_again_before_a_write_is_refused() {
    for gc in [false, true] {
        let mut world = World::new(1, 2, 1 << 20, 40 << 10);
        world.options.gc.enabled = gc;
        let (small, other) = (world.drives[0].clone(), world.drives[1].clone());
        Sim::new(1).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            other.set_faults(Faults { dead: true, ..Faults::default() });
            let (mut stored, mut refused) = (Vec::new(), 0);
            let mut number = 0;
            while refused < 3 {
                number += 1;
                let began = runtime.now();
                match put(&store, BUCKET, &number.to_string(), &bytes_of(number, 9000), commit("e")).await {
                    Ok(_) => stored.push(number),
                    Err(error) => {
                        let full = matches!(error.kind, StoreErrorKind::NoSpace | StoreErrorKind::Device);
                        assert!(full, "gc {gc}: {error}");
                        refused += 1;
                    }
                }
                assert!(runtime.now().since(began) < Duration::from_secs(5), "gc {gc}: put {number} took long");
            }
            assert!(stored.len() > 80 && small.chunks(Stream::Data).len() > 20, "the case is not met: {stored:?}");
            other.set_faults(Faults::default());
            runtime.sleep(Duration::from_millis(1500)).await;
            for number in 1000..1010 {
                let put = put(&store, BUCKET, &number.to_string(), &bytes_of(number, 9000), commit("e")).await;
                put.unwrap_or_else(|error| panic!("gc {gc}: {error}"));
                stored.push(number);
            }
            for number in stored {
                assert_eq!(get(&store, BUCKET, &number.to_string()).await.unwrap(), bytes_of(number, 9000));
            }
        });
    }
}

#[test]
fn what_an_unfinished_write_leaves_is_garbage() {
    let world = World::new(1, 1, 4 << 20, 40 << 10);
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        let live = store.stats().await.unwrap().live_bytes;
        let mut writer = store.begin_put(BUCKET, "k").await.unwrap();
        writer.write(bytes_of(1, 100 << 10)).await.unwrap();
        let during = store.stats().await.unwrap();
        assert!(during.live_bytes > live + (90 << 10), "segments go as they come: {during:?}");
        drop(writer);
        // The last segment may still be on its way.
        runtime.sleep(std::time::Duration::from_millis(1)).await;
        store.collect_garbage().await.unwrap();
        let after = store.stats().await.unwrap();
        assert_eq!(after.live_bytes, live);
        assert!(after.file_bytes < 1000, "{after:?}");
    });
}

#[test]
fn graves_do_not_pile_up_where_the_same_keys_come_and_go() {
    let world = World::new(1, 1, 2 << 20, 40 << 10);
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        // One object that stays, so that there is always an old file.
        put(&store, BUCKET, "old", &bytes_of(0, 2000), commit("e")).await.unwrap();
        let mut sizes = Vec::new();
        for round in 0..12 {
            for number in 0..200 {
                put(&store, BUCKET, &format!("{round}/{number}"), &bytes_of(number, 300), commit("e")).await.unwrap();
            }
            for number in 0..200 {
                store.delete(BUCKET, &format!("{round}/{number}")).await.unwrap();
            }
            store.collect_garbage().await.unwrap();
            sizes.push(store.stats().await.unwrap().file_bytes);
        }
        assert!(sizes.iter().all(|size| *size < 6000), "{sizes:?}");
        assert_eq!(get(&store, BUCKET, "old").await.unwrap(), bytes_of(0, 2000));
    });
}
