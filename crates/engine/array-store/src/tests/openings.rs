//! Chains of openings, each with other drives: what one decided about a torn end holds for all that follow. (AS-EXAM-3)

use std::cell::{Cell, RefCell};

use shingle_sim::seeds;

use super::*;
use crate::append::open_set::Stream;
use crate::object::own_names::LOSS_NAME;
use crate::types::Part;

/// Takes the last item away from all drives but the first; `before` is what they held without it.
fn torn_to_one_drive(images: &[MemoryDevice], before: &[MemoryDevice]) {
    for ((image, (zone, end)), (_, whole)) in images.iter().zip(last_written(before)).zip(last_written(images)).skip(1)
    {
        assert!(whole > end, "the case is not met");
        image.truncate_zone(zone, Blocks(end));
    }
}

/// Opens without the first drive, kills that at once, and opens with all drives, twice.
fn opened_without_the_first_and_with_it(images: Vec<MemoryDevice>, expected: Bytes) {
    let images = Sim::new(2).run(move |rt| async move {
        // Clocks of simulations begin anew: this is later.
        rt.sleep(Duration::from_secs(3600)).await;
        let (devices, store, report) = open(&rt, &images[1..]).await;
        assert_eq!((report.missing_drives.len(), report.damage.len()), (1, 0));
        drop(store);
        let away = SimDevice::new(&rt, &images[0]);
        crash(&[vec![away], devices].concat())
    });
    Sim::new(3).run(move |rt| async move {
        let (devices, store, report) = open(&rt, &images).await;
        assert_eq!((report.missing_drives.len(), report.damage), (0, vec![]));
        assert!(store.get("o").await.unwrap() == expected);
        let (_, store, _) = open(&rt, &crash(&devices)).await;
        assert!(store.get("o").await.unwrap() == expected);
    });
}

/// A fresh array of 3+1: one drive that comes back proves nothing of a set there, so that none is given up for having been away
/// while sets were reset.
async fn four_drives(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore) {
    fresh_of(rt, Code::new(3, 1).unwrap()).await
}

/// A newer version that reached one drive is void once an opening did without that drive: it does not replace the older one.
#[test]
fn an_overwrite_on_a_drive_that_missed_one_opening_is_void() {
    let (images, before) = Sim::new(1).run(|rt| async move {
        let (devices, store) = four_drives(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let before = crash(&devices);
        store.put("o", bytes(2, 19_000), Bytes::new()).await.unwrap();
        (crash(&devices), before)
    });
    torn_to_one_drive(&images, &before);
    opened_without_the_first_and_with_it(images, bytes(1, 19_000));
}

/// The same of a copy that cleaning wrote: what it is a copy of stays where it is.
#[test]
fn a_copy_on_a_drive_that_missed_one_opening_is_void() {
    let (images, before) = Sim::new(1).run(|rt| async move {
        let (devices, store) = four_drives(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let version = store.head(b"o").unwrap().version;
        let before = crash(&devices);
        orphan(&store.0, version.0, 0, bytes(1, 19_000), Some(19_000)).await;
        (crash(&devices), before)
    });
    torn_to_one_drive(&images, &before);
    opened_without_the_first_and_with_it(images, bytes(1, 19_000));
}

/// AS-REC-5: an array that is killed again and again, a little later each time, goes on: what each life closed almost empty is
/// cleaned, and what its cleaning left half done is given up.
#[test]
fn a_crash_loop_does_not_fill_the_array() {
    for seed in seeds(4) {
        let mut images = Sim::new(1).run(|rt| async move { crash(&fresh(&rt).await.0) });
        let mut kept: Vec<(String, u8)> = Vec::new();
        for life in 0..60u8 {
            (images, kept) = Sim::new(seed * 1000 + u64::from(life)).run(move |rt| async move {
                let mut kept = kept;
                rt.sleep(Duration::from_secs(3600 * u64::from(life))).await;
                let (devices, store, report) = open(&rt, &images).await;
                let context = format!("seed {seed}, life {life}");
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                for (name, byte) in &kept {
                    assert!(store.get(name.clone()).await.unwrap() == bytes(*byte, 5_000), "{context}: {name}");
                }
                // The power fails at some command of what follows, if there are so many.
                let at = seed * 7 + 13 * u64::from(life % 11);
                let (number, found) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
                for device in &devices {
                    let (all, found, number) = (devices.clone(), found.clone(), number.clone());
                    device.on_command(move |_, _| {
                        number.set(number.get() + 1);
                        if number.get() == at {
                            found.replace(Some(crash(&all)));
                        }
                    });
                }
                let name = format!("o{}", life % 5);
                let stored = store.put(name.clone(), bytes(life, 5_000), Bytes::new()).await;
                stored.unwrap_or_else(|error| panic!("{context}: {error}"));
                let torn = found.take();
                kept.retain(|(other, _)| *other != name);
                kept.extend(torn.is_none().then_some((name, life)));
                devices.iter().for_each(|device| device.on_command(|_, _| {}));
                let images = torn.unwrap_or_else(|| crash(&devices));
                (images, kept)
            });
        }
    }
}

/// AS-EXAM-3: of a closed set it is certain what counts. With one drive lost, an item that is rotten on another one is damaged, not
/// torn: neither an opening nor a rebuild cuts off what lies behind it, also where a member ends before the others. As long as the lost drive
/// may come back, the error says so, although a reader meets the rotten fragment twice; once another has its place, the object is lost.
#[test]
fn an_error_in_a_recent_item_costs_nothing_behind_it() {
    let (images, place) = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        for number in 0..5 {
            store.put(format!("o{number}"), bytes(number, 19_000), Bytes::new()).await.unwrap();
        }
        let version = store.head(b"o2").unwrap().version;
        let place = store.0.index().unwrap().part(b"o2", version, 0).unwrap().unwrap();
        // One drive refuses the digest: it ends before the others.
        let refuse = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
        let open = store.0.allocator.take(Stream::User(0)).unwrap();
        let set = open.set.clone();
        devices[2].set_faults(Faults::new([refuse]));
        store.0.close_set(open);
        while set.phase() != Phase::Still {
            rt.sleep(Duration::from_millis(1)).await;
        }
        devices[2].set_faults(Faults::default());
        store.0.write_superblock(None).await.unwrap();
        (crash(&devices), place)
    });
    let zone = ZoneId(place.set.0 + 2);
    assert!(images[2].zone(zone).written < images[1].zone(zone).written, "the case is not met");
    let start = images[1].zone(zone).start;
    images[1].corrupt(start + Blocks(u64::from(place.block)), |bytes| bytes[100] ^= 1);
    images[1].corrupt(start + Blocks(u64::from(place.block) + 1), |bytes| bytes[100] ^= 1);
    Sim::new(2).run(move |rt| async move {
        let is_there = async |store: &ArrayStore, kind: ErrorKind| {
            for number in [0, 1, 3, 4] {
                assert!(store.get(format!("o{number}")).await.unwrap() == bytes(number, 19_000), "o{number}");
            }
            let error = store.get("o2").await.unwrap_err();
            assert!(error.kind == kind && error.message.starts_with("2 fragments"), "{error}");
        };
        let (mut devices, store, _) = open(&rt, &images[1..]).await;
        is_there(&store, ErrorKind::Device).await;
        let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
        store.add_drive(&named(std::slice::from_ref(&fresh))[0]).await.unwrap();
        store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        is_there(&store, ErrorKind::Corrupt).await;
        devices.push(fresh);
        let (_, store, _) = open(&rt, &crash(&devices)).await;
        is_there(&store, ErrorKind::Corrupt).await;
    });
}

