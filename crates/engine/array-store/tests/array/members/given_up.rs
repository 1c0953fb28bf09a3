//! Drives that blink, are given up, and are taken back.

use super::*;

/// AS-EVICT-1: more drives than parity makes up for blink. Nothing is written and nothing recorded; what can be read is read;
/// with the drives back all is as it was.
#[test]
fn more_drives_than_parity_blink_and_all_is_there_again() {
    for blinking in [2, 3, 5] {
        let left = Sim::new(blinking).run(move |rt| async move {
            let devices = powered(&rt, &fresh(6));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            for number in 0..40 {
                put(&store, &format!("o{number}"), number).await;
            }
            devices.iter().take(blinking as usize).for_each(off);
            let mut refused = 0;
            for number in 0..10 {
                let done = store.put(format!("new{number}"), content((number, 15_000)), Bytes::new()).await;
                refused += usize::from(done.is_err());
                if let Err(error) = done {
                    assert_eq!(error.kind, ErrorKind::Device, "{error}");
                }
            }
            assert!(refused >= 9 && store.delete("o1").await.is_err() && store.snapshot().await.is_err());
            let mut read = 0;
            for number in 0..40 {
                match store.get(format!("o{number}")).await {
                    Ok(bytes) => {
                        assert!(bytes == content((number, 15_000)));
                        read += 1;
                    }
                    Err(error) => assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt), "{error}"),
                }
            }
            assert!(read > 0 || blinking > 3, "what can be read is read");
            images(&devices)
        });
        Sim::new(7).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let seen = inspect(&named(&devices)).await.unwrap();
            assert!(seen.drives.iter().filter(|drive| !drive.in_use).count() <= 1, "{:?}", seen.drives);
            // While they are away still: refused in words, and nothing is changed. Reading goes on.
            let there = &named(&devices)[blinking as usize..];
            if there.len() > 1 {
                let Err(error) = open(&rt, there, plain()).await else { panic!("opened without {blinking} of 6") };
                assert!(error.kind == ErrorKind::Device && error.message.contains("missing"), "{error}");
                let only = Options { read_only: true, ..plain() };
                let (store, _) = open(&rt, there, only).await.unwrap();
                store.close().await.unwrap();
                assert_eq!(inspect(&named(&devices)).await.unwrap(), seen);
            }
            let (store, report) = open(&rt, &named(&devices), plain()).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            for number in 0..40 {
                is(&store, &format!("o{number}"), number).await;
            }
            put(&store, "again", 1).await;
        });
    }
}

/// AS-LOSS-3: the loss of two drives is accepted, and others blink while the array is open: it is not accepted for those, too.
#[test]
fn a_loss_that_is_accepted_is_not_that_of_drives_that_blink_later() {
    for blinking in [2, 3] {
        let left = Sim::new(blinking).run(move |rt| async move {
            let devices = powered(&rt, &fresh(8));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            for number in 0..40 {
                put(&store, &format!("o{number}"), number).await;
            }
            devices.iter().take(2).for_each(off);
            let accepting = Options { accept_loss: true, ..plain() };
            let (store, _) = open(&rt, &named(&devices)[2..], accepting).await.unwrap();
            for number in 0..10 {
                put(&store, &format!("later{number}"), number).await;
            }
            devices.iter().skip(2).take(blinking as usize).for_each(off);
            let mut refused = 0;
            for number in 0..10 {
                let done = store.put(format!("new{number}"), content((number, 15_000)), Bytes::new()).await;
                refused += usize::from(done.is_err());
            }
            assert!(refused > 0, "{refused} puts of 10 were refused");
            images(&devices)
        });
        Sim::new(7).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let there = &named(&devices)[2..];
            let seen = inspect(there).await.unwrap();
            let out = |drives: std::ops::Range<u8>, set: &SetInspection| {
                let is_out = |id: &DriveId| seen.drives.iter().any(|drive| drive.id == *id && !drive.in_use);
                set.members.iter().filter(|(id, _)| drives.contains(&id.0) && is_out(id)).count()
            };
            for set in seen.sets.iter().filter(|set| set.state != SetState::Empty && out(0..2, set) < 2) {
                assert!(out(0..8, set) <= 1, "{set:?} lacks more than parity makes up for: {:?}", seen.drives);
            }
            // Sets of before still lack the drives whose loss was accepted.
            let accepting = Options { accept_loss: true, ..plain() };
            let (store, _) = open(&rt, there, accepting).await.unwrap();
            for number in 0..10 {
                is(&store, &format!("later{number}"), number).await;
            }
        });
    }
}

