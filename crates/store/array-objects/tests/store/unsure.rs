//! AO-OBJ-5, AO-OBJ-6, AO-UPL-2, AO-UPL-3: changes that failed and may have landed: what a client may do about them, and what it finds.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_array_objects::{ArrayClient, ArrayEngine};
use shingle_array_store::{ArrayStore, BufferFile, BufferFiles, IndexPlace};
use shingle_base::ZoneId;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, SimFile, Trigger};
use shingle_store_api::{ObjectStore, StoreErrorKind};
use shingle_zoned::MemoryDevice;

use crate::calls::{multipart, named as parts};
use crate::scene::{array_options, formatted, named, options, powered};

/// A file of the buffer.
struct OfBuffer(Rc<SimFile>);

impl BufferFile for OfBuffer {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(self.0.read(offset, length))
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.0.write(offset, data))
    }
}

/// Drives, and files of a buffer.
struct Left(Vec<MemoryDevice>, [Vec<u8>; 2]);

impl Left {
    fn fresh() -> Self {
        Self(formatted(1), [Vec::new(), Vec::new()])
    }
}

async fn open(rt: &Runtime, devices: &[SimDevice], files: &[Rc<SimFile>; 2]) -> (ArrayEngine, ArrayClient) {
    let wanted = shingle_array_store::Options { background: false, ..array_options(&mut Random::new(2)) };
    let files = BufferFiles(files.clone().map(|file| Rc::new(OfBuffer(file)) as Rc<dyn BufferFile>));
    let opened = ArrayStore::open_with_buffer(rt, &named(devices), &IndexPlace::Memory, wanted, Some(files)).await;
    let (array, report) = opened.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    let engine = ArrayEngine::open(rt.clone(), array, options()).await.unwrap();
    let client = engine.client();
    (engine, client)
}

/// Runs `test` with a store on what is left, and cuts the power.
fn life<F: Future<Output = ()> + 'static>(
    left: Left,
    test: impl FnOnce(ArrayClient, Vec<SimDevice>, [Rc<SimFile>; 2]) -> F + 'static,
) -> Left {
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &left.0);
        let files = left.1.map(|bytes| SimFile::new(&rt, bytes));
        let (_engine, store) = open(&rt, &devices, &files).await;
        test(store, devices.clone(), files.clone()).await;
        let media = devices.iter().map(|device| device.crash_image(1)).collect();
        Left(media, [files[0].image(1), files[1].image(1)])
    })
}

/// No drive takes a superblock, and one of the buffer's files fails: what is written to the other has landed, and no caller is told so.
fn fail(devices: &[SimDevice], files: &[Rc<SimFile>; 2]) {
    let rule =
        |zone| FaultRule { trigger: Trigger::Zone(CommandKind::Write, ZoneId(zone)), fault: Fault::CommandError };
    devices.iter().for_each(|device| device.set_faults(Faults::new([rule(0), rule(1)])));
    files[1].fail();
}

/// No drive takes a superblock, and all other writes are executed and fail.
fn lose_answers(devices: &[SimDevice]) {
    let rule = |trigger, fault| FaultRule { trigger, fault };
    let refused = |zone| rule(Trigger::Zone(CommandKind::Write, ZoneId(zone)), Fault::CommandError);
    let lost = rule(Trigger::Rate(CommandKind::Write, 1.0), Fault::FailedAfterEffect);
    devices.iter().for_each(|device| device.set_faults(Faults::new([refused(0), refused(1), lost])));
}

fn heal(devices: &[SimDevice]) {
    devices.iter().for_each(|device| device.set_faults(Faults::default()));
}

/// AO-OBJ-5: a put failed and has landed. A delete that is acknowledged after it is final.
#[test]
fn a_delete_after_a_put_that_may_have_landed_is_final() {
    for deletes in [false, true] {
        let left = life(Left::fresh(), move |store, devices, files| async move {
            store.create_bucket("b").await.unwrap();
            fail(&devices, &files);
            let error = put(&store, "b", "k", &bytes_of(1, 1000), commit("e")).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Device);
            heal(&devices);
            if deletes {
                assert!(!store.delete("b", "k").await.unwrap(), "nobody knows of it yet");
            }
            put(&store, "b", "other", &bytes_of(2, 1000), commit("e")).await.unwrap();
        });
        life(left, move |store, _, _| async move {
            assert!(get(&store, "b", "other").await.unwrap() == bytes_of(2, 1000));
            let found = get(&store, "b", "k").await.is_ok();
            assert!(!(found && deletes), "an acknowledged delete is undone");
            assert!(found || deletes, "the case is not met: it has not landed");
        });
    }
}

