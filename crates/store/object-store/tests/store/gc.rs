//! Object GC beside everything else: it takes each file once, and leaves none that it could read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_object_store::index::{Batch, Space};
use shingle_object_store::{Depth, Index};
use shingle_sim::clients::{BUCKET, Client, Sizes};
use shingle_sim::{Sim, seeds};
use shingle_store_api::ObjectStore;

use crate::world::{World, bytes_of, commit, put};

const SIZES: Sizes = Sizes { small: 3 << 10, large: 20 << 10 };

/// OS-GC-1 and OS-FIL-1: an entry counts as live from the moment its place is no longer pending, so GC never takes a file for
/// garbage and then finds it needed.
#[test]
fn a_file_whose_entries_can_all_be_read_never_stays() {
    for seed in seeds(20) {
        let mut world = World::new(seed, 1, 4 << 20, 40 << 10);
        // An entry or two a file: much of what GC meets has just become live.
        world.options.file_bytes = Some(1 << 10);
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let putting = (0..4).map(|client| {
                let store = store.clone();
                runtime.spawn(async move {
                    for number in 0..60 {
                        let data = bytes_of(client * 100 + number, 500);
                        put(&store, BUCKET, &format!("k{client}-{}", number % 3), &data, commit("e")).await.unwrap();
                    }
                })
            });
            let mut putting: Vec<_> = putting.collect();
            while let Some(client) = putting.pop() {
                let done = Rc::new(Cell::new(false));
                let end = done.clone();
                let waiting = runtime.spawn(async move {
                    client.await.unwrap();
                    end.set(true);
                });
                while !done.get() {
                    store.collect_garbage().await.unwrap();
                }
                waiting.await.unwrap();
            }
            let stats = store.stats().await.unwrap();
            assert!(stats.gc_files > 20, "seed {seed}: GC has done nothing: {stats:?}");
            assert_eq!(stats.gc_damaged_files, 0, "seed {seed}: {stats:?}");
            store.collect_garbage().await.unwrap();
            let stats = store.stats().await.unwrap();
            assert!(stats.live_bytes > 0 && stats.file_bytes == stats.live_bytes, "seed {seed}: {stats:?}");
        });
    }
}

/// OS-GC-6: a file of which a part could not be read for a moment is collected later, without a new opening.
#[test]
fn a_read_that_failed_once_leaves_its_file_to_gc() {
    let mut world = World::new(1, 1, 4 << 20, 40 << 10);
    Sim::new(1).run(move |runtime| async move {
        {
            let (engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..60 {
                put(&store, BUCKET, &format!("k{number}"), &bytes_of(number, 3000), commit("e")).await.unwrap();
            }
            for number in (0..60).filter(|number| number % 4 > 0) {
                assert!(store.delete(BUCKET, &format!("k{number}")).await.unwrap());
            }
            engine.close().await;
        }
        world.options.gc.enabled = true;
        let drive = &world.drives[0];
        let (_engine, store, _) = world.open(&runtime).await;
        for chunk in drive.chunks(Stream::Data) {
            drive.fail_reads(chunk, 100, drive.size(chunk));
        }
        runtime.sleep(Duration::from_secs(5)).await;
        assert!(store.stats().await.unwrap().gc_damaged_files > 0, "the case is not met");
        drive.heal();
        runtime.sleep(Duration::from_secs(1200)).await;
        let stats = store.stats().await.unwrap();
        assert!(stats.file_bytes < 2 * stats.live_bytes, "{stats:?}");
    });
}

/// OS-GC-4: GC in the background and a caller who asks for it never work on one file at the same time. If they did, one
/// could drop the file, and so forget a grave that buries what the other has just copied from there.
#[test]
fn two_collectors_never_take_one_file_and_nothing_deleted_comes_back() {
    let mut collected = 0;
    for seed in seeds(60) {
        let mut world = World::new(seed, 1 + (seed % 2) as usize, 8 << 20, 40 << 10);
        world.options.gc.enabled = true;
        let clients: Rc<RefCell<Vec<Client>>> = Rc::default();
        let (moved, known) = (world.clone(), clients.clone());
        collected += Sim::new(seed).run(move |runtime| async move {
            let (engine, store, _) = moved.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            let working = (0..3).map(|number| {
                let (store, mut client) =
                    (store.clone(), Client::new(&format!("c{number}"), seed * 10 + number, 8, SIZES));
                runtime.spawn(async move {
                    client.work(&store, 150).await.unwrap();
                    client
                })
            });
            let working: Vec<_> = working.collect();
            for _ in 0..10 {
                store.collect_garbage().await.unwrap();
            }
            for client in working {
                let client = client.await.unwrap();
                known.borrow_mut().push(client);
            }
            let stats = store.stats().await.unwrap();
            assert_eq!(stats.gc_damaged_files, 0, "seed {seed}: {stats:?}");
            engine.close().await;
            stats.gc_files
        });
        assert_eq!(world.drives.iter().map(|drive| drive.deletes_of_nothing()).sum::<u64>(), 0, "seed {seed}");
        world.index.clear().unwrap();
        world.options.gc.enabled = false;
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            for client in &mut clients.take() {
                client.verify(&store).await.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
            }
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
        });
    }
    assert!(collected > 100, "GC has collected only {collected} files");
}

