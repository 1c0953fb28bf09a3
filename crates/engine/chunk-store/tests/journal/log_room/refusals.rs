//! Refused calls, and work that goes on meanwhile.

use super::*;

/// CS-ROOM-1: small appends to many chunks, whose records make no runs.
#[test]
fn appends_are_refused_before_the_index_outgrows_a_checkpoint() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 600, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in 0..450 {
            store.create(id(chunk), Stream::Data).await.unwrap();
        }
        let (mut sizes, mut refused) = (Vec::new(), 0);
        for chunk in 0..450 {
            let (mut at, mut appends) = (0, Vec::new());
            for number in 0..30 {
                let length = 10 + number % 2;
                appends.push(append(&store, chunk, at, length));
                at += length;
            }
            let ends: Vec<_> = join_all(appends).await;
            for error in ends.iter().filter_map(|end| end.as_ref().err()) {
                let follows = matches!(error.kind, ErrorKind::WrongOffset { .. });
                assert!(error.kind == ErrorKind::NoSpace || follows, "{error}");
                refused += 1;
            }
            sizes.push(ends.iter().filter_map(|end| end.as_ref().ok()).max().copied().unwrap_or(0));
        }
        assert!(refused > 0, "{refused}");
        let error = store.create(id(1000), Stream::Data).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace);
        // A checkpoint has room, and what is deleted makes some.
        store.checkpoint().await.unwrap();
        for chunk in 0..50 {
            store.delete(id(chunk)).await.unwrap();
        }
        append(&store, 449, sizes[449], 10).await.unwrap();
        store.close().await.unwrap();
        let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
        assert_eq!(report.damage, []);
        for chunk in 50..449 {
            assert_eq!(store.stat(id(chunk)).unwrap().size, sizes[chunk as usize]);
        }
    });
}

/// CS-ROOM-1: the index has as many chunks as it has room for; a few go, and appends to all others land, without a place
/// in it. They leave GC its part: once they have their place it still wins zones, and checkpoints have room. So it is
/// where an opening took them as they had landed.
#[test]
fn what_has_only_landed_counts_for_the_room_of_the_index() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 1200, 0, 24));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (budget, idle) = (1 << 30, Duration::from_secs(360_000));
        let landing = Landing { append_max: 100, budget, zones: 16, idle, everywhere: true };
        let options = || Options { landing: Some(landing), ..quiet() };
        let (store, _) = open(&rt, &device, quiet()).await;
        // Zones half of which dies.
        let mut kinds = [10_000, 20_000].map(|next| Kind { next, at: 0, full: Vec::new() });
        for number in 0..800 {
            kinds[number % 2].append(&store).await;
        }
        kinds[1].end(&store).await;
        for (chunk, _) in &kinds[1].full {
            store.delete(id(*chunk)).await.unwrap();
        }
        store.close().await.unwrap();
        let device = SimDevice::new(&rt, &device.image());
        let (store, _) = open(&rt, &device, options()).await;
        let mut chunks = 0;
        while store.create(id(chunks), Stream::Data).await.is_ok() {
            chunks += 1;
        }
        for chunk in 0..20 {
            store.delete(id(chunk)).await.unwrap();
        }
        // From then on there are zones to land in.
        append(&store, 20, 0, 10).await.unwrap();
        rt.sleep(Duration::from_secs(1)).await;
        let (mut sizes, mut refused) = (vec![0; chunks as usize], 0);
        sizes[20] = 10;
        for first in (21..chunks).step_by(50) {
            let some = first..chunks.min(first + 50);
            let appended = join_all(some.clone().map(|chunk| append(&store, chunk, 0, 10))).await;
            for (chunk, end) in some.zip(appended) {
                match end {
                    Ok(end) => sizes[chunk as usize] = end,
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                        refused += 1;
                    }
                }
            }
        }
        let image = device.crash_image(1);
        for (chunk, end) in (20..chunks).zip(join_all((20..chunks).map(|chunk| store.seal(id(chunk)))).await) {
            assert_eq!(end.unwrap_or_else(|error| panic!("CS-ROOM-1: {error}")), sizes[chunk as usize]);
        }
        let has_room = async |store: &ChunkStore| {
            let zones = store.gc(1000, |_| {}).await.unwrap_or_else(|error| panic!("CS-ROOM-1: {error}")).zones;
            assert!(zones > 0, "CS-ROOM-1: GC has no room in the index");
            store.checkpoint().await.unwrap_or_else(|error| panic!("CS-ROOM-1: {error}"));
        };
        has_room(&store).await;
        // The same after a power cut.
        let (store, report) = open(&rt, &SimDevice::new(&rt, &image), options()).await;
        assert_eq!(report.damage, []);
        for chunk in 20..chunks {
            assert_eq!(store.stat(id(chunk)).unwrap().size, sizes[chunk as usize]);
        }
        has_room(&store).await;
        assert!(refused > 0, "the case is not met");
    });
}

