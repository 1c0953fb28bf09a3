//! Rebuilds beside all else that goes on.

use shingle_zoned::ZoneState;

use super::*;
use crate::format::Member;
use crate::repair::replace::Replaced;
use crate::zone_set::ZoneSet;

/// AS-SET-4: a rebuild that comes to a set while its zones are being reset leaves it alone. Reset zone by zone, it seems to hold
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
        set.hurt();
        assert!(store.0.collect_alone(id, &set).await.unwrap());
        while set.phase() != Phase::Resetting {
            rt.yield_now().await;
        }
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(set.phase(), Phase::Resetting, "the case is not met");
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert_eq!((done.failed, set.state() == SetState::Closed), (0, false), "{done:?}");
        assert!(store.get("a2").await.unwrap() == bytes(2, 19_000));
    });
}

/// AS-SET-4: a rebuild that comes to a snapshot's set of which only the first piece is written waits for the others.
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
        let available = store.0.sets.all().filter(|(_, set)| set.state() == SetState::Available);
        let (id, set) = available.min_by_key(|(id, _)| *id).unwrap();
        let members = set.members();
        let slow = FaultRule { trigger: Trigger::Zone(CommandKind::Write, members[2].zone), fault: Fault::Slow };
        devices[usize::from(members[2].drive.0)].set_faults(Faults::new([slow]));
        let snapshot = {
            let store = store.clone();
            rt.spawn(async move { store.snapshot().await })
        };
        while set.written() == 0 {
            rt.sleep(Duration::from_micros(10)).await;
        }
        assert_eq!((set.state(), set.phase()), (SetState::Index, Phase::Filling));
        lose(&devices, &store, usize::from(members[0].drive.0)).await;
        let Survey { spares, .. } = store.0.survey().await.unwrap();
        assert_eq!(set.phase(), Phase::Filling, "the case is not met");
        let lost = vec![(id, set.clone(), members[0])];
        let (told, _told) = tokio::sync::mpsc::unbounded_channel();
        let (done, why) = store.0.replace_all(lost, spares, RebuildOptions::default(), &told).await.unwrap();
        snapshot.await.unwrap().unwrap();
        assert_eq!((done.done, why.map(|why| why.to_string())), (1, None));
        assert!(store.0.snapshots.newest.borrow().pieces.len() > 1, "the case is not met");
        let end = store.0.snapshots.newest.borrow().pieces.iter().map(|piece| piece.block).max().unwrap();
        assert!(set.end() > end, "the snapshot counts only in part");
        let scrubbed = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
        assert_eq!((scrubbed.damaged, scrubbed.lost), (vec![], vec![]));
    });
}

/// AS-MEMBER-1: while a survey looks at the drives, another zone of a set is replaced: the old one is no spare yet.
#[test]
fn a_survey_does_not_give_away_what_a_superblock_still_names() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let engine = store.0.clone();
        let set = engine.sets.get(id).unwrap();
        let member = set.members()[0];
        let replaced = {
            let (engine, set) = (engine.clone(), set.clone());
            move || {
                if set.members()[0] == member {
                    assert!(set.replace_member(member, Member { zone: ZoneId(13), ..member }));
                    engine.superblock.count_replaced();
                }
            }
        };
        devices[0].on_command(move |command, _| {
            if command.kind == CommandKind::Report {
                replaced();
            }
        });
        let Survey { spares, .. } = engine.survey().await.unwrap();
        assert_ne!(set.members()[0], member, "the case is not met");
        let given = spares[&member.drive].contains(&member.zone);
        assert!(!given || engine.superblock.unsaved() == 0, "{} is in a durable superblock still", member.zone);
    });
}

/// A repair takes sets apart for one zone of theirs: the others form sets again.
#[test]
fn a_repair_leaves_no_zone_without_a_set() {
    let images = rotten();
    Sim::new(2).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        let before = store.0.sets.len();
        let scrubbed = store.scrub(ScrubOptions::default(), |_| {}).await.unwrap();
        assert_eq!((scrubbed.damaged.len(), scrubbed.repaired), (1, 1));
        assert_eq!(store.0.sets.len(), before);
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// A set that is emptied for a rebuild is emptied to its end, also if nobody waits for the rebuild any more.
#[test]
fn emptying_a_set_ends_without_its_caller() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let set = store.0.sets.get(id).unwrap();
        let mut emptying = Box::pin(store.0.collect_alone(id, &set));
        while store.0.cleaners.copying().is_none() {
            assert!((&mut emptying).now_or_never().is_none());
            rt.sleep(Duration::from_micros(1)).await;
        }
        drop(emptying);
        rt.sleep(Duration::from_secs(1)).await;
        assert!(store.0.cleaners.copying().is_none() && store.0.cleaners.moving().is_empty());
        assert_eq!(set.state(), SetState::Empty);
    });
}

