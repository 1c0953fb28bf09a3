//! Tests that need a state which no call brings about.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::engine::Engine;
use crate::membership::Survey;
use crate::sets::Phase;
use crate::types::{Completion, DriveId, SetId, SetState, Version};
use crate::writer::Item;
use crate::{
    ArrayDrive, ArrayStore, ErrorKind, FormatOptions, IndexPlace, Options, RebuildOptions, RecoveryReport,
    ScrubOptions, format,
};

fn named(devices: &[SimDevice]) -> Vec<ArrayDrive> {
    let drive = |device: &SimDevice| ArrayDrive { name: "d".into(), dev: Rc::new(device.clone()) };
    devices.iter().map(drive).collect()
}

async fn open(rt: &Runtime, media: &[MemoryDevice]) -> (Vec<SimDevice>, ArrayStore, RecoveryReport) {
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = Options { background: false, available_sets: 3, ..Options::default() };
    let (store, report) = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
    (devices, store, report)
}

/// A fresh array of 2+1 on three drives, with segments of 20,000 bytes.
async fn fresh(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
    format(rt, &named(&devices), &options).await.unwrap();
    let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
    let (devices, store, _) = open(rt, &images).await;
    (devices, store)
}

fn crash(devices: &[SimDevice]) -> Vec<MemoryDevice> {
    devices.iter().map(|device| device.crash_image(1)).collect()
}

fn bytes(byte: u8, count: usize) -> Bytes {
    vec![byte; count].into()
}

/// Appends a run durably; nobody enters it in the index.
async fn orphan(engine: &Rc<Engine>, version: u64, offset: u64, data: Bytes, size: Option<u64>) {
    let completion = size.map(|size| Completion { size, attributes: Bytes::new() });
    let item = Item::Run { name: Bytes::from_static(b"o"), version: Version(version), offset, data, completion };
    engine.append_user(&item).await.unwrap();
}

/// REC-4: a version of which the beginning was in the snapshot, was given up, and its set used again; its end is on the
/// drives all the same. Its beginning must not be read out of what lies there now.
#[test]
fn a_snapshot_says_nothing_of_a_set_that_was_reset_since() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        let mut put = store.begin_put("o").unwrap();
        put.write(bytes(1, 60_000)).await.unwrap();
        let version = put.version().0;
        rt.sleep(std::time::Duration::from_millis(5)).await;
        let begun = store.0.index().unwrap().parts(b"o", Version(version), 0, 9).unwrap();
        let of_it = begun.first().unwrap().1.set;
        store.snapshot().await.unwrap();
        let written: u64 = begun.iter().map(|(_, place)| u64::from(place.length)).sum();
        drop(put);
        // The set ends, is emptied, and begins anew.
        let set = store.0.sets.get(of_it).unwrap();
        let mut number = 0;
        while set.state.get() != SetState::Closed && set.state.get() != SetState::Indexed {
            number += 1;
            store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        while set.life.get() == 0 {
            assert!(store.0.collect(of_it, &set).await.unwrap());
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        orphan(&store.0, version, written, bytes(1, 10_000), Some(written + 10_000)).await;
        while set.written.get() < 40 {
            number += 1;
            store.put(format!("b{number}"), bytes(3, 19_000), Bytes::new()).await.unwrap();
        }
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert_eq!(report.damage, Vec::<String>::new());
        assert!(report.snapshot_pieces > 0);
        assert_eq!(store.get("o").await.unwrap_err().kind, ErrorKind::NotFound);
        assert!(store.get("a1").await.unwrap() == bytes(2, 19_000));
    });
}

/// A set whose zones cannot be reset is no room.
#[test]
fn a_stuck_set_does_not_count_as_free() {
    Sim::new(1).run(|rt| async move {
        let (_, store) = fresh(&rt).await;
        let free = store.0.free_sets();
        let (_, set) = store.0.sets.first(SetState::Empty).unwrap();
        set.stuck.set(true);
        assert_eq!(store.0.free_sets(), free - 1);
    });
}