/// AO-OBJ-6: a put and an upload failed and have landed. Their bucket is deleted, and later there is another of its name.
#[test]
fn what_a_failed_put_left_is_not_in_a_later_bucket_of_that_name() {
    for deletes in [false, true] {
        let left = life(Left::fresh(), move |store, devices, files| async move {
            store.create_bucket("b").await.unwrap();
            store.create_bucket("b2").await.unwrap();
            fail(&devices, &files);
            for bucket in ["b", "b2"] {
                put(&store, bucket, "k", &bytes_of(1, 1000), commit("e")).await.unwrap_err();
            }
            store.begin_upload("b", "u", Default::default()).await.unwrap_err();
            heal(&devices);
            if deletes {
                store.delete_bucket("b").await.unwrap();
                store.create_bucket("b").await.unwrap();
            }
        });
        life(left, move |store, _, _| async move {
            assert!(get(&store, "b2", "k").await.is_ok(), "another bucket's object is deleted");
            let found = get(&store, "b", "k").await.is_ok();
            let uploads = store.list_uploads("b", "", None, 10).await.unwrap().uploads.len();
            assert_eq!((found, uploads), if deletes { (false, 0) } else { (true, 1) }, "deletes {deletes}");
        });
    }
}

/// AO-UPL-3: the completion of an upload failed and has landed. Its parts stay as they are until it is tried again, or the next opening.
#[test]
fn an_upload_whose_completion_may_have_happened_is_completed_again_or_stays() {
    for again in [false, true] {
        let left = life(Left::fresh(), move |store, devices, files| async move {
            store.create_bucket("b").await.unwrap();
            let pieces = [bytes_of(1, 9_000), bytes_of(2, 700)];
            let id = multipart(&store, "k", &pieces).await;
            fail(&devices, &files);
            let error = store.complete_upload("b", "k", id, parts(2), commit("w")).await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Device);
            heal(&devices);
            let error = store.abort_upload("b", "k", id).await.expect_err("its parts are gone");
            assert_eq!(error.kind, StoreErrorKind::Device);
            let mut writer = store.begin_part("b", "k", id, 1).await.unwrap();
            writer.write(bytes_of(3, 500)).await.unwrap();
            let error = writer.commit(commit("other")).await.expect_err("a part is another");
            assert_eq!(error.kind, StoreErrorKind::Device);
            if again {
                store.complete_upload("b", "k", id, parts(2), commit("w")).await.unwrap();
                assert_eq!(store.abort_upload("b", "k", id).await.unwrap_err().kind, StoreErrorKind::NoSuchUpload);
            }
            put(&store, "b", "other", &bytes_of(2, 1000), commit("e")).await.unwrap();
        });
        life(left, move |store, _, _| async move {
            let whole = [bytes_of(1, 9_000), bytes_of(2, 700)].concat();
            assert!(get(&store, "b", "k").await.unwrap() == whole, "again {again}");
            assert!(store.list_uploads("b", "", None, 10).await.unwrap().uploads.is_empty(), "again {again}");
        });
    }
}

/// AO-UPL-2: a part that was begun later failed and has landed. The one that is acknowledged after it is the part at the next opening, too.
#[test]
fn a_part_that_may_have_landed_does_not_take_the_place_of_one_acknowledged_later() {
    let left = life(Left::fresh(), move |store, devices, files| async move {
        store.create_bucket("b").await.unwrap();
        let id = multipart(&store, "k", &[]).await;
        let mut early = store.begin_part("b", "k", id, 1).await.unwrap();
        early.write(bytes_of(1, 20_000)).await.unwrap();
        let mut late = store.begin_part("b", "k", id, 1).await.unwrap();
        late.write(bytes_of(2, 700)).await.unwrap();
        fail(&devices, &files);
        assert_eq!(late.commit(commit("late")).await.unwrap_err().kind, StoreErrorKind::Device);
        heal(&devices);
        early.commit(commit("1")).await.unwrap();
    });
    life(left, move |store, _, _| async move {
        let uploads = store.list_uploads("b", "", None, 10).await.unwrap().uploads;
        let [upload] = &uploads[..] else { panic!("{} uploads", uploads.len()) };
        let listed = store.list_parts("b", "k", upload.id, 0, 10).await.unwrap().0;
        assert_eq!(listed.iter().map(|part| (part.number, &part.etag[..])).collect::<Vec<_>>(), [(1, "1")]);
        store.complete_upload("b", "k", upload.id, parts(1), commit("w")).await.unwrap();
        assert!(get(&store, "b", "k").await.unwrap() == bytes_of(1, 20_000));
    });
}

