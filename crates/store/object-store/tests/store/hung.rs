//! One drive of several that hangs: what lies on it waits, and nothing else does.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use shingle_chunk_store::{Request, Stream};
use shingle_object_store::{Depth, Index, MemoryIndex, ObjectStoreClient, Standing};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_store_api::{CompletedPart, ListRequest, ObjectStore, StoreErrorKind};

use crate::world::{World, bytes_of, commit, get, put};
use crate::zones::{formatted, object_options, open};

const BUCKET: &str = "bucket";
/// Far more than what can wait in a queue of the store.
const OBJECTS: u64 = 120;
/// In several segments.
const SIZE: u64 = 20_000;
/// Time that a reader waits before it leaves.
const STAYS: Duration = Duration::from_secs(100);

fn listing() -> ListRequest {
    ListRequest { limit: 1000, ..ListRequest::default() }
}

async fn in_time<T>(rt: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    match select(Box::pin(work), Box::pin(rt.sleep(Duration::from_secs(60)))).await {
        Either::Left((found, _)) => found,
        Either::Right(_) => panic!("{what} waits for a drive that hangs"),
    }
}

/// OS-RD-1: readers of a drive that hangs take no place of the store's, so that what lies elsewhere is read, listed and
/// written; and those that leave let go of what they held.
#[test]
fn readers_of_a_drive_that_hangs_hold_up_no_others() {
    for seed in seeds(4) {
        let world = World::new(seed, 2, 16 << 20, 40 << 10);
        Sim::new(seed).run(move |rt| async move {
            let (_engine, store, _) = world.open(&rt).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..OBJECTS {
                put(&store, BUCKET, &number.to_string(), &bytes_of(number, SIZE as usize), commit("e")).await.unwrap();
            }
            world.drives[0].hang(|request| matches!(request, Request::Read { .. }));
            let done = Rc::new(Cell::new(0));
            let reader = |number: u64| {
                let (rt, store, done) = (rt.clone(), store.clone(), done.clone());
                async move {
                    let reader = in_time(&rt, "an open", store.open(BUCKET, &number.to_string())).await.unwrap();
                    let read = reader.read(0, SIZE);
                    // It leaves before there is an answer.
                    if let Either::Left((bytes, _)) = select(read, Box::pin(rt.sleep(STAYS))).await {
                        assert!(bytes.unwrap() == bytes_of(number, SIZE as usize), "seed {seed}");
                        done.set(done.get() + 1);
                    }
                }
            };
            let readers: Vec<_> = (0..OBJECTS).map(|number| rt.spawn(reader(number))).collect();
            rt.sleep(STAYS / 2).await;
            let held = world.drives[0].held();
            assert!(held > 16, "seed {seed}: the case is not met: {held} reads are held");
            in_time(&rt, "a listing", store.list(BUCKET, listing())).await.unwrap();
            for number in OBJECTS..OBJECTS + 20 {
                let name = number.to_string();
                let data = bytes_of(number, 3000);
                in_time(&rt, "a put", put(&store, BUCKET, &name, &data, commit("e"))).await.unwrap();
            }
            join_all(readers).await;
            // All that hangs is answered, late; nobody holds anything any more.
            world.drives[0].hang(|_| false);
            for number in 0..OBJECTS + 20 {
                assert!(store.delete(BUCKET, &number.to_string()).await.unwrap());
            }
            store.collect_garbage().await.unwrap();
            let stats = store.stats().await.unwrap();
            assert!(stats.file_bytes < 1000, "seed {seed}: readers that left hold files: {stats:?}");
        });
    }
}

