//! Snapshots, and what they may leave out.

use super::*;

/// AS-REC-4: a version of which the beginning was in the snapshot, was given up, and its set used again; its end is on the
/// drives all the same. Its beginning must not be read out of what lies there now. (AS-SET-3)
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
        while set.state() != SetState::Closed && set.state() != SetState::Indexed {
            number += 1;
            store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        while set.generation() == 0 {
            assert!(store.0.collect_alone(of_it, &set).await.unwrap());
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        orphan(&store.0, version, written, bytes(1, 10_000), Some(written + 10_000)).await;
        while set.written() < 40 {
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

/// AS-SNAP-3: an object lies behind an item that no snapshot covers yet, and so is not covered itself, although it is in the
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
        while set.phase() == Phase::Filling {
            number += 1;
            store.put(format!("a{number}"), bytes(3, 19_000), Bytes::new()).await.unwrap();
        }
        assert_eq!((set.phase(), set.state()), (Phase::Ending, SetState::Open), "the case is not met");
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

/// AS-CLEAN-3: where no snapshot can be taken just now, or it makes no tombstone superfluous, sets that only tombstones keep from
/// being won are neither forgotten nor tried for ever.
#[test]
fn sets_that_tombstones_hold_are_tried_again_when_a_snapshot_helps() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store, id) = filled(&rt).await;
        let engine = store.0.clone();
        let set = engine.sets.get(id).unwrap();
        let holds = |engine: &Engine| {
            engine.snapshots.held_by_tombstones.borrow_mut().insert(id);
            engine.sets.get(id).unwrap().wins_nothing_at(u64::MAX);
        };
        holds(&engine);
        {
            let _taken = engine.snapshots.taking.lock().await;
            assert!(!engine.drop_tombstones().await.unwrap());
        }
        assert!(engine.drop_tombstones().await.unwrap() && set.may_win());
        // A deletion that does not end.
        holds(&engine);
        let burying = engine.stamps.version();
        engine.deleting.begin(burying);
        assert!(engine.drop_tombstones().await.unwrap());
        holds(&engine);
        assert!(!engine.drop_tombstones().await.unwrap(), "a snapshot changes nothing and is taken again");
        engine.deleting.end(&[crate::format::Tombstone { name: Bytes::new(), version: burying }]);
        assert!(engine.drop_tombstones().await.unwrap());
    });
}

/// AS-CLEAN-3: a snapshot that is being taken already is as good as one that cleaning takes, and is waited for.
#[test]
fn cleaning_waits_for_a_snapshot_that_makes_tombstones_superfluous() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let engine = store.0.clone();
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(20)));
        let taking = {
            let store = store.clone();
            rt.spawn(async move { store.snapshot().await })
        };
        rt.sleep(Duration::from_micros(1)).await;
        assert!(engine.snapshots.taking.try_lock().is_err(), "the case is not met");
        engine.snapshots.held_by_tombstones.borrow_mut().insert(id);
        let set = engine.sets.get(id).unwrap();
        set.wins_nothing_at(u64::MAX);
        assert!(engine.drop_tombstones().await.unwrap() && set.may_win());
        taking.await.unwrap().unwrap();
        // One that waits for cleaning is not.
        engine.snapshots.held_by_tombstones.borrow_mut().insert(id);
        let _taken = engine.snapshots.taking.lock().await;
        engine.snapshots.waits.set(true);
        let began = rt.now();
        assert!(!engine.drop_tombstones().await.unwrap() && rt.now() == began);
    });
}