/// AS-STUCK-1: a set that was passed over is emptied for a rebuild only once it may be tried again; one that recovery could not read
/// never, for nobody knows what lives in it.
#[test]
fn a_set_that_was_passed_over_is_not_emptied_for_a_rebuild_either() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let set = store.0.sets.get(id).unwrap();
        set.set_stuck(true);
        assert!(!store.0.collect_alone(id, &set).await.unwrap());
        rt.sleep(Duration::from_secs(3600)).await;
        assert!(!store.0.collect_alone(id, &set).await.unwrap() && !set.is_leaving(), "what nobody read is gone");
        set.set_stuck(false);
        store.0.pass_over(id, &set);
        assert!(!store.0.collect_alone(id, &set).await.unwrap());
        rt.sleep(Duration::from_secs(601)).await;
        assert!(store.0.collect_alone(id, &set).await.unwrap());
    });
}

/// AS-LIST-2: where no zone is spare a rebuild takes empty sets apart, and looks at those alone for their zones.
#[test]
fn a_rebuild_without_spare_zones_does_not_look_at_all_sets_again_and_again() {
    Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..4).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 200, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: 100_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        let store = opened.unwrap().0;
        let mut number = 0;
        while store.0.free_sets() > 120 {
            number += 1;
            store.put(format!("o{number}"), bytes(number as u8, 400_000), Bytes::new()).await.unwrap();
        }
        lose(&devices, &store, 0).await;
        let before = store.0.sets.touched();
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        let touched = store.0.sets.touched() - before;
        assert!(done.done > 90 && done.failed == 0 && store.0.drives.missing().is_empty(), "{done:?}");
        assert!(touched < 10 * store.0.sets.len() as u64, "{touched} sets were looked at");
        for number in 1..=number {
            assert!(store.get(format!("o{number}")).await.unwrap() == bytes(number as u8, 400_000));
        }
        let scrubbed = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
        assert_eq!((scrubbed.damaged, scrubbed.lost), (vec![], vec![]));
    });
}

/// AS-STUCK-1: a drive that joins under the number of one that left may mend what was passed over, as any other.
#[test]
fn a_set_that_was_passed_over_is_tried_again_when_a_drive_has_an_old_number() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let engine = &store.0;
        join(&rt, &store).await;
        store.remove_drive(DriveId(3), RebuildOptions::default(), |_| {}).await.unwrap();
        let numbers = engine.drives.ids().len();
        engine.pass_over(id, &engine.sets.get(id).unwrap());
        rt.sleep(Duration::from_secs(2)).await;
        assert!(!engine.retry_stuck());
        join(&rt, &store).await;
        assert_eq!((engine.drives.ids().len(), engine.drives.missing().len()), (numbers, 0), "the case is not met");
        assert!(engine.retry_stuck());
    });
}

/// AS-MEMBER-3: a rebuild that nobody waits for any more, whenever that comes, leaves nothing on its way to zones that another
/// one uses.
#[test]
fn a_rebuild_that_was_dropped_is_not_in_the_way_of_the_next() {
    for wait in (0..40).map(|step| step * 60) {
        Sim::new(wait).run(move |rt| async move {
            let (devices, store, _) = filled(&rt).await;
            join(&rt, &store).await;
            lose(&devices, &store, 0).await;
            let rebuild = Box::pin(store.rebuild(RebuildOptions::default(), |_| {}));
            let ended = select(rebuild, Box::pin(rt.sleep(Duration::from_micros(wait)))).await;
            if matches!(ended, Either::Left(_)) {
                return;
            }
            drop(ended);
            let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            assert_eq!((done.failed, store.0.drives.missing().len()), (0, 0), "dropped after {wait} us: {done:?}");
            let scrubbed =
                store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
            assert_eq!((scrubbed.damaged, scrubbed.lost), (vec![], vec![]), "dropped after {wait} us");
        });
    }
}

