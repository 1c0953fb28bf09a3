//! Opening: indexes lost, old, foreign or broken; drives missing or damaged; backups.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use shingle_base::StoreId;
use shingle_chunk_store::Stream;
use shingle_object_store::{Depth, FjallIndex, Index, IndexOrigin, MemoryIndex, ObjectEngine, ObjectStoreClient};
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_store_api::{CompletedPart, ObjectStore, StoreErrorKind};

use crate::world::{World, bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

pub(crate) async fn fill(store: &ObjectStoreClient, from: u64, count: u64) {
    for number in from..from + count {
        let size = if number.is_multiple_of(7) { 30_000 } else { 2000 };
        put(store, BUCKET, &format!("k{number}"), &bytes_of(number, size), commit("e")).await.unwrap();
    }
}

pub(crate) async fn find(store: &ObjectStoreClient, from: u64, count: u64) {
    for number in from..from + count {
        let size = if number.is_multiple_of(7) { 30_000 } else { 2000 };
        assert_eq!(get(store, BUCKET, &format!("k{number}")).await.unwrap(), bytes_of(number, size), "k{number}");
    }
}

/// Runs `main` in a simulation with an open store, and closes it.
pub(crate) fn with_store<F: Future<Output = ()> + 'static>(
    world: &World,
    main: impl FnOnce(ObjectStoreClient, Runtime) -> F + 'static,
) -> shingle_object_store::OpenReport {
    let world = world.clone();
    Sim::new(1).run(move |runtime| async move {
        let (engine, store, report) = world.open(&runtime).await;
        main(store, runtime).await;
        engine.close().await;
        report
    })
}

pub(crate) fn open_error(world: &World) -> (StoreErrorKind, String) {
    let world = world.clone();
    Sim::new(1).run(move |runtime| async move {
        let error = world.try_open(&runtime).await.err().expect("the store must not open");
        (error.kind, error.message)
    })
}

pub(crate) fn filled(drives: usize, count: u64) -> World {
    let world = World::new(1, drives, 8 << 20, 40 << 10);
    let report = with_store(&world, move |store, _| async move {
        store.create_bucket(BUCKET).await.unwrap();
        fill(&store, 0, count).await;
    });
    assert_eq!(report.index, IndexOrigin::New);
    world
}

#[test]
fn after_an_orderly_close_nothing_is_scanned() {
    let world = filled(2, 40);
    let report = with_store(&world, |store, _| async move { find(&store, 0, 40).await });
    assert_eq!((report.index, report.entries, report.bytes), (IndexOrigin::Kept, 0, 0));
}

#[test]
fn a_lost_index_is_made_again_from_the_drives() {
    let mut world = filled(2, 40);
    world.index = MemoryIndex::new();
    let report = with_store(&world, |store, _| async move {
        find(&store, 0, 40).await;
        assert!(store.check(Depth::Full).await.unwrap().is_clean());
    });
    assert_eq!(report.index, IndexOrigin::Scan);
    assert!(report.entries > 40);
    let report = with_store(&world, |store, _| async move { find(&store, 0, 40).await });
    assert_eq!((report.index, report.entries), (IndexOrigin::Kept, 0));
}