/// Equal records make runs, which take little: of these the index has room for many more.
#[test]
fn equal_appends_are_not_refused_for_the_most_that_they_could_take() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 600, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in 0..480 {
            store.create(id(chunk), Stream::Data).await.unwrap();
            let ends = join_all((0..30).map(|number| append(&store, chunk, number * 10, 10))).await;
            assert!(ends.iter().all(Result::is_ok), "chunk {chunk}");
        }
        store.checkpoint().await.unwrap();
    });
}

/// CS-ROOM-3: three of six metazones are read-only, so that no checkpoint makes room. All that changes something ends with
/// an error, and the drive is not written to again and again.
#[test]
fn with_too_few_metazones_changes_are_refused_and_reads_go_on() {
    for background in [false, true] {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            store.create(id(1), Stream::Data).await.unwrap();
            append(&store, 1, 0, 20_000).await.unwrap();
            store.close().await.unwrap();
            let medium = device.image();
            for zone in 4..=6 {
                medium.set_state(ZoneId(zone), ZoneState::ReadOnly);
            }
            let device = SimDevice::new(&rt, &medium);
            let options = Options { background, ..quiet() };
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options).await.unwrap();
            for round in 0..3 {
                let created = ends(&rt, "create", store.create(id(2), Stream::Data)).await;
                assert_eq!(created.unwrap_err().kind, ErrorKind::Device, "round {round}");
                let appended = ends(&rt, "append", append(&store, 1, 20_000, 100)).await;
                assert_eq!(appended.unwrap_err().kind, ErrorKind::Device, "round {round}");
                let sealed = ends(&rt, "seal", store.seal(id(1))).await;
                assert_eq!(sealed.unwrap_err().kind, ErrorKind::Device, "round {round}");
                let deleted = ends(&rt, "delete", store.delete(id(1))).await;
                assert_eq!(deleted.unwrap_err().kind, ErrorKind::Device, "round {round}");
                assert!(store.read(id(1), 0, 20_000).await.unwrap() == content(1, 0, 20_000));
                rt.sleep(Duration::from_secs(600)).await;
            }
            let writes = device.counts().writes.0;
            assert!(writes < 60, "{writes} writes");
            drop(ends(&rt, "close", store.close()).await);
            let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
            assert_eq!(report.damage, []);
            assert!(store.read(id(1), 0, 20_000).await.unwrap() == content(1, 0, 20_000));
        });
    }
}

/// CS-ROOM-3: while a checkpoint is written it takes metazones that the next one would need. Callers that wait for the
/// journal meanwhile are not told that no checkpoint makes room.
#[test]
fn a_checkpoint_under_way_is_no_full_log() {
    let medium = with_metazones(200, 12);
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { background: true, ..quiet() }).await;
        let created = join_all((0..1300).map(|number| store.create(id(number), Stream::Data))).await;
        assert!(created.iter().all(Result::is_ok));
        let before = store.counters().checkpoints;
        // Callers come all the time, whatever is under way.
        let callers = (0..2000).map(|caller| {
            let (rt, store) = (rt.clone(), store.clone());
            async move {
                rt.sleep(Duration::from_micros(50 * caller)).await;
                churn(&store, 10_000 + caller, 1).await
            }
        });
        for churned in join_all(callers).await {
            churned.unwrap_or_else(|error| panic!("CS-ROOM-3: {error}"));
        }
        let made = store.counters().checkpoints - before;
        assert!(made > 10, "the journal was full {made} times at most");
    });
}