/// OS-GC-5: where a store has one file open for each purpose, two collectors at work have one each.
#[test]
fn collectors_do_not_share_a_file() {
    for seed in seeds(5) {
        let mut world = World::new(seed, 1, 8 << 20, 40 << 10);
        world.options.files_open_max = 1;
        Sim::new(seed).run(move |runtime| async move {
            let (_engine, store, _) = world.open(&runtime).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..225 {
                // Half of each file is garbage.
                let key = format!("k{}", if number < 150 { number } else { (number - 150) * 2 });
                put(&store, BUCKET, &key, &bytes_of(number, 2000), commit("e")).await.unwrap();
            }
            let left = Rc::new(Cell::new(2));
            for _ in 0..2 {
                let (store, left) = (store.clone(), left.clone());
                runtime.spawn_detached(async move {
                    store.collect_garbage().await.unwrap();
                    left.set(left.get() - 1);
                });
            }
            let mut most = 0;
            while left.get() > 0 {
                most = most.max(world.drives[0].open_chunks(Stream::Gc));
                runtime.sleep(Duration::from_micros(5)).await;
            }
            assert_eq!(most, 2, "seed {seed}: files of collectors");
            assert_eq!(world.drives[0].open_chunks(Stream::Gc), 0, "seed {seed}: files that nobody goes on with");
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
        });
    }
}

/// OS-GC-1: the index could not be made durable when a file was to be deleted. The next pass does not delete the file until
/// it is: an index that a power cut set back still finds what it needs.
#[test]
fn a_file_is_deleted_only_once_the_index_durably_needs_nothing_in_it() {
    let world = crate::recovery::filled(1, 20);
    let index = world.index.clone();
    let (moved, heard) = (index.clone(), std::rc::Rc::new(std::cell::RefCell::new(None)));
    let left = heard.clone();
    crate::recovery::with_store(&world, move |store, _| async move {
        for number in 0..10 {
            store.delete("bucket", &format!("k{number}")).await.unwrap();
        }
        moved.fail_persists(true);
        store.collect_garbage().await.unwrap_err();
        moved.fail_persists(false);
        store.collect_garbage().await.unwrap();
        let after_a_cut = moved.fork();
        after_a_cut.crash(usize::MAX);
        *left.borrow_mut() = Some(after_a_cut);
    });
    let world = crate::world::World { index: heard.take().unwrap(), ..world };
    let report = crate::recovery::with_store(&world, |store, _| async move {
        crate::recovery::find(&store, 10, 10).await;
    });
    assert_eq!(report.index_refused, None);
}

/// A file waits for its end on a drive that is gone. The index is not made durable for it again and again.
#[test]
fn a_drive_that_is_gone_is_left_alone() {
    let mut world = World::new(1, 1, 4 << 20, 40 << 10);
    world.options.gc.enabled = true;
    Sim::new(1).run(move |runtime| async move {
        let (_engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        put(&store, BUCKET, "k", &bytes_of(1, 2000), commit("e")).await.unwrap();
        let reader = store.open(BUCKET, "k").await.unwrap();
        assert!(store.delete(BUCKET, "k").await.unwrap());
        store.collect_garbage().await.unwrap();
        world.drives[0].end();
        put(&store, BUCKET, "other", &bytes_of(1, 100), commit("e")).await.unwrap_err();
        drop(reader);
        runtime.sleep(Duration::from_secs(10)).await;
        let changes = vec![(Space::About, b"mark".to_vec(), Some(Vec::new()))];
        world.index.apply(Batch { changes }).unwrap();
        runtime.sleep(Duration::from_secs(10)).await;
        assert!(world.index.unpersisted() > 0, "the index was made durable for a drive that is gone");
    });
}