#[test]
fn with_a_backup_only_what_came_after_it_is_read() {
    let mut world = filled(2, 60);
    with_store(&world, |store, _| async move {
        store.back_up_index().await.unwrap();
        fill(&store, 60, 5).await;
        // Objects that the backup knows and that are gone since.
        assert!(store.delete(BUCKET, "k1").await.unwrap());
        store.collect_garbage().await.unwrap();
    });
    world.index = MemoryIndex::new();
    let report = with_store(&world, |store, _| async move {
        find(&store, 2, 63).await;
        assert_eq!(store.head(BUCKET, "k1").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        assert!(store.check(Depth::Full).await.unwrap().is_clean());
    });
    assert_eq!(report.index, IndexOrigin::Backup);
    assert!(report.entries < 70, "{} entries were read", report.entries);
}

/// OS-BAK-2: the end of a backup cannot be read at one opening: it is there for a later one.
#[test]
fn a_backup_that_cannot_be_read_for_a_while_is_not_deleted() {
    let world = filled(1, 10);
    let back_up = || with_store(&world, |store, _| async move { assert!(store.back_up_index().await.unwrap() > 0) });
    back_up();
    let drive = &world.drives[0];
    let kept = drive.chunks(Stream::Meta);
    kept.iter().for_each(|chunk| drive.fail_reads(*chunk, 0, drive.size(*chunk)));
    back_up();
    drive.heal();
    let left = drive.chunks(Stream::Meta);
    assert!(left.len() > kept.len() && kept.iter().all(|chunk| left.contains(chunk)), "{kept:?} became {left:?}");
}

/// OS-BAK-1, OS-BAK-2.
#[test]
fn of_two_backups_the_older_serves_if_the_newer_is_damaged_and_the_log_if_both_are() {
    let world = filled(1, 30);
    with_store(&world, |store, _| async move {
        for round in 0..4 {
            store.back_up_index().await.unwrap();
            fill(&store, 30 + 5 * round, 5).await;
        }
    });
    let files: std::collections::BTreeSet<_> =
        world.drives[0].chunks(Stream::Meta).into_iter().map(|id| id.0[4..12].to_vec()).collect();
    assert_eq!(files.len(), 2, "the newest two are kept");
    for (damaged, expected) in [(1, IndexOrigin::Backup), (2, IndexOrigin::Scan)] {
        let mut world = world.fork();
        world.index = MemoryIndex::new();
        for file in files.iter().rev().take(damaged) {
            let chunks = world.drives[0].chunks(Stream::Meta);
            let chunk = chunks.into_iter().find(|id| id.0[4..12] == **file).unwrap();
            world.drives[0].flip(chunk, 200);
        }
        let report = with_store(&world, |store, _| async move {
            find(&store, 0, 50).await;
            assert!(store.check(Depth::Full).await.unwrap().is_clean());
        });
        assert_eq!(report.index, expected);
    }
}

/// Runs `main` with an open store until the power fails at the request of number `cut`; whether it did.
pub(crate) fn cut_short<F: Future<Output = ()> + 'static>(
    world: &World,
    cut: u64,
    main: impl FnOnce(ObjectStoreClient) -> F + 'static,
) -> bool {
    world.power.cut_after(Some(cut));
    let moved = world.clone();
    let failed = Sim::new(1).run(move |runtime| async move {
        let power = moved.power.clone();
        let life = async move {
            let (engine, store, _) = moved.open(&runtime).await;
            main(store).await;
            engine.close().await;
        };
        let ended = futures_util::future::select(Box::pin(life), Box::pin(power.fails())).await;
        matches!(ended, futures_util::future::Either::Right(_))
    });
    world.power.cut_after(None);
    failed
}

/// A store whose newest backup is behind what has happened since, GC included.
fn behind_its_backup() -> World {
    let world = filled(1, 50);
    with_store(&world, |store, _| async move {
        store.back_up_index().await.unwrap();
        for number in (0..50).filter(|number| number % 3 > 0) {
            store.delete(BUCKET, &format!("k{number}")).await.unwrap();
        }
        fill(&store, 50, 10).await;
    });
    world
}

async fn find_behind(store: &ObjectStoreClient, what: &str) {
    for number in (0..50).step_by(3) {
        find(store, number, 1).await;
    }
    find(store, 50, 10).await;
    let listed = store.list(BUCKET, shingle_store_api::ListRequest { limit: 100, ..Default::default() }).await.unwrap();
    assert_eq!(listed.objects.len(), 27, "{what}");
    assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "{what}");
}

