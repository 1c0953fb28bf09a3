//! Single calls: what readers keep, conditions, listings, what is refused.

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join, join_all, join3, join4, join5, select};
use shingle_array_objects::{ArrayEngine, Options};
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger};
use shingle_store_api::{CompletedPart, Metadata, ObjectReader, ObjectStore, StoreErrorKind, UploadId};

use crate::scene::{assert_no_leftovers, formatted, objects, open, open_array, options, powered, with_store};

pub(crate) async fn multipart(store: &dyn ObjectStore, key: &str, parts: &[Bytes]) -> UploadId {
    let upload = store.begin_upload("b", key, Metadata::new()).await.unwrap();
    for (number, part) in (1..).zip(parts) {
        let mut writer = store.begin_part("b", key, upload.id, number).await.unwrap();
        writer.write(part.clone()).await.unwrap();
        writer.commit(commit(&number.to_string())).await.unwrap();
    }
    upload.id
}

pub(crate) fn named(count: u32) -> Vec<CompletedPart> {
    (1..=count).map(|number| CompletedPart { number, etag: number.to_string() }).collect()
}

async fn whole(reader: &dyn ObjectReader) -> Bytes {
    reader.read(0, reader.info().size).await.unwrap()
}

/// AO-OBJ-3.
#[test]
fn an_open_reader_reads_its_version_whatever_becomes_of_the_object() {
    with_store(|rt, store| async move {
        store.create_bucket("b").await.unwrap();
        let (small, large) = (bytes_of(1, 1000), bytes_of(2, 40_000));
        put(&store, "b", "small", &small, commit("s")).await.unwrap();
        put(&store, "b", "large", &large, commit("l")).await.unwrap();
        let parts = [bytes_of(3, 9_000), bytes_of(4, 0), bytes_of(5, 700)];
        let id = multipart(&store, "parts", &[parts[0].clone(), parts[2].clone()]).await;
        store.complete_upload("b", "parts", id, named(2), commit("p")).await.unwrap();
        let readers = [
            (store.open("b", "small").await.unwrap(), small),
            (store.open("b", "large").await.unwrap(), large),
            (store.open("b", "parts").await.unwrap(), parts.concat().into()),
        ];
        // One is replaced, one deleted, one replaced by a small one; and there is work enough to clean for.
        put(&store, "b", "small", &bytes_of(6, 2000), commit("n")).await.unwrap();
        assert!(store.delete("b", "large").await.unwrap());
        put(&store, "b", "parts", &bytes_of(7, 20), commit("n")).await.unwrap();
        for round in 0..60 {
            put(&store, "b", "churn", &bytes_of(round, 30_000), commit("c")).await.unwrap();
        }
        for (reader, expected) in &readers {
            assert!(whole(&**reader).await == expected);
            assert!(reader.read(500, 17).await.unwrap() == expected.slice(500..517));
            assert_eq!(reader.read(reader.info().size, 1).await.unwrap_err().kind, StoreErrorKind::Invalid);
        }
        drop(readers);
        assert_no_leftovers(&rt, &store, "after the readers have gone").await;
    });
}