/// AS-EVICT-1: two drives blink while sets are made available, and no set holds anything. A superblock that calls a set available does not call
/// more of its drives failed than parity makes up for: with all drives there the array is opened.
#[test]
fn drives_that_blink_while_sets_are_made_available_come_back() {
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 8];
    let shape = ArrayShape { code: Code::new(5, 1).unwrap(), segment_length: 20_000, drives };
    let mut given_up = 0;
    for moment in 0..60 {
        let media = formatted(&shape);
        let left = Sim::new(moment).run(move |rt| async move {
            let devices = powered(&rt, &media);
            // Each set has a zone on one of these: all are formed anew, of the drives that are left, and none is available.
            let without: Vec<_> =
                named(&devices).into_iter().filter(|drive| !["d0", "d6"].contains(&&*drive.name)).collect();
            let (store, _) = open(&rt, &without, plain()).await.unwrap();
            store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            let puts = (0..2).map(|number| {
                let store = store.clone();
                rt.spawn(
                    async move { drop(store.put(format!("o{number}"), content((number, 15_000)), Bytes::new()).await) },
                )
            });
            let puts: Vec<_> = puts.collect();
            rt.sleep(Duration::from_micros(moment * 40)).await;
            [&devices[2], &devices[5]].into_iter().for_each(off);
            join_all(puts).await;
            let _ = store.snapshot().await;
            images(&devices)
        });
        given_up += Sim::new(moment).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let seen = inspect(&named(&devices)).await.unwrap();
            let out = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use && !drive.removed);
            let readmit: Vec<DriveId> = out.map(|drive| drive.id).collect();
            for set in seen.sets.iter().filter(|set| set.state != SetState::Empty) {
                let lacking = set.members.iter().filter(|(id, _)| readmit.contains(id)).count();
                assert!(lacking <= 1, "after {moment}: {set:?} lacks {readmit:?}");
            }
            let both = usize::from(readmit.len() == 2);
            let (store, report) = open(&rt, &named(&devices), Options { readmit, ..plain() }).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            // Of their zones sets are formed anew, as behind each return.
            store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            put(&store, "again", 1).await;
            both
        });
    }
    assert!(given_up > 0, "never were both given up");
}

/// AS-READMIT-1: a drive that was given up is taken back; what changed meanwhile is not believed of it, and is rebuilt.
#[test]
fn a_drive_that_was_given_up_is_taken_back_and_gets_what_it_missed() {
    for closed in [false, true] {
        let left = Sim::new(1).run(move |rt| async move {
            let devices = powered(&rt, &fresh(3));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            for number in 0..60 {
                put(&store, &format!("o{number}"), number).await;
            }
            store.close().await.unwrap();
            // It is away, and the array is used without it: sets are written, emptied, and written again.
            let (store, _) = open(&rt, &named(&devices)[..2], plain()).await.unwrap();
            for number in 0..20 {
                assert!(store.delete(format!("o{number}")).await.unwrap());
                put(&store, &format!("o{}", 20 + number), 100 + number).await;
            }
            store.gc(2).await.unwrap();
            for number in 0..10 {
                put(&store, &format!("new{number}"), number).await;
            }
            if closed {
                store.close().await.unwrap();
            }
            images(&devices)
        });
        let left = Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let drives = named(&devices);
            let seen = inspect(&drives).await.unwrap();
            assert!(!seen.drives[2].in_use && seen.drives[2].given.is_some());
            let wrong = Options { readmit: vec![DriveId(1)], ..plain() };
            assert_eq!(open(&rt, &drives, wrong).await.err().unwrap().kind, ErrorKind::Invalid);
            let (store, report) = open(&rt, &drives, Options { readmit: vec![DriveId(2)], ..plain() }).await.unwrap();
            let [back] = &report.readmitted[..] else { panic!("{report:?}") };
            assert!((back.old, back.new) == (DriveId(2), DriveId(3)) && back.kept > 1 && back.missed > 1, "{back:?}");
            let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            assert!(done.failed == 0 && done.done < back.kept + back.missed, "{done:?}, {back:?}");
            let found = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
            assert_eq!((found.damaged, found.lost), (vec![], vec![]));
            assert_eq!(store.stats().unwrap().drives_missing, 0);
            images(&devices)
        });
        // Another drive may be lost now.
        Sim::new(3).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let (store, report) = open(&rt, &named(&devices)[1..], plain()).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            for number in 0..60 {
                let name = format!("o{number}");
                match number {
                    0..20 => assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound),
                    20..40 => is(&store, &name, 80 + number).await,
                    _ => is(&store, &name, number).await,
                }
            }
            for number in 0..10 {
                is(&store, &format!("new{number}"), number).await;
            }
        });
    }
}