#[test]
fn a_rebuild_that_is_cut_short_anywhere_is_begun_anew() {
    let whole = behind_its_backup();
    whole.index.clear().unwrap();
    let mut cut = 0;
    loop {
        let world = whole.fork();
        let failed = cut_short(&world, cut, |_| async {});
        let what = format!("cut at {cut}");
        with_store(&world, move |store, _| async move { find_behind(&store, &what).await });
        if !failed {
            break;
        }
        cut += 1;
    }
    assert!(cut > 10, "{cut} cuts");
}

#[test]
fn gc_that_is_cut_short_anywhere_is_understood_from_an_older_backup() {
    let whole = behind_its_backup();
    let mut cut = 0;
    loop {
        let world = whole.fork();
        let failed = cut_short(&world, cut, |store| async move {
            store.collect_garbage().await.unwrap();
        });
        world.index.clear().unwrap();
        let what = format!("cut at {cut}");
        with_store(&world, move |store, _| async move {
            find_behind(&store, &what).await;
            store.collect_garbage().await.unwrap();
            find_behind(&store, &format!("{what}, after GC")).await;
        });
        if !failed {
            break;
        }
        cut += 1;
    }
    assert!(cut > 50, "{cut} cuts");
}

#[test]
fn rebuilding_reports_progress() {
    let world = filled(2, 40);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (moved, heard) = (world.clone(), seen.clone());
    Sim::new(1).run(move |runtime| async move {
        let index = Arc::new(moved.index.clone());
        let progress = Box::new(move |progress| heard.borrow_mut().push(progress));
        let drives = moved.served(&runtime);
        let rebuilt =
            ObjectEngine::rebuild_index(runtime, drives, index, moved.options.clone(), false, Some(progress)).await;
        let (engine, report) = rebuilt.unwrap();
        assert_eq!(report.index, IndexOrigin::Scan);
        find(&engine.client(), 0, 40).await;
    });
    let seen = seen.borrow();
    let last = seen.last().expect("progress");
    assert!(seen.len() > 2 && seen.is_sorted_by_key(|progress| progress.bytes_done));
    assert_eq!((last.files_done, last.bytes_done), (last.files, last.bytes));
}

#[test]
fn drives_and_indexes_of_another_store_are_refused() {
    let (one, other) = (filled(1, 5), {
        let world = World::new(2, 1, 8 << 20, 40 << 10);
        Sim::new(99).run({
            let world = world.clone();
            move |runtime| async move {
                let (engine, store, _) = world.open(&runtime).await;
                store.create_bucket(BUCKET).await.unwrap();
                fill(&store, 0, 5).await;
                engine.close().await;
            }
        });
        world
    });
    let mixed = World {
        index: MemoryIndex::new(),
        drives: vec![one.drives[0].clone(), other.drives[0].clone()],
        ..one.clone()
    };
    let (kind, message) = open_error(&mixed);
    assert!(kind == StoreErrorKind::Invalid && message.contains("different object stores"), "{message}");
    let foreign = World { index: other.index.clone(), ..one.clone() };
    let (kind, message) = open_error(&foreign);
    assert!(kind == StoreErrorKind::Invalid && message.contains("another object store"), "{message}");
    let twins = World { drives: vec![one.drives[0].clone(), one.drives[0].clone()], ..one.clone() };
    let (kind, message) = open_error(&twins);
    assert!(kind == StoreErrorKind::Invalid && message.contains("copy"), "{message}");
}

#[test]
fn without_one_of_its_drives_the_store_opens_only_if_told_to_and_serves_what_is_left() {
    let world = filled(2, 60);
    let mut one = World { drives: vec![world.drives[0].clone()], ..world.clone() };
    let (kind, message) = open_error(&one);
    assert!(kind == StoreErrorKind::Device && message.contains(&StoreId(0xd1).to_string()), "{message}");
    one.options.allow_missing_drives = true;
    let report = with_store(&one, |store, _| async move {
        let (mut found, mut lost) = (0, 0);
        for number in 0..60 {
            match get(&store, BUCKET, &format!("k{number}")).await {
                Ok(_) => found += 1,
                Err(error) => {
                    assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
                    lost += 1;
                }
            }
        }
        assert!(found > 0 && lost > 0, "{found} found, {lost} lost");
        fill(&store, 100, 5).await;
    });
    assert_eq!(report.missing_drives, [StoreId(0xd1)]);
    // The drive comes back: nothing was forgotten.
    with_store(&world, |store, _| async move {
        find(&store, 0, 60).await;
        find(&store, 100, 5).await;
        assert!(store.check(Depth::Full).await.unwrap().is_clean());
    });
}

