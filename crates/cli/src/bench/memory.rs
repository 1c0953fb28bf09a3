//! Memory of the index, by a counting allocator: bytes a chunk, and bytes a record.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId, Lba, ZoneId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Options, Stream};
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::bench::Figure;
use crate::failure::Outcome;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// What SMRstore needs (section 6.5): bytes a chunk and bytes a record.
const CHUNK_LIMIT: f64 = 200.0;
const RECORD_LIMIT: f64 = 8.0;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    // As many chunks of many more records: two equations, two unknowns.
    let few = used(20_000, 1)?;
    let many = used(20_000, 65)?;
    let records = (many - few) / (20_000.0 * 64.0);
    let chunks = few / 20_000.0 - records;
    Ok(vec![
        Figure { id: "chunk", unit: "bytes", value: chunks, limit: CHUNK_LIMIT },
        Figure { id: "record", unit: "bytes", value: records, limit: RECORD_LIMIT },
    ])
}

/// Bytes that the index of so many sealed chunks of so many records takes.
fn used(chunks: u64, records: u64) -> Outcome<f64> {
    shingle_runtime::real::run(|rt| measure(rt, chunks, records))?
}

async fn measure(rt: Runtime, chunks: u64, records: u64) -> Outcome<f64> {
    let geometry = Geometry::hm_smr(Blocks(65_536), 400, 0, 128);
    let device = Rc::new(Sink { inner: MemoryDevice::new(geometry), sinking: Cell::new(false) });
    ChunkStore::format(&rt, device.clone(), &FormatOptions { metazones: Some(60), ..FormatOptions::default() }).await?;
    let (store, _) = ChunkStore::open(&rt, device.clone(), Options { background: false, ..Options::default() }).await?;
    let data = Bytes::from(vec![7u8; 3000]);
    device.sinking.set(true);
    let region = Region::new(ALLOCATOR);
    for chunk in (0..chunks).map(ChunkId::from_u64) {
        store.create(chunk, Stream::Meta).await?;
        for record in 0..records {
            store.append(chunk, record * 3000, vec![data.clone()]).await?;
        }
        store.seal(chunk).await?;
    }
    let stats = region.change();
    Ok(stats.bytes_allocated as f64 - stats.bytes_deallocated as f64)
}

/// A device that forgets what is written once it is told to, so that only the engine's memory is left to count.
struct Sink {
    inner: MemoryDevice,
    sinking: Cell<bool>,
}

impl ZonedDevice for Sink {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.inner.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        if self.sinking.get() { Box::pin(std::future::ready(Ok(()))) } else { self.inner.write(at, data) }
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.inner.append(zone, data)
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        if self.sinking.get() { Box::pin(std::future::ready(Ok(()))) } else { self.inner.manage(zone, op) }
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.inner.flush()
    }
}