#[test]
fn what_cannot_be_stored_is_refused_and_a_full_array_says_so_and_recovers() {
    with_store(|rt, store| async move {
        store.create_bucket("b").await.unwrap();
        let data = bytes_of(1, 10);
        for key in ["k".repeat(1025), "a\0b".to_owned()] {
            assert_eq!(put(&store, "b", &key, &data, commit("e")).await.unwrap_err().kind, StoreErrorKind::Invalid);
        }
        assert_eq!(put(&store, "none", "k", &data, commit("e")).await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
        assert_eq!(store.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketExists);
        let mut large = commit("e");
        large.metadata.insert("m".to_owned(), "x".repeat(300 << 10));
        assert_eq!(put(&store, "b", "k", &bytes_of(1, 9000), large).await.unwrap_err().kind, StoreErrorKind::Invalid);
        let mut stored = 0;
        let full = loop {
            assert!(stored < 2000, "it never fills");
            match put(&store, "b", &format!("fill/{stored}"), &bytes_of(stored, 20_000), commit("e")).await {
                Ok(_) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind, StoreErrorKind::NoSpace, "{full}");
        assert!(full.message.starts_with("b/"), "{full}");
        assert!(stored > 50, "{stored} objects filled it");
        for number in 0..stored {
            if number % 3 != 0 {
                assert!(store.delete("b", &format!("fill/{number}")).await.unwrap());
            }
        }
        assert_no_leftovers(&rt, &store, "after a full array was emptied").await;
        put(&store, "b", "again", &bytes_of(5, 60_000), commit("e")).await.unwrap();
        for number in (0..stored).step_by(3) {
            assert!(get(&store, "b", &format!("fill/{number}")).await.unwrap() == bytes_of(number, 20_000));
        }
    });
}

#[test]
fn an_array_that_was_used_otherwise_is_refused() {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        for name in ["films/one.mkv", "docs.tar", "backup.tar", "Zebra"] {
            let devices = powered(&rt, &media.iter().map(|medium| medium.snapshot()).collect::<Vec<_>>());
            let array = open_array(&rt, &devices, &mut Random::new(1)).await;
            array.put(name, Bytes::from_static(b"data"), Bytes::new()).await.unwrap();
            let refused = ArrayEngine::open(rt.clone(), array.clone(), options()).await.err().unwrap();
            assert_eq!(refused.kind, StoreErrorKind::Invalid);
            assert!(refused.message.contains(name) && refused.message.contains("array of its own"), "{refused}");
            array.close().await.unwrap();
        }
    });
}

/// Writers that bring what they have at once are not slow, however long their calls wait for others.
#[test]
fn who_waits_for_others_calls_is_not_slow() {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let array = open_array(&rt, &devices, &mut Random::new(1)).await;
        // One call at a time, and no patience at all.
        let options = Options {
            queue_depth: 1,
            writers_max: 4,
            writer_grace: Duration::ZERO,
            writer_rate_min: 1 << 40,
            ..options()
        };
        let engine = ArrayEngine::open(rt.clone(), array, options).await.unwrap();
        let store = engine.client();
        store.create_bucket("b").await.unwrap();
        let began = rt.now();
        let puts = (0..8).map(|number| {
            let store = store.clone();
            async move {
                let mut writer = store.begin_put("b", &format!("k{number}")).await?;
                for piece in 0..8 {
                    writer.write(bytes_of(piece, 10_000)).await?;
                }
                writer.commit(commit("e")).await.map(drop)
            }
        });
        for done in join_all(puts).await {
            done.unwrap();
        }
        assert!(rt.now() > began, "the drives took no time");
        // A writer that takes its time is ended, if another waits.
        let slow = async |number: u64| {
            let mut writer = store.begin_put("b", &format!("slow{number}")).await?;
            for piece in 0..8 {
                writer.write(bytes_of(piece, 10_000)).await?;
                rt.sleep(Duration::from_millis(1)).await;
            }
            writer.commit(commit("e")).await.map(drop)
        };
        let done = join_all((0..8).map(slow)).await;
        assert!(done.iter().flatten().count() >= 4, "nobody waits for the last ones");
        assert!(done.iter().filter_map(|done| done.as_ref().err()).any(|error| error.kind == StoreErrorKind::Busy));
        engine.close().await.unwrap();
    });
}

