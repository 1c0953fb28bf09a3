//! CS-MARK-5 and CS-APP-5 where records move: the drive forgets where they were, and what takes their place has to be as sure.

use std::rc::Rc;

use crate::common::content;
use bytes::Bytes;
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{
    ChunkStore, ErrorKind, FormatOptions, Options, PoolSizes, RecordDump, RecoveryReport, Stream, ZoneStatus, dump,
};
use shingle_record::Entry;
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

/// A formatted drive with so many metazones that the journal asks for no checkpoint.
async fn drive(rt: &Runtime, volatile_cache: bool) -> SimDevice {
    let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(64), 70, 0, 16) };
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry));
    let layout = FormatOptions { metazones: Some(30), ..FormatOptions::default() };
    ChunkStore::format(rt, Rc::new(device.clone()), &layout).await.unwrap();
    device
}

/// Nothing but what is asked for, and nothing lands: one append, one record.
fn quiet() -> Options {
    let pools = PoolSizes { gc: 1, data: 1, meta: 1 };
    Options { background: false, landing: None, pools, ..Options::default() }
}

async fn opened(rt: &Runtime, medium: &MemoryDevice) -> (SimDevice, ChunkStore, RecoveryReport) {
    let device = SimDevice::new(rt, medium);
    device.medium().heal();
    let (store, report) = ChunkStore::open(rt, Rc::new(device.clone()), quiet()).await.unwrap();
    (device, store, report)
}

fn id(number: u64) -> ChunkId {
    ChunkId::from_u64(number)
}

async fn put(store: &ChunkStore, chunk: u64, at: u64, length: u64, write: u64) {
    let end = store.append(id(chunk), at, vec![Bytes::from(content(write, at, length))]).await.unwrap();
    assert_eq!(end, at + length);
}

/// Chunks that come and go while most of the drive is full, so that every zone that can be reset is.
async fn churn(store: &ChunkStore) {
    for number in 100..150 {
        store.create(id(number), Stream::Data).await.unwrap();
        put(store, number, 0, 200_000, number).await;
        if number >= 128 {
            store.delete(id(number)).await.unwrap();
        }
    }
    for number in 100..128 {
        store.delete(id(number)).await.unwrap();
    }
}

/// Three zones with a chunk of five records each that goes on, and garbage, which GC empties.
async fn fill_and_move(store: &ChunkStore) {
    for chunk in 1..=3 {
        store.create(id(chunk), Stream::Data).await.unwrap();
        for number in 0..5 {
            put(store, chunk, number * 10_000, 10_000, number).await;
        }
        store.create(id(10 + chunk), Stream::Data).await.unwrap();
        for number in 0..15 {
            put(store, 10 + chunk, number * 10_000, 10_000, 9).await;
        }
    }
    for chunk in 11..=13 {
        store.delete(id(chunk)).await.unwrap();
    }
    // Closes the zones that have a little room left.
    churn(store).await;
    assert_eq!(store.gc(10, |_| {}).await.unwrap().zones, 3);
}

/// Places of a chunk's records, by a recovery.
async fn records(rt: &Runtime, medium: &MemoryDevice, chunk: u64) -> Vec<RecordDump> {
    let dump = dump(rt, Rc::new(SimDevice::new(rt, medium))).await.unwrap();
    dump.chunks.into_iter().find(|found| found.id == id(chunk)).unwrap().records
}

/// Spoils a block for good: it reads as other bytes than were written.
fn rot(medium: &MemoryDevice, zone: ZoneId, block: u64) {
    medium.corrupt(medium.geometry().start_of(zone) + Blocks(block), |bytes| bytes.fill(0xA5));
}

/// CS-MARK-5: GC moved five records of a chunk that is still open, and their zone was reset. Then one copy rots, the last
/// or one in the middle: it may not pass for a tear, for the append was acknowledged long before it was moved.
#[test]
fn a_bad_copy_costs_its_own_bytes_once_the_original_is_reset() {
    for (cached, mark_every, before_last) in
        [(false, true, 0), (true, true, 0), (true, true, 2), (false, false, 0), (true, false, 2)]
    {
        Sim::new(1).run(move |rt| async move {
            let device = drive(&rt, cached).await;
            let options = Options { mark_every: mark_every.then_some(256 << 20), ..quiet() };
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options).await.unwrap();
            fill_and_move(&store).await;
            churn(&store).await;
            let image = device.crash_image(1);
            assert!(store.counters().resets > 10);
            assert_eq!(store.counters().checkpoints, 0);
            // Of what was moved earlier later copies say that it was durable.
            let mut copies = Vec::new();
            for chunk in 1..=3 {
                let records = records(&rt, &image, chunk).await.into_iter();
                copies.extend(
                    records.map(|record| (record.zone, u64::from(record.block), chunk, record.offset / 10_000)),
                );
            }
            copies.sort_unstable();
            assert_eq!(copies[0].0, copies[14].0, "one zone took all: {copies:?}");
            let (zone, block, chunk, record) = copies[14 - before_last];
            rot(&image, zone, block + 2);
            let (_, store, _) = opened(&rt, &image).await;
            let context = format!("cached {cached}, marks {mark_every}, {before_last} before the last");
            assert_eq!(store.stat(id(chunk)).unwrap().size, 50_000, "{context}");
            for number in (0..5).filter(|&number| number != record) {
                let bytes = store.read(id(chunk), number * 10_000, 10_000).await.unwrap();
                assert!(bytes == content(number, number * 10_000, 10_000), "{context}: {number}");
            }
            let read = store.read(id(chunk), record * 10_000, 10_000).await.map(|_| ());
            assert!(read.is_err_and(|error| error.kind == ErrorKind::Corrupt), "{context}");
        });
    }
}

