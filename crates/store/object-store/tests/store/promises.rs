//! Invariants that no history tests for long: each is met here on purpose.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shingle_chunk_store::{Request, Stream};
use shingle_object_store::format::ChunkName;
use shingle_object_store::{Index, IndexOrigin, ObjectStoreClient};
use shingle_sim::{Sim, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};

use crate::chunks::Faults;
use crate::recovery::{cut_short, fill, filled, find, with_store};
use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// Versions of the puts that lie on the drives, by key; one for each copy.
async fn versions(store: &ObjectStoreClient) -> BTreeMap<String, Vec<u64>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    store.dump(true, move |line| sink.lock().unwrap().push(line)).await.unwrap();
    let mut found = BTreeMap::<String, Vec<u64>>::new();
    for line in lines.lock().unwrap().iter() {
        let word_after = |what: &str| line.split_once(what).and_then(|(_, rest)| rest.split([' ', '"']).next());
        if let (true, Some(version), Some(key)) =
            (line.contains(" put "), word_after("version "), word_after("key: \""))
        {
            found.entry(key.to_owned()).or_default().push(version.parse().unwrap());
        }
    }
    found
}

/// OS-APP-1: of appends side by side none finds its chunk shorter or longer than its place says.
#[test]
fn appends_side_by_side_reach_a_chunk_in_the_order_of_their_places() {
    for seed in seeds(5) {
        let mut world = World::new(seed, 1, 32 << 20, 1 << 20);
        world.options.file_bytes = None;
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let putting = (0..8).map(|client| {
                let store = store.clone();
                runtime.spawn(async move {
                    for number in 0..40 {
                        let data = bytes_of(client * 100 + number, 300);
                        put(&store, BUCKET, &format!("k{client}-{number}"), &data, commit("e")).await.unwrap();
                    }
                })
            });
            for client in putting.collect::<Vec<_>>() {
                client.await.unwrap();
            }
            let stats = store.stats().await.unwrap();
            assert!(stats.entries > 320, "seed {seed}: {stats:?}");
            assert_eq!(stats.append_retries, 0, "seed {seed}: {stats:?}");
        });
    }
}

/// OS-APP-2: a chunk that was sealed with the append in it shows that it landed: it is not written again.
#[test]
fn an_append_that_its_sealed_chunk_holds_is_not_written_again() {
    for seed in seeds(3) {
        let world = World::new(seed, 2, 8 << 20, 40 << 10);
        with_store(&world.clone(), move |store, _| async move {
            store.create_bucket(BUCKET).await.unwrap();
            world.drives.iter().for_each(|drive| drive.set_faults(Faults { landed: 0.4, ..Faults::default() }));
            for number in 0..30 {
                put(&store, BUCKET, &format!("k{number}"), &bytes_of(number, 300), commit("e")).await.unwrap();
            }
            assert!(store.stats().await.unwrap().append_retries > 0, "seed {seed}: the case is not met");
            let found = versions(&store).await;
            assert_eq!(found.len(), 30, "seed {seed}");
            assert!(found.values().all(|copies| copies.len() == 1), "seed {seed}: {found:?}");
        });
    }
}

/// OS-APP-2: a drive takes appends and answers with errors, and its chunk cannot be sealed. Another drive gets the same
/// entries with the same versions, so that the copies are one object, also where the index is made anew.
#[test]
fn an_append_that_may_have_landed_is_tried_again_as_it_was() {
    let world = filled(2, 3);
    let drive = world.drives[0].clone();
    with_store(&world, move |store, _| async move {
        // Each drive has a file open.
        fill(&store, 3, 10).await;
        drive.set_faults(Faults { mute: true, ..Faults::default() });
        for number in 0..30 {
            put(&store, BUCKET, &format!("n{number}"), &bytes_of(number, 300), commit("e")).await.unwrap();
        }
        drive.set_faults(Faults::default());
    });
    world.index.clear().unwrap();
    with_store(&world, |store, _| async move {
        let found = versions(&store).await;
        assert!(found.values().any(|copies| copies.len() > 1), "the case is not met: {found:?}");
        for (key, copies) in found {
            assert_eq!(copies.iter().collect::<BTreeSet<_>>().len(), 1, "{key} has versions {copies:?}");
        }
        for number in 0..30 {
            assert_eq!(get(&store, BUCKET, &format!("n{number}")).await.unwrap(), bytes_of(number, 300));
        }
    });
}

/// OS-GC-3: GC hangs in the middle of a file. Puts go on, as long as there is room without it.
#[test]
fn puts_do_not_wait_for_gc() {
    let mut world = World::new(1, 1, 8 << 20, 40 << 10);
    world.options.gc.enabled = true;
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        world.drives[0].hang(|request| matches!(request, Request::Read { .. } | Request::Delete { .. }));
        let began = runtime.now();
        for number in 0..300 {
            put(&store, BUCKET, &format!("k{}", number % 20), &bytes_of(number, 2000), commit("e")).await.unwrap();
        }
        let took = runtime.now().since(began);
        assert!(world.drives[0].held() > 0, "GC has not begun");
        assert!(took < Duration::from_secs(1), "300 puts took {took:?}");
    });
}

