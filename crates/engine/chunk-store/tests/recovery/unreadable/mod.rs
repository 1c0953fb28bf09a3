//! CS-REC-3 to CS-REC-6: opening a drive of which parts cannot be read, or have rotted. One block lost costs at most the data
//! in it; what is lost is named; nothing is forgotten, reset or written over because it could not be read.

mod accepting;
mod heads;
mod judging;
mod tails;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::common::{content, formatted};
use bytes::Bytes;
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

/// Counts the resets of a zone from now on.
fn resets_of(device: &SimDevice, zone: ZoneId) -> Rc<Cell<u32>> {
    let resets = Rc::new(Cell::new(0));
    let counted = resets.clone();
    device.on_command(move |command, _| {
        let this = command.kind == CommandKind::Reset && command.zone == Some(zone);
        counted.set(counted.get() + u32::from(this));
    });
    resets
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

/// Opens a drive whose chunk has two records with the header of the second unreadable.
async fn forked(rt: &Runtime, medium: &MemoryDevice, zone: ZoneId) -> (ChunkStore, SimDevice) {
    let device = SimDevice::new(rt, medium);
    lose(&device, zone, 4, None);
    let (store, report) = opened(rt, &device).await;
    assert!(names(&report.damage, None, Some(zone)), "{:?}", report.damage);
    assert_eq!(store.stat(id(1)).unwrap().size, 10_000, "the second record cannot be known");
    (store, device)
}