/// CS-MARK-5: an opening cannot read one of the copies that GC made. It finds those behind it, and their originals are
/// reset. Then the last copy rots.
#[test]
fn copies_behind_what_cannot_be_read_are_marked_too() {
    for cached in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let device = drive(&rt, cached).await;
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
            fill_and_move(&store).await;
            let image = device.crash_image(1);
            let mut copies = Vec::new();
            for chunk in 1..=3 {
                let records = records(&rt, &image, chunk).await.into_iter();
                copies.extend(
                    records.map(|record| (record.zone, u64::from(record.block), chunk, record.offset / 10_000)),
                );
            }
            copies.sort_unstable();
            assert_eq!(copies[0].0, copies[14].0, "one zone took all: {copies:?}");
            let (zone, unread, ..) = copies[5];
            let device = SimDevice::new(&rt, &image);
            device.medium().fail_reads(device.geometry().start_of(zone) + Blocks(unread), Blocks(1), None);
            let (store, report) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
            assert!(report.hidden, "{report:?}");
            churn(&store).await;
            assert!(store.counters().resets > 10);
            assert_eq!(store.counters().checkpoints, 0);
            let image = device.crash_image(1);
            let (_, last, chunk, record) = copies[14];
            rot(&image, zone, last + 2);
            let (_, store, _) = opened(&rt, &image).await;
            let context = format!("cached {cached}");
            assert_eq!(store.stat(id(chunk)).unwrap().size, 50_000, "{context}");
            let read = store.read(id(chunk), record * 10_000, 10_000).await.map(|_| ());
            assert!(read.is_err_and(|error| error.kind == ErrorKind::Corrupt), "{context}");
            for (_, _, chunk, record) in copies.into_iter().take(14) {
                let bytes = store.read(id(chunk), record * 10_000, 10_000).await.unwrap();
                assert!(bytes == content(record, record * 10_000, 10_000), "{context}: {chunk}, {record}");
            }
        });
    }
}

/// CS-MARK-3: an opening that scans zones from their heads cannot read a record that the checkpoint has, nor one behind
/// it. Marks of what it found between these and behind adjoin what the checkpoint has of the zone, and cover neither.
#[test]
fn marks_of_what_lies_between_bad_blocks_cover_none_of_them() {
    Sim::new(1).run(|rt| async move {
        let device = drive(&rt, false).await;
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
        store.create(id(1), Stream::Data).await.unwrap();
        for number in 0..10 {
            put(&store, 1, number * 10_000, 10_000, number).await;
            if number == 4 {
                store.checkpoint().await.unwrap();
            }
        }
        let image = device.crash_image(1);
        let records = records(&rt, &image, 1).await;
        let device = SimDevice::new(&rt, &image);
        for record in [records[1], records[6]] {
            let at = device.geometry().start_of(record.zone) + Blocks(u64::from(record.block));
            device.medium().fail_reads(at, Blocks(1), None);
        }
        let whole = Options { scan_whole_zones: true, ..quiet() };
        let (store, report) = ChunkStore::open(&rt, Rc::new(device.clone()), whole).await.unwrap();
        assert!(report.hidden, "{report:?}");
        churn(&store).await;
        let counters = store.counters();
        assert!(counters.resets > 10 && counters.marks > 0 && counters.checkpoints == 0, "{counters:?}");
        let (_, store, report) = opened(&rt, &device.crash_image(1)).await;
        assert_eq!(report.damage, []);
        assert_eq!(store.stat(id(1)).unwrap().size, 100_000);
        for number in 0..10 {
            let bytes = store.read(id(1), number * 10_000, 10_000).await.unwrap();
            assert!(bytes == content(number, number * 10_000, 10_000), "{number}");
        }
    });
}