/// Chunks of clients' files on the only drive, by file.
fn chunks_of_files(world: &World) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut files = BTreeMap::<u64, BTreeSet<u32>>::new();
    for name in world.drives[0].chunks(Stream::Data).into_iter().filter_map(ChunkName::parse) {
        files.entry(name.file).or_default().insert(name.ordinal);
    }
    files
}

/// OS-GC-2: wherever the power fails, a file that GC deletes has lost its oldest chunks and no others.
#[test]
fn a_file_goes_from_its_oldest_chunk_on() {
    let mut whole = World::new(1, 1, 8 << 20, 24 << 10);
    whole.options.file_bytes = Some(120 << 10);
    with_store(&whole, |store, _| async move {
        store.create_bucket(BUCKET).await.unwrap();
        for number in 0..200 {
            put(&store, BUCKET, &format!("k{}", number % 20), &bytes_of(number, 2000), commit("e")).await.unwrap();
        }
    });
    let before = chunks_of_files(&whole);
    let (mut cut, mut partly) = (0, 0);
    loop {
        let world = whole.fork();
        let failed = cut_short(&world, cut, |store| async move {
            store.collect_garbage().await.unwrap();
        });
        let left = chunks_of_files(&world);
        for (file, chunks) in &before {
            let Some(left) = left.get(file) else { continue };
            let first = left.first().unwrap();
            let newest: BTreeSet<u32> = chunks.range(first..).copied().collect();
            assert!(left.is_superset(&newest), "cut at {cut}: of {chunks:?} there are {left:?}");
            partly += u32::from(newest.len() < chunks.len());
        }
        if !failed {
            break;
        }
        cut += 1;
    }
    assert!(partly > 3, "no cut came between two chunks");
}

/// A key that is long, so that a backup has many pieces; keys are in the order of their numbers.
fn long_key(number: u64) -> String {
    format!("k{number:0>800}")
}

/// OS-BAK-1: objects are written, replaced and deleted while the index is backed up. With the backup and what came after its
/// moment all are found.
#[test]
fn a_backup_beside_which_objects_change_is_one_moment() {
    for seed in seeds(5) {
        let world = World::new(seed, 1, 16 << 20, 40 << 10);
        let expected = Rc::new(RefCell::new(BTreeMap::new()));
        let (known, moved) = (expected.clone(), world.clone());
        Sim::new(seed).run(move |runtime| async move {
            let (engine, store, _) = moved.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..400 {
                put(&store, BUCKET, &long_key(number), &bytes_of(number, 100), commit("e")).await.unwrap();
                known.borrow_mut().insert(number, number);
            }
            let ended = Rc::new(Cell::new(false));
            let (end, client) = (ended.clone(), store.clone());
            let backing_up = runtime.spawn(async move {
                client.back_up_index().await.unwrap();
                end.set(true);
            });
            let mut changed = 0;
            while !ended.get() {
                // From both ends: behind and ahead of what is being copied.
                for key in [changed % 400, 399 - changed % 400, 1000 + changed] {
                    let content = 10_000 + changed;
                    put(&store, BUCKET, &long_key(key), &bytes_of(content, 100), commit("e")).await.unwrap();
                    known.borrow_mut().insert(key, content);
                }
                changed += 1;
            }
            assert!(changed > 3, "seed {seed}: the backup took no time: {changed}");
            backing_up.await.unwrap();
            engine.close().await;
        });
        world.index.clear().unwrap();
        let report = with_store(&world, move |store, _| async move {
            for (key, content) in expected.take() {
                let found = get(&store, BUCKET, &long_key(key)).await;
                let found = found.unwrap_or_else(|error| panic!("seed {seed}: k{key}: {error}"));
                assert!(found == bytes_of(content, 100), "seed {seed}: k{key}");
            }
            assert_eq!(store.head(BUCKET, "none").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
            assert!(store.check(shingle_object_store::Depth::Full).await.unwrap().is_clean(), "seed {seed}");
        });
        assert_eq!(report.index, IndexOrigin::Backup, "seed {seed}");
    }
}

/// OS-BAK-3: a backup is done. An index that a power cut then sets back as far as it can still knows all that the backup does.
#[test]
fn no_power_cut_sets_the_index_back_behind_its_backup() {
    let world = filled(1, 20);
    let index = world.index.clone();
    with_store(&world, move |store, _| async move {
        for number in 100..110 {
            put(&store, BUCKET, &format!("k{number}"), &bytes_of(number, 100), commit("e")).await.unwrap();
        }
        assert!(index.unpersisted() > 0, "the case is not met");
        store.back_up_index().await.unwrap();
        assert_eq!(index.unpersisted(), 0);
        find(&store, 0, 20).await;
    });
}
