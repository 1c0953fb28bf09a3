//! AO-ORPHAN-1 to AO-ORPHAN-4: objects outlive the loss of their records.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_array_objects::{ArrayClient, ArrayEngine, Salvage, salvage};
use shingle_array_store::{ArrayStore, BufferFile, BufferFiles, ErrorKind, IndexPlace};
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger};
use shingle_store_api::{ObjectInfo, ObjectStore, StoreErrorKind};
use shingle_zoned::MemoryDevice;

use crate::calls::{multipart, named as parts};
use crate::scene::{array_options, assert_no_leftovers, formatted, named, options, powered};

/// A file of the buffer, in memory.
#[derive(Default)]
struct MemoryFile(RefCell<Vec<u8>>);

impl BufferFile for MemoryFile {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async move {
            let bytes = self.0.borrow();
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            Ok(Bytes::copy_from_slice(&rest[..length.min(rest.len())]))
        })
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let (mut bytes, offset) = (self.0.borrow_mut(), offset as usize);
            let length = bytes.len().max(offset + data.len());
            bytes.resize(length, 0);
            bytes[offset..offset + data.len()].copy_from_slice(&data);
            Ok(())
        })
    }
}

/// Opens a store on an array with a new buffer, or with none, whatever is lost with it.
async fn open(rt: &Runtime, devices: &[SimDevice], buffered: bool) -> (ArrayEngine, ArrayClient) {
    let files = [MemoryFile::default(), MemoryFile::default()].map(|file| Rc::new(file) as Rc<dyn BufferFile>);
    let wanted = shingle_array_store::Options { background: false, ..array_options(&mut Random::new(2)) };
    if !buffered {
        let plain = ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, wanted.clone()).await;
        assert_eq!(plain.err().unwrap().kind, ErrorKind::Format, "opened without its buffer");
    }
    let wanted = shingle_array_store::Options { abandon_buffer: !buffered, ..wanted };
    let files = buffered.then_some(BufferFiles(files));
    let (array, report) =
        ArrayStore::open_with_buffer(rt, &named(devices), &IndexPlace::Memory, wanted, files).await.unwrap();
    assert_eq!(report.damage.is_empty(), buffered);
    let engine = ArrayEngine::open(rt.clone(), array, options()).await.unwrap();
    let client = engine.client();
    (engine, client)
}

async fn found(store: &ArrayClient, key: &str) -> (ObjectInfo, Bytes) {
    (store.head("b", key).await.unwrap(), get(store, "b", key).await.unwrap())
}

/// The objects that [`lost_with_the_buffer`] wrote: large ones, and one in parts.
fn written() -> ([Bytes; 3], [Bytes; 2]) {
    let large = [bytes_of(1, 40_000), bytes_of(2, 30_000), bytes_of(3, 20_000)];
    (large, [bytes_of(4, 9_000), bytes_of(5, 8_000)])
}

/// Drives of an array of which a power cut took both files of the buffer: the bucket and every record; only bytes are there.
fn lost_with_the_buffer() -> Vec<MemoryDevice> {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        let (large, pieces) = written();
        let devices = powered(&rt, &media);
        let (_engine, store) = open(&rt, &devices, true).await;
        store.create_bucket("b").await.unwrap();
        put(&store, "b", "large", &large[0], commit("e")).await.unwrap();
        put(&store, "b", "replaced", &large[1], commit("e")).await.unwrap();
        put(&store, "b", "replaced", &large[2], commit("f")).await.unwrap();
        let id = multipart(&store, "parts", &pieces).await;
        store.complete_upload("b", "parts", id, parts(2), commit("p")).await.unwrap();
        rt.sleep(Duration::from_secs(1)).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    })
}

