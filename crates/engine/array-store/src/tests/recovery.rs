//! Findings after a power cut, and their fate.

use shingle_sim::seeds;

use super::*;
use crate::append::open_set::Stream;
use crate::format::Tombstone;

/// Rule 3 of SMORE's section IV-A: of a part that cleaning copied, the newer copy counts, whichever is seen first.
/// (AS-REC-2)
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
        let other = Tombstone { name: Bytes::from_static(b"other"), version: Version(1) };
        let set = store.0.sets.get(old.set).unwrap();
        let mut number = 0;
        while set.state() != SetState::Closed {
            number += 1;
            let name = format!("a{number}");
            store.put(name.clone(), bytes(2, 19_000), Bytes::new()).await.unwrap();
            store.delete(name).await.unwrap();
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
        // A reader keeps the old copy where it is.
        let _pin = store.0.sets.pin(old.set);
        assert!(store.0.collect_alone(old.set, &set).await.unwrap());
        assert!(place(&store).stamp > old.stamp && set.written() > 0);
        // With nothing but copies in it, the cleaner's set would be given up (AS-REC-5).
        store.0.append(Stream::Clean(0), &Item::Tombstones(vec![other])).await.unwrap();
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

/// AS-EXAM-3: what was open when the power failed is closed, and no opening goes on in it; what was open when the array
/// was closed is gone on with, as far as somebody writes there: nobody would ever end the others.
#[test]
fn only_what_was_closed_in_order_is_gone_on_with() {
    for orderly in [false, true] {
        let images = Sim::new(1).run(move |rt| async move {
            let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
            format(&rt, &named(&devices), &options).await.unwrap();
            let options = Options { background: false, open_sets: Some(4), ..Options::default() };
            let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
            let (store, _) = opened.unwrap();
            // Each has a set to itself.
            let mut puts: Vec<_> = (0..4).map(|number| store.begin_put(format!("o{number}")).unwrap()).collect();
            for put in &mut puts {
                put.write(bytes(1, 30_000)).await.unwrap();
            }
            rt.sleep(Duration::from_millis(5)).await;
            assert_eq!(store.0.sets.count(SetState::Open), 4, "the case is not met");
            if orderly {
                store.close().await.unwrap();
            } else {
                puts.into_iter().for_each(std::mem::forget);
            }
            crash(&devices)
        });
        Sim::new(2).run(move |rt| async move {
            let (_, store, _) = open(&rt, &images).await;
            rt.sleep(Duration::from_millis(5)).await;
            // The client's one, and the cleaner's.
            let expected = if orderly { (2, 2) } else { (0, 4) };
            assert_eq!((store.0.sets.count(SetState::Open), store.0.sets.count(SetState::Closed)), expected);
        });
    }
}

/// AS-EXAM-3: what a recovery took for whole, which could not see that a drive that is away has nothing of it, stays
/// so: on the strength of it what it replaced may have been reset.
#[test]
fn what_was_found_without_a_drive_stays_when_it_comes_back() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh_of(&rt, Code::new(3, 1).unwrap()).await;
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
    let (zone, end) = last_written(&images)[3];
    images[3].truncate_zone(zone, Blocks(end - 1));
    let images = Sim::new(2).run(move |rt| async move {
        let (devices, store, report) = open(&rt, &images[..3]).await;
        assert_eq!((report.missing_drives.len(), report.damage.len()), (1, 0));
        assert!(store.get("o").await.unwrap() == bytes(3, 19_000));
        assert_eq!(store.gc(1).await.unwrap(), 1);
        rt.sleep(Duration::from_millis(5)).await;
        let back = SimDevice::new(&rt, &images[3]);
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

/// AS-EXAM-3: a set that a power cut left out of step gets no digest before a superblock says where it is cut off: half
/// of the digests written, its zones might end at one block by chance, and what was cut off might be found again.
#[test]
fn what_was_cut_off_is_durable_before_its_set_is_sealed() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        store.put("p", bytes(2, 19_000), Bytes::new()).await.unwrap();
        crash(&devices)
    });
    // The last write reached one drive only.
    for image in &images[1..] {
        let (zone, end) = last_written(std::slice::from_ref(image))[0];
        image.truncate_zone(zone, Blocks(end - 1));
    }
    Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let written: Rc<std::cell::RefCell<Vec<u32>>> = Rc::default();
        for device in &devices {
            let written = written.clone();
            device.on_command(move |command, _| {
                if command.kind == CommandKind::Write {
                    written.borrow_mut().extend(command.zone.map(|zone| zone.0));
                }
            });
        }
        let options = Options { background: false, ..Options::default() };
        let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
        assert_eq!(store.head(b"p").map_err(|error| error.kind), Err(ErrorKind::NotFound), "the case is not met");
        let written = written.take();
        let sealed = written.iter().position(|zone| *zone >= 2).expect("the set was sealed");
        assert!(written[..sealed].iter().filter(|zone| **zone < 2).count() >= 3, "{written:?}");
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// AS-EXAM-2: what a recovery takes that is rotten on one drive is made whole, before other drives are lost.
#[test]
fn what_was_torn_on_one_drive_is_mended() {
    let images = rotten();
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

/// The same where nothing goes on in the background, as with a command that opens the array: at the latest when it is
/// closed.
#[test]
fn what_was_torn_is_mended_when_the_array_is_closed() {
    let images = rotten();
    Sim::new(2).run(move |rt| async move {
        let (mut devices, store, _) = open(&rt, &images).await;
        store.close().await.unwrap();
        // It may be any of them that is lost next.
        let away = devices.remove(1);
        away.power_off_at(0);
        let options = Options { background: false, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        assert!(opened.unwrap().0.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// AS-SET-1: a set that a superblock offers is empty durably: what it held, whose deletions are forgotten, does not
/// come back.
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
        for (id, set) in store.0.sets.all().filter(|(_, set)| set.state() == SetState::Indexed) {
            assert!(store.0.collect_alone(id, &set).await.unwrap());
            rt.sleep(Duration::from_millis(1)).await;
            store.0.replenish(&DriveSet::EMPTY).await.unwrap();
            assert_eq!(set.state(), SetState::Available);
            let members = set.members();
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

/// AS-CLOSE-2: a set that came to its end with the last object is whole when the array is closed. A power cut after
/// that tears nothing, and nothing is mended or cleaned for it.
#[test]
fn closing_waits_for_digests() {
    let (mut met, mut torn) = (0, Vec::new());
    for seed in seeds(40) {
        let (images, ending) = Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry { volatile_cache: seed % 2 == 0, ..Geometry::hm_smr(Blocks(60), 14, 0, 12) };
            let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(geometry.clone())).collect();
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
            format(&rt, &named(&devices), &options).await.unwrap();
            let options = Options { background: false, ..Options::default() };
            let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
            let slow = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 0.3), fault: Fault::Slow };
            devices[1].set_faults(Faults::new([slow]));
            let ending = |store: &ArrayStore| store.0.sets.all().any(|(_, set)| set.phase() == Phase::Ending);
            for number in 0..30 {
                store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
                if ending(&store) {
                    break;
                }
            }
            let ending = ending(&store);
            store.close().await.unwrap();
            (devices.iter().map(|device| device.crash_image(seed)).collect::<Vec<_>>(), ending)
        });
        met += usize::from(ending);
        let hurt = Sim::new(2).run(move |rt| async move {
            let (_, store, _) = open(&rt, &images).await;
            store.0.sets.all().any(|(_, set)| set.is_hurt())
        });
        torn.extend(hurt.then_some(seed));
    }
    assert!(met > 0, "the case is not met");
    assert_eq!(torn, Vec::<u64>::new(), "seeds where a set is torn after an orderly end");
}

/// AS-EXAM-2: what cannot be mended now is not forgotten: neither the set that fails nor those behind it.
#[test]
fn suspects_that_an_error_left_are_looked_at_again() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, _) = filled(&rt).await;
        let engine = &store.0;
        let closed = || engine.sets.all().filter(|(_, set)| set.state() == SetState::Closed);
        let suspects: Vec<_> = closed().take(2).collect();
        for (_, set) in &suspects {
            let member = set.members().iter().find(|member| member.drive == DriveId(0)).copied().unwrap();
            let start = devices[0].image().zone(member.zone).start;
            devices[0].medium().fail_reads(start + Blocks(8), Blocks(1), None);
        }
        suspects.iter().for_each(|(_, set)| set.set_suspect(true));
        let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
        devices.iter().for_each(|device| device.set_faults(Faults::new([rule])));
        assert!(engine.scrub_suspects().await.is_err());
        assert_eq!(engine.sets.suspects().len(), 2);
        devices.iter().for_each(|device| device.set_faults(Faults::default()));
        engine.scrub_suspects().await.unwrap();
        assert_eq!(engine.sets.suspects(), []);
        let wanted = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let found = store.scrub(wanted, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]));
    });
}

