//! Puts that fail and have landed.

use std::sync::atomic::Ordering;

use shingle_zoned::ZonedDevice;

use super::*;

/// AS-PUT-3: drives execute what they were sent, and answer nothing. The put fails; a deletion is not acknowledged as long as it cannot be
/// durable, for the next opening may find the object.
#[test]
fn a_deletion_after_a_put_that_may_have_landed_is_final() {
    let (images, deleted) = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("before", bytes(1, 100), Bytes::new()).await.unwrap();
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(5)));
        let putting = {
            let store = store.clone();
            rt.spawn(async move { store.put("o", bytes(1, 100), Bytes::new()).await })
        };
        rt.sleep(Duration::from_millis(2)).await;
        for device in &devices {
            device.power_off_at(device.counts().commands);
            assert!(device.report(ZoneId(0), 1).await.is_err());
        }
        assert_eq!(putting.await.unwrap().unwrap_err().kind, ErrorKind::Device);
        assert!(!store.delete("never").await.unwrap(), "of this nothing was ever written");
        let deleted = store.delete("o").await;
        (devices.iter().map(SimDevice::image).collect::<Vec<_>>(), deleted.is_ok())
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        assert!(store.head(b"before").is_ok());
        assert!(store.head(b"o").is_ok(), "the case is not met");
        assert!(!deleted, "an acknowledged deletion is undone");
    });
}

/// AS-IX-5, AS-PUT-3: the index refuses a change, as where its file system is full, and takes changes again later.
#[test]
fn an_index_that_refuses_a_change_ends_all_writes() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("before", bytes(1, 100), Bytes::new()).await.unwrap();
        let refuses = |refuses| store.0.index().unwrap().refuses.store(refuses, Ordering::Relaxed);
        refuses(true);
        assert_eq!(store.put("o", bytes(2, 100), Bytes::new()).await.unwrap_err().kind, ErrorKind::Index);
        refuses(false);
        let refused = |error: crate::Error| assert_eq!(error.kind, ErrorKind::Index);
        refused(store.delete("o").await.expect_err("an acknowledged deletion is undone"));
        refused(store.delete("before").await.unwrap_err());
        refused(store.put("p", bytes(2, 100), Bytes::new()).await.unwrap_err());
        refused(store.snapshot().await.unwrap_err());
        assert!(store.get("before").await.unwrap() == bytes(1, 100));
        refused(store.close().await.unwrap_err());
        devices.iter().map(SimDevice::image).collect::<Vec<_>>()
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert!(!report.clean && report.damage.is_empty());
        assert!(store.get("before").await.unwrap() == bytes(1, 100));
        assert!(store.get("o").await.unwrap() == bytes(2, 100), "the case is not met");
        assert!(store.delete("o").await.unwrap());
    });
}

/// No drive takes a superblock; all other writes of the first one are executed, and fail.
fn lose_answers(devices: &[SimDevice]) {
    let rule = |trigger, fault| FaultRule { trigger, fault };
    let refused = |zone| rule(Trigger::Zone(CommandKind::Write, ZoneId(zone)), Fault::CommandError);
    let lost = rule(Trigger::Rate(CommandKind::Write, 1.0), Fault::FailedAfterEffect);
    for (number, device) in devices.iter().enumerate() {
        let rules = [refused(0), refused(1)].into_iter().chain((number == 0).then_some(lost));
        device.set_faults(Faults::new(rules));
    }
}

/// Puts objects of 19,000 bytes until `most` are there or none fits. Returns their number.
async fn fill(store: &ArrayStore, most: usize) -> usize {
    for number in 0..most {
        if store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.is_err() {
            return number;
        }
    }
    most
}

/// AS-WRITE-3: an item fails and has landed, and so has one behind it in the same set. The superblock that says where the set ends fails,
/// too. So the second one is not tried elsewhere, where it could be refused for want of room, and neither is answered with that.
#[test]
fn an_item_behind_one_that_failed_is_tried_elsewhere_only_once_a_superblock_says_where_the_set_ends() {
    let fit = Sim::new(1).run(|rt| async move { fill(&fresh(&rt).await.1, usize::MAX).await });
    let mut met = 0;
    for room in 2..10 {
        let (images, kinds) = Sim::new(1).run(move |rt| async move {
            let (devices, store) = fresh(&rt).await;
            assert_eq!(fill(&store, fit - room).await, fit - room);
            lose_answers(&devices);
            let puts = ["o", "p"].map(|name| store.put(name, bytes(1, 19_000), Bytes::new()));
            let kinds = join_all(puts).await.into_iter().map(|put| put.err().map(|error| error.kind));
            (crash(&devices), kinds.collect::<Vec<_>>())
        });
        met += Sim::new(2).run(move |rt| async move {
            let (_, store, _) = open(&rt, &images).await;
            let found = ["o", "p"].map(|name| store.head(name.as_bytes()).is_ok());
            for (found, kind) in found.into_iter().zip(&kinds) {
                assert!(!found || *kind != Some(ErrorKind::NoSpace), "room for {room}: what was refused is found");
            }
            u32::from(found == [true; 2] && kinds.iter().all(Option::is_some))
        });
    }
    assert!(met > 0, "what an opening finds was tried elsewhere");
}