/// OS-PAT-1 and OS-PAT-2: a drive's medium answers no write and no read. Puts, overwrites, deletes and lists go on with the others,
/// and so do gets of what lies there. Once the drive answers again, and after a power cut, all agrees with what was
/// acknowledged: no late write brings anything back.
#[test]
fn while_a_drive_hangs_the_others_take_all_writes() {
    for seed in seeds(8) {
        let media = formatted(seed, 3);
        let (images, index, known) = Sim::new(seed).run(move |rt| async move {
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let index = MemoryIndex::new();
            let (_engine, store, _) = open(&rt, &devices, index.clone(), object_options(true)).await;
            store.create_bucket(BUCKET).await.unwrap();
            let mut known: BTreeMap<u64, Option<u64>> = BTreeMap::new();
            for number in 0..30 {
                put(&store, BUCKET, &number.to_string(), &bytes_of(number, 3000), commit("e")).await.unwrap();
                known.insert(number, Some(number));
            }
            let hung = &devices[seed as usize % 3];
            let never = |kind| FaultRule { trigger: Trigger::Rate(kind, 1.0), fault: Fault::Hang };
            hung.set_faults(Faults::new([never(CommandKind::Write), never(CommandKind::Read)]));
            let (mut slow, mut gone) = (0, 0);
            for round in 0..40 {
                let (number, content) = (round % 35, 100 + round);
                let (key, data, began) = (number.to_string(), bytes_of(content, 3000), rt.now());
                in_time(&rt, "a put", put(&store, BUCKET, &key, &data, commit("e"))).await.unwrap();
                known.insert(number, Some(content));
                slow += u32::from(rt.now().since(began) > Duration::from_secs(3));
                if round % 4 == 0 {
                    let key = (round % 31).to_string();
                    in_time(&rt, "a delete", store.delete(BUCKET, &key)).await.unwrap();
                    known.insert(round % 31, None);
                    gone += 1;
                }
                in_time(&rt, "a listing", store.list(BUCKET, listing())).await.unwrap();
                rt.sleep(Duration::from_millis(300)).await;
            }
            assert!(gone > 5 && slow < 6, "seed {seed}: {slow} puts waited for the drive");
            assert!(hung.hung() > 0, "seed {seed}: the case is not met");
            let others = |standing| standing != Standing::Silent && standing != Standing::Ended;
            for (number, (_, standing)) in store.standings().await.unwrap().into_iter().enumerate() {
                assert_eq!(
                    others(standing),
                    number != seed as usize % 3,
                    "seed {seed}: drive {number} is {standing:?}"
                );
            }
            // Objects written since lie on others.
            for (&number, &content) in known.iter().filter(|(_, content)| content.is_some_and(|content| content > 110))
            {
                let found = in_time(&rt, "a get", get(&store, BUCKET, &number.to_string())).await.unwrap();
                assert!(
                    Some(&found) == content.map(|content| bytes_of(content, 3000)).as_ref(),
                    "seed {seed}: {number}"
                );
            }
            hung.set_faults(Faults::default());
            hung.release_hung();
            rt.sleep(Duration::from_secs(15)).await;
            for number in 50..80 {
                let data = bytes_of(number, 3000);
                in_time(&rt, "a put", put(&store, BUCKET, &number.to_string(), &data, commit("e"))).await.unwrap();
                known.insert(number, Some(number));
            }
            holds(&store, &known, &format!("seed {seed}, answering again")).await;
            store.collect_garbage().await.unwrap();
            holds(&store, &known, &format!("seed {seed}, collected")).await;
            let images: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
            (images, index, known)
        });
        Sim::new(seed).run(move |rt| async move {
            if seed % 2 == 0 {
                Index::clear(&index).unwrap();
            }
            let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (engine, store, report) = open(&rt, &devices, index, object_options(false)).await;
            assert_eq!(report.damage, Vec::new(), "seed {seed}");
            holds(&store, &known, &format!("seed {seed}, opened again")).await;
            assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new(), "seed {seed}");
            engine.close().await;
        });
    }
}

