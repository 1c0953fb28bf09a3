//! REC-3 to REC-6: opening a drive of which parts cannot be read, or have rotted. One block lost costs at most the data
//! in it; what is lost is named; nothing is forgotten, reset or written over because it could not be read.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use common::{content, formatted};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{
    ChunkStore, Damage, ErrorKind, Options, PoolSizes, RecoveryReport, Stream, ZoneStatus, check,
};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Survival, Trigger};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

/// From now on a block cannot be read; after so many tries it can again, if `times` says how many.
fn lose(device: &SimDevice, zone: ZoneId, block: u64, times: Option<u32>) {
    device.medium().fail_reads(device.geometry().start_of(zone) + Blocks(block), Blocks(1), times);
}

fn lose_all(device: &SimDevice, zone: ZoneId) {
    (0..64).for_each(|block| lose(device, zone, block, None));
}

/// The data zones that hold anything behind their heads.
async fn used_zones(device: &SimDevice) -> Vec<ZoneId> {
    let zones = device.report(ZoneId(7), u32::MAX).await.unwrap();
    zones.iter().filter(|zone| zone.written > Blocks(1)).map(|zone| zone.zone).collect()
}

/// The image after a power cut, on a drive that can read all of it.
fn healed(rt: &Runtime, device: &SimDevice) -> SimDevice {
    let again = SimDevice::new(rt, &device.crash_image(1));
    again.medium().heal();
    again
}

fn drive() -> Geometry {
    Geometry::hm_smr(Blocks(64), 40, 0, 16)
}

fn cached() -> Geometry {
    Geometry { volatile_cache: true, ..drive() }
}

/// Nothing but what is asked for, and nothing lands: one append, one record.
fn quiet() -> Options {
    Options { background: false, landing: None, ..Options::default() }
}

async fn opened(rt: &Runtime, device: &SimDevice) -> (ChunkStore, RecoveryReport) {
    ChunkStore::open(rt, Rc::new(device.clone()), quiet()).await.unwrap()
}

fn id(number: u64) -> ChunkId {
    ChunkId::from_u64(number)
}

/// Appends one record; `write` is the number of the write, and decides its bytes.
async fn put(store: &ChunkStore, chunk: u64, at: u64, length: u64, write: u64) {
    let end = store.append(id(chunk), at, vec![Bytes::from(content(write, at, length))]).await.unwrap();
    assert_eq!(end, at + length);
}

async fn holds(store: &ChunkStore, chunk: u64, at: u64, length: u64, write: u64) {
    let bytes = store.read(id(chunk), at, length).await.unwrap_or_else(|error| panic!("{at}+{length}: {error}"));
    assert!(bytes == content(write, at, length), "chunk {chunk}, {at}+{length}: not the bytes of write {write}");
}

/// Tells if all of a range fails, byte by byte at its ends and in its middle, with a kind that says so.
async fn lost(store: &ChunkStore, chunk: u64, from: u64, to: u64) {
    for at in [from, (from + to) / 2, to - 1] {
        let error = store.read(id(chunk), at, 1).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device), "{at}: {error}");
        assert_eq!(error.chunk, Some(id(chunk)), "{at}: {error}");
    }
}

/// Ten records of 10,000 bytes (three blocks each), and no checkpoint since: all in one zone, from block 1 on.
async fn ten_records(store: &ChunkStore, chunk: u64) {
    store.create(id(chunk), Stream::Data).await.unwrap();
    for number in 0..10 {
        put(store, chunk, number * 10_000, 10_000, number).await;
    }
}

async fn holds_ten(store: &ChunkStore, but: &[u64]) {
    assert_eq!(store.stat(id(1)).unwrap().size, 100_000);
    for number in (0..10).filter(|number| !but.contains(number)) {
        holds(store, 1, number * 10_000, 10_000, number).await;
    }
}

/// A drive as a power cut leaves it, with ten records in the one zone in use.
async fn left(rt: &Runtime, geometry: Geometry) -> (MemoryDevice, ZoneId) {
    let device = SimDevice::new(rt, &formatted(geometry));
    let (store, _) = opened(rt, &device).await;
    ten_records(&store, 1).await;
    let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
    (device.crash_image(1), zone)
}

/// More than all zones hold, twice: every zone that can be reset is.
async fn churn(store: &ChunkStore) {
    for number in 100..170 {
        store.create(id(number), Stream::Data).await.unwrap();
        put(store, number, 0, 200_000, number).await;
        store.delete(id(number)).await.unwrap();
    }
}

fn names(damage: &[Damage], chunk: Option<u64>, zone: Option<ZoneId>) -> bool {
    damage.iter().any(|damage| damage.chunk == chunk.map(id) && damage.zone == zone)
}

/// Spoils a block for good: it reads as other bytes than were written.
fn rot(medium: &MemoryDevice, zone: ZoneId, block: u64) {
    medium.corrupt(medium.geometry().start_of(zone) + Blocks(block), |bytes| {
        for byte in bytes.iter_mut().step_by(7) {
            *byte ^= 0x5A;
        }
    });
}

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