/// AS-PUT-3: a put that failed is kept in mind until a later one of that name counts in its place, at the next opening, too.
#[test]
fn a_put_that_failed_is_forgotten_with_a_later_one_of_its_name() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        lose_answers(&devices);
        assert_eq!(store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap_err().kind, ErrorKind::Device);
        assert_eq!(store.unsure(b""), ["o"]);
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        store.put("p", bytes(2, 19_000), Bytes::new()).await.unwrap();
        assert_eq!(store.unsure(b""), ["o"]);
        store.put("o", bytes(2, 19_000), Bytes::new()).await.unwrap();
        assert_eq!(store.unsure(b""), [""; 0]);
        assert!(store.delete("o").await.unwrap());
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        assert_eq!(store.head(b"o").unwrap_err().kind, ErrorKind::NotFound);
    });
}

/// AS-PUT-3: too many drives are gone for anything to be written.
#[test]
fn puts_that_wrote_nothing_are_not_kept_in_mind() {
    Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        for (number, device) in devices.iter().enumerate().take(2) {
            device.power_off_at(0);
            assert!(store.0.drives.fail(DriveId(number as u8)));
        }
        for size in [100, 19_000, 60_000] {
            let error = store.put(format!("{size}"), bytes(1, size), Bytes::new()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Device, "{size}: {error}");
        }
        assert_eq!(store.unsure(b""), [""; 0]);
    });
}

/// A put that fails and has landed, after which the array takes others again.
async fn fail_put(devices: &[SimDevice], store: &ArrayStore, name: &str) {
    lose_answers(devices);
    let failed = store.put(name.to_owned(), bytes(2, 19_000), Bytes::new()).await.unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Device);
    assert!(store.unsure(b"").contains(&Bytes::from(name.to_owned())), "{name}: {failed}");
    devices.iter().for_each(|device| device.set_faults(Faults::default()));
}

/// AS-PUT-4.
#[test]
fn puts_that_could_not_be_kept_in_mind_are_refused_until_tombstones_are_written() {
    const MOST: usize = 4;
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.0.unsure.most.set(MOST);
        store.put("old", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let put = async |name: &str| store.put(name.to_owned(), bytes(2, 19_000), Bytes::new()).await.map(drop);
        for name in ["a", "b", "c", "old"] {
            put("other").await.unwrap();
            fail_put(&devices, &store, name).await;
        }
        let before = store.unsure(b"");
        lose_answers(&devices);
        assert_eq!(put("d").await.unwrap_err().kind, ErrorKind::Device);
        assert_eq!(store.unsure(b""), before, "nothing of it was written");
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        // Of the old one a version counts.
        put("d").await.unwrap();
        assert_eq!(store.unsure(b""), ["old"]);
        assert!(store.get("old").await.unwrap() == bytes(1, 19_000));
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        for name in ["a", "b", "c"] {
            assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
        }
        assert!(store.head(b"d").is_ok() && store.head(b"old").is_ok());
    });
}

/// AS-PUT-4: where older versions of all those names count, no tombstone may be written for them.
#[test]
fn without_room_to_keep_it_in_mind_a_put_is_refused_in_words() {
    Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.0.unsure.most.set(2);
        for name in ["b", "a"] {
            store.put(name, bytes(1, 19_000), Bytes::new()).await.unwrap();
        }
        for name in ["a", "b"] {
            store.put("other", bytes(1, 19_000), Bytes::new()).await.unwrap();
            fail_put(&devices, &store, name).await;
        }
        let refused = store.put("c", bytes(2, 19_000), Bytes::new()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Device);
        assert!(refused.message.starts_with("2 writes of the array failed"), "{refused}");
        // As it says.
        store.put("a", bytes(3, 19_000), Bytes::new()).await.unwrap();
        store.put("c", bytes(2, 19_000), Bytes::new()).await.unwrap();
        assert!(store.get("b").await.unwrap() == bytes(1, 19_000));
    });
}
