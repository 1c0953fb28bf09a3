//! Changes of which nobody knows whether they landed: what a client may do about them, and what it finds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use shingle_object_store::{Depth, Index, ObjectStoreClient};
use shingle_sim::Sim;
use shingle_store_api::{CompletedPart, ListRequest, ObjectStore, StoreErrorKind};

use crate::chunks::Faults;
use crate::recovery::{filled, find, with_store};
use crate::world::{bytes_of, commit, get, put};

const BUCKET: &str = "bucket";

/// OS-APP-3: a put failed and may have landed. A delete that is acknowledged after it is final, whichever way the store is
/// opened next and however often graves are collected in between.
#[test]
fn a_delete_after_a_put_that_may_have_landed_is_final() {
    for index_lost in [false, true] {
        let world = filled(1, 3);
        let drive = world.drives[0].clone();
        with_store(&world, move |store, _| async move {
            drive.set_faults(Faults { mute: true, ..Faults::default() });
            let error = put(&store, BUCKET, "unsure", &bytes_of(9, 500), commit("e")).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Device);
            drive.set_faults(Faults::default());
            assert!(!store.delete(BUCKET, "unsure").await.unwrap(), "nobody knows of it yet");
        });
        if index_lost {
            world.index.clear().unwrap();
        }
        // Nothing landed unseen: the next start looks there.
        with_store(&world, |store, _| async move {
            let error = get(&store, BUCKET, "unsure").await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::NoSuchKey);
            store.collect_garbage().await.unwrap();
        });
        world.index.clear().unwrap();
        with_store(&world, |store, _| async move {
            let error = get(&store, BUCKET, "unsure").await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::NoSuchKey);
            find(&store, 0, 3).await;
        });
    }
}

/// OS-APP-3: the completion of an upload failed and may have happened: its parts stay until it is tried again.
#[test]
fn an_upload_whose_completion_may_have_happened_is_completed_again_or_stays() {
    for again in [false, true] {
        let world = filled(1, 1);
        let drive = world.drives[0].clone();
        with_store(&world, move |store, _| async move {
            let upload = store.begin_upload(BUCKET, "whole", Default::default()).await.unwrap().id;
            let mut writer = store.begin_part(BUCKET, "whole", upload, 1).await.unwrap();
            writer.write(bytes_of(5, 9000)).await.unwrap();
            writer.commit(commit("p")).await.unwrap();
            let parts = || vec![CompletedPart { number: 1, etag: "p".to_owned() }];
            drive.set_faults(Faults { mute: true, ..Faults::default() });
            let error = store.complete_upload(BUCKET, "whole", upload, parts(), commit("w")).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Device);
            drive.set_faults(Faults::default());
            let error = store.abort_upload(BUCKET, "whole", upload).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Device, "{error}");
            if again {
                store.complete_upload(BUCKET, "whole", upload, parts(), commit("w")).await.unwrap();
            }
        });
        for _ in 0..2 {
            with_store(&world, move |store, _| async move {
                assert_eq!(get(&store, BUCKET, "whole").await.unwrap(), bytes_of(5, 9000), "again {again}");
                store.collect_garbage().await.unwrap();
                assert_eq!(get(&store, BUCKET, "whole").await.unwrap(), bytes_of(5, 9000), "again {again}");
                assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
            });
            world.index.clear().unwrap();
        }
    }
}