/// REC-4: a zone of which nothing can be read is lost while that lasts, and neither reset nor written to. Numbers that
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
            assert_eq!(report.hidden, !rots, "REC-8");
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

/// REC-5: a zone whose first write was torn may have records, but neither head nor end. No opening tells that as
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

/// REC-6: a killed process's append was found by the next, which says so; then the power fails.
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

/// REC-3: a header that rotted or cannot be read; later records of the chunk say what it had.
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
            assert_eq!(report.hidden, !rots, "REC-8");
            holds_ten(&store, &[3]).await;
            lost(&store, 1, 30_000, 34_000).await;
            // It stays so: after a checkpoint, and a power cut.
            store.close().await.unwrap();
            let (store, report) = opened(&rt, &healed(&rt, &device)).await;
            assert!(!report.hidden, "REC-8");
            if rots {
                assert!(report.damage.iter().all(|damage| damage.chunk == Some(id(1))), "{:?}", report.damage);
                lost(&store, 1, 30_000, 34_000).await;
            }
            holds_ten(&store, &[3]).await;
        });
    }
}

/// Opens a drive whose chunk has two records with the header of the second unreadable.
async fn forked(rt: &Runtime, medium: &MemoryDevice, zone: ZoneId) -> (ChunkStore, SimDevice) {
    let device = SimDevice::new(rt, medium);
    lose(&device, zone, 4, None);
    let (store, report) = opened(rt, &device).await;
    assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
    assert_eq!(store.stat(id(1)).unwrap().size, 10_000, "the second record cannot be known");
    (store, device)
}

/// APP-5: an append whose header cannot be read for a while, the last of its zone. Another takes its place, is shorter,
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

/// GC-6: a read-only zone of which not all can be read is not reset anyway. Its readable records are moved away.
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
        // The zone dies: before that, and after (ZONE-5).
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
            assert_eq!(report.damage, [], "ZONE-5");
            holds_ten(&after, &[]).await;
        }
    });
}

/// ZONE-5: a zone that a failed write closed holds nothing behind what is in the index: its death loses nothing that an
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
                assert_eq!(report.damage, [], "ZONE-5");
                assert_eq!(store.stat(id(1)).unwrap().size, 20_000);
                holds(&store, 1, 10_000, 10_000, 1).await;
            }
        });
    }
}

/// REC-8: the last record of a zone has a bad slice, and its chunk was sealed, so it was acknowledged. While something
/// else on the drive cannot be read it takes no place, for a better copy may be there. It is not forgotten either.
#[test]
fn a_torn_record_is_judged_by_the_opening_that_can_read_all() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(cached()));
        let (store, _) = opened(&rt, &device).await;
        store.create(id(1), Stream::Data).await.unwrap();
        put(&store, 1, 0, 10_000, 1).await;
        store.seal(id(1)).await.unwrap();
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
        store.create(id(2), Stream::Meta).await.unwrap();
        put(&store, 2, 0, 10_000, 2).await;
        let other = used_zones(&device).await.into_iter().find(|&found| found != zone).unwrap();
        let medium = device.crash_image(1);
        rot(&medium, zone, 2);
        let device = SimDevice::new(&rt, &medium);
        lose(&device, other, 1, None);
        let (store, report) = opened(&rt, &device).await;
        assert!(report.hidden);
        assert_eq!(store.stat(id(1)).unwrap().size, 10_000);
        lost(&store, 1, 0, 10_000).await;
        churn(&store).await;
        store.close().await.unwrap();
        let (store, report) = opened(&rt, &healed(&rt, &device)).await;
        assert!(names(&report.damage, Some(1), Some(zone)) && !report.hidden, "{:?}", report.damage);
        holds(&store, 2, 0, 10_000, 2).await;
        lost(&store, 1, 0, 8192).await;
        holds(&store, 1, 8192, 10_000 - 8192, 1).await;
    });
}

/// A garbage zone of which the reset fails is garbage: what cannot be read in it is no loss, and it can be reset
/// another time.
#[test]
fn a_zone_whose_reset_failed_holds_nothing_that_could_be_lost() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(drive()));
        let (store, _) = opened(&rt, &device).await;
        ten_records(&store, 1).await;
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
        store.delete(id(1)).await.unwrap();
        let rule = FaultRule { trigger: Trigger::Zone(CommandKind::Reset, zone), fault: Fault::CommandError };
        device.set_faults(Faults::new([rule]));
        churn(&store).await;
        let status = |store: &ChunkStore| store.zones().into_iter().find(|found| found.zone == zone).unwrap().status;
        assert_eq!(status(&store), ZoneStatus::ReadOnly, "its reset was tried");
        store.close().await.unwrap();
        let device = SimDevice::new(&rt, &device.crash_image(1));
        lose(&device, zone, 1 + 9, None);
        let (store, report) = opened(&rt, &device).await;
        assert_eq!((&report.damage[..], report.hidden), (&[][..], false));
        assert_eq!(status(&store), ZoneStatus::Garbage);
        let resets = Rc::new(Cell::new(0));
        device.on_command({
            let resets = resets.clone();
            move |command, _| {
                let this = command.kind == CommandKind::Reset && command.zone == Some(zone);
                resets.set(resets.get() + u32::from(this));
            }
        });
        churn(&store).await;
        assert!(resets.get() > 0, "the zone is never used again");
    });
}

