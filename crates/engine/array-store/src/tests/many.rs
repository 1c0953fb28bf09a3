//! Arrays of many drives: some of them dead at an opening, and numbers that are used again.

use super::*;
use crate::format::DriveState;
use crate::recovery::gather::gather;
use crate::superblocks::{copies, unread_most};

/// 60 drives of 10+2, whose table is in every superblock, or behind bases.
async fn sixty(rt: &Runtime, whole_table: usize) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> = (0..60).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 20, 0, 12))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(10, 2).unwrap()) };
    format(rt, &named(&devices), &options).await.unwrap();
    let store = open_with(rt, &devices, &[], whole_table).await.unwrap().0;
    for number in 0..12 {
        store.put(format!("o{number}"), bytes(number, 19_000), Bytes::new()).await.unwrap();
    }
    (devices, store)
}

async fn open_with(
    rt: &Runtime,
    devices: &[SimDevice],
    dead: &[usize],
    whole_table: usize,
) -> crate::Result<(ArrayStore, RecoveryReport)> {
    let options = Options { background: false, available_sets: 3, whole_table, ..Options::default() };
    ArrayStore::open(rt, &without(devices, dead), &IndexPlace::Memory, options).await
}

fn without(devices: &[SimDevice], dead: &[usize]) -> Vec<ArrayDrive> {
    let there = named(devices).into_iter().enumerate();
    there.filter(|(number, _)| !dead.contains(number)).map(|(_, drive)| drive).collect()
}

fn written(devices: &[SimDevice]) -> Vec<u64> {
    devices.iter().map(|device| device.counts().writes.0).collect()
}

/// Drives that the next superblock goes to.
async fn keepers(store: &ArrayStore, devices: &[SimDevice]) -> Vec<usize> {
    let before = written(devices);
    store.0.write_superblock(None).await.unwrap();
    let after = written(devices);
    (0..devices.len()).filter(|&number| before[number] != after[number]).collect()
}

/// Largest number of zones that a set lacks without three drives.
fn lacking(store: &ArrayStore, dead: &[usize]) -> usize {
    store.0.lacking_without(dead.iter().map(|&number| DriveId(number as u8)))
}

/// Three of so many, so that the set that lacks most of them lacks that many.
fn three(store: &ArrayStore, of: &[usize], lacks: usize) -> Option<[usize; 3]> {
    let triples = of.iter().flat_map(|&a| of.iter().flat_map(move |&b| of.iter().map(move |&c| [a, b, c])));
    triples.filter(|[a, b, c]| a < b && b < c).find(|dead| lacking(store, dead) == lacks)
}

/// AS-GATHER-4: three of 60 drives are dead at an opening, among them such as have the newest superblock. No set lacks
/// more than two, so the array is open, all is there, and none of the drives is given up for it.
#[test]
fn an_array_of_60_drives_is_opened_without_three() {
    for whole_table in [0, 64 << 10] {
        let (images, dead) = Sim::new(1).run(move |rt| async move {
            let (devices, store) = sixty(&rt, whole_table).await;
            let keepers = keepers(&store, &devices).await;
            let all: Vec<usize> = (0..60).collect();
            let dead = three(&store, &keepers, 2).or_else(|| three(&store, &keepers, 1));
            (crash(&devices), dead.or_else(|| three(&store, &all, 2)).unwrap())
        });
        let images = Sim::new(2).run(move |rt| async move {
            let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (store, report) = open_with(&rt, &devices, &dead, whole_table).await.unwrap();
            assert_eq!((report.missing_drives.len(), report.damage), (3, vec![]));
            for number in 0..12 {
                assert!(store.get(format!("o{number}")).await.unwrap() == bytes(number, 19_000), "o{number}");
            }
            let states: Vec<_> = store.0.drives.entries().iter().map(|entry| entry.state).collect();
            assert_eq!(states, [DriveState::Present; 60], "being away is no failure");
            store.put("later", bytes(20, 19_000), Bytes::new()).await.unwrap();
            crash(&devices)
        });
        Sim::new(3).run(move |rt| async move {
            // The clock of a simulation begins anew: this is later.
            rt.sleep(Duration::from_secs(3600)).await;
            let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let (store, report) = open_with(&rt, &devices, &[], whole_table).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            for number in 0..12 {
                assert!(store.get(format!("o{number}")).await.unwrap() == bytes(number, 19_000), "o{number}");
            }
            assert!(store.get("later").await.unwrap() == bytes(20, 19_000));
        });
    }
}

/// AS-EVICT-1: it is not opened without three of one set, and nothing is written.
#[test]
fn an_array_of_60_drives_is_not_opened_without_three_of_a_set() {
    Sim::new(1).run(|rt| async move {
        let (devices, store) = sixty(&rt, 0).await;
        let all: Vec<usize> = (0..60).collect();
        let dead = three(&store, &all, 3).unwrap();
        drop(store);
        let before = written(&devices);
        let Err(error) = open_with(&rt, &devices, &dead, 0).await else { panic!("opened without {dead:?}") };
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        assert_eq!(before, written(&devices));
        let (_, report) = open_with(&rt, &devices, &[], 0).await.unwrap();
        assert_eq!((report.missing_drives, report.damage), (vec![], vec![]));
    });
}