/// AS-EXAM-2: of a suspect more cannot be read than parity makes up for. It is not forgotten: once it can be read it is mended.
#[test]
fn a_suspect_that_could_not_be_looked_at_stays_one() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let engine = &store.0;
        let set = engine.sets.get(id).unwrap();
        let at = |drive: u8| {
            let member = set.members().iter().find(|member| member.drive == DriveId(drive)).copied().unwrap();
            devices[usize::from(drive)].image().zone(member.zone).start + Blocks(8)
        };
        devices[0].medium().rot(at(0), 1);
        devices[1].medium().fail_reads(at(1), Blocks(1), None);
        set.set_suspect(true);
        engine.scrub_suspects().await.unwrap();
        assert_eq!(engine.sets.suspects(), [id], "forgotten");
        devices[1].medium().heal();
        engine.scrub_suspects().await.unwrap();
        assert_eq!(engine.sets.suspects(), []);
        let wanted = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let found = store.scrub(wanted, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]));
    });
}

/// AS-EXAM-2: what a power cut tore on one drive is mended also where the process that found it was killed at once.
#[test]
fn what_a_power_cut_tore_is_mended_by_a_later_opening() {
    let images = rotten();
    let images = Sim::new(2).run(move |rt| async move {
        let (devices, store, _) = open(&rt, &images).await;
        assert_eq!(store.0.sets.suspects().len(), 1);
        drop(store);
        crash(&devices)
    });
    let images: Vec<MemoryDevice> = Sim::new(3).run(move |rt| async move {
        // Clocks of simulations begin anew: this is later.
        rt.sleep(Duration::from_secs(3600)).await;
        let (devices, store, _) = open(&rt, &images).await;
        assert_eq!(store.0.sets.suspects().len(), 1, "it is not forgotten");
        store.close().await.unwrap();
        devices.iter().map(SimDevice::image).collect()
    });
    Sim::new(4).run(move |rt| async move {
        let (_devices, store, _) = open(&rt, &images).await;
        assert_eq!(store.0.sets.suspects(), []);
        let wanted = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let found = store.scrub(wanted, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]));
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
    });
}