/// AS-CLEAN-7: nothing lives in a set, and rot took its heads and digests on all drives. A rebuild ends it, and takes the lost drive out; what
/// was deleted stays deleted.
#[test]
fn a_dead_set_that_cannot_be_read_fails_no_rebuild() {
    for snapshot_before in [false, true] {
        let images = Sim::new(1).run(move |rt| async move {
            let (mut devices, store, id) = filled(&rt).await;
            let set = store.0.sets.get(id).unwrap();
            for number in 1.. {
                let name = format!("a{number}");
                let Ok(object) = store.head(name.as_bytes()) else { continue };
                let place = store.0.index().unwrap().part(name.as_bytes(), object.version, 0).unwrap().unwrap();
                if place.set == id {
                    store.delete(name).await.unwrap();
                }
                if set.live() == 0 {
                    break;
                }
            }
            if snapshot_before {
                store.snapshot().await.unwrap();
            }
            for member in set.members() {
                let device = &devices[usize::from(member.drive.0)];
                let zone = device.image().zone(member.zone);
                device.medium().fail_reads(zone.start, zone.written, None);
            }
            let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
            store.add_drive(&named(std::slice::from_ref(&fresh))[0]).await.unwrap();
            lose(&devices, &store, 0).await;
            let state = if snapshot_before { SetState::Indexed } else { SetState::Closed };
            assert_eq!((set.state(), set.live()), (state, 0), "the case is not met");
            let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            assert!(done.failed == 0 && done.done > 0, "{done:?}");
            assert_eq!(store.0.drives.missing(), []);
            devices.push(fresh);
            crash(&devices[1..])
        });
        Sim::new(2).run(move |rt| async move {
            let (_, store, report) = open(&rt, &images).await;
            assert_eq!(report.damage, Vec::<String>::new());
            assert_eq!(store.head(b"a1").unwrap_err().kind, ErrorKind::NotFound);
            let listed = store.list(b"", None, usize::MAX).unwrap();
            assert!(listed.len() > 5, "the case is not met");
            for object in listed {
                assert!(store.get(object.name).await.unwrap() == bytes(2, 19_000));
            }
        });
    }
}

/// AS-CLEAN-7: rot took the set that holds the snapshot on all drives. A rebuild that comes to it takes another snapshot, and ends.
#[test]
fn a_snapshot_that_cannot_be_read_fails_no_rebuild() {
    let images = Sim::new(1).run(|rt| async move {
        let (mut devices, store, _) = filled(&rt).await;
        store.snapshot().await.unwrap();
        let is_old = |(_, set): &(SetId, Rc<ZoneSet>)| set.state() == SetState::Index;
        let (old, set) = store.0.sets.all().find(is_old).unwrap();
        for member in set.members() {
            let device = &devices[usize::from(member.drive.0)];
            let zone = device.image().zone(member.zone);
            device.medium().fail_reads(zone.start, zone.written, None);
        }
        let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
        store.add_drive(&named(std::slice::from_ref(&fresh))[0]).await.unwrap();
        lose(&devices, &store, usize::from(set.members()[0].drive.0)).await;
        let lost = usize::from(set.members()[0].drive.0);
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert!(done.failed == 0 && done.done > 0, "{done:?}");
        assert_eq!(store.0.drives.missing(), []);
        assert!(
            store.0.snapshots.newest.borrow().pieces.iter().all(|piece| piece.set != old),
            "it is still the snapshot"
        );
        devices.push(fresh);
        devices.remove(lost);
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert_eq!(report.damage, Vec::<String>::new());
        assert!(report.snapshot_pieces > 0);
        assert!(store.get("a2").await.unwrap() == bytes(2, 19_000));
    });
}