/// AS-GATHER-4: the newest superblock is found as long as one of the drives is there that have it; without all of them
/// an older one is not taken for it.
#[test]
fn the_newest_superblock_is_never_missed() {
    for whole_table in [0, 64 << 10] {
        Sim::new(1).run(move |rt| async move {
            let (devices, store) = sixty(&rt, whole_table).await;
            let keepers = keepers(&store, &devices).await;
            assert_eq!(keepers.len(), 7);
            let newest = store.0.superblock.generation.get();
            for left in 0..keepers.len() {
                let dead: Vec<usize> = keepers.iter().copied().filter(|number| *number != keepers[left]).collect();
                let found = gather(&rt, &without(&devices, &dead), None).await.unwrap();
                assert!(found.superblock.generation == newest && found.is_newest().is_ok());
            }
            let found = gather(&rt, &without(&devices, &keepers), None).await.unwrap();
            assert!(found.superblock.generation < newest);
            assert_eq!(found.is_newest().unwrap_err().kind, ErrorKind::Device);
        });
    }
}

/// AS-SB-1: how many copies there are, and how many drives may be away; of superblocks that do not say, as many as
/// parity makes up for.
#[test]
fn copies_grow_with_the_number_of_drives_and_never_get_fewer() {
    let of = |data, parity, drives, before| {
        let code = Code::new(data, parity).unwrap();
        let copies = copies(code, drives, before);
        (copies, unread_most(code, copies))
    };
    assert_eq!(of(10, 2, 12, 0), (3, 2));
    assert_eq!(of(10, 2, 24, 0), (4, 3));
    assert_eq!(of(10, 2, 60, 0), (7, 6));
    assert_eq!(of(10, 2, 255, 0), (10, 9));
    assert_eq!(of(10, 2, 12, 7), (7, 6));
    // Fewer than that may be all that are left.
    assert_eq!(of(2, 1, 3, 0), (3, 1));
    assert_eq!(of(1, 1, 2, 0), (3, 1));
    assert_eq!(unread_most(Code::new(10, 2).unwrap(), 0), 2);
}

/// AS-NUMBER-1: a drive is given up and taken back three hundred times, and a drive can be added still.
#[test]
fn numbers_of_drives_are_used_again() {
    Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..4).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let (devices, more) = (&devices[..3], &devices[3..]);
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(devices), &options).await.unwrap();
        let place = IndexPlace::Memory;
        let plain = Options { background: false, available_sets: 3, ..Options::default() };
        let mut numbers = [0, 1, 2].map(DriveId);
        let mut last = None;
        for round in 0..300_u64 {
            let away = (round % 3) as usize;
            let there = without(devices, &[away]);
            let (store, _) = ArrayStore::open(&rt, &there, &place, plain.clone()).await.unwrap();
            store.put("o", bytes(round as u8, 19_000), Bytes::new()).await.unwrap();
            store.close().await.unwrap();
            let options = Options { readmit: vec![numbers[away]], ..plain.clone() };
            let (store, report) = ArrayStore::open(&rt, &named(devices), &place, options).await.unwrap();
            let [back] = &report.readmitted[..] else { panic!("round {round}: {report:?}") };
            numbers[away] = back.new;
            assert!(store.get("o").await.unwrap() == bytes(round as u8, 19_000), "round {round}");
            let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            assert_eq!(done.failed, 0, "round {round}: {done:?}");
            assert_eq!(store.stats().unwrap().drives_missing, 0, "round {round}");
            store.close().await.unwrap();
            last = Some(back.new);
        }
        assert!(last.is_some_and(|DriveId(number)| number < 20), "{last:?}");
        let (store, report) = ArrayStore::open(&rt, &named(devices), &place, plain).await.unwrap();
        assert_eq!((report.missing_drives, report.damage), (vec![], vec![]));
        let added = store.add_drive(&named(more)[0]).await.unwrap();
        assert!(added.0 < 20 && !numbers.contains(&added), "{added}");
        let found = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]));
    });
}

/// AS-NUMBER-1, AS-GATHER-1: a drive that was lost and replaced comes back in the place of the one that has its number
/// now. Its superblocks cannot be read, and its zones have heads of sets and of that number; it is not taken for the
/// other one.
#[test]
fn a_drive_is_not_taken_for_the_one_that_has_its_number() {
    Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..5).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let all = named(&devices);
        let [first, second, lost, third, fourth] = &all[..] else { panic!("five drives") };
        let at = |drives: &[&ArrayDrive]| -> Vec<ArrayDrive> { drives.iter().map(|&drive| drive.clone()).collect() };
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &at(&[first, second, lost]), &options).await.unwrap();
        let place = IndexPlace::Memory;
        let plain = || Options { background: false, available_sets: 3, ..Options::default() };
        let (store, _) = ArrayStore::open(&rt, &at(&[first, second, lost]), &place, plain()).await.unwrap();
        for number in 0..30 {
            store.put(format!("o{number}"), bytes(number, 19_000), Bytes::new()).await.unwrap();
        }
        store.close().await.unwrap();
        // One is lost, and a third takes its place; then another, and the fourth gets the number of the first that was
        // lost.
        for (left, joins, number) in [([first, second], third, 3), ([first, third], fourth, 2)] {
            let (store, _) = ArrayStore::open(&rt, &at(&left), &place, plain()).await.unwrap();
            store.put(format!("o{}", 28 + number), bytes(28 + number, 19_000), Bytes::new()).await.unwrap();
            assert_eq!(store.add_drive(joins).await.unwrap(), DriveId(number));
            let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
            assert_eq!(done.failed, 0, "{done:?}");
            store.close().await.unwrap();
        }
        let superblocks = [ZoneId(0), ZoneId(1)].map(|zone| devices[2].image().zone(zone).start);
        superblocks.iter().for_each(|start| devices[2].medium().fail_reads(*start, Blocks(60), None));
        let (store, report) = ArrayStore::open(&rt, &at(&[first, third, lost]), &place, plain()).await.unwrap();
        assert_eq!((report.missing_drives.len(), report.damage), (1, vec![]));
        for number in (0..29).chain([30, 31]) {
            assert!(store.get(format!("o{number}")).await.unwrap() == bytes(number, 19_000), "o{number}");
        }
    });
}