/// CS-APP-5, after a checkpoint: a tail that could not be read for a while ends before the newer append that took its
/// place does. When the newer one rots that leaves a hole, whatever else lies on the drive; in a chunk that was sealed,
/// too.
#[test]
fn an_old_tail_never_fills_a_hole_in_what_took_its_place() {
    for sealed in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let device = drive(&rt, false).await;
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
            store.create(id(1), Stream::Data).await.unwrap();
            put(&store, 1, 0, 10_000, 1).await;
            put(&store, 1, 10_000, 5000, 2).await;
            let medium = device.crash_image(1);
            let old = records(&rt, &medium, 1).await[1];
            // The second append cannot be read, and the chunk goes on without it.
            let device = SimDevice::new(&rt, &medium);
            let at = device.geometry().start_of(old.zone) + Blocks(u64::from(old.block));
            device.medium().fail_reads(at, Blocks(2), None);
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
            assert_eq!(store.stat(id(1)).unwrap().size, 10_000);
            put(&store, 1, 10_000, 15_000, 3).await;
            put(&store, 1, 25_000, 5000, 4).await;
            if sealed {
                store.seal(id(1)).await.unwrap();
            }
            let medium = device.crash_image(1);
            let newer = records(&rt, &medium, 1).await[1];
            assert_ne!(newer.zone, old.zone);
            rot(&medium, newer.zone, u64::from(newer.block));
            medium.fail_reads(at, Blocks(2), None);
            let mut device = SimDevice::new(&rt, &medium);
            for checkpoint in 0..=3 {
                let context = format!("sealed {sealed}, checkpoint {checkpoint}");
                let (store, report) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
                assert!(report.damage.iter().any(|damage| damage.chunk == Some(id(1))), "{context}: {report:?}");
                let stat = store.stat(id(1)).unwrap();
                assert_eq!((stat.size, stat.sealed), (30_000, sealed), "{context}");
                let read = store.read(id(1), 10_000, 100).await.map(|_| ());
                let lost = read.is_err_and(|error| error.kind == ErrorKind::Corrupt);
                assert!(lost, "{context}: an append that is dead is back");
                let kept = store.read(id(1), 25_000, 5000).await.unwrap();
                assert!(kept == content(4, 25_000, 5000), "{context}");
                store.checkpoint().await.unwrap();
                device = SimDevice::new(&rt, &device.crash_image(1));
                device.medium().heal();
            }
        });
    }
}

/// Places where chunks were gone on with that the log has since its newest checkpoint began.
async fn newest_places(rt: &Runtime, device: &SimDevice) -> Vec<Entry> {
    const RESUME: u8 = 7;
    let log = dump(rt, Rc::new(SimDevice::new(rt, &device.image()))).await.unwrap().log;
    let start = log.iter().filter(|record| record.kind == "checkpoint start").map(|record| record.position).max();
    let newest = log.into_iter().filter(|record| Some(record.position) > start);
    newest.flat_map(|record| record.entries).filter(|entry| entry.bytes.first() == Some(&RESUME)).collect()
}

/// CS-RESUME-1: checkpoints journal a place again as long as a zone is used that is older, and then no more. Until then
/// what it says is dead may lie in such a zone; from then on it would only make each checkpoint longer.
#[test]
fn a_place_where_a_chunk_was_gone_on_with_is_kept_until_no_zone_is_older() {
    Sim::new(1).run(|rt| async move {
        let device = drive(&rt, false).await;
        let (device, store, _) = opened(&rt, &device.image()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        put(&store, 1, 0, 5000, 1).await;
        store.close().await.unwrap();
        let (device, store, _) = opened(&rt, &device.image()).await;
        put(&store, 1, 5000, 5000, 2).await;
        let place = newest_places(&rt, &device).await.first().unwrap().sequence;
        store.seal(id(1)).await.unwrap();
        let mut kept = 0;
        for round in 0..100 {
            store.checkpoint().await.unwrap();
            let places = newest_places(&rt, &device).await.len();
            let zones = dump(&rt, Rc::new(SimDevice::new(&rt, &device.image()))).await.unwrap().zones;
            let older = zones.iter().filter(|zone| zone.epoch < place && zone.status != ZoneStatus::Free).count();
            assert_eq!(places > 0, older > 0, "round {round}: {places} places, {older} zones are older: CS-RESUME-1");
            kept += places;
            if places == 0 {
                break;
            }
            // Pairs that share a zone, of which one dies soon, so that GC has something to win.
            for stream in Stream::ALL {
                for (half, rounds) in [(0, 2), (1, 6)] {
                    let number = 1000 + 6 * round + 2 * stream as u64 + half;
                    store.create(id(number), stream).await.unwrap();
                    put(&store, number, 0, 70_000, number).await;
                    store.seal(id(number)).await.unwrap();
                    if round >= rounds {
                        store.delete(id(number - 6 * rounds)).await.unwrap();
                    }
                }
            }
            store.gc(2, |_| {}).await.unwrap();
        }
        assert!((3..100).contains(&kept), "kept by {kept} checkpoints");
        let (_, store, report) = opened(&rt, &device.crash_image(1)).await;
        assert_eq!(report.damage, []);
        assert!(store.read(id(1), 0, 10_000).await.unwrap() == [content(1, 0, 5000), content(2, 5000, 5000)].concat());
    });
}