async fn holds(store: &ObjectStoreClient, known: &BTreeMap<u64, Option<u64>>, context: &str) {
    for (number, content) in known {
        let found = get(store, BUCKET, &number.to_string()).await;
        match content {
            Some(content) => assert!(found.unwrap() == bytes_of(*content, 3000), "{context}: {number}"),
            None => assert_eq!(found.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{context}: {number} is back"),
        }
    }
}

/// OS-GC-3: the store is full, and GC on one drive waits for a read that is never answered. Puts say that there is no room, and
/// deletes go on beside any number of them.
#[test]
fn a_drive_that_hangs_in_gc_keeps_no_write_waiting() {
    for seed in [1, 2] {
        let mut world = World::new(seed, 2, 1 << 20, 40 << 10);
        Sim::new(seed).run(move |rt| async move {
            {
                let (engine, store, _) = world.open(&rt).await;
                store.create_bucket(BUCKET).await.unwrap();
                let mut number = 0;
                while put(&store, BUCKET, &number.to_string(), &bytes_of(number, 3000), commit("e")).await.is_ok() {
                    number += 1;
                }
                assert!(number > 300, "only {number} fit");
                // Garbage in all files.
                for gone in (0..number).step_by(3) {
                    assert!(store.delete(BUCKET, &gone.to_string()).await.unwrap());
                }
                drop(store);
                engine.close().await;
            }
            world.options.gc.enabled = true;
            world.drives[0].hang(|request| matches!(request, Request::Read { .. }));
            let (_engine, store, _) = world.open(&rt).await;
            // More than there are places.
            let puts: Vec<_> = (0..400)
                .map(|number| {
                    let (store, rt) = (store.clone(), rt.clone());
                    rt.clone().spawn(async move {
                        let (key, data) = (format!("new{number}"), bytes_of(number, 3000));
                        let put = put(&store, BUCKET, &key, &data, commit("e"));
                        match select(Box::pin(put), Box::pin(rt.sleep(Duration::from_secs(3600)))).await {
                            Either::Left((put, _)) => {
                                put.map_or_else(|error| error.kind, |_| StoreErrorKind::BucketExists)
                            }
                            Either::Right(_) => panic!("a put waits for a drive that hangs"),
                        }
                    })
                })
                .collect();
            rt.sleep(Duration::from_secs(5)).await;
            for gone in 1..10 {
                in_time(&rt, "a delete", store.delete(BUCKET, &(gone * 3 + 1).to_string())).await.unwrap();
            }
            assert!(world.drives[0].held() > 0, "the case is not met: {:?}", store.stats().await);
            let mut refused = 0;
            for put in puts {
                refused += usize::from(put.await.unwrap() == StoreErrorKind::NoSpace);
            }
            assert!(refused > 100, "{refused}");
        });
    }
}

/// A write that hangs holds up neither who asks for a bucket that is there, or to delete one that is in use, nor whoever
/// comes after them.
#[test]
fn who_cannot_have_a_bucket_made_or_deleted_does_not_wait_for_its_writers() {
    let world = World::new(1, 1, 16 << 20, 40 << 10);
    Sim::new(1).run(move |rt| async move {
        let (_engine, store, _) = world.open(&rt).await;
        store.create_bucket(BUCKET).await.unwrap();
        put(&store, BUCKET, "there", &bytes_of(1, 100), commit("e")).await.unwrap();
        world.drives[0].hang(|request| matches!(request, Request::Append { .. }));
        let writer = store.clone();
        drop(rt.spawn(async move { put(&writer, BUCKET, "hangs", &bytes_of(2, 100), commit("e")).await.is_ok() }));
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(world.drives[0].held(), 1, "the case is not met");
        let error = in_time(&rt, "a creation", store.create_bucket(BUCKET)).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::BucketExists);
        let error = in_time(&rt, "a deletion", store.delete_bucket(BUCKET)).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::BucketNotEmpty);
    });
}

/// A backup on a drive that hangs lets the index go when that takes no changes: else it could not be opened anew.
#[test]
fn a_backup_that_hangs_ends_when_the_index_fails() {
    let world = World::new(1, 1, 16 << 20, 40 << 10);
    Sim::new(1).run(move |rt| async move {
        let (_engine, store, _) = world.open(&rt).await;
        store.create_bucket(BUCKET).await.unwrap();
        put(&store, BUCKET, "there", &bytes_of(1, 100), commit("e")).await.unwrap();
        world.drives[0].hang(|request| matches!(request, Request::Create { stream: Stream::Meta, .. }));
        let backing = {
            let store = store.clone();
            rt.spawn(async move { store.back_up_index().await.map(drop) })
        };
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(world.drives[0].held(), 1, "the case is not met");
        world.index.fail(true);
        put(&store, BUCKET, "refused", &bytes_of(2, 100), commit("e")).await.unwrap_err();
        in_time(&rt, "a backup", backing).await.unwrap().unwrap_err();
        world.index.fail(false);
        rt.sleep(Duration::from_secs(3)).await;
        put(&store, BUCKET, "taken", &bytes_of(2, 100), commit("e")).await.unwrap();
    });
}