#[test]
fn a_bucket_whose_drive_is_lost_lives_on_in_its_objects() {
    let world = filled(2, 60);
    for drive in 0..2 {
        let mut left = world.fork();
        left.drives.swap(0, drive);
        left.drives.truncate(1);
        left.index = MemoryIndex::new();
        let left_too = left.clone();
        let report = with_store(&left, |store, _| async move {
            assert_eq!(store.bucket(BUCKET).await.unwrap().name, BUCKET);
            assert!(store.list(BUCKET, Default::default()).await.is_ok());
        });
        // One of the two drives has the bucket's own entry.
        let again = with_store(&left_too, |store, _| async move { drop(store.bucket(BUCKET).await.unwrap()) });
        assert!(report.implied_buckets.len() <= 1 && again.implied_buckets.is_empty());
    }
}

#[test]
fn a_place_in_the_log_that_cannot_be_read_costs_only_what_lies_there() {
    let mut world = filled(1, 40);
    world.index = MemoryIndex::new();
    let chunk = world.drives[0].chunks(Stream::Data)[0];
    // In the heads of two entries: nothing else says where they end.
    let heads = Rc::new(RefCell::new(Vec::new()));
    let heard = heads.clone();
    with_store(&world.fork(), |store, _| async move {
        let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
        let sink = lines.clone();
        store.dump(true, move |line| sink.lock().unwrap().push(line)).await.unwrap();
        let lines = lines.lock().unwrap();
        let puts = lines.iter().filter(|line| line.starts_with("  0:") && line.contains(" put "));
        let offset = |line: &String| line["  0:".len()..].split(' ').next().unwrap().parse::<u64>().unwrap();
        heard.borrow_mut().extend(puts.map(offset));
    });
    let (one, other) = (heads.borrow()[1], heads.borrow()[3]);
    for rot in [false, true] {
        let world = world.fork();
        if rot {
            world.drives[0].corrupt(chunk, one + 60, one + 61);
        } else {
            world.drives[0].fail_reads(chunk, one + 60, one + 61);
        }
        world.drives[0].flip(chunk, other as usize + 70);
        let before = world.drives[0].size(chunk);
        let report = with_store(&world, |store, _| async move {
            let mut lost = 0;
            for number in 0..40u64 {
                let size = if number.is_multiple_of(7) { 30_000 } else { 2000 };
                match get(&store, BUCKET, &format!("k{number}")).await {
                    Ok(bytes) => assert_eq!(bytes.len(), size),
                    Err(_) => lost += 1,
                }
            }
            assert!((2..=4).contains(&lost), "{lost} objects are lost");
        });
        assert_eq!((report.damage.len(), report.incomplete), (2, !rot));
        // Rot is told once. Places that the drive could not read are looked at again at every start: the failure may
        // have been a passing one.
        let again = with_store(&world, |store, _| async move {
            for number in 0..40u64 {
                let _ = store.delete(BUCKET, &format!("k{number}")).await.unwrap();
            }
            store.collect_garbage().await.unwrap();
        });
        assert_eq!((again.damage, again.incomplete), (if rot { Vec::new() } else { report.damage }, !rot));
        let left = world.drives[0].chunks(Stream::Data).contains(&chunk).then(|| world.drives[0].size(chunk));
        assert_eq!(left, (!rot).then_some(before), "rot {rot}: a file stays while there may be more in it");
    }
}

