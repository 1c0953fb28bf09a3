//! Heads, records and slices that cannot be read.

use super::*;

#[test]
fn a_zone_whose_head_rotted_loses_nothing() {
    for geometry in [drive(), cached()] {
        Sim::new(1).run(move |rt| async move {
            let (medium, zone) = left(&rt, geometry).await;
            rot(&medium, zone, 0);
            let report = check(&rt, Rc::new(SimDevice::new(&rt, &medium)), |_, _| {}).await.unwrap();
            assert!(!report.clean && names(&report.damage, None, Some(zone)), "{:?}", report.damage);
            let (store, report) = opened(&rt, &SimDevice::new(&rt, &medium)).await;
            assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
            holds_ten(&store, &[]).await;
        });
    }
}

#[test]
fn a_zone_whose_head_cannot_be_read_loses_nothing() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let device = SimDevice::new(&rt, &medium);
        lose(&device, zone, 0, None);
        let (store, report) = opened(&rt, &device).await;
        assert!(names(&report.damage, None, Some(zone)) && !report.hidden, "{:?}", report.damage);
        holds_ten(&store, &[]).await;
    });
}

/// CS-REC-4: a zone of which nothing can be read is lost while that lasts, and neither reset nor written to. Numbers that
/// records in it have are not given out again: a chunk that is deleted and created again does not get their bytes.
#[test]
fn a_zone_that_cannot_be_read_is_left_alone_until_it_can() {
    for geometry in [drive(), cached()] {
        Sim::new(1).run(move |rt| async move {
            let (medium, zone) = left(&rt, geometry).await;
            let device = SimDevice::new(&rt, &medium);
            lose_all(&device, zone);
            let (store, report) = opened(&rt, &device).await;
            assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
            assert_eq!(store.stat(id(1)).unwrap().size, 0);
            churn(&store).await;
            let before = device.image().zone(zone);
            assert_eq!(before.written, medium.zone(zone).written, "the zone was reset");
            store.close().await.unwrap();
            let (store, report) = opened(&rt, &healed(&rt, &device)).await;
            assert_eq!(report.damage, []);
            holds_ten(&store, &[]).await;
        });
    }
}

#[test]
fn numbers_of_records_that_cannot_be_read_are_not_given_out_again() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(drive()));
        let (store, _) = opened(&rt, &device).await;
        store.create(id(1), Stream::Data).await.unwrap();
        // More than the numbers that the next opening takes for the zones that it opens.
        for number in 0..45 {
            put(&store, 1, number * 100, 100, number).await;
        }
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
        let device = SimDevice::new(&rt, &device.crash_image(1));
        lose_all(&device, zone);
        let (store, _) = opened(&rt, &device).await;
        store.delete(id(1)).await.unwrap();
        store.create(id(1), Stream::Data).await.unwrap();
        let (store, _) = opened(&rt, &healed(&rt, &device)).await;
        assert_eq!(store.stat(id(1)).unwrap().size, 0, "the chunk got bytes of an earlier one");
    });
}

#[test]
fn a_read_that_fails_once_costs_nothing() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        for block in [0, 1, 2, 30] {
            let device = SimDevice::new(&rt, &medium);
            lose(&device, zone, block, Some(2));
            let (store, report) = opened(&rt, &device).await;
            assert_eq!(report.damage, [], "block {block}");
            holds_ten(&store, &[]).await;
        }
    });
}

/// Reports of zones are asked for again, as reads are.
#[test]
fn a_report_that_fails_once_costs_nothing() {
    Sim::new(1).run(|rt| async move {
        // A limit of active zones has an opening ask once more.
        let limited = Geometry { active_zones_max: drive().open_zones_max, ..drive() };
        let (medium, _) = left(&rt, limited).await;
        let whole = SimDevice::new(&rt, &medium);
        let asked = Rc::new(Cell::new(0));
        let counter = asked.clone();
        whole.on_command(move |command, _| counter.set(counter.get() + u64::from(command.kind == CommandKind::Report)));
        opened(&rt, &whole).await;
        let reports = asked.get();
        assert!(reports > 2, "{reports} reports");
        for number in 0..reports {
            let device = SimDevice::new(&rt, &medium);
            let fails = [number, number + 1]
                .map(|nth| FaultRule { trigger: Trigger::Nth(CommandKind::Report, nth), fault: Fault::CommandError });
            device.set_faults(Faults::new(fails));
            let (store, report) = opened(&rt, &device).await;
            assert_eq!(report.damage, [], "report {number}");
            holds_ten(&store, &[]).await;
        }
    });
}