/// Rule 3 of SMORE's section IV-A: of a part that cleaning copied, the newer copy counts, whichever is seen first.
#[test]
fn of_two_copies_the_newer_one_counts() {
    let (images, old) = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let place = |store: &ArrayStore| {
            let version = store.head(b"o").unwrap().version;
            store.0.index().unwrap().part(b"o", version, 0).unwrap().unwrap()
        };
        let old = place(&store);
        let set = store.0.sets.get(old.set).unwrap();
        let mut number = 0;
        while set.state.get() != SetState::Closed {
            number += 1;
            let name = format!("a{number}");
            store.put(name.clone(), bytes(2, 19_000), Bytes::new()).await.unwrap();
            store.delete(name).await.unwrap();
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        // A reader keeps the old copy where it is.
        let _hold = store.0.sets.hold(old.set);
        assert!(store.0.collect(old.set, &set).await.unwrap());
        assert!(place(&store).stamp > old.stamp && set.written.get() > 0);
        (crash(&devices), old)
    });
    for seed in 1..=20 {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(seed).run(move |rt| async move {
            let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            // Sometimes the old copy is seen last.
            if seed % 2 == 0 {
                let zone = ZoneId(old.set.0 + 2);
                let slow = FaultRule { trigger: Trigger::Zone(CommandKind::Read, zone), fault: Fault::Slow };
                devices.iter().for_each(|device| device.set_faults(Faults::new([slow])));
            }
            let options = Options { background: false, ..Options::default() };
            let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
            let (store, _) = opened.unwrap();
            let version = store.head(b"o").unwrap().version;
            let found = store.0.index().unwrap().part(b"o", version, 0).unwrap().unwrap();
            assert!(found.stamp > old.stamp && found.set != old.set, "seed {seed}: the old copy counts");
            assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
        });
    }
}

/// Three sets full of small objects, one of which is deleted in each; the array, and the first of those sets.
async fn filled(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore, SetId) {
    let (devices, store) = fresh(rt).await;
    let mut number = 0;
    while store.0.sets.count(SetState::Closed) < 3 {
        number += 1;
        store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
        if number % 4 == 1 {
            store.delete(format!("a{number}")).await.unwrap();
        }
        rt.sleep(Duration::from_millis(1)).await;
    }
    let (id, _) = store.0.sets.first(SetState::Closed).unwrap();
    (devices, store, id)
}

/// Adds a drive.
async fn join(rt: &Runtime, store: &ArrayStore) {
    let fresh = SimDevice::new(rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
    store.add_drive(&named(&[fresh])[0]).await.unwrap();
}

/// Takes a drive away for good.
async fn lose(devices: &[SimDevice], store: &ArrayStore, number: usize) {
    devices[number].power_off_at(0);
    assert!(store.0.drives.fail(DriveId(number as u8)));
    store.0.record_failures().await.unwrap();
}

/// SET-4: a rebuild that comes to a set while its zones are being reset leaves it alone. Reset zone by zone, it seems to hold
/// only what the last ones have.
#[test]
fn a_rebuild_does_not_take_a_set_for_damaged_that_is_being_reset() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        join(&rt, &store).await;
        lose(&devices, &store, 0).await;
        let set = store.0.sets.get(id).unwrap();
        // All but one drive have reset their zones long before the last.
        let slow = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::Slow };
        devices[2].set_faults(Faults::new([slow]));
        set.hurt.set(true);
        assert!(store.0.collect(id, &set).await.unwrap());
        while set.phase.get() != Phase::Resetting {
            rt.yield_now().await;
        }
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(set.phase.get(), Phase::Resetting, "the case is not met");
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert_eq!((done.failed, set.state.get() == SetState::Closed), (0, false), "{done:?}");
        assert!(store.get("a2").await.unwrap() == bytes(2, 19_000));
    });
}