/// BK-END-1: the abort of an upload failed and has landed. A part that came after it would go with it: none is taken until the upload is aborted
/// again or completed, and what is acknowledged then stays.
#[test]
fn an_upload_whose_abort_may_have_happened_takes_no_parts() {
    for (index_lost, completed) in [
        (false, None),
        (true, None),
        (false, Some(false)),
        (true, Some(false)),
        (false, Some(true)),
        (true, Some(true)),
    ] {
        let context = format!("index lost {index_lost}, completed {completed:?}");
        let world = filled(1, 1);
        let (drive, what) = (world.drives[0].clone(), context.clone());
        with_store(&world, move |store, _| async move {
            let upload = store.begin_upload(BUCKET, "whole", Default::default()).await.unwrap().id;
            let part = async |number: u32| {
                let mut writer = store.begin_part(BUCKET, "whole", upload, number).await.unwrap();
                writer.write(bytes_of(5, 9000)).await.unwrap();
                writer.commit(commit("p")).await
            };
            part(1).await.unwrap();
            drive.set_faults(Faults { mute: true, ..Faults::default() });
            assert_eq!(store.abort_upload(BUCKET, "whole", upload).await.unwrap_err().kind, StoreErrorKind::Device);
            drive.set_faults(Faults::default());
            let refused = part(2).await.expect_err(&format!("{what}: a part is taken that may be gone"));
            assert_eq!(refused.kind, StoreErrorKind::Device, "{what}");
            match completed {
                Some(true) => {
                    let parts = vec![CompletedPart { number: 1, etag: "p".to_owned() }];
                    store.complete_upload(BUCKET, "whole", upload, parts, commit("w")).await.map(drop).unwrap();
                }
                Some(false) => store.abort_upload(BUCKET, "whole", upload).await.unwrap(),
                None => {}
            }
        });
        for life in 0..2 {
            if index_lost || life > 0 {
                world.index.clear().unwrap();
            }
            let what = format!("{context}, life {life}");
            with_store(&world, move |store, _| async move {
                assert!(store.list_uploads(BUCKET, "", None, 10).await.unwrap().uploads.is_empty(), "{what}");
                for _ in 0..2 {
                    let found = get(&store, BUCKET, "whole").await;
                    match completed {
                        Some(true) => assert_eq!(found.unwrap(), bytes_of(5, 9000), "{what}"),
                        _ => assert_eq!(found.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{what}"),
                    }
                    store.collect_garbage().await.unwrap();
                }
                assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "{what}");
            });
        }
    }
}

/// OS-FIL-3: several appends are on their way to a chunk when its drive stops taking anything, as a file does whose file
/// system is full. None of them landed, and the chunk cannot be sealed: none may be acknowledged.
#[test]
fn appends_that_all_fail_are_not_taken_for_landed() {
    let mut refused = 0;
    for seed in 0..30 {
        let world = filled(1, 3);
        let acknowledged = Rc::new(RefCell::new(Vec::new()));
        let (drive, known) = (world.drives[0].clone(), acknowledged.clone());
        let moved = world.clone();
        refused += Sim::new(seed).run(move |runtime| async move {
            let (engine, store, _) = moved.open(&runtime).await;
            let putting = (0..8).map(|number| {
                let (store, known) = (store.clone(), known.clone());
                runtime.spawn(async move {
                    for round in 0..4 {
                        let number = 100 + number * 10 + round;
                        let key = format!("n{number}");
                        match put(&store, BUCKET, &key, &bytes_of(number, 300), commit("e")).await {
                            Ok(_) => known.borrow_mut().push(number),
                            Err(_) => return 1,
                        }
                    }
                    0
                })
            });
            let putting: Vec<_> = putting.collect();
            runtime.sleep(Duration::from_micros(10 + seed * 7)).await;
            drive.set_faults(Faults { dead: true, ..Faults::default() });
            let mut refused = 0;
            for client in putting {
                refused += client.await.unwrap();
            }
            drive.set_faults(Faults::default());
            engine.close().await;
            refused
        });
        with_store(&world, move |store, _| async move {
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
            for number in acknowledged.take() {
                let found = get(&store, BUCKET, &format!("n{number}")).await;
                assert_eq!(found.unwrap(), bytes_of(number, 300), "seed {seed}: n{number} was acknowledged");
            }
        });
    }
    assert!(refused > 30, "the drive stopped too late in most runs: {refused} were refused");
}

