//! Drives whose superblocks cannot be read, or cannot be written.

use super::*;

fn spoil(image: &MemoryDevice, zone: ZoneId) {
    let info = image.zone(zone);
    (0..info.written.0).for_each(|block| image.corrupt(info.start + Blocks(block), |bytes| bytes[5] ^= 1));
}

/// AS-GATHER-1, AS-SB-2.
#[test]
fn a_drive_whose_superblocks_cannot_be_read_is_known_by_its_zones_and_gets_new_ones() {
    let left = Sim::new(1).run(|rt| async move {
        let devices = powered(&rt, &fresh(3));
        let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
        for number in 0..20 {
            put(&store, &format!("o{number}"), number).await;
        }
        images(&devices)
    });
    [ZoneId(0), ZoneId(1)].into_iter().for_each(|zone| spoil(&left[1], zone));
    Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &left);
        let (store, report) = open(&rt, &named(&devices), plain()).await.unwrap();
        assert_eq!((report.missing_drives.len(), report.damage.len()), (0, 0));
        for number in 0..20 {
            is(&store, &format!("o{number}"), number).await;
        }
        store.close().await.unwrap();
        let alone = inspect(&named(&devices)[1..2]).await.unwrap();
        assert!(alone.clean, "it has the newest again");
        // A blank drive in another's place is not taken for it.
        let blank = SimDevice::new(&rt, &MemoryDevice::new(devices[0].geometry().clone()));
        let mut drives = named(&devices);
        drives[2] = ArrayDrive { name: "d2".into(), dev: Rc::new(blank.clone()) };
        let (store, report) = open(&rt, &drives, plain()).await.unwrap();
        assert_eq!((report.missing_drives.len(), report.damage.len()), (1, 0));
        for number in 0..20 {
            is(&store, &format!("o{number}"), number).await;
        }
        put(&store, "new", 1).await;
        store.close().await.unwrap();
        assert_eq!(blank.image().zone(ZoneId(0)).written, Blocks(0), "it was written to");
    });
}

/// AS-SB-3: an older superblock does not count in the place of newer ones that cannot be read: it does not know of a drive that was given
/// up since.
#[test]
fn an_older_superblock_does_not_count_while_newer_ones_cannot_be_read() {
    for times in [Some(2), None] {
        let left = Sim::new(1).run(|rt| async move {
            let devices = powered(&rt, &fresh(3));
            let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
            put(&store, "o", 1).await;
            off(&devices[2]);
            put(&store, "o", 2).await;
            assert_eq!(store.stats().unwrap().drives_missing, 1);
            images(&devices)
        });
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            for (device, image) in devices.iter().zip(&left).take(2) {
                let [log, other] = [0, 1].map(|zone| image.zone(ZoneId(zone)));
                assert_eq!(other.written, Blocks(0), "the newest is in the first zone");
                device.medium().fail_reads(log.start + Blocks(log.written.0 - 1), Blocks(1), times);
            }
            let mut opened = open(&rt, &named(&devices), plain()).await;
            if times.is_none() {
                let error = opened.err().expect("the newest superblock was not read");
                assert_eq!(error.kind, ErrorKind::Device, "{error}");
                devices.iter().for_each(|device| device.medium().heal());
                opened = open(&rt, &named(&devices), plain()).await;
            }
            let (store, report) = opened.unwrap();
            assert_eq!((report.missing_drives.len(), report.damage), (1, vec![]));
            is(&store, "o", 2).await;
        });
    }
}

/// AS-SB-3: of a drive's newest superblock something cannot be read, and the drive goes away while its older ones are looked for: it
/// counts as missing.
#[test]
fn a_drive_that_goes_away_between_two_looks_at_its_superblocks_is_missing() {
    let (left, base) = Sim::new(1).run(|rt| async move {
        let media = fresh(3);
        // The opening begins a base behind the first superblock.
        let base = media[0].zone(ZoneId(0)).written;
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &named(&devices), Options { whole_table: 0, ..plain() }).await.unwrap();
        put(&store, "o", 1).await;
        (images(&devices), base)
    });
    for after in 0..40 {
        let left: Vec<_> = left.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &left);
            devices[0].medium().fail_reads(left[0].zone(ZoneId(0)).start + base, Blocks(1), None);
            devices[0].power_off_at(after);
            let (store, report) =
                open(&rt, &named(&devices), plain()).await.unwrap_or_else(|error| panic!("{after}: {error}"));
            assert_eq!(report.damage, Vec::<String>::new(), "{after}");
            is(&store, "o", 1).await;
        });
    }
}

/// A superblock zone that takes no writes any more: the drive's other one does.
#[test]
fn a_superblock_zone_that_fails_is_done_without() {
    for whole_table in [64 << 10, 0] {
        superblock_zones_fail(whole_table);
    }
}

fn superblock_zones_fail(whole_table: usize) {
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &fresh(3));
        let (store, _) = open(&rt, &named(&devices), Options { whole_table, ..plain() }).await.unwrap();
        put(&store, "o", 1).await;
        for device in &devices {
            let fails = FaultRule { trigger: Trigger::Zone(CommandKind::Write, ZoneId(0)), fault: Fault::CommandError };
            device.set_faults(Faults::new([fails]));
        }
        for _ in 0..3 {
            put(&store, "o", 2).await;
            store.snapshot().await.unwrap();
        }
        assert_eq!(store.stats().unwrap().drives_missing, 0);
        store.close().await.unwrap();
        for drive in named(&devices) {
            assert!(inspect(&[drive]).await.unwrap().clean);
        }
    });
}

/// Six drives, of an array that was opened once more 20 hours later; the power of each drive failed `after` so many of its commands.
fn opened_late(after: u64) -> Vec<MemoryDevice> {
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &fresh(6));
        let (store, _) = open(&rt, &named(&devices), plain()).await.unwrap();
        put(&store, "o", 1).await;
        store.close().await.unwrap();
        rt.sleep(Duration::from_secs(20 * 3600)).await;
        devices.iter().for_each(|device| device.power_off_at(device.counts().commands + after));
        let _ = open(&rt, &named(&devices), plain()).await;
        images(&devices)
    })
}

/// AS-LOSS-2: three of six drives are lost with superblocks that are newer by 20 hours, the loss is accepted, and the clock
/// has gone back by as much. When they are back, the superblocks since then count.
#[test]
fn lost_drives_with_newer_superblocks_come_back_and_count_for_nothing() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    let mut unseen = 0;
    for (after, left) in (0..30).flat_map(|after| (0..64_u32).map(move |left| (after, left))) {
        if left.count_ones() != 3 {
            continue;
        }
        let media = opened_late(after);
        unseen += Sim::new(2).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let all = named(&devices);
            let there = all.iter().enumerate().filter(|(at, _)| left >> at & 1 == 1);
            let there: Vec<ArrayDrive> = there.map(|(_, drive)| drive.clone()).collect();
            let generation = async |drives: &[ArrayDrive]| inspect(drives).await.unwrap().generation;
            let (newest, seen) = (generation(&all).await, generation(&there).await);
            let accepting = Options { accept_loss: true, ..plain() };
            let (store, _) = open(&rt, &there, accepting).await.unwrap();
            store.close().await.unwrap();
            let since = generation(&there).await;
            assert_eq!(generation(&all).await, since, "power failed after {after}, drives {left:b}");
            u32::from(newest > seen + HOUR)
        });
    }
    assert!(unseen > 0, "newer superblocks were never lost");
}