/// SET-4: a rebuild that comes to a snapshot's set of which only the first piece is written waits for the others.
#[test]
fn a_rebuild_waits_for_the_end_of_a_snapshot() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, _) = filled(&rt).await;
        // An index of several pieces.
        for number in 0..50 {
            store.put(format!("{number:x<900}"), bytes(3, 10), Bytes::new()).await.unwrap();
        }
        join(&rt, &store).await;
        // The set that the snapshot takes, and where one drive is late.
        let available = store.0.sets.all().into_iter().filter(|(_, set)| set.state.get() == SetState::Available);
        let (id, set) = available.min_by_key(|(id, _)| *id).unwrap();
        let members = set.members.borrow().clone();
        let slow = FaultRule { trigger: Trigger::Zone(CommandKind::Write, members[2].zone), fault: Fault::Slow };
        devices[usize::from(members[2].drive.0)].set_faults(Faults::new([slow]));
        let snapshot = {
            let store = store.clone();
            rt.spawn(async move { store.snapshot().await })
        };
        while set.written.get() == 0 {
            rt.sleep(Duration::from_micros(10)).await;
        }
        assert_eq!((set.state.get(), set.phase.get()), (SetState::Index, Phase::Filling));
        lose(&devices, &store, usize::from(members[0].drive.0)).await;
        let Survey { spares, .. } = store.0.survey().await.unwrap();
        assert_eq!(set.phase.get(), Phase::Filling, "the case is not met");
        let lost = vec![(id, set.clone(), members[0])];
        let (done, why) = store.0.replace_all(lost, spares, RebuildOptions::default(), |_| {}).await.unwrap();
        snapshot.await.unwrap().unwrap();
        assert_eq!((done.done, why.map(|why| why.to_string())), (1, None));
        assert!(store.0.snapshot.borrow().pieces.len() > 1, "the case is not met");
        assert_eq!(set.cut.get(), u32::MAX, "the snapshot counts only in part");
        let scrubbed = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
        assert_eq!((scrubbed.damaged, scrubbed.lost), (vec![], vec![]));
    });
}

/// SNAP-3: an object lies behind an item that no snapshot covers yet, and so is not covered itself, although it is in the
/// index. Its deletion, which lies in another set, must not be forgotten before that is.
#[test]
fn a_snapshot_keeps_the_deletions_of_what_it_does_not_cover() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        let run = |name: &'static [u8], offset, completion| Item::Run {
            name: Bytes::from_static(name),
            version: store.0.stamps.version(),
            offset,
            data: bytes(1, 10_000),
            completion,
        };
        // The end of an object whose beginning is still on its way.
        let end = run(b"slow", 10_000, Some(Completion { size: 20_000, attributes: Bytes::new() }));
        let (waits, _) = store.0.append_user(&end).await.unwrap();
        store.put("o", bytes(2, 19_000), Bytes::new()).await.unwrap();
        let set = store.0.sets.get(waits.set).unwrap();
        let mut number = 0;
        while set.phase.get() == Phase::Filling {
            number += 1;
            store.put(format!("a{number}"), bytes(3, 19_000), Bytes::new()).await.unwrap();
        }
        assert_eq!((set.phase.get(), set.state.get()), (Phase::Ending, SetState::Open), "the case is not met");
        assert!(store.delete("o").await.unwrap());
        store.put("b", bytes(4, 19_000), Bytes::new()).await.unwrap();
        store.snapshot().await.unwrap();
        drop(waits);
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert!(report.snapshot_pieces > 0 && report.damage.is_empty(), "{report:?}");
        assert_eq!(store.head(b"o").map_err(|error| error.kind), Err(ErrorKind::NotFound));
        assert!(store.get("a1").await.unwrap() == bytes(3, 19_000));
        assert!(store.get("b").await.unwrap() == bytes(4, 19_000));
    });
}

/// MEMBER-1: while a survey looks at the drives, another zone of a set is replaced: the old one is no spare yet.
#[test]
fn a_survey_does_not_give_away_what_a_superblock_still_names() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let engine = store.0.clone();
        let set = engine.sets.get(id).unwrap();
        let member = set.members.borrow()[0];
        let replaced = {
            let (engine, set) = (engine.clone(), set.clone());
            move || {
                if set.members.borrow()[0] == member {
                    set.members.borrow_mut()[0].zone = ZoneId(13);
                    engine.replaced.set(engine.replaced.get() + 1);
                }
            }
        };
        devices[0].on_command(move |command, _| {
            if command.kind == CommandKind::Report {
                replaced();
            }
        });
        let Survey { spares, .. } = engine.survey().await.unwrap();
        assert_ne!(set.members.borrow()[0], member, "the case is not met");
        let given = spares[&member.drive].contains(&member.zone);
        assert!(!given || engine.unsaved() == 0, "{} is in a durable superblock still", member.zone);
    });
}