/// AS-REC-5: copies are given up only for an original that is whole on every drive. One that is away may have reset its zone.
#[test]
fn copies_stay_while_a_drive_of_the_original_is_away() {
    let (images, zone) = Sim::new(1).run(|rt| async move {
        let (devices, store) = four_drives(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let place = || {
            let version = store.head(b"o").unwrap().version;
            store.0.index().unwrap().part(b"o", version, 0).unwrap().unwrap()
        };
        let old = place();
        let set = store.0.sets.get(old.set).unwrap();
        while set.state() != SetState::Closed {
            store.put("other", bytes(2, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        store.delete("other").await.unwrap();
        // A superblock says where it ends.
        store.0.write_superblock(None).await.unwrap();
        // It is copied, and not reset yet.
        let _pin = store.0.sets.pin(old.set);
        assert!(store.0.collect_alone(old.set, &set).await.unwrap());
        assert!(place().set != old.set, "the case is not met");
        let members = set.members();
        let zone = members.iter().find(|member| member.drive == DriveId(0)).unwrap().zone;
        (crash(&devices), zone)
    });
    // The reset reached one drive.
    images[0].truncate_zone(zone, Blocks(0));
    let images = Sim::new(2).run(move |rt| async move {
        rt.sleep(Duration::from_secs(3600)).await;
        let (devices, store, report) = open(&rt, &images[1..]).await;
        assert_eq!((report.missing_drives.len(), report.damage.len()), (1, 0));
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
        crash(&[vec![SimDevice::new(&rt, &images[0])], devices].concat())
    });
    Sim::new(3).run(move |rt| async move {
        rt.sleep(Duration::from_secs(7200)).await;
        let there = [0, 2, 3].map(|number: usize| images[number].snapshot());
        let (_, store, report) = open(&rt, &there).await;
        assert_eq!(report.missing_drives.len(), 1);
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// AS-LOSS-1: versions before 9 wrote an object where an opening lost something.
#[test]
fn a_loss_that_an_older_version_wrote_down_is_known_until_it_is_settled() {
    Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        let engine = &store.0;
        store.put("o", bytes(1, 3000), Bytes::new()).await.unwrap();
        let (name, version) = (Bytes::from_static(LOSS_NAME), engine.stamps.version());
        let completion = Some(Completion { size: 0, attributes: Bytes::new() });
        let part = Part { name, version, offset: 0, at: 0, length: 0, completion };
        let item = Item::Shared { parts: vec![part], data: Bytes::new(), together: false };
        engine.append_user(&item).await.unwrap();
        let (devices, store, report) = open(&rt, &crash(&devices)).await;
        assert_eq!((store.lost_before().unwrap(), report.objects), (Some(version), 1));
        store.settle_loss().await.unwrap();
        let (_, store, report) = open(&rt, &crash(&devices)).await;
        assert_eq!((store.lost_before().unwrap(), report.objects), (None, 1));
    });
}