/// CS-ROOM-2, CS-ROOM-3: checkpoints that had no room while the journal took entries are not begun, and say nothing of the
/// time after deletions.
#[test]
fn checkpoints_that_had_no_room_before_deletions_do_not_make_the_log_full() {
    let medium = with_metazones(200, 15);
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let created = join_all((0..1600).map(|number| store.create(id(number), Stream::Data))).await;
        assert!(created.iter().all(Result::is_ok));
        store.close().await.unwrap();
        // Of the log's zones six can be written: three that it needs, and three for more.
        let medium = device.image();
        let needed = needed_metazones(&rt, &medium).await;
        assert!(needed.len() >= 3, "{needed:?}");
        let spare = (1..=15).map(ZoneId).filter(|zone| !needed.contains(zone)).take(3);
        let usable: Vec<ZoneId> = needed.iter().rev().copied().take(3).chain(spare).collect();
        for zone in (1..=15).map(ZoneId).filter(|zone| !usable.contains(zone)) {
            medium.set_state(zone, ZoneState::ReadOnly);
        }
        let (store, _) = open(&rt, &SimDevice::new(&rt, &medium), quiet()).await;
        for _ in 0..5 {
            assert_eq!(store.checkpoint().await.unwrap_err().kind, ErrorKind::Device);
        }
        let deleted = join_all((0..1590).map(|number| store.delete(id(number)))).await;
        deleted.into_iter().for_each(|deleted| deleted.unwrap_or_else(|error| panic!("CS-ROOM-3: {error}")));
        churn(&store, 10_000, 100).await.unwrap_or_else(|error| panic!("CS-ROOM-3: {error}"));
        assert!(store.counters().checkpoints > 1, "the journal never filled");
    });
}

/// A seal that was refused before it had its place in the journal has not happened: the chunk goes on as it was.
#[test]
fn a_chunk_whose_seal_was_refused_takes_appends_again() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        append(&store, 1, 0, 100).await.unwrap();
        fill_log(&rt, &device, &store).await;
        for at in (100..1000).step_by(100) {
            // Two callers at once.
            let (one, other) = join(store.seal(id(1)), store.seal(id(1))).await;
            assert_eq!((one.unwrap_err().kind, other.unwrap_err().kind), (ErrorKind::Device, ErrorKind::Device));
            let stat = store.stat(id(1)).unwrap();
            assert!(!stat.sealed && stat.room > 0, "{stat:?}");
            assert_eq!(append(&store, 1, at, 100).await.unwrap(), at + 100);
        }
        let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
        assert_eq!(report.damage, []);
        assert_eq!(store.stat(id(1)).unwrap().size, 1000);
    });
}

/// A caller of a seal may go away while that waits for appends: nobody seals the chunk then.
#[test]
fn a_seal_that_was_given_up_in_time_leaves_the_chunk_as_it_was() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        let first = store.append(id(1), 0, vec![Bytes::from(content(1, 0, 10_000))]);
        {
            let mut seal = Box::pin(store.seal(id(1)));
            assert!(futures_util::poll!(&mut seal).is_pending());
            let during = append(&store, 1, 10_000, 100).await;
            assert_eq!(during.unwrap_err().kind, ErrorKind::Sealed);
        }
        first.await.unwrap();
        append(&store, 1, 10_000, 100).await.unwrap();
        assert_eq!(store.seal(id(1)).await.unwrap(), 10_100);
        assert_eq!(append(&store, 1, 10_100, 100).await.unwrap_err().kind, ErrorKind::Sealed);
    });
}

/// CS-ROOM-5: a few callers one after the other, then many at once, again and again: many find the journal full now and then.
#[test]
fn callers_that_wait_for_the_journal_share_a_checkpoint() {
    let medium = with_metazones(200, 12);
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let (mut most, mut next) = (0, 0);
        for _ in 0..200 {
            churn(&store, next, 7).await.unwrap();
            let before = store.counters().checkpoints;
            let callers = (next + 10..next + 60).map(|number| churn(&store, number, 1));
            join_all(callers).await.into_iter().for_each(|churned| churned.unwrap());
            most = most.max(store.counters().checkpoints - before);
            next += 100;
        }
        let all = store.counters().checkpoints;
        assert!(all > 10 && (1..=3).contains(&most), "CS-ROOM-5: {all} checkpoints, {most} at once");
    });
}