/// A slice of a record that no mark names is lost, by rot or to a read error: all else of the chunk is served.
#[test]
fn a_lost_slice_of_an_unmarked_record_costs_its_own_bytes() {
    for (geometry, rots, record) in
        [(drive(), true, 3), (cached(), true, 3), (drive(), false, 3), (cached(), false, 3), (drive(), false, 9)]
    {
        Sim::new(1).run(move |rt| async move {
            let (medium, zone) = left(&rt, geometry).await;
            // The record's second block: the end of its first slice and most of its second.
            let block = 1 + 3 * record + 1;
            if rots {
                rot(&medium, zone, block);
            }
            let device = SimDevice::new(&rt, &medium);
            if !rots {
                lose(&device, zone, block, None);
            }
            let (store, report) = opened(&rt, &device).await;
            assert!(names(&report.damage, Some(1), Some(zone)), "{:?}", report.damage);
            let what = &report.damage[0].what;
            assert_eq!(report.hidden, !rots, "CS-REC-8");
            let from = record * 10_000;
            assert!(what.contains(&format!("bytes {from} to {}", from + 8192)), "{what}");
            holds_ten(&store, &[record]).await;
            holds(&store, 1, from + 8192, 10_000 - 8192, record).await;
            lost(&store, 1, from, from + 8192).await;
            let checked = check(&rt, Rc::new(device), |_, _| {}).await.unwrap();
            assert!(!checked.clean && names(&checked.damage, Some(1), Some(zone)), "{:?}", checked.damage);
        });
    }
}

/// CS-REC-5: a zone whose first write was torn may have records, but neither head nor end. No opening tells that as
/// damage, the first as little as later ones, for which the index has the records.
#[test]
fn a_torn_head_is_no_damage_at_any_opening() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(cached()));
        let pools = PoolSizes { gc: 1, data: 1, meta: 1 };
        let options = Options { pools, ..quiet() };
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options).await.unwrap();
        for chunk in 1..=2 {
            store.create(id(chunk), Stream::Data).await.unwrap();
        }
        futures_util::future::join(put(&store, 1, 0, 5000, 1), put(&store, 2, 0, 12_000, 2)).await;
        let [zone] = used_zones(&device).await[..] else { panic!("the chunks lie in one zone") };
        // Of the only write the first block is lost, and the last.
        let image = device.crash_image(1);
        image.truncate_zone(zone, image.zone(zone).written - Blocks(1));
        rot(&image, zone, 0);
        let mut device = SimDevice::new(&rt, &image);
        for opening in 0..3 {
            let (store, report) = opened(&rt, &device).await;
            assert_eq!(report.damage, [], "opening {opening}");
            assert_eq!((store.stat(id(1)).unwrap().size, store.stat(id(2)).unwrap().size), (5000, 0));
            store.close().await.unwrap();
            device = healed(&rt, &device);
        }
    });
}

/// The last record of a zone that rotted was perhaps never acknowledged.
#[test]
fn rot_in_the_last_record_is_a_tear() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        rot(&medium, zone, 1 + 27);
        let (store, report) = opened(&rt, &SimDevice::new(&rt, &medium)).await;
        assert_eq!((report.damage, report.torn.len()), (vec![], 1));
        assert_eq!(store.stat(id(1)).unwrap().size, 90_000);
    });
}

/// CS-REC-6: a killed process's append was found by the next, which says so; then the power fails.
#[test]
fn what_an_opening_found_survives_a_power_cut() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(cached()));
        let (store, _) = opened(&rt, &device).await;
        store.create(id(1), Stream::Data).await.unwrap();
        put(&store, 1, 0, 5000, 1).await;
        // The next write reaches the drive's cache; its flush never comes.
        let killed = Rc::new(RefCell::new(None));
        device.on_command({
            let killed = killed.clone();
            move |command, device| {
                if command.kind == CommandKind::Flush {
                    killed.borrow_mut().get_or_insert_with(|| device.kill());
                }
            }
        });
        put(&store, 1, 5000, 5000, 2).await;
        let device = SimDevice::resume(&rt, killed.take().unwrap());
        let (again, _) = opened(&rt, &device).await;
        assert_eq!(again.stat(id(1)).unwrap().size, 10_000, "the kernel had it");
        // In the moment of the answer: the store that opened has done nothing else yet.
        let image = |seed| device.crash_image_with(seed, [Survival::Prefix, Survival::AnySubset][seed as usize % 2]);
        let images: Vec<_> = (0..40).map(image).collect();
        for (seed, image) in images.iter().enumerate() {
            let (after, _) = opened(&rt, &SimDevice::new(&rt, image)).await;
            assert_eq!(after.stat(id(1)).unwrap().size, 10_000, "seed {seed}");
            holds(&after, 1, 5000, 5000, 2).await;
        }
    });
}