/// An index that cannot be read now is left as it is: it is as good as it was.
#[test]
fn an_index_that_cannot_be_read_is_not_emptied() {
    let world = filled(2, 10);
    world.index.fail_reads(true);
    let (kind, message) = open_error(&world);
    assert!(kind == StoreErrorKind::Unavailable && message.contains("cannot be read now"), "{message}");
    world.index.fail_reads(false);
    let report = with_store(&world, |store, _| async move { find(&store, 0, 10).await });
    assert_eq!((report.index, report.entries), (IndexOrigin::Kept, 0));
}

#[test]
fn an_index_older_than_the_last_gc_is_not_trusted() {
    let world = filled(1, 60);
    let old = world.index.fork();
    with_store(&world, |store, _| async move {
        for number in 0..50 {
            store.delete(BUCKET, &format!("k{number}")).await.unwrap();
        }
        store.collect_garbage().await.unwrap();
    });
    let restored = World { index: old, ..world.clone() };
    let report = with_store(&restored, |store, _| async move {
        find(&store, 50, 10).await;
        assert_eq!(
            store
                .list(BUCKET, shingle_store_api::ListRequest { limit: 100, ..Default::default() })
                .await
                .unwrap()
                .objects
                .len(),
            10
        );
        assert!(store.check(Depth::Full).await.unwrap().is_clean());
    });
    assert!(report.index_refused.is_some(), "{report:?}");
}

#[test]
fn versions_rise_across_restarts_and_lost_indexes() {
    let mut world = filled(1, 1);
    let versions = Rc::new(RefCell::new(Vec::new()));
    for round in 0..6 {
        let heard = versions.clone();
        with_store(&world, move |store, _| async move {
            for _ in 0..3 {
                let info = put(&store, BUCKET, "k", &bytes_of(1, 10), commit("e")).await.unwrap();
                heard.borrow_mut().push(info.version);
            }
            store.delete(BUCKET, "k").await.unwrap();
            store.collect_garbage().await.unwrap();
        });
        if round % 2 == 1 {
            world.index = MemoryIndex::new();
        }
    }
    assert!(versions.borrow().is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[test]
fn the_store_works_on_a_directory_index_and_without_it() {
    let directory = std::env::temp_dir().join(format!("shingle-object-store-{}", std::process::id()));
    for round in 0..3u64 {
        // Round 1 goes on with the directory, round 2 without.
        if round != 1 {
            let _ = std::fs::remove_dir_all(&directory);
        }
        let directory = directory.clone();
        thread_local!(static WORLD: World = World::new(1, 2, 8 << 20, 40 << 10));
        let world = WORLD.with(Clone::clone);
        shingle_runtime::real::run(move |runtime| async move {
            let index = Arc::new(FjallIndex::open(&directory, 1 << 20).unwrap());
            let drives = world.served(&runtime);
            let opened = ObjectEngine::open(runtime, drives, index, world.options.clone(), None).await;
            let (engine, report) = opened.unwrap();
            let store = engine.client();
            match round {
                0 => drop(store.create_bucket(BUCKET).await.unwrap()),
                1 => assert_eq!((report.index, report.entries), (IndexOrigin::Kept, 0)),
                _ => assert_eq!(report.index, IndexOrigin::Scan),
            }
            find(&store, 0, 20 * round).await;
            fill(&store, 20 * round, 20).await;
            let upload = store.begin_upload(BUCKET, "parts", Default::default()).await.unwrap();
            let mut writer = store.begin_part(BUCKET, "parts", upload.id, 1).await.unwrap();
            writer.write(bytes_of(5, 9000)).await.unwrap();
            writer.commit(commit("p")).await.unwrap();
            let parts = vec![CompletedPart { number: 1, etag: "p".to_owned() }];
            store.complete_upload(BUCKET, "parts", upload.id, parts, commit("whole-1")).await.unwrap();
            assert_eq!(get(&store, BUCKET, "parts").await.unwrap(), bytes_of(5, 9000));
            store.collect_garbage().await.unwrap();
            assert!(store.check(Depth::Full).await.unwrap().is_clean());
            engine.close().await;
        })
        .unwrap();
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