/// OS-BAK-4: one of two drives takes no backup, for it hangs or fails. The other gets it, the next ones at once, and nothing is left of those that
/// were begun once the drive answers.
#[test]
fn a_backup_goes_to_a_drive_that_takes_it() {
    for (bad, hangs) in [(0, true), (1, true), (0, false), (1, false)] {
        let world = World::new(1, 2, 16 << 20, 40 << 10);
        Sim::new(1).run(move |rt| async move {
            let (_engine, store, _) = world.open(&rt).await;
            store.create_bucket(BUCKET).await.unwrap();
            for number in 0..20 {
                put(&store, BUCKET, &number.to_string(), &bytes_of(number, 3000), commit("e")).await.unwrap();
            }
            let drive = &world.drives[bad];
            if hangs {
                drive.hang(|request| !matches!(request, Request::StoreStat { .. }));
            } else {
                drive.set_faults(crate::chunks::Faults { dead: true, ..Default::default() });
            }
            let context = format!("drive {bad} hangs: {hangs}");
            for number in 0..4 {
                let began = rt.now();
                in_time(&rt, &context, store.back_up_index()).await.unwrap();
                let took = rt.now().since(began);
                assert!(number == 0 || took < Duration::from_secs(1), "{context}: backup {number} took {took:?}");
                assert!(world.drives[1 - bad].chunks(Stream::Meta).len() >= 2, "{context}");
            }
            assert!(drive.held() < 10, "{context}: {} requests pile up", drive.held());
            drive.hang(|_| false);
            drive.set_faults(crate::chunks::Faults::default());
            drive.release();
            rt.sleep(Duration::from_secs(15)).await;
            for _ in 0..3 {
                store.back_up_index().await.unwrap();
            }
            let chunks: usize = world.drives.iter().map(|drive| drive.chunks(Stream::Meta).len()).sum();
            assert_eq!(chunks, 4, "{context}: two backups of two chunks each");
        });
    }
}

/// OS-PAT-1: a part is being committed on a drive that hangs; on others the parts go on. A client that ends the upload
/// waits two seconds for it; if all drives hang two minutes, and then gets an error. Once they answer again the upload
/// is as it was.
#[test]
fn who_ends_an_upload_does_not_wait_for_a_drive_that_hangs() {
    let mut waited = 0;
    for seed in seeds(6) {
        for (drives, all) in [(3, false), (3, true), (1, true)] {
            let media = formatted(seed, drives);
            waited += Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, {drives} drives, all hang: {all}");
                let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
                let (_engine, store, _) = open(&rt, &devices, MemoryIndex::new(), object_options(true)).await;
                store.create_bucket(BUCKET).await.unwrap();
                let upload = store.begin_upload(BUCKET, "o", BTreeMap::new()).await.unwrap().id;
                let part = async |number: u32| {
                    let mut writer = store.begin_part(BUCKET, "o", upload, number).await?;
                    writer.write(bytes_of(u64::from(number), 600)).await?;
                    writer.commit(commit(&format!("e{number}"))).await
                };
                part(1).await.unwrap();
                let never = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
                let hung = devices.iter().enumerate().filter(|(at, _)| all || *at == seed as usize % 3);
                hung.clone().for_each(|(_, device)| device.set_faults(Faults::new([never])));
                let wanted = || vec![CompletedPart { number: 1, etag: "e1".into() }];
                let end = async |complete: bool| match complete {
                    true => store.complete_upload(BUCKET, "o", upload, wanted(), commit("whole")).await.map(drop),
                    false => store.abort_upload(BUCKET, "o", upload).await,
                };
                let ends = async {
                    rt.sleep(Duration::from_millis(5)).await;
                    let began = rt.now();
                    let ended = end(seed % 2 == 0).await;
                    (ended, rt.now().since(began))
                };
                let both = Box::pin(join(part(2), ends));
                let ended = select(both, Box::pin(rt.sleep(Duration::from_secs(3600)))).await;
                let Either::Left(((_, (ended, took)), _)) = ended else { panic!("{context}: somebody waits for ever") };
                assert!(took < Duration::from_secs(if all { 120 } else { 5 }), "{context}: waited {took:?}");
                assert_eq!(ended.is_ok(), !all, "{context}: {ended:?}");
                hung.for_each(|(_, device)| {
                    device.set_faults(Faults::default());
                    device.release_hung();
                });
                rt.sleep(Duration::from_secs(60)).await;
                if all {
                    end(true).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                if all || seed % 2 == 0 {
                    assert!(get(&store, BUCKET, "o").await.unwrap() == bytes_of(1, 600), "{context}");
                }
                u64::from(took > Duration::from_secs(1))
            });
        }
    }
    assert!(waited > 12, "the case is not met: {waited} waited");
}