/// The same where that takes long, as long as pieces of it land.
#[test]
fn cleaning_waits_for_a_long_snapshot_as_long_as_pieces_land() {
    Sim::new(1).run(|rt| async move {
        let options = Options { background: false, ..Options::default() };
        let (devices, store) = super::cleaners::fresh_with(&rt, 3, 40, options).await;
        for number in 0..400 {
            store.put(format!("{number:x<900}"), bytes(3, 10), bytes(4, 900)).await.unwrap();
        }
        let engine = store.0.clone();
        let (id, _) = engine.sets.of(List::Closed).next().unwrap();
        devices.iter().for_each(|device| device.set_latency(Duration::from_secs(1)));
        let taking = {
            let store = store.clone();
            rt.spawn(async move { store.snapshot().await })
        };
        rt.sleep(Duration::from_micros(1)).await;
        engine.snapshots.held_by_tombstones.borrow_mut().insert(id);
        engine.sets.get(id).unwrap().wins_nothing_at(u64::MAX);
        let began = rt.now();
        assert!(engine.drop_tombstones().await.unwrap(), "given up after {:?}", rt.now().since(began));
        assert!(
            rt.now().since(began) > 2 * crate::clean::collect::READERS_WAIT,
            "the case is not met: {:?}",
            rt.now().since(began)
        );
        taking.await.unwrap().unwrap();
        // One that does not go on is not waited for longer than before.
        engine.snapshots.held_by_tombstones.borrow_mut().insert(id);
        let _taken = engine.snapshots.taking.lock().await;
        let began = rt.now();
        assert!(!engine.drop_tombstones().await.unwrap());
        assert!(rt.now().since(began) <= crate::clean::collect::READERS_WAIT);
    });
}

/// AS-SNAP-4: a zone of the snapshot before cannot be reset, or a reader keeps it.
#[test]
fn a_snapshot_neither_waits_for_the_one_before_nor_fails_with_it() {
    for read in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let (devices, store, _) = filled(&rt).await;
            let engine = store.0.clone();
            store.snapshot().await.unwrap();
            let (old, set) = engine.sets.of(List::Index).next().unwrap();
            let reader = if read { engine.sets.pin(old) } else { None };
            if !read {
                let member = set.members()[0];
                let trigger = Trigger::Zone(CommandKind::Reset, member.zone);
                let rule = FaultRule { trigger, fault: Fault::CommandError };
                devices[usize::from(member.drive.0)].set_faults(Faults::new([rule]));
            }
            for _ in 0..3 {
                let floor = engine.snapshots.durable_floor.get();
                let taken = Box::pin(store.snapshot());
                let ended = select(taken, Box::pin(rt.sleep(Duration::from_secs(3600)))).await;
                let Either::Left((taken, _)) = ended else { panic!("it waits for a reader") };
                taken.unwrap();
                assert!(engine.snapshots.durable_floor.get() > floor);
                rt.sleep(Duration::from_secs(1)).await;
            }
            if read {
                assert!(set.is_leaving(), "it was reset under its reader");
            }
            drop(reader);
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            rt.sleep(Duration::from_secs(1)).await;
            assert!(matches!(set.state(), SetState::Empty | SetState::Available), "{:?}", set.state());
            assert_eq!(engine.sets.listed(List::Index), 1);
            assert!(engine.snapshots.trimming.borrow().is_empty());
        });
    }
}

/// Deletions and cleaning alone are followed by a snapshot: else recovery would look at ever more of what they write.
#[test]
fn deletions_and_cleaning_alone_are_followed_by_a_snapshot() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        store.close().await.unwrap();
        let options = Options {
            available_sets: 3,
            snapshot_interval: Duration::from_secs(60),
            slow_for_most: None,
            ..Options::default()
        };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
        let (store, engine) = (opened.0.clone(), opened.0.0.clone());
        let taken = |engine: &Engine| engine.snapshots.newest.borrow().pieces.clone();
        let next = async |what: &str, more: bool| {
            let before = taken(&engine);
            rt.sleep(Duration::from_secs(125)).await;
            assert_eq!(taken(&engine) != before, more, "{what}");
        };
        store.put("o", bytes(1, 100), Bytes::new()).await.unwrap();
        next("a put", true).await;
        next("nothing", false).await;
        assert!(store.delete("a2").await.unwrap());
        next("a deletion", true).await;
        let set = engine.sets.get(id).unwrap();
        assert!(engine.collect_alone(id, &set).await.unwrap());
        next("cleaning", true).await;
        next("nothing", false).await;
        store.close().await.unwrap();
    });
}
