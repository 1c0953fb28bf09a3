//! Openings that cannot see all that is on the drives: ends of chunks that are lost, or hidden for a while, and drives
//! that are away.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use shingle_base::{ChunkId, StoreId};
use shingle_chunk_store::Stream;
use shingle_object_store::format::ChunkName;
use shingle_object_store::{Depth, Index, IndexOrigin, MemoryIndex, ObjectStoreClient};
use shingle_store_api::{CompletedPart, ObjectStore, StoreErrorKind};

use crate::recovery::{fill, filled, find, open_error, with_store};
use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// Place of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) drive: usize,
    pub(crate) chunk: ChunkId,
    pub(crate) offset: u64,
}

/// Places of all entries of a kind whose line says `what`.
pub(crate) async fn places(world: &World, store: &ObjectStoreClient, kind: &str, what: &str) -> Vec<Place> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    store.dump(true, move |line| sink.lock().unwrap().push(line)).await.unwrap();
    let (mut file, mut found) = (0, Vec::new());
    for line in lines.lock().unwrap().iter() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "file" {
            file = words[1].parse::<u64>().unwrap();
        } else if words[1] == kind && line.contains(what) {
            let (ordinal, offset) = words[0].split_once(':').unwrap();
            let (ordinal, offset) = (ordinal.parse::<u32>().unwrap(), offset.parse().unwrap());
            let is =
                |id: &ChunkId| ChunkName::parse(*id).is_some_and(|name| (name.file, name.ordinal) == (file, ordinal));
            let (drive, chunk) = world
                .drives
                .iter()
                .enumerate()
                .find_map(|(drive, chunks)| Some((drive, chunks.chunks(Stream::Data).into_iter().find(is)?)))
                .expect("a chunk of the file");
            found.push(Place { drive, chunk, offset });
        }
    }
    found
}

/// Runs `main` on a filled store, and returns the index as it was before: the log is ahead of it.
pub(crate) fn ahead<F: Future<Output = Vec<Place>> + 'static>(
    world: &World,
    main: impl FnOnce(World, ObjectStoreClient) -> F + 'static,
) -> (MemoryIndex, Vec<Place>) {
    let (before, moved) = (world.index.fork(), world.clone());
    let found = Rc::new(RefCell::new(Vec::new()));
    let heard = found.clone();
    with_store(world, move |store, _| async move {
        let places = main(moved, store).await;
        *heard.borrow_mut() = places;
    });
    (before, found.take())
}

fn hide(world: &World, places: &[Place]) {
    for place in places {
        world.drives[place.drive].hide(place.chunk, place.offset);
    }
}

fn show(world: &World) {
    world.drives.iter().for_each(crate::chunks::MemoryChunks::show);
}

/// OS-REC-3: the end of a chunk is lost for good, and the index knows of it, kept or from a backup. Its bytes give errors,
/// and never later ones; objects acknowledged later are found.
#[test]
fn an_end_that_the_index_knows_and_the_drive_lost_is_neither_served_nor_used_again() {
    for index_lost in [false, true] {
        let world = filled(1, 4);
        let (_, lost) = ahead(&world, |world, store| async move {
            put(&store, BUCKET, "lost", &bytes_of(99, 500), commit("e")).await.unwrap();
            store.back_up_index().await.unwrap();
            places(&world, &store, "put", "\"lost\"").await
        });
        world.drives[0].truncate(lost[0].chunk, lost[0].offset);
        if index_lost {
            world.index.clear().unwrap();
        }
        let what = format!("index lost: {index_lost}");
        for round in 0..3u64 {
            let what = what.clone();
            let report = with_store(&world, move |store, _| async move {
                for number in 0..20 * round {
                    let found = get(&store, BUCKET, &format!("n{number}")).await;
                    assert_eq!(found.unwrap_or_else(|error| panic!("{what}: {error}")), bytes_of(number, 60), "{what}");
                }
                for number in 20 * round..20 * round + 20 {
                    put(&store, BUCKET, &format!("n{number}"), &bytes_of(number, 60), commit("e")).await.unwrap();
                    let error = get(&store, BUCKET, "lost").await.expect_err("its bytes are lost");
                    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{what}: {error}");
                }
                find(&store, 0, 4).await;
            });
            let origin = if index_lost && round == 0 { IndexOrigin::Backup } else { IndexOrigin::Kept };
            assert_eq!((report.index, report.index_refused), (origin, None));
            assert_eq!(report.damage.len(), usize::from(round == 0), "it is told once: {:?}", report.damage);
        }
    }
}