/// AS-REPLACE-1: a set is emptied and filled anew while a rebuild that has read it waits for a drive. The read data is
/// not written over the set's new data.
#[test]
fn a_set_that_lives_again_gets_nothing_of_its_life_before() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        join(&rt, &store).await;
        let engine = &store.0;
        let set = engine.sets.get(id).unwrap();
        let lost = set.members()[0];
        let contents = engine.contents_without(id, &set, lost).await.unwrap().unwrap();
        let life = set.generation();
        assert!(engine.collect_alone(id, &set).await.unwrap());
        let mut number = 0;
        while set.generation() == life || set.state() != SetState::Closed || set.phase() != Phase::Still {
            number += 1;
            store.put(format!("b{number}"), bytes(3, 19_000), Bytes::new()).await.unwrap();
            if number > 8 {
                store.delete(format!("b{}", number - 8)).await.unwrap();
            }
            assert!(number < 400, "the case is not met");
        }
        let Survey { spares, .. } = engine.survey().await.unwrap();
        let taken = set.drives();
        let (drive, zones) = spares.iter().find(|(drive, zones)| !taken.has(**drive) && !zones.is_empty()).unwrap();
        let spare = Member { drive: *drive, zone: zones[0] };
        let replaced = engine.replace_member(id, &set, lost, spare, &contents).await.unwrap();
        assert!(matches!(replaced, Replaced::Changed), "the case is not met");
        assert_eq!(set.members()[0], lost, "it got what it held before");
    });
}

/// Full sets of an array of 3+2 of which two drives are lost and two others joined; the array, and a block of a fragment of `o` on a
/// drive that is left. All objects have 19,000 bytes.
async fn two_lost(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore, Vec<String>, (usize, shingle_base::Lba)) {
    let (devices, store) = fresh_of(rt, Code::new(3, 2).unwrap()).await;
    let mut names = Vec::new();
    while store.0.sets.count(SetState::Closed) < 2 {
        names.push(format!("a{}", names.len()));
        store.put(names[names.len() - 1].clone(), bytes(2, 19_000), Bytes::new()).await.unwrap();
        rt.sleep(Duration::from_millis(1)).await;
    }
    let version = store.head(names[0].as_bytes()).unwrap().version;
    let place = store.0.index().unwrap().part(names[0].as_bytes(), version, 0).unwrap().unwrap();
    let set = store.0.sets.get(place.set).unwrap();
    assert_eq!(set.state(), SetState::Closed, "the case is not met");
    let member = set.members()[2];
    let at = devices[0].image().zone(member.zone).start + Blocks(u64::from(place.block) + 1);
    join(rt, &store).await;
    join(rt, &store).await;
    lose(&devices, &store, 0).await;
    lose(&devices, &store, 1).await;
    (devices, store, names, (usize::from(member.drive.0), at))
}

/// AS-REPLACE-3: two drives of 3+2 were given up, and a block of a third is rotten. Neither waits for the other: all but the rows with
/// rot gets new members, and the lost drives are taken out.
#[test]
fn rot_beside_drives_that_were_given_up_holds_up_no_rebuild() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, names, (drive, at)) = two_lost(&rt).await;
        devices[drive].medium().rot(at, 7);
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert_eq!((done.failed, store.0.drives.missing().len()), (0, 0), "{done:?}");
        // Any two others may go.
        lose(&devices, &store, 3).await;
        lose(&devices, &store, 4).await;
        for name in &names[1..] {
            assert!(store.get(name.clone()).await.unwrap() == bytes(2, 19_000), "{name}");
        }
    });
}

/// AS-REPLACE-3: the block cannot be read, and nobody knows whether it can be later. All else in its set is moved to others.
#[test]
fn a_block_that_cannot_be_read_holds_up_no_more_than_its_objects() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, names, (drive, at)) = two_lost(&rt).await;
        devices[drive].medium().fail_reads(at, Blocks(1), None);
        drop(store.rebuild(RebuildOptions::default(), |_| {}).await);
        let left = store.0.sets.all().filter(|(_, set)| store.0.lossy(set) > 0 && set.live() > 0);
        let left: Vec<u64> = left.map(|(_, set)| set.live()).collect();
        assert_eq!(left, [19_000], "bytes that live in sets which lack drives");
        // It can be read again.
        devices[drive].medium().heal();
        rt.sleep(Duration::from_secs(700)).await;
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert_eq!((done.failed, store.0.drives.missing().len()), (0, 0), "{done:?}");
        for name in &names {
            assert!(store.get(name.clone()).await.unwrap() == bytes(2, 19_000), "{name}");
        }
    });
}