/// Cleaning that needs no set for what is old leaves none to it: nobody would ever end it.
#[test]
fn recovery_opens_no_set_that_nobody_writes_to() {
    let images = Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, open_sets: Some(4), ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        let (store, _) = opened.unwrap();
        // Each has a set to itself.
        let puts: Vec<_> = (0..4).map(|number| store.begin_put(format!("o{number}")).unwrap()).collect();
        for mut put in puts {
            put.write(bytes(1, 30_000)).await.unwrap();
            std::mem::forget(put);
        }
        rt.sleep(Duration::from_millis(5)).await;
        assert_eq!(store.0.sets.count(SetState::Open), 4, "the case is not met");
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        rt.sleep(Duration::from_millis(5)).await;
        // The client's one, and the cleaner's.
        assert_eq!((store.0.sets.count(SetState::Open), store.0.sets.count(SetState::Closed)), (2, 2));
    });
}

/// The zone of each drive that is written to last, and where it ends.
fn last_written(images: &[MemoryDevice]) -> Vec<(ZoneId, u64)> {
    let last = |image: &MemoryDevice| {
        let zones = (2..14).map(|zone| (ZoneId(zone), image.zone(ZoneId(zone)).written.0));
        zones.filter(|(_, written)| *written > 0 && *written < 60).max().unwrap()
    };
    images.iter().map(last).collect()
}

/// A repair takes sets apart for one zone of theirs: the others form sets again.
#[test]
fn a_repair_leaves_no_zone_without_a_set() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        crash(&devices)
    });
    let (zone, end) = last_written(&images)[0];
    let last = images[0].zone(zone).start + Blocks(end - 1);
    images[0].corrupt(last, |bytes| bytes[50] ^= 1);
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        let before = store.0.sets.all().len();
        let scrubbed = store.scrub(ScrubOptions::default(), |_| {}).await.unwrap();
        assert_eq!((scrubbed.damaged.len(), scrubbed.repaired), (1, 1));
        assert_eq!(store.0.sets.all().len(), before);
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// EXAM-3: what a recovery took for whole, which could not see that a drive that is away has nothing of it, stays so: on the
/// strength of it what it replaced may have been reset.
#[test]
fn what_was_found_without_a_drive_stays_when_it_comes_back() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        let mut number = 0;
        while store.0.sets.count(SetState::Closed) == 0 {
            number += 1;
            store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        for number in 1..=number {
            store.delete(format!("a{number}")).await.unwrap();
        }
        store.put("o", bytes(3, 19_000), Bytes::new()).await.unwrap();
        crash(&devices)
    });
    // The last write was on its way to one drive.
    let (zone, end) = last_written(&images)[2];
    images[2].truncate_zone(zone, Blocks(end - 1));
    let images = Sim::new(2).run(move |rt| async move {
        let (devices, store, report) = open(&rt, &images[..2]).await;
        assert_eq!((report.missing_drives.len(), report.damage.len()), (1, 0));
        assert!(store.get("o").await.unwrap() == bytes(3, 19_000));
        assert_eq!(store.gc(1).await.unwrap(), 1);
        rt.sleep(Duration::from_millis(5)).await;
        let back = SimDevice::new(&rt, &images[2]);
        crash(&[devices, vec![back]].concat())
    });
    for round in 0..2 {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(3 + round).run(move |rt| async move {
            let (devices, store, report) = open(&rt, &images).await;
            assert_eq!((report.missing_drives.len(), report.damage), (0, vec![]));
            assert!(store.get("o").await.unwrap() == bytes(3, 19_000));
            let (_, store, _) = open(&rt, &crash(&devices)).await;
            assert!(store.get("o").await.unwrap() == bytes(3, 19_000));
        });
    }
}

/// EXAM-2: what a recovery takes that is rotten on one drive is made whole, before other drives are lost.
#[test]
fn what_was_torn_on_one_drive_is_mended() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        crash(&devices)
    });
    let (zone, end) = last_written(&images)[0];
    let last = images[0].zone(zone).start + Blocks(end - 1);
    images[0].corrupt(last, |bytes| bytes[50] ^= 1);
    Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
        let options = Options { available_sets: 3, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        let (store, _) = opened.unwrap();
        store.add_drive(&named(&[fresh])[0]).await.unwrap();
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
        rt.sleep(Duration::from_secs(120)).await;
        devices[1].power_off_at(0);
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
        store.close().await.unwrap();
    });
}