/// OS-REC-4: the commit of a large object lies where one opening cannot see it. Its segments stay, whatever is collected, and
/// the place is neither written to nor sealed: the object is there once it can be seen.
#[test]
fn what_one_opening_cannot_see_is_there_when_the_next_can() {
    for index_lost in [false, true] {
        let mut world = filled(2, 8);
        let (before, commits) = ahead(&world, |world, store| async move {
            put(&store, BUCKET, "large", &bytes_of(5, 30_000), commit("e")).await.unwrap();
            places(&world, &store, "commit", "\"large\"").await
        });
        assert_eq!(commits.len(), 1);
        hide(&world, &commits);
        world.index = if index_lost { MemoryIndex::new() } else { before };
        let report = with_store(&world, |store, _| async move {
            assert_eq!(store.head(BUCKET, "large").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
            fill(&store, 100, 20).await;
            store.collect_garbage().await.unwrap();
        });
        assert!(report.incomplete, "{report:?}");
        show(&world);
        let report = with_store(&world, |store, _| async move {
            assert_eq!(get(&store, BUCKET, "large").await.unwrap(), bytes_of(5, 30_000));
            find(&store, 0, 8).await;
            find(&store, 100, 20).await;
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
        });
        assert!(!report.incomplete, "{report:?}");
    }
}

/// OS-REC-4, for a drive that is away with the commit, and for one with the beginning of an upload.
#[test]
fn what_a_drive_took_along_is_whole_when_it_comes_back() {
    for index_lost in [false, true] {
        let mut world = filled(2, 8);
        let (before, places) = ahead(&world, |world, store| async move {
            for number in 0..6 {
                put(&store, BUCKET, &format!("large{number}"), &bytes_of(number, 30_000), commit("e")).await.unwrap();
                let key = format!("parts{number}");
                let upload = store.begin_upload(BUCKET, &key, Default::default()).await.unwrap().id;
                let mut writer = store.begin_part(BUCKET, &key, upload, 1).await.unwrap();
                writer.write(bytes_of(number, 9000)).await.unwrap();
                writer.commit(commit("p")).await.unwrap();
            }
            let mut found = places(&world, &store, "commit", "\"large").await;
            found.extend(places(&world, &store, "upload-begin", "").await);
            found
        });
        assert_eq!(places.len(), 12);
        for drive in 0..2 {
            assert!(places.iter().any(|place| place.drive == drive), "something of each kind on each drive");
        }
        world.index = if index_lost { MemoryIndex::new() } else { before };
        world.options.known_drives = vec![StoreId(0xd0), StoreId(0xd1)];
        for left in 0..2 {
            let whole = world.fork();
            let mut one = World { away: Some(1 - left), ..whole.clone() };
            one.options.allow_missing_drives = true;
            with_store(&one, |store, _| async move {
                store.collect_garbage().await.unwrap();
            });
            with_store(&whole, |store, _| async move {
                for number in 0..6 {
                    let found = get(&store, BUCKET, &format!("large{number}")).await;
                    assert_eq!(found.unwrap(), bytes_of(number, 30_000), "large{number}");
                }
                let uploads = store.list_uploads(BUCKET, "", None, 100).await.unwrap().uploads;
                assert_eq!(uploads.len(), 6);
                for (number, upload) in (0..6).zip(uploads) {
                    let parts = vec![CompletedPart { number: 1, etag: "p".to_owned() }];
                    store.complete_upload(BUCKET, &upload.key, upload.id, parts, commit("w-1")).await.unwrap();
                    assert_eq!(get(&store, BUCKET, &upload.key).await.unwrap(), bytes_of(number, 9000));
                }
                assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
            });
        }
    }
}

/// OS-APP-3: what a delete is for lies where this opening cannot see it. The delete is final all the same.
#[test]
fn a_delete_of_what_cannot_be_seen_is_final() {
    for index_lost in [false, true] {
        let mut world = filled(1, 4);
        let (before, puts) = ahead(&world, |world, store| async move {
            put(&store, BUCKET, "hidden", &bytes_of(5, 300), commit("e")).await.unwrap();
            places(&world, &store, "put", "\"hidden\"").await
        });
        hide(&world, &puts);
        world.index = if index_lost { MemoryIndex::new() } else { before };
        with_store(&world, |store, _| async move {
            assert!(!store.delete(BUCKET, "hidden").await.unwrap(), "nobody knows of it yet");
            store.collect_garbage().await.unwrap();
        });
        show(&world);
        for _ in 0..2 {
            with_store(&world, |store, _| async move {
                let error = get(&store, BUCKET, "hidden").await.unwrap_err();
                assert_eq!(error.kind, StoreErrorKind::NoSuchKey);
                find(&store, 0, 4).await;
                store.collect_garbage().await.unwrap();
            });
            world.index.clear().unwrap();
        }
    }
}

/// OS-REC-4: the index is lost, and with it the knowledge of a missing drive. The caller that opens the store knows of it,
/// and deleted objects do not come back with it.
#[test]
fn a_drive_that_only_the_caller_knows_of_is_missing_too() {
    let mut world = filled(2, 1);
    with_store(&world, |store, _| async move {
        fill(&store, 10, 60).await;
        for number in 10..70 {
            store.delete(BUCKET, &format!("k{number}")).await.unwrap();
        }
    });
    world.options.known_drives = vec![StoreId(0xd0), StoreId(0xd1)];
    world.index.clear().unwrap();
    let mut one = World { away: Some(1), ..world.clone() };
    let (kind, message) = open_error(&one);
    assert!(kind == StoreErrorKind::Device && message.contains(&StoreId(0xd1).to_string()), "{message}");
    one.options.allow_missing_drives = true;
    let report = with_store(&one, |store, _| async move {
        store.collect_garbage().await.unwrap();
    });
    assert_eq!(report.missing_drives, [StoreId(0xd1)]);
    with_store(&world, |store, _| async move {
        for number in 10..70 {
            let error = get(&store, BUCKET, &format!("k{number}")).await.expect_err("it was deleted");
            assert_eq!(error.kind, StoreErrorKind::NoSuchKey);
        }
    });
}