/// AO-OBJ-4: what a large object that failed may have left is deleted as soon as that can be, and not kept in mind until the next opening.
#[test]
fn bytes_of_a_put_that_failed_are_deleted_once_the_array_takes_writes_again() {
    let left = Left::fresh();
    let media = Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &left.0);
        let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(2)).await;
        store.create_bucket("b").await.unwrap();
        lose_answers(&devices);
        let error = put(&store, "b", "k", &bytes_of(1, 20_000), commit("e")).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Device);
        assert_eq!(store.figures().await.unwrap().purging, 1);
        heal(&devices);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.figures().await.unwrap().purging, 0);
        drop(engine);
        devices.iter().map(|device| device.crash_image(1)).collect::<Vec<_>>()
    });
    Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let array = crate::scene::open_array(&rt, &devices, &mut Random::new(2)).await;
        let found = array.list(b"", None, 9).unwrap().into_iter().map(|object| object.name);
        assert_eq!(found.collect::<Vec<_>>(), ["bb"]);
    });
}

/// BK-END-1: the abort of an upload failed and has landed. It takes no parts, which would go with it, and can be aborted again or completed.
#[test]
fn an_upload_whose_abort_may_have_happened_takes_no_parts() {
    for completed in [None, Some(false), Some(true)] {
        let left = life(Left::fresh(), move |store, devices, _| async move {
            store.create_bucket("b").await.unwrap();
            let id = multipart(&store, "k", &[bytes_of(1, 9_000)]).await;
            lose_answers(&devices);
            assert_eq!(store.abort_upload("b", "k", id).await.unwrap_err().kind, StoreErrorKind::Device);
            heal(&devices);
            let mut writer = store.begin_part("b", "k", id, 2).await.unwrap();
            writer.write(bytes_of(3, 500)).await.unwrap();
            let error = writer.commit(commit("2")).await.expect_err("a part is taken that may be gone");
            assert_eq!(error.kind, StoreErrorKind::Device);
            match completed {
                Some(true) => store.complete_upload("b", "k", id, parts(1), commit("w")).await.map(drop).unwrap(),
                Some(false) => store.abort_upload("b", "k", id).await.unwrap(),
                None => {}
            }
            put(&store, "b", "other", &bytes_of(2, 1000), commit("e")).await.unwrap();
        });
        life(left, move |store, _, _| async move {
            let found = get(&store, "b", "k").await;
            assert_eq!(found.is_ok_and(|found| found == bytes_of(1, 9_000)), completed == Some(true), "{completed:?}");
            assert!(store.list_uploads("b", "", None, 10).await.unwrap().uploads.is_empty(), "{completed:?}");
        });
    }
}

/// BK-GONE-1: the creation of a bucket failed and has landed. It can be deleted, and then it stays away.
#[test]
fn a_bucket_whose_creation_failed_is_gone_for_good_once_it_is_deleted() {
    for deletes in [false, true] {
        let left = life(Left::fresh(), move |store, devices, files| async move {
            store.create_bucket("b").await.unwrap();
            fail(&devices, &files);
            assert_eq!(store.create_bucket("made").await.unwrap_err().kind, StoreErrorKind::Device);
            heal(&devices);
            if deletes {
                store.delete_bucket("made").await.unwrap();
            }
            put(&store, "b", "other", &bytes_of(2, 1000), commit("e")).await.unwrap();
        });
        life(left, move |store, _, _| async move {
            let made = store.bucket("made").await.is_ok();
            assert_eq!(made, !deletes, "a bucket is back, or the case is not met");
        });
    }
}