/// CLEAN-3: where no snapshot can be taken just now, or it makes no tombstone superfluous, sets that only tombstones keep from
/// being won are neither forgotten nor tried for ever.
#[test]
fn sets_that_tombstones_hold_are_tried_again_when_a_snapshot_helps() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let engine = store.0.clone();
        let set = engine.sets.get(id).unwrap();
        let holds = |engine: &Engine| {
            engine.held_by_tombstones.borrow_mut().insert(id);
            engine.sets.get(id).unwrap().no_gain_at.set(0);
        };
        holds(&engine);
        {
            let _taken = engine.snapshotting.lock().await;
            assert!(!engine.drop_tombstones().await.unwrap());
        }
        assert!(engine.drop_tombstones().await.unwrap() && set.no_gain_at.get() == u64::MAX);
        // A deletion that does not end.
        holds(&engine);
        engine.burying.borrow_mut().insert(engine.stamps.version());
        assert!(engine.drop_tombstones().await.unwrap());
        holds(&engine);
        assert!(!engine.drop_tombstones().await.unwrap(), "a snapshot changes nothing and is taken again");
        engine.burying.borrow_mut().clear();
        assert!(engine.drop_tombstones().await.unwrap());
    });
}

/// SET-1: a set that a superblock offers is empty durably: what it held, whose deletions are forgotten, does not come back.
#[test]
fn a_set_is_offered_only_when_its_resets_are_durable() {
    let full = Sim::new(1).run(|rt| async move {
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(60), 10, 0, 12) };
        let media: Vec<_> = (0..7).map(|_| MemoryDevice::new(geometry.clone())).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(1, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, available_sets: 100, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        let (store, _) = opened.unwrap();
        let mut number = 0;
        while store.0.sets.count(SetState::Closed) < 8 {
            number += 1;
            store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        for number in 1..=number {
            store.delete(format!("a{number}")).await.unwrap();
        }
        store.snapshot().await.unwrap();
        rt.sleep(Duration::from_millis(5)).await;
        let mut full = Vec::new();
        for (id, set) in store.0.sets.all().into_iter().filter(|(_, set)| set.state.get() == SetState::Indexed) {
            assert!(store.0.collect(id, &set).await.unwrap());
            rt.sleep(Duration::from_millis(1)).await;
            store.0.replenish().await.unwrap();
            assert_eq!(set.state.get(), SetState::Available);
            let members = set.members.borrow().clone();
            let crash = |seed: u64| devices.iter().map(|device| device.crash_image(seed)).collect::<Vec<_>>();
            let holds = |images: &Vec<MemoryDevice>| {
                members
                    .iter()
                    .all(|member| images[usize::from(member.drive.0)].zone(member.zone).written > Blocks::ZERO)
            };
            full.extend((1..=8).map(crash).find(holds));
        }
        full
    });
    let (sets, mut back) = (full.len(), 0);
    for images in full {
        back += Sim::new(2).run(move |rt| async move {
            let (_, store, _) = open(&rt, &images).await;
            store.list(b"", None, 99).unwrap().len()
        });
    }
    assert_eq!((sets, back), (0, 0), "sets that are offered and full, and objects that are back");
}

/// A call that nobody waits for any more keeps no turn: others go on, also while its put is still there.
#[test]
fn a_write_that_was_dropped_holds_up_nobody() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh(&rt).await;
        let mut put = store.begin_put("a").unwrap();
        assert!(put.write(bytes(1, 60_000)).now_or_never().is_none());
        let other = Box::pin(store.put("b", bytes(2, 19_000), Bytes::new()));
        let ended = select(other, Box::pin(rt.sleep(Duration::from_secs(60)))).await;
        assert!(matches!(ended, Either::Left((Ok(_), _))), "another object waits for the turn");
        drop(put);
    });
}

/// A set that is emptied for a rebuild is emptied to its end, also if nobody waits for the rebuild any more.
#[test]
fn emptying_a_set_ends_without_its_caller() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let set = store.0.sets.get(id).unwrap();
        let mut emptying = Box::pin(store.0.collect_alone(id, &set));
        while store.0.copying.get().is_none() {
            assert!((&mut emptying).now_or_never().is_none());
            rt.sleep(Duration::from_micros(1)).await;
        }
        drop(emptying);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!((store.0.copying.get(), store.0.moving.get()), (None, None));
        assert_eq!(set.state.get(), SetState::Empty);
    });
}