/// AO-ORPHAN-1 by hand: a look changes nothing and says what would come back; told to, it does come back, without a server.
#[test]
fn lost_records_are_listed_and_restored_by_hand() {
    let left = lost_with_the_buffer();
    Sim::new(2).run(move |rt| async move {
        let plain = array_options(&mut Random::new(2));
        let wanted =
            shingle_array_store::Options { background: false, abandon_buffer: true, buffer: None, ..plain.clone() };
        let devices = powered(&rt, &left);
        let before: Vec<_> = devices.iter().map(|device| device.counts().writes).collect();
        let looking = shingle_array_store::Options { read_only: true, ..wanted.clone() };
        let (array, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, looking).await.unwrap();
        let seen = salvage(&rt, array.clone(), false, |_| {}).await.unwrap();
        array.close().await.unwrap();
        assert_eq!(devices.iter().map(|device| device.counts().writes).collect::<Vec<_>>(), before);
        let told = |salvage: &Salvage| -> Vec<_> {
            salvage.found.iter().map(|found| (found.key.clone(), found.bytes, found.restored)).collect()
        };
        let expected = |restored| {
            [("large", 40_000, restored), ("parts", 17_000, restored), ("replaced", 20_000, restored)]
                .map(|(key, bytes, restored)| (key.to_owned(), bytes, restored))
        };
        assert_eq!(told(&seen), expected(false));
        assert!(seen.found.iter().all(|found| found.bucket == "b"), "{seen:?}");
        let (array, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, wanted).await.unwrap();
        let restored = salvage(&rt, array.clone(), true, |_| {}).await.unwrap();
        assert_eq!(told(&restored), expected(true));
        // Nothing is left to do.
        assert_eq!(told(&salvage(&rt, array.clone(), true, |_| {}).await.unwrap()), []);
        array.close().await.unwrap();
        let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
        let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
        let (large, pieces) = written();
        let (info, bytes) = found(&store, "large").await;
        assert!(bytes == large[0] && info.etag == "e" && info.metadata == commit("e").metadata, "{info:?}");
        assert!(found(&store, "replaced").await.1 == large[2]);
        assert!(found(&store, "parts").await.1 == pieces.concat());
        engine.close().await.unwrap();
    });
}

#[test]
fn objects_whose_records_were_lost_with_the_buffer_are_restored_from_their_bytes() {
    let (left, (large, pieces)) = (lost_with_the_buffer(), written());
    for opened in 0..2 {
        let (left, large, pieces) =
            (left.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), large.clone(), pieces.clone());
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let (engine, store) = open(&rt, &devices, false).await;
            rt.sleep(Duration::from_secs(1)).await;
            let (engine, store) = if opened == 0 {
                (engine, store)
            } else {
                // Nothing is lost this time: what is there stays, all the same.
                engine.close().await.unwrap();
                let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
                let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
                rt.sleep(Duration::from_secs(1)).await;
                (engine, store)
            };
            let (info, bytes) = found(&store, "large").await;
            assert!(bytes == large[0] && info.etag == "e" && info.metadata == commit("e").metadata, "{info:?}");
            let (info, bytes) = found(&store, "replaced").await;
            assert!(bytes == large[2] && info.etag == "f", "{info:?}");
            let (info, bytes) = found(&store, "parts").await;
            assert!(bytes == pieces.concat() && info.part_sizes == [9_000, 8_000], "{info:?}");
            // Objects deleted from here on are gone, and so are their bytes.
            for key in ["large", "replaced", "parts"] {
                assert!(store.delete("b", key).await.unwrap());
                assert_eq!(store.head("b", key).await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
            }
            put(&store, "b", "new", &large[0], commit("n")).await.unwrap();
            assert!(get(&store, "b", "new").await.unwrap() == large[0]);
            engine.close().await.unwrap();
        });
    }
}

/// The drives after a store did that, with a new buffer, and the power failed.
fn history<F>(
    left: &[MemoryDevice],
    test: impl FnOnce(Runtime, ArrayEngine, ArrayClient) -> F + 'static,
) -> Vec<MemoryDevice>
where
    F: Future<Output = ()> + 'static,
{
    let media: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (engine, store) = open(&rt, &devices, true).await;
        test(rt.clone(), engine, store).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    })
}

/// The same where the buffer was lost before.
fn history_of_loss<F>(
    left: &[MemoryDevice],
    test: impl FnOnce(Runtime, ArrayEngine, ArrayClient) -> F + 'static,
) -> Vec<MemoryDevice>
where
    F: Future<Output = ()> + 'static,
{
    let media: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
    Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (engine, store) = open(&rt, &devices, false).await;
        rt.sleep(Duration::from_secs(1)).await;
        test(rt.clone(), engine, store).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    })
}