/// All places are held by uploads that hardly bring anything: one of them is ended for somebody who waits, the others go on.
#[test]
fn uploads_that_trickle_do_not_keep_others_out() {
    with_store(|rt, store| async move {
        store.create_bucket("b").await.unwrap();
        let trickle = async |number: u64, pieces: u64| {
            let mut writer = store.begin_put("b", &format!("slow{number}")).await.unwrap();
            writer.write(bytes_of(number, 4000)).await?;
            for _ in 0..pieces {
                rt.sleep(Duration::from_secs(5)).await;
                writer.write(bytes_of(number, 10)).await?;
            }
            writer.commit(commit("slow")).await.map(drop)
        };
        // Nobody waits: they may take their time.
        let alone = join3(trickle(1, 20), trickle(2, 20), trickle(3, 20)).await;
        assert!(alone.0.is_ok() && alone.1.is_ok() && alone.2.is_ok());
        let other = async {
            rt.sleep(Duration::from_secs(1)).await;
            put(&store, "b", "other", &bytes_of(9, 50_000), commit("o")).await.unwrap();
            rt.now()
        };
        let began = rt.now();
        let (one, two, three, done) = join4(trickle(1, 200), trickle(2, 200), trickle(3, 200), other).await;
        assert!(done.since(began) < Duration::from_secs(60), "{:?}", done.since(began));
        let refused: Vec<_> = [one, two, three].into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.iter().map(|error| error.kind).collect::<Vec<_>>(), [StoreErrorKind::Busy]);
        // A writer that brings enough bytes is not ended, however long it takes.
        let steady = async |number: u64| {
            let mut writer = store.begin_put("b", &format!("steady{number}")).await.unwrap();
            for _ in 0..12 {
                rt.sleep(Duration::from_secs(3)).await;
                writer.write(bytes_of(number, 4000)).await?;
            }
            writer.commit(commit("steady")).await.map(drop)
        };
        let all = join5(steady(1), steady(2), steady(3), steady(4), steady(5)).await;
        assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok() && all.3.is_ok() && all.4.is_ok());
    });
}

/// RT-OWN-4: reads that wait for drives hold up no other call, and end when their readers leave.
#[test]
fn readers_that_wait_for_drives_hold_up_no_other_call() {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (engine, store) = open(&rt, &devices, &mut Random::new(1)).await;
        store.create_bucket("b").await.unwrap();
        put(&store, "b", "key", &bytes_of(1, 20_000), commit("e")).await.unwrap();
        let reader = store.open("b", "key").await.unwrap();
        assert!(whole(&*reader).await == bytes_of(1, 20_000));
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
        devices.iter().for_each(|device| device.set_faults(Faults::new([hang])));
        {
            // Far more than calls that may wait.
            let reads = join_all((0..200).map(|_| reader.read(0, 20_000)));
            let waiting = select(reads, Box::pin(rt.sleep(Duration::from_secs(1)))).await;
            assert!(matches!(waiting, Either::Right(_)), "the case is not met");
            let answered = Box::pin(join_all([store.head("b", "key"), store.head("b", "key")]));
            let ended = select(answered, Box::pin(rt.sleep(Duration::from_secs(1)))).await;
            assert!(matches!(ended, Either::Left(_)), "a call that needs no drive waits for readers of one");
        }
        rt.sleep(Duration::from_secs(1)).await;
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        devices.iter().for_each(SimDevice::release_hung);
        assert!(whole(&*reader).await == bytes_of(1, 20_000));
        drop(reader);
        engine.close().await.unwrap();
    });
}

/// AS-HANG-1: a part is being committed while a drive hangs. Completing its upload waits for it until the drive is given
/// up, a minute later; the part is acknowledged by then, and the object is whole.
#[test]
fn who_completes_an_upload_waits_for_a_hung_drive_until_that_is_given_up() {
    let mut waited = 0;
    for hung in 0..4 {
        let media = formatted(1);
        waited += Sim::new(1).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (engine, store) = open(&rt, &devices, &mut Random::new(1)).await;
            store.create_bucket("b").await.unwrap();
            let id = multipart(&store, "k", &[bytes_of(1, 5000)]).await;
            let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
            devices[hung].set_faults(Faults::new([hang]));
            let mut writer = store.begin_part("b", "k", id, 2).await.unwrap();
            writer.write(bytes_of(2, 5000)).await.unwrap();
            let began = rt.now();
            let completing = async {
                rt.sleep(Duration::from_millis(1)).await;
                let mut completed = store.complete_upload("b", "k", id, named(2), commit("e")).await;
                while completed.as_ref().is_err_and(|error| error.kind == StoreErrorKind::InvalidPart) {
                    // It came before the part.
                    rt.sleep(Duration::from_millis(1)).await;
                    completed = store.complete_upload("b", "k", id, named(2), commit("e")).await;
                }
                completed.unwrap();
            };
            let both = Box::pin(join(writer.commit(commit("2")), completing));
            let ended = select(both, Box::pin(rt.sleep(Duration::from_secs(150)))).await;
            let Either::Left(((part, ()), _)) = ended else { panic!("{hung}: a completion waits for a hung drive") };
            part.unwrap();
            assert!(get(&store, "b", "k").await.unwrap() == [bytes_of(1, 5000), bytes_of(2, 5000)].concat());
            let took = rt.now().since(began);
            engine.close().await.unwrap();
            u64::from(took > Duration::from_secs(30))
        });
    }
    assert!(waited > 1, "the case is not met: {waited} waited");
}