/// AS-EXAM-2: nor is it forgotten where the drive that has it is away from an opening, and not given up: it is as it
/// was when it is back.
#[test]
fn what_a_power_cut_tore_is_not_forgotten_while_its_drive_is_away() {
    let images = rotten();
    let images = Sim::new(2).run(move |rt| async move {
        let (devices, _store, _) = open(&rt, &images).await;
        crash(&devices)
    });
    // Of one of the drives it is torn on; closing looks at what an opening found.
    for away in 0..images.len() {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(3).run(move |rt| async move {
            rt.sleep(Duration::from_secs(3600)).await;
            let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let mut there = named(&devices);
            there.remove(away);
            let options = Options { background: false, available_sets: 3, ..Options::default() };
            let (store, _) = ArrayStore::open(&rt, &there, &IndexPlace::Memory, options).await.unwrap();
            assert_eq!(store.stats().unwrap().drives_missing, 1);
            store.close().await.unwrap();
            let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
            let (_devices, store, _) = open(&rt, &images).await;
            assert_eq!(store.stats().unwrap().drives_missing, 0, "it was given up");
            assert_eq!(store.0.sets.suspects().len(), 1, "drive {away} was away");
            store.0.scrub_suspects().await.unwrap();
            assert_eq!(store.0.sets.suspects(), []);
            let wanted = ScrubOptions { read_only: true, ..ScrubOptions::default() };
            let found = store.scrub(wanted, |_| {}).await.unwrap();
            assert_eq!((found.damaged, found.lost), (vec![], vec![]));
        });
    }
}

