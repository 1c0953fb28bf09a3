//! Bad blocks in different rows of a segment: slices are the columns of the code, and each row that has enough good ones is
//! there.

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{
    ArrayDrive, ArrayStore, CheckOptions, DriveId, IndexPlace, Options, RebuildOptions, ScrubOptions, check,
};
use shingle_base::{Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Medium, Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{ArrayShape, content, formatted, named, powered};

/// A kind of bad block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bad {
    Rot,
    Unreadable,
}

const BOTH: [Bad; 2] = [Bad::Rot, Bad::Unreadable];

fn plain() -> Options {
    Options { background: false, available_sets: 3, ..Options::default() }
}

fn geometry() -> Geometry {
    Geometry::hm_smr(Blocks(60), 16, 0, 12)
}

/// Drives of an array of 2+1, closed, with these objects in one segment.
fn segment(objects: &'static [(&'static str, usize)]) -> Vec<MemoryDevice> {
    let shape = ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 80_000, drives: vec![geometry(); 3] };
    let media = formatted(&shape);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, plain()).await.unwrap();
        let puts = objects
            .iter()
            .enumerate()
            .map(|(key, (name, size))| store.put(name.to_string(), content((key as u64, *size)), Bytes::new()));
        for put in join_all(puts).await {
            put.unwrap();
        }
        store.close().await.unwrap();
        devices.iter().map(SimDevice::image).collect()
    })
}

/// Makes one block of the zone of the segment on a drive bad. The record of the first fragment begins behind the heads of zone and
/// segment, at block 2.
fn spoil(medium: &MemoryDevice, block: u64, bad: Bad) -> Medium {
    let zones = (2..16).map(ZoneId);
    let zone = zones.max_by_key(|zone| medium.zone(*zone).written).unwrap();
    let at = medium.zone(zone).start + Blocks(block);
    if bad == Bad::Rot {
        medium.corrupt(at, |bytes| bytes[2000] ^= 8);
    }
    let medium = Medium::from(medium);
    if bad == Bad::Unreadable {
        medium.fail_reads(at, Blocks(1), None);
    }
    medium
}

/// Runs a test on the object `o` of 80,000 bytes, whose zones have these bad blocks, of drives.
fn with_bad<F>(
    bad: Bad,
    blocks: &'static [(usize, u64)],
    test: impl FnOnce(Runtime, Vec<SimDevice>, Vec<ArrayDrive>, ArrayStore) -> F + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let images = segment(&[("o", 80_000)]);
    Sim::new(2).run(move |rt| async move {
        let spoilt =
            images.iter().enumerate().map(|(number, image)| match blocks.iter().find(|(drive, _)| *drive == number) {
                Some((_, block)) => spoil(image, *block, bad),
                None => Medium::from(image),
            });
        let devices: Vec<SimDevice> = spoilt.map(|medium| SimDevice::resume(&rt, medium)).collect();
        let drives = named(&devices);
        let (store, report) = ArrayStore::open(&rt, &drives, &IndexPlace::Memory, plain()).await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        test(rt, devices, drives, store).await;
    });
}

fn blank(rt: &Runtime) -> ArrayDrive {
    let dev = SimDevice::new(rt, &MemoryDevice::new(geometry()));
    ArrayDrive { name: "new".into(), dev: std::rc::Rc::new(dev) }
}

async fn whole(store: &ArrayStore) {
    assert!(store.get("o").await.unwrap() == content((0, 80_000)));
}