/// BK-BEGIN-1: an array's owner hears of a put when its bytes come.
#[test]
fn a_put_begins_without_the_owner_only_where_it_may() {
    with_store(|rt, store| async move {
        let at_once = async |bucket: &str, key: &str| {
            let mut begin = store.begin_put(bucket, key);
            match futures_util::poll!(&mut begin) {
                Poll::Ready(begun) => (true, begun.map_err(|error| error.kind)),
                Poll::Pending => (false, begin.await.map_err(|error| error.kind)),
            }
        };
        store.create_bucket("b").await.unwrap();
        for size in [100, 40_000] {
            let (here, writer) = at_once("b", "k").await;
            assert!(here);
            let mut writer = writer.unwrap();
            writer.write(bytes_of(1, size)).await.unwrap();
            writer.commit(commit("e")).await.unwrap();
            assert!(get(&store, "b", "k").await.unwrap() == bytes_of(1, size));
        }
        for (bucket, key, kind) in [("none", "k", StoreErrorKind::NoSuchBucket), ("b", "k\0", StoreErrorKind::Invalid)]
        {
            let (here, begun) = at_once(bucket, key).await;
            assert_eq!((here, begun.err()), (false, Some(kind)));
        }
        store.close().await;
        // The owner ends in its own time.
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(at_once("b", "k").await.1.err(), Some(StoreErrorKind::Unavailable));
    });
}

/// BK-GONE-1, AO-OBJ-4: drives take no writes while the blobs of a bucket's objects are purged and the bucket is deleted. Nothing is written to
/// the bucket then, since it may be gone. Once drives write again it can be made anew, and the purge goes on to its end.
#[test]
fn a_bucket_whose_deletion_failed_takes_no_writes_and_its_purge_goes_on() {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (engine, store) = open(&rt, &devices, &mut Random::new(1)).await;
        store.create_bucket("b").await.unwrap();
        for number in 0..6 {
            put(&store, "b", &number.to_string(), &bytes_of(number, 20_000), commit("e")).await.unwrap();
        }
        let late = store.begin_put("b", "late").await.unwrap();
        // Readers keep half of the blobs until the drives fail.
        let readers = [store.open("b", "0").await.unwrap(), store.open("b", "1").await.unwrap()];
        for number in 0..6 {
            assert!(store.delete("b", &number.to_string()).await.unwrap());
        }
        let failing = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
        devices.iter().for_each(|device| device.set_faults(Faults::new([failing])));
        drop(readers);
        let failed = store.delete_bucket("b").await.unwrap_err();
        assert_eq!(failed.kind, StoreErrorKind::Device, "{failed}");
        assert!(store.figures().await.unwrap().purging > 0, "the case is not met: nothing is left to purge");
        let none = StoreErrorKind::NoSuchBucket;
        assert_eq!(store.begin_put("b", "k").await.err().unwrap().kind, none);
        assert_eq!(late.commit(commit("late")).await.unwrap_err().kind, none);
        assert_eq!(store.bucket("b").await.unwrap_err().kind, none);
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        store.create_bucket("b").await.unwrap();
        put(&store, "b", "new", &bytes_of(9, 20_000), commit("e")).await.unwrap();
        assert_no_leftovers(&rt, &store, "after a deletion that failed").await;
        engine.close().await.unwrap();
        let (engine, store) = open(&rt, &devices, &mut Random::new(2)).await;
        assert_eq!(objects(&store).await, [("b".to_owned(), "new".to_owned())]);
        assert!(get(&store, "b", "new").await.unwrap() == bytes_of(9, 20_000));
        assert_no_leftovers(&rt, &store, "after a start").await;
        engine.close().await.unwrap();
    });
}