/// AS-PROBE-1: a drive that fails a report of its zones, and not the next, is there. One that is asked for and does not answer is no mistake of
/// who asks.
#[test]
fn a_drive_that_fails_one_report_is_not_missing() {
    Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &fresh(3));
        let fails = FaultRule { trigger: Trigger::Nth(CommandKind::Report, 0), fault: Fault::CommandError };
        devices[2].set_faults(Faults::new([fails]));
        let (store, report) = open(&rt, &named(&devices), plain()).await.unwrap();
        assert_eq!(report.missing_drives, Vec::<String>::new());
        put(&store, "o", 1).await;
        off(&devices[2]);
        put(&store, "o", 2).await;
        let devices = powered(&rt, &images(&devices));
        let readmit = || Options { readmit: vec![DriveId(2)], ..plain() };
        let error = open(&rt, &named(&devices)[..2], readmit()).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        devices[2].set_faults(Faults::new([fails]));
        let (store, report) = open(&rt, &named(&devices), readmit()).await.unwrap();
        assert_eq!(report.readmitted.len(), 1);
        is(&store, "o", 2).await;
    });
}

/// AS-EVICT-2: a drive that answers and fails every write is done without; the array is not full for it.
#[test]
fn a_drive_that_fails_all_writes_is_given_up() {
    for drives in [3, 6] {
        Sim::new(drives as u64).run(move |rt| async move {
            let devices = powered(&rt, &fresh(drives));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            put(&store, "before", 1).await;
            let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
            devices[1].set_faults(Faults::new([fails]));
            for number in 0..60 {
                put(&store, &format!("o{}", number % 20), number).await;
            }
            assert_eq!(store.stats().unwrap().drives_missing, 1);
            is(&store, "before", 1).await;
            // No more than parity makes up for, whatever else fails.
            devices[0].set_faults(Faults::new([fails]));
            for number in 0..40 {
                let _ = store.put(format!("p{number}"), content((number, 15_000)), Bytes::new()).await;
            }
            assert_eq!(store.stats().unwrap().drives_missing, 1);
            for number in 40..60 {
                is(&store, &format!("o{}", number % 20), number).await;
            }
        });
    }
}

/// AS-EVICT-3: what fails the writes of more drives than parity makes up for is no fault of a drive: puts end with an error, none is
/// given up, and all is well once the cause is gone.
#[test]
fn what_fails_the_writes_of_many_drives_costs_none_of_them() {
    let many = [(3, 3, true), (3, 3, false), (3, 2, false), (6, 6, true), (6, 5, false)]
        .map(|case| (case, Fault::CommandError));
    // A full host is no fault of a drive either where it is only one.
    let full = [(3, 3, true), (3, 1, true), (6, 1, false), (6, 6, false)].map(|case| (case, Fault::HostFull));
    for ((drives, failing, superblocks), fault) in many.into_iter().chain(full) {
        let context = format!("{failing} of {drives} fail with {fault:?}, superblocks {superblocks}");
        let left = Sim::new(drives as u64).run(move |rt| async move {
            let devices = powered(&rt, &fresh(drives));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            for number in 0..10 {
                put(&store, &format!("before{number}"), number).await;
            }
            let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault };
            let spared = if superblocks { vec![] } else { vec![ZoneId(0), ZoneId(1)] };
            for device in &devices[..failing] {
                device.set_faults(Faults::new([fails]).sparing(spared.clone()));
            }
            for number in 0..20 {
                let name = format!("refused{number}");
                let tried = Box::pin(store.put(name, content((number, 15_000)), Bytes::new()));
                let put = select(tried, Box::pin(rt.sleep(Duration::from_secs(60)))).await;
                let Either::Left((put, _)) = put else { panic!("{context}: a put never ends") };
                match put {
                    Err(error) => assert_eq!(error.kind, ErrorKind::Device, "{context}: {error}"),
                    Ok(_) => assert!(failing < drives, "{context}: a put was acknowledged"),
                }
            }
            let stats = store.stats().unwrap();
            assert_eq!(stats.drives_missing, 0, "{context}");
            for number in 0..10 {
                is(&store, &format!("before{number}"), number).await;
            }
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            for number in 0..10 {
                put(&store, &format!("after{number}"), number).await;
            }
            images(&devices)
        });
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            let (store, report) = open(&rt, &named(&devices), plain()).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            assert_eq!(store.stats().unwrap().drives_missing, 0);
            for number in 0..10 {
                is(&store, &format!("before{number}"), number).await;
                is(&store, &format!("after{number}"), number).await;
            }
        });
    }
}