/// OS-INX-5: a put and an upload failed and have landed. Their bucket is deleted, and later there is another of its name.
#[test]
fn what_a_failed_put_left_is_not_in_a_later_bucket_of_that_name() {
    for (case, index_lost) in (0..3).flat_map(|case| [(case, false), (case, true)]) {
        let context = format!("case {case}, index lost {index_lost}");
        let world = filled(1, 3);
        let drive = world.drives[0].clone();
        with_store(&world, move |store, _| async move {
            store.create_bucket("again").await.unwrap();
            drive.set_faults(Faults { mute: true, ..Faults::default() });
            put(&store, "again", "small", &bytes_of(9, 500), commit("e")).await.unwrap_err();
            store.begin_upload("again", "upload", Default::default()).await.unwrap_err();
            drive.set_faults(Faults::default());
            store.delete_bucket("again").await.unwrap();
            if case < 2 {
                store.create_bucket("again").await.unwrap();
            }
            if case == 0 {
                put(&store, "again", "newer", &bytes_of(10, 500), commit("e")).await.unwrap();
            }
        });
        let holds = move |store: ObjectStoreClient, what: String| async move {
            assert_eq!(get(&store, "again", "small").await.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{what}");
            let all = ListRequest { limit: 10, ..ListRequest::default() };
            let listed = store.list("again", all).await.unwrap();
            assert_eq!(listed.objects.len(), usize::from(case == 0), "{what}");
            assert!(store.list_uploads("again", "", None, 10).await.unwrap().uploads.is_empty(), "{what}");
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "{what}");
        };
        for life in 0..3 {
            if index_lost || life > 1 {
                world.index.clear().unwrap();
            }
            let what = format!("{context}, life {life}");
            with_store(&world, move |store, _| async move {
                if case == 2 && life == 0 {
                    store.create_bucket("again").await.unwrap();
                }
                holds(store.clone(), what.clone()).await;
                store.collect_garbage().await.unwrap();
                holds(store.clone(), what.clone()).await;
            });
        }
        with_store(&world, move |store, _| async move {
            if case == 0 {
                assert!(store.delete("again", "newer").await.unwrap());
            }
            store.delete_bucket("again").await.unwrap();
            store.collect_garbage().await.unwrap();
            find(&store, 0, 3).await;
        });
        world.index.clear().unwrap();
        with_store(&world, move |store, _| async move {
            assert_eq!(store.list_buckets().await.unwrap().len(), 1, "{context}: only the first bucket is there");
        });
    }
}

/// BK-GONE-1: the deletion of a bucket failed and has landed. Nothing is acknowledged in that bucket until it is created anew, and what is
/// acknowledged then stays.
#[test]
fn a_bucket_whose_deletion_may_have_happened_takes_no_writes_until_it_is_created_anew() {
    for index_lost in [false, true] {
        let world = filled(1, 3);
        let drive = world.drives[0].clone();
        with_store(&world, move |store, _| async move {
            store.create_bucket("again").await.unwrap();
            drive.set_faults(Faults { mute: true, ..Faults::default() });
            assert_eq!(store.delete_bucket("again").await.unwrap_err().kind, StoreErrorKind::Device);
            drive.set_faults(Faults::default());
            let refused = put(&store, "again", "k", &bytes_of(9, 500), commit("e")).await.unwrap_err();
            assert_eq!(refused.kind, StoreErrorKind::NoSuchBucket);
            store.create_bucket("again").await.unwrap();
            put(&store, "again", "k", &bytes_of(10, 500), commit("e")).await.unwrap();
        });
        if index_lost {
            world.index.clear().unwrap();
        }
        with_store(&world, |store, _| async move {
            assert_eq!(get(&store, "again", "k").await.unwrap(), bytes_of(10, 500));
            find(&store, 0, 3).await;
        });
    }
}

/// BK-GONE-1: the deletion of a bucket failed. It can be made again, landed or not, and then the bucket stays away.
#[test]
fn a_bucket_whose_deletion_failed_is_gone_for_good_once_it_is_deleted_again() {
    for (landed, index_lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let context = format!("landed {landed}, index lost {index_lost}");
        let world = filled(1, 3);
        let (drive, what) = (world.drives[0].clone(), context.clone());
        with_store(&world, move |store, _| async move {
            store.create_bucket("again").await.unwrap();
            drive.set_faults(Faults { mute: landed, dead: !landed, ..Faults::default() });
            assert_eq!(store.delete_bucket("again").await.unwrap_err().kind, StoreErrorKind::Device, "{what}");
            drive.set_faults(Faults::default());
            store.delete_bucket("again").await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(store.delete_bucket("again").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket, "{what}");
        });
        for life in 0..2 {
            if index_lost || life > 0 {
                world.index.clear().unwrap();
            }
            let context = format!("{context}, life {life}");
            with_store(&world, move |store, _| async move {
                assert_eq!(store.list_buckets().await.unwrap().len(), 1, "{context}: the bucket is back");
                find(&store, 0, 3).await;
            });
        }
    }
}