/// GC-7: of a zone nothing can be read any more. GC tries some of it, and goes on to others.
#[test]
fn gc_gives_up_a_zone_that_cannot_be_read() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &formatted(drive()));
        let (store, _) = opened(&rt, &device).await;
        store.create(id(1), Stream::Data).await.unwrap();
        for number in 0..60 {
            put(&store, 1, number * 100, 100, number).await;
        }
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk lies in one zone") };
        store.close().await.unwrap();
        let medium = device.image();
        medium.set_state(zone, ZoneState::ReadOnly);
        let device = SimDevice::new(&rt, &medium);
        let (store, report) = opened(&rt, &device).await;
        assert_eq!(report.damage, []);
        // The first ten records can be read.
        (11..64).for_each(|block| lose(&device, zone, block, None));
        let reads = Rc::new(Cell::new(0));
        device.on_command({
            let reads = reads.clone();
            move |command, _| reads.set(reads.get() + u32::from(command.kind == CommandKind::Read))
        });
        let collected = store.gc(3, |_| {}).await.unwrap();
        assert_eq!((collected.zones, collected.damaged), (0, 1));
        assert!(reads.get() <= 10 + 32, "{} reads: GC-7", reads.get());
        let found = store.zones().into_iter().find(|found| found.zone == zone).unwrap();
        assert_eq!(found.live_blocks, 50, "what could be read was moved");
        for number in 0..10 {
            holds(&store, 1, number * 100, 100, number).await;
        }
    });
}

/// A tail that could not be read is there again once it can be, if nothing was appended meanwhile.
#[test]
fn a_tail_that_cannot_be_read_is_not_forgotten() {
    Sim::new(1).run(|rt| async move {
        let (medium, zone) = left(&rt, drive()).await;
        let (store, device) = forked(&rt, &two_records(&medium, zone), zone).await;
        store.close().await.unwrap();
        let (store, report) = opened(&rt, &healed(&rt, &device)).await;
        assert_eq!(report.damage, []);
        assert_eq!(store.stat(id(1)).unwrap().size, 20_000);
        holds(&store, 1, 10_000, 10_000, 1).await;
    });
}

/// Ten records cut down to two.
fn two_records(medium: &MemoryDevice, zone: ZoneId) -> MemoryDevice {
    let medium = medium.snapshot();
    medium.truncate_zone(zone, Blocks(7));
    medium
}

/// REC-5: of one write that was not flushed any blocks survive a host's power cut, others before them do not. That is no
/// damage, and nothing that was acknowledged is missing; the same rot in what was acknowledged before is told.
#[test]
fn a_write_of_which_any_blocks_survive_is_torn_and_not_damaged() {
    let mut torn = 0;
    for seed in 0..60 {
        torn += Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &formatted(cached()));
            let pools = PoolSizes { gc: 1, data: 1, meta: 1 };
            // Two appends of a chunk make two records.
            let options = Options { pools, record_max: 8 << 10, ..quiet() };
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options).await.unwrap();
            for chunk in 1..=3 {
                store.create(id(chunk), Stream::Data).await.unwrap();
                put(&store, chunk, 0, 5000, chunk).await;
            }
            let [zone] = used_zones(&device).await[..] else { panic!("three chunks lie in one zone") };
            // All six in one write; the power fails before its flush.
            let left = Rc::new(RefCell::new(None));
            device.on_command({
                let left = left.clone();
                move |command, device| {
                    if command.kind == CommandKind::Flush {
                        let image = || device.crash_image_with(seed, Survival::AnySubset);
                        left.borrow_mut().get_or_insert_with(image);
                    }
                }
            });
            let places = [(1, 5000), (1, 12_000), (2, 5000), (2, 12_000), (3, 5000), (3, 12_000)];
            let appends = places.map(|(chunk, at)| put(&store, chunk, at, 7000, 10 + chunk));
            futures_util::future::join_all(appends).await;
            let image = left.take().unwrap();
            let (store, report) = opened(&rt, &SimDevice::new(&rt, &image)).await;
            assert_eq!(report.damage, [], "seed {seed}");
            for chunk in 1..=3 {
                let stat = store.stat(id(chunk)).unwrap();
                assert!([5000, 12_000, 19_000].contains(&stat.size), "seed {seed}: {stat:?}");
                holds(&store, chunk, 0, 5000, chunk).await;
                if stat.size > 5000 {
                    holds(&store, chunk, 5000, stat.size - 5000, 10 + chunk).await;
                }
                put(&store, chunk, stat.size, 700, 20 + chunk).await;
            }
            rot(&image, zone, 3);
            let (_, rotten) = opened(&rt, &SimDevice::new(&rt, &image)).await;
            assert!(!rotten.damage.is_empty(), "seed {seed}: the second chunk's first record was acknowledged");
            report.torn.len()
        });
    }
    assert!(torn > 10, "only {torn} writes were torn");
}