/// AS-EVICT-4: two of three drives of 1+1 blink that share no set which holds anything. Were both given up, what is written then would be on
/// the third alone, and an opening without that one would not know of it.
#[test]
fn no_drive_is_given_up_that_leaves_as_few_as_may_be_away_later() {
    // The first has as many zones as the others together: each set has one of its.
    let drives = [16, 9, 9].map(|zones| Geometry::hm_smr(Blocks(60), zones, 0, 12)).to_vec();
    let media = formatted(&ArrayShape { code: Code::new(1, 1).unwrap(), segment_length: 20_000, drives });
    let (left, third) = Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
        put(&store, "o", 1).await;
        let seen = inspect(&named(&devices)).await.unwrap();
        let is_on = |set: &SetInspection, drive: u8| set.members.iter().any(|(id, _)| *id == DriveId(drive));
        let used: Vec<_> = seen.sets.into_iter().filter(|set| set.state != SetState::Empty).collect();
        let pair = |third: &u8| !used.iter().any(|set| (0..3).all(|drive| is_on(set, drive) == (drive != *third)));
        let third = (0..3).find(pair).expect("no two drives share nothing but empty sets");
        (0..3).filter(|drive| *drive != third).for_each(|drive| off(&devices[usize::from(drive)]));
        let error = store.put("o", content((2, 15_000)), Bytes::new()).await.expect_err("it was acknowledged");
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        (images(&devices), usize::from(third))
    });
    Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &left);
        let mut there = named(&devices);
        assert!(inspect(&there).await.unwrap().drives.iter().filter(|drive| !drive.in_use).count() <= 1);
        there.remove(third);
        let (store, report) = open(&rt, &there, plain()).await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        is(&store, "o", 1).await;
    });
}

/// AS-READMIT-2: the power fails at any command of the opening that takes drives back, and the next openings have only some of the
/// drives: each is known by its id afterwards, and can be taken back again.
#[test]
fn cut_while_drives_are_taken_back() {
    let names = || (0..6).map(|number| format!("o{number}"));
    let left = Rc::new(Sim::new(1).run(move |rt| async move {
        let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 5];
        let media = formatted(&ArrayShape { code: Code::new(3, 2).unwrap(), segment_length: 20_000, drives });
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
        for (number, name) in names().enumerate() {
            put(&store, &name, number as u64).await;
        }
        store.close().await.unwrap();
        let (store, _) = open(&rt, &named(&devices)[..3], plain()).await.unwrap();
        put(&store, "o5", 5).await;
        images(&devices)
    }));
    let copy = |media: &[MemoryDevice]| media.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>();
    for cut in 0.. {
        let before = copy(&left);
        let cut_there = Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &before);
            let found = Rc::new(RefCell::new(None));
            let count = Rc::new(std::cell::Cell::new(0));
            for device in &devices {
                let (all, found, count) = (devices.clone(), found.clone(), count.clone());
                device.on_command(move |command, _| {
                    if command.kind == CommandKind::Write {
                        count.set(count.get() + 1);
                        if count.get() == cut + 1 {
                            *found.borrow_mut() = Some(images(&all));
                        }
                    }
                });
            }
            let readmit = vec![DriveId(3), DriveId(4)];
            let (_store, _) = open(&rt, &named(&devices), Options { readmit, ..plain() }).await.unwrap();
            devices.iter().for_each(|device| device.on_command(|_, _| {}));
            found.take()
        });
        let Some(cut_there) = cut_there else { break };
        for away in [None, Some(3), Some(4)] {
            let media = copy(&cut_there);
            Sim::new(3).run(move |rt| async move {
                let context = format!("cut {cut}, {away:?} away");
                let devices = powered(&rt, &media);
                let mut there = named(&devices);
                away.map(|away| there.remove(away));
                let (store, _) = open(&rt, &there, plain()).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                put(&store, "later", 9).await;
                drop(store);
                // All are back: whatever was given up can be taken back.
                let devices = powered(&rt, &images(&devices));
                let seen = inspect(&named(&devices)).await.unwrap();
                let given_up =
                    seen.drives.iter().filter(|drive| !drive.in_use && !drive.removed && drive.given.is_some());
                let readmit: Vec<_> = given_up.map(|drive| drive.id).collect();
                let opened = open(&rt, &named(&devices), Options { readmit, ..plain() }).await;
                let (store, report) = opened.unwrap_or_else(|error| panic!("{context}, all back: {error}"));
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
                assert_eq!(store.stats().unwrap().drives_missing, 0, "{context}");
                for (number, name) in (0..6).map(|number| (number, format!("o{number}"))) {
                    is(&store, &name, number).await;
                }
                is(&store, "later", 9).await;
            });
        }
    }
}
