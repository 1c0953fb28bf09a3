//! Records behind a loss, and ends that cannot be read.

use super::*;

/// CS-REC-3: a header that rotted or cannot be read; later records of the chunk say what it had.
#[test]
fn a_lost_header_leaves_a_hole() {
    for (rots, geometry) in [(true, drive()), (true, cached()), (false, drive()), (false, cached())] {
        Sim::new(1).run(move |rt| async move {
            let (medium, zone) = left(&rt, geometry).await;
            if rots {
                rot(&medium, zone, 1 + 9);
            }
            let device = SimDevice::new(&rt, &medium);
            if !rots {
                lose(&device, zone, 1 + 9, None);
            }
            let (store, report) = opened(&rt, &device).await;
            assert!(report.damage.iter().any(|damage| damage.chunk == Some(id(1))), "{:?}", report.damage);
            assert_eq!(report.hidden, !rots, "CS-REC-8");
            holds_ten(&store, &[3]).await;
            lost(&store, 1, 30_000, 34_000).await;
            // It stays so: after a checkpoint, and a power cut.
            store.close().await.unwrap();
            let (store, report) = opened(&rt, &healed(&rt, &device)).await;
            assert!(!report.hidden, "CS-REC-8");
            if rots {
                assert!(report.damage.iter().all(|damage| damage.chunk == Some(id(1))), "{:?}", report.damage);
                lost(&store, 1, 30_000, 34_000).await;
            }
            holds_ten(&store, &[3]).await;
        });
    }
}

/// CS-APP-5: an append whose header cannot be read for a while, the last of its zone. Another takes its place, is shorter,
/// and is acknowledged. When the first can be read again it is dead, whatever the journal still has of it.
#[test]
fn an_old_tail_never_takes_the_place_of_a_newer_append() {
    for (checkpoint, options) in
        [(false, quiet()), (true, quiet()), (true, Options { scan_whole_zones: true, ..quiet() })]
    {
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &formatted(drive()));
            let (store, _) = opened(&rt, &device).await;
            store.create(id(1), Stream::Data).await.unwrap();
            for write in 1..=3 {
                put(&store, 1, (write - 1) * 10_000, 10_000, write).await;
            }
            let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
            let (medium, old) = (device.crash_image(1), zone);
            let device = SimDevice::new(&rt, &medium);
            (4..10).for_each(|block| lose(&device, zone, block, None));
            let (store, _) = opened(&rt, &device).await;
            put(&store, 1, 10_000, 5000, 4).await;
            // Neither from what is known after a checkpoint, nor while the newer append cannot be read either.
            if checkpoint {
                store.checkpoint().await.unwrap();
            }
            let device = healed(&rt, &device);
            let newer = used_zones(&device).await.into_iter().find(|&zone| zone != old).unwrap();
            if !checkpoint {
                lose(&device, newer, 1, None);
                lose(&device, newer, 2, None);
                let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options.clone()).await.unwrap();
                assert_eq!(store.stat(id(1)).unwrap().size, 10_000, "a dead record came back");
            }
            for opening in 0..3 {
                let device = healed(&rt, &device);
                let (store, report) = ChunkStore::open(&rt, Rc::new(device.clone()), options.clone()).await.unwrap();
                assert_eq!(report.damage, [], "opening {opening}");
                assert_eq!(store.stat(id(1)).unwrap().size, 15_000, "opening {opening}");
                holds(&store, 1, 0, 10_000, 1).await;
                holds(&store, 1, 10_000, 5000, 4).await;
            }
        });
    }
}

/// CS-GC-6: a read-only zone of which not all can be read is not reset anyway. Its readable records are moved away.
#[test]
fn a_zone_that_turned_read_only_is_emptied_of_what_can_be_read() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        medium.set_state(zone, ZoneState::ReadOnly);
        let device = SimDevice::new(&rt, &medium);
        // The head of one record, and a slice of another.
        lose(&device, zone, 1 + 9, None);
        lose(&device, zone, 1 + 18 + 1, None);
        let (store, report) = opened(&rt, &device).await;
        assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
        store.gc(3, |_| {}).await.unwrap();
        let found = store.zones().into_iter().find(|found| found.zone == zone).unwrap();
        assert_eq!((found.status, found.live_blocks), (ZoneStatus::ReadOnly, 3), "one record stays");
        holds_ten(&store, &[3, 6]).await;
        store.close().await.unwrap();
        // The next opening can read all: what stayed is there again, and can be moved.
        let healed = healed(&rt, &device);
        let (store, report) = opened(&rt, &healed).await;
        assert_eq!(report.damage, []);
        holds_ten(&store, &[]).await;
        // The zone dies: before that, and after (CS-ZONE-5).
        let offline = |device: &SimDevice| {
            let medium = device.image();
            medium.set_state(zone, ZoneState::Offline);
            SimDevice::new(&rt, &medium)
        };
        let (after, report) = opened(&rt, &offline(&healed)).await;
        assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
        holds_ten(&after, &[3, 6]).await;
        store.gc(3, |_| {}).await.unwrap();
        store.close().await.unwrap();
        for _ in 0..2 {
            let (after, report) = opened(&rt, &offline(&healed)).await;
            assert_eq!(report.damage, [], "CS-ZONE-5");
            holds_ten(&after, &[]).await;
        }
    });
}

/// CS-ZONE-5: a zone that a failed write closed holds nothing behind what is in the index: its death loses nothing that an
/// opening could not know.
#[test]
fn a_zone_that_a_failed_write_closed_is_not_lost_for_what_is_elsewhere() {
    for dies in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &formatted(drive()));
            let (store, _) = opened(&rt, &device).await;
            store.create(id(1), Stream::Data).await.unwrap();
            put(&store, 1, 0, 10_000, 0).await;
            let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
            let rule = FaultRule { trigger: Trigger::Zone(CommandKind::Write, zone), fault: Fault::WriteError };
            device.set_faults(Faults::new([rule]));
            put(&store, 1, 10_000, 10_000, 1).await;
            assert_eq!(store.counters().write_errors, 1);
            store.close().await.unwrap();
            let medium = device.image();
            if dies {
                medium.set_state(zone, ZoneState::Offline);
            }
            for _ in 0..2 {
                let (store, report) = opened(&rt, &SimDevice::new(&rt, &medium)).await;
                assert_eq!(report.damage, [], "CS-ZONE-5");
                assert_eq!(store.stat(id(1)).unwrap().size, 20_000);
                holds(&store, 1, 10_000, 10_000, 1).await;
            }
        });
    }
}