/// AS-EXAM-3: a set that received writes cannot be read, its loss is accepted, and a kill follows. With its heads readable again it
/// is not taken for one of which all counts: a torn overwrite takes nothing's place.
#[test]
fn a_set_that_nobody_judged_ends_where_the_snapshot_does() {
    let (images, members, end) = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
        store.snapshot().await.unwrap();
        let version = store.head(b"o").unwrap().version.0 + 1;
        orphan(&store.0, version, 0, bytes(2, 19_000), Some(19_000)).await;
        let open = store.0.allocator.look(|open| (open.id, open.next));
        let (id, end) = open.into_iter().max_by_key(|(_, next)| *next).unwrap();
        (crash(&devices), store.0.sets.get(id).unwrap().members(), end)
    });
    // The last item reached one drive whole.
    for member in &members[1..] {
        let image = &images[usize::from(member.drive.0)];
        let at = image.zone(member.zone).start + Blocks(u64::from(end) - 1);
        image.corrupt(at, |bytes| bytes[50] ^= 1);
    }
    let images = Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        for member in &members {
            let device = &devices[usize::from(member.drive.0)];
            let at = images[usize::from(member.drive.0)].zone(member.zone).start;
            device.medium().fail_reads(at, Blocks(1), None);
        }
        let plain = Options { background: false, available_sets: 3, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, plain.clone()).await;
        assert!(opened.is_err(), "the case is not met");
        let accepting = Options { accept_loss: true, ..plain };
        let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, accepting).await.unwrap();
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
        crash(&devices)
    });
    images.iter().for_each(MemoryDevice::heal);
    Sim::new(3).run(move |rt| async move {
        let (_, store, _) = open(&rt, &images).await;
        assert!(store.get("o").await.unwrap() == bytes(1, 19_000), "the torn version counts");
    });
}

/// AS-REC-7: sets that were open when the array was closed, and more of them than this opening writes to. Its superblock cannot be
/// written: it is refused, and nothing was written to any set.
#[test]
fn an_opening_without_a_superblock_of_its_own_writes_nothing() {
    let images = Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, open_sets: Some(4), ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
        let (store, _) = opened.unwrap();
        let mut puts: Vec<_> = (0..4).map(|number| store.begin_put(format!("o{number}")).unwrap()).collect();
        for put in &mut puts {
            put.write(bytes(1, 30_000)).await.unwrap();
        }
        rt.sleep(Duration::from_millis(5)).await;
        assert_eq!(store.0.sets.count(SetState::Open), 4, "the case is not met");
        store.close().await.unwrap();
        devices.iter().map(SimDevice::image).collect::<Vec<_>>()
    });
    Sim::new(2).run(move |rt| async move {
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let refuse = [ZoneId(0), ZoneId(1)]
            .map(|zone| FaultRule { trigger: Trigger::Zone(CommandKind::Write, zone), fault: Fault::CommandError });
        devices.iter().for_each(|device| device.set_faults(Faults::new(refuse)));
        let plain = Options { background: false, available_sets: 3, ..Options::default() };
        let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, plain).await;
        assert!(opened.is_err(), "the case is not met");
        rt.sleep(Duration::from_secs(1)).await;
        for (device, before) in devices.iter().zip(&images) {
            let after = device.image();
            for zone in (2..14).map(ZoneId) {
                assert_eq!(after.zone(zone).written, before.zone(zone).written, "{zone} was written to");
            }
        }
    });
}