/// AO-ORPHAN-3: with all that was left of it restored, a loss is over: of what is deleted later the bytes are leftovers, whenever the power
/// fails, as in an array that lost nothing.
#[test]
fn what_is_deleted_once_a_loss_is_settled_stays_deleted() {
    let pieces = [bytes_of(4, 9_000), bytes_of(5, 8_000), bytes_of(6, 7_000)];
    let left = history(&formatted(1), move |_, _, store| async move {
        store.create_bucket("b").await.unwrap();
        put(&store, "b", "kept", &bytes_of(1, 40_000), commit("k")).await.unwrap();
        put(&store, "b", "large", &bytes_of(2, 40_000), commit("e")).await.unwrap();
        let id = multipart(&store, "parts", &pieces).await;
        store.complete_upload("b", "parts", id, parts(3), commit("p")).await.unwrap();
    });
    let left = history_of_loss(&left, |_, _, store| async move {
        for key in ["kept", "large", "parts"] {
            store.head("b", key).await.unwrap();
        }
        let id = multipart(&store, "aborted", &[bytes_of(7, 9_000)]).await;
        store.abort_upload("b", "aborted", id).await.unwrap();
        // The power fails as soon as these are acknowledged.
        for key in ["large", "parts"] {
            assert!(store.delete("b", key).await.unwrap());
        }
    });
    for _ in 0..2 {
        let media: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(3).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
            rt.sleep(Duration::from_secs(1)).await;
            for key in ["large", "parts", "aborted"] {
                assert_eq!(store.head("b", key).await.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{key} is back");
            }
            assert!(get(&store, "b", "kept").await.unwrap() == bytes_of(1, 40_000));
            assert_no_leftovers(&rt, &store, "after a deletion").await;
            engine.close().await.unwrap();
        });
    }
}

/// AO-ORPHAN-2: parts of an upload whose record was lost take nothing's place: the object stays, and the upload is in progress again.
#[test]
fn an_object_outlives_the_loss_of_the_record_of_an_upload_in_progress() {
    for size in [1000, 40_000] {
        let old = bytes_of(1, size);
        let written = old.clone();
        let left = history(&formatted(1), move |_, engine, store| async move {
            store.create_bucket("b").await.unwrap();
            put(&store, "b", "k", &written, commit("old")).await.unwrap();
            engine.close().await.unwrap();
        });
        let left = history(&left, |_, _, store| async move {
            multipart(&store, "k", &[bytes_of(2, 9_000), bytes_of(3, 8_000)]).await;
        });
        let there = old.clone();
        let left = history_of_loss(&left, move |_, _, store| async move {
            assert!(found(&store, "k").await.1 == there, "the object was replaced");
        });
        for completed in [true, false] {
            let media: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
            let old = old.clone();
            Sim::new(3).run(move |rt| async move {
                let devices = powered(&rt, &media);
                let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
                rt.sleep(Duration::from_secs(1)).await;
                assert!(found(&store, "k").await.1 == old, "the object was deleted");
                let [upload] = &store.list_uploads("b", "", None, 9).await.unwrap().uploads[..] else {
                    panic!("no upload")
                };
                if completed {
                    store.complete_upload("b", "k", upload.id, parts(2), commit("new")).await.unwrap();
                    assert!(found(&store, "k").await.1 == [bytes_of(2, 9_000), bytes_of(3, 8_000)].concat());
                } else {
                    store.abort_upload("b", "k", upload.id).await.unwrap();
                    assert!(found(&store, "k").await.1 == old);
                }
                assert_no_leftovers(&rt, &store, "in the end").await;
                engine.close().await.unwrap();
            });
        }
    }
}

/// AO-ORPHAN-3: a key that is deleted before its turn to be restored comes is deleted.
#[test]
fn what_is_deleted_while_records_are_restored_stays_deleted() {
    let keys = || (0..12).map(|number| format!("k{number:02}"));
    let left = history(&formatted(1), move |_, engine, store| async move {
        store.create_bucket("b").await.unwrap();
        engine.close().await.unwrap();
    });
    let left = history(&left, move |_, _, store| async move {
        for key in keys() {
            put(&store, "b", &key, &bytes_of(1, 9_000), commit("e")).await.unwrap();
        }
    });
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &left);
        let (engine, store) = open(&rt, &devices, false).await;
        store.delete("b", "k11").await.unwrap();
        assert_eq!(store.head("b", "k11").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.head("b", "k11").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        store.head("b", "k10").await.unwrap();
        engine.close().await.unwrap();
    });
}