/// AS-REPLACE-1: a zone fails with what its cache holds once all of a member's data was written to it, and the flush succeeds. The
/// member that it was to take the place of stays, on a drive that is taken out.
#[test]
fn a_zone_that_failed_before_it_was_flushed_takes_no_members_place() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, _) = filled(&rt).await;
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(60), 14, 0, 12) };
        let added = SimDevice::new(&rt, &MemoryDevice::new(geometry));
        store.add_drive(&named(std::slice::from_ref(&added))[0]).await.unwrap();
        let failed = Rc::new(Cell::new(false));
        let (told, mut written) = (failed.clone(), None);
        added.on_command(move |command, device| match (command.kind, written) {
            (CommandKind::Write, _) => written = command.zone.filter(|zone| zone.0 > 1).or(written),
            (CommandKind::Flush, Some(zone)) if !told.replace(true) => {
                device.medium().set_state(zone, ZoneState::Offline);
            }
            _ => {}
        });
        let removed = store.remove_drive(DriveId(0), RebuildOptions::default(), |_| {}).await;
        added.on_command(|_, _| {});
        assert_eq!(removed.unwrap_err().kind, ErrorKind::NoSpace);
        assert!(failed.get(), "the case is not met");
        let stays = store.0.sets.all().filter(|(_, set)| set.has_member(|member| member.drive == DriveId(0)));
        assert_eq!(stays.filter(|(_, set)| set.live() > 0).count(), 1);
        // The other sets have another member, this one its old one: any drive may go.
        lose(&devices, &store, 1).await;
        for object in store.list(b"a", None, 100).unwrap() {
            assert!(store.get(object.name).await.unwrap() == bytes(2, 19_000));
        }
    });
}

/// AS-REPLACE-1: a drive says nothing of the zones that were written anew, once, or at the flush before one superblock and for longer. They
/// take their places once it does.
#[test]
fn a_drive_that_says_nothing_for_a_while_spoils_no_zone() {
    for silent in [1, 3, 30] {
        Sim::new(1).run(move |rt| async move {
            let (devices, store, _) = filled(&rt).await;
            let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(60), 14, 0, 12) };
            let added = SimDevice::new(&rt, &MemoryDevice::new(geometry));
            store.add_drive(&named(std::slice::from_ref(&added))[0]).await.unwrap();
            let failed = Rc::new(Cell::new(false));
            let (told, mut written) = (failed.clone(), false);
            added.on_command(move |command, device| match command.kind {
                CommandKind::Write => written |= command.zone.is_some_and(|zone| zone.0 > 1),
                CommandKind::Flush if written && !told.replace(true) => {
                    let report = |nth| Trigger::Nth(CommandKind::Report, nth);
                    let rules = (0..silent).map(|nth| FaultRule { trigger: report(nth), fault: Fault::ReadError });
                    device.set_faults(Faults::new(rules));
                }
                _ => {}
            });
            store.remove_drive(DriveId(0), RebuildOptions::default(), |_| {}).await.unwrap();
            assert!(failed.get(), "the case is not met");
            lose(&devices, &store, 1).await;
            for object in store.list(b"a", None, 100).unwrap() {
                assert!(store.get(object.name).await.unwrap() == bytes(2, 19_000));
            }
        });
    }
}

/// AS-CLOSE-3: an array is closed while it is rebuilt, as fast as that goes or at a limit, and nobody looks at the rebuild any more: it
/// ends first, soon.
#[test]
fn a_rebuild_ends_with_the_array() {
    for (rate, wait) in [None, Some(1)].into_iter().flat_map(|rate| (0..20).map(move |step| (rate, step * 300))) {
        Sim::new(wait).run(move |rt| async move {
            let (devices, store, _) = filled(&rt).await;
            join(&rt, &store).await;
            lose(&devices, &store, 0).await;
            let rebuilt = store.clone();
            let options = RebuildOptions { bytes_per_second: rate };
            let rebuild = Box::pin(rebuilt.rebuild(options, |_| {}));
            let ended = select(rebuild, Box::pin(rt.sleep(Duration::from_micros(wait)))).await;
            let closed = select(Box::pin(store.close()), Box::pin(rt.sleep(Duration::from_secs(60)))).await;
            let Either::Left((closed, _)) = closed else { panic!("closing takes long, at {rate:?} after {wait} us") };
            closed.unwrap();
            let commands = || devices.iter().map(|device| device.counts().commands).sum::<u64>();
            let before = commands();
            rt.sleep(Duration::from_secs(60)).await;
            assert_eq!(commands(), before, "commands came later, at {rate:?} after {wait} us");
            drop(ended);
        });
    }
}