/// AS-READ-3, AS-SCRUB-2: two drives of three have a bad block, and each row two good slices: all is read, found and mended.
#[test]
fn bad_blocks_in_different_rows_cost_nothing() {
    for bad in BOTH {
        with_bad(bad, &[(0, 4), (1, 9)], move |rt, _, drives, store| async move {
            whole(&store).await;
            let look = ScrubOptions { read_only: true, ..ScrubOptions::default() };
            let found = store.scrub(look, |_| {}).await.unwrap();
            assert_eq!((found.damaged.len(), &found.lost), (2, &vec![]), "{bad:?}");
            let mended = store.scrub(ScrubOptions::default(), |_| {}).await.unwrap();
            assert_eq!((mended.damaged.len(), mended.repaired, mended.lost), (2, 2, vec![]), "{bad:?}");
            let again = store.scrub(look, |_| {}).await.unwrap();
            assert_eq!((again.damaged, again.lost), (vec![], vec![]), "{bad:?}");
            whole(&store).await;
            store.close().await.unwrap();
            let checked = check(&rt, &drives, CheckOptions::default(), |_| {}).await.unwrap();
            assert_eq!((checked.repairable, checked.lost), (vec![], vec![]), "{bad:?}");
        });
    }
}

/// AS-READ-3: the same where the drives of the set are emptied.
#[test]
fn a_drive_is_taken_out_whose_neighbours_have_bad_blocks() {
    for bad in BOTH {
        with_bad(bad, &[(0, 4), (1, 9)], move |rt, devices, _, store| async move {
            store.add_drive(&blank(&rt)).await.unwrap();
            store.remove_drive(DriveId(0), RebuildOptions::default(), |_| {}).await.unwrap();
            devices[0].power_off_at(0);
            whole(&store).await;
        });
    }
}

/// AS-REPLACE-3: a drive is lost, and the others have rotten blocks in different rows. Only the slices of those rows are zeros
/// in the zone that takes its place; everything else has parity again.
#[test]
fn a_rebuild_writes_zeros_only_for_rows_that_are_lost() {
    with_bad(Bad::Rot, &[(0, 4), (1, 9)], |rt, devices, _, store| async move {
        devices[2].power_off_at(0);
        drop(store.put("p", content((1, 100)), Bytes::new()).await);
        store.add_drive(&blank(&rt)).await.unwrap();
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert!(done.done > 0 && done.failed == 0, "{done:?}");
        devices[0].power_off_at(0);
        // Slices 2 and 7 of each data fragment are in rows with rot.
        let object = store.open_object("o").unwrap();
        let fragment = 40_960;
        for (from, to) in [(0, 2 * 4096), (3 * 4096, 7 * 4096), (8 * 4096, 39_000)] {
            for start in [from, fragment + from] {
                let read = object.read(start, to - from).await;
                let read = read.unwrap_or_else(|error| panic!("{start}: {error}"));
                let (start, end) = (start as usize, start as usize + read.len());
                assert!(read == content((0, 80_000))[start..end], "{start}");
            }
        }
    });
}

/// AS-SCRUB-2: bad blocks in one row cost the objects whose bytes lie there, and no others of the segment; a scrub writes nothing
/// for them, and all of the rest again.
#[test]
fn a_row_that_is_lost_costs_the_objects_in_it_alone() {
    for bad in BOTH {
        let images = segment(&[("a", 20_000), ("b", 20_000)]);
        let mut lost = 0;
        for pair in [[0, 1], [0, 2], [1, 2]] {
            let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
            lost += Sim::new(2).run(move |rt| async move {
                let spoilt = images.iter().enumerate().map(|(number, image)| match pair.contains(&number) {
                    true => spoil(image, 3, bad),
                    false => Medium::from(image),
                });
                let devices: Vec<SimDevice> = spoilt.map(|medium| SimDevice::resume(&rt, medium)).collect();
                let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, plain()).await.unwrap();
                let mut reports = Vec::new();
                for _ in 0..2 {
                    reports.push(store.scrub(ScrubOptions::default(), |_| {}).await.unwrap());
                }
                let mut unread = 0;
                for (name, key) in [("a", 0), ("b", 1)] {
                    match store.get(name).await {
                        Ok(bytes) => assert!(bytes == content((key, 20_000)), "{bad:?}, {pair:?}: {name}"),
                        Err(_) => unread += 1,
                    }
                }
                for found in &reports {
                    assert_eq!((found.lost.len(), found.repaired), (unread, 0), "{bad:?}, {pair:?}: {found:?}");
                }
                unread
            });
        }
        // Two pairs of fragments have parity.
        assert_eq!(lost, 4, "{bad:?}");
    }
}