/// BK-GONE-1: the creation of a bucket failed and has landed. It can be deleted, and then it stays away.
#[test]
fn a_bucket_whose_creation_failed_is_gone_for_good_once_it_is_deleted() {
    for (landed, index_lost) in [(false, false), (false, true), (true, false), (true, true)] {
        let context = format!("landed {landed}, index lost {index_lost}");
        let world = filled(1, 3);
        let (drive, what) = (world.drives[0].clone(), context.clone());
        with_store(&world, move |store, _| async move {
            drive.set_faults(Faults { mute: landed, dead: !landed, ..Faults::default() });
            assert_eq!(store.create_bucket("made").await.unwrap_err().kind, StoreErrorKind::Device, "{what}");
            drive.set_faults(Faults::default());
            assert_eq!(store.bucket("made").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket, "{what}");
            store.delete_bucket("made").await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(store.delete_bucket("made").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket, "{what}");
        });
        for life in 0..2 {
            if index_lost || life > 0 {
                world.index.clear().unwrap();
            }
            let context = format!("{context}, life {life}");
            with_store(&world, move |store, _| async move {
                assert_eq!(store.list_buckets().await.unwrap().len(), 1, "{context}: the bucket is back");
                find(&store, 0, 3).await;
            });
        }
    }
}

/// BK-GONE-1, OS-APP-4: chunks are full, and no drive takes a new one, so that nothing is written. The bucket that was to be deleted stays as it was, and so does the
/// upload that was to be completed: its parts can be sent anew, and it can be ended.
#[test]
fn what_failed_before_anything_was_written_has_not_happened() {
    let world = filled(1, 3);
    let part = async |store: &ObjectStoreClient, id, number: u64| {
        let mut writer = store.begin_part(BUCKET, "whole", id, 1).await.unwrap();
        writer.write(bytes_of(number, 9000)).await.unwrap();
        writer.commit(commit("p")).await.unwrap();
    };
    with_store(&world, move |store, _| async move {
        store.create_bucket("again").await.unwrap();
        let upload = store.begin_upload(BUCKET, "whole", Default::default()).await.unwrap().id;
        part(&store, upload, 5).await;
    });
    let drive = world.drives[0].clone();
    with_store(&world, move |store, runtime| async move {
        let upload = store.list_uploads(BUCKET, "", None, 1).await.unwrap().uploads[0].id;
        let parts = || vec![CompletedPart { number: 1, etag: "p".to_owned() }];
        drive.set_faults(Faults { full: 1.0, create: 1.0, ..Faults::default() });
        let error = store.delete_bucket("again").await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Device, "{error}");
        let error = store.complete_upload(BUCKET, "whole", upload, parts(), commit("w")).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Device, "{error}");
        drive.set_faults(Faults::default());
        runtime.sleep(Duration::from_secs(20)).await;

        put(&store, "again", "k", &bytes_of(9, 500), commit("e")).await.unwrap();
        part(&store, upload, 6).await;
        // Metadata that no chunk takes.
        let large = std::iter::once(("x".to_owned(), "x".repeat(60_000))).collect();
        let commit = shingle_store_api::Commit { metadata: large, ..commit("w") };
        let error = store.complete_upload(BUCKET, "whole", upload, parts(), commit).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::TooLarge, "{error}");
        store.abort_upload(BUCKET, "whole", upload).await.unwrap();
    });
    with_store(&world, |store, _| async move {
        assert_eq!(get(&store, "again", "k").await.unwrap(), bytes_of(9, 500));
        assert!(store.list_uploads(BUCKET, "", None, 10).await.unwrap().uploads.is_empty());
        assert_eq!(get(&store, BUCKET, "whole").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
    });
}