/// AO-ORPHAN-3: all records of a bucket's objects were lost. It is not deleted as an empty one before these are there again.
#[test]
fn a_bucket_is_not_deleted_while_its_objects_are_looked_for() {
    let left = history(&formatted(1), move |_, engine, store| async move {
        store.create_bucket("b").await.unwrap();
        engine.close().await.unwrap();
    });
    let pieces: Vec<_> = (0..300).map(|number| bytes_of(number, 2_500)).collect();
    let left = history(&left, move |_, _, store| async move {
        let id = multipart(&store, "k", &pieces).await;
        store.complete_upload("b", "k", id, parts(300), commit("p")).await.unwrap();
    });
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &left);
        let (engine, store) = open(&rt, &devices, false).await;
        let error = store.delete_bucket("b").await.expect_err("a bucket is deleted whose objects come back");
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(store.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketNotEmpty);
        assert!(store.delete("b", "k").await.unwrap());
        store.delete_bucket("b").await.unwrap();
        engine.close().await.unwrap();
    });
}

/// AO-ORPHAN-3: the same where the drives refuse writes while records are restored: nothing is until the next start, however well they
/// do by then.
#[test]
fn a_bucket_is_not_deleted_while_its_objects_could_not_be_restored() {
    let left = history(&formatted(1), move |_, engine, store| async move {
        store.create_bucket("b").await.unwrap();
        engine.close().await.unwrap();
    });
    let left = history(&left, move |_, _, store| async move {
        put(&store, "b", "k", &bytes_of(1, 40_000), commit("e")).await.unwrap();
    });
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &left);
        let (engine, store) = open(&rt, &devices, false).await;
        let refuse = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
        devices.iter().for_each(|device| device.set_faults(Faults::new([refuse])));
        rt.sleep(Duration::from_secs(1)).await;
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(store.head("b", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchKey, "the case is not met");
        let error = store.delete_bucket("b").await.expect_err("a bucket is deleted whose objects come back");
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
        engine.close().await.unwrap();
        let devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
        let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
        rt.sleep(Duration::from_secs(1)).await;
        assert!(get(&store, "b", "k").await.unwrap() == bytes_of(1, 40_000));
        assert!(store.delete("b", "k").await.unwrap());
        store.delete_bucket("b").await.unwrap();
        engine.close().await.unwrap();
    });
}

/// AO-ORPHAN-4: an object gets its record again from all of its blobs, or not yet: a store that is closed while it looks for them leaves the
/// loss to the next opening.
#[test]
fn a_close_while_lost_objects_are_looked_for_restores_none_in_part() {
    let pieces: Vec<_> = (0..150).map(|number| bytes_of(number, 8_500)).collect();
    let whole = pieces.concat();
    let left = history(&formatted(1), move |_, engine, store| async move {
        store.create_bucket("b").await.unwrap();
        put(&store, "b", "other", &bytes_of(1, 100), commit("o")).await.unwrap();
        engine.close().await.unwrap();
    });
    let left = history(&left, move |_, _, store| async move {
        let id = multipart(&store, "k", &pieces).await;
        store.complete_upload("b", "k", id, parts(150), commit("p")).await.unwrap();
    });
    for turns in 0..20 {
        let left: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
        let whole = whole.clone();
        Sim::new(2).run(move |rt| async move {
            let mut devices = powered(&rt, &left);
            let (engine, store) = open(&rt, &devices, false).await;
            // A call that is under way for long holds the close up.
            let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Slow };
            devices.iter().for_each(|device| device.set_faults(Faults::new([rule])));
            let long = rt.spawn(async move { get(&store, "b", "other").await });
            for _ in 0..turns {
                rt.yield_now().await;
            }
            engine.close().await.unwrap();
            // It may have come too late.
            let _ = long.await;
            for _ in 0..2 {
                devices = powered(&rt, &devices.iter().map(SimDevice::image).collect::<Vec<_>>());
                let (engine, store) = crate::scene::open(&rt, &devices, &mut Random::new(3)).await;
                rt.sleep(Duration::from_secs(1)).await;
                assert!(found(&store, "k").await.1 == whole, "closed after {turns} turns");
                engine.close().await.unwrap();
            }
        });
    }
}
