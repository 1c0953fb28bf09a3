//! Memory of the chunk store's index, by a counting allocator: bytes a chunk, and bytes a record, on one drive's share of
//! SMRstore's Table 3, where equal records collapse, and on appends of random length, where nothing does.
//!
//! A test of its own process, since all of its memory is counted; one thing after the other.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::alloc::System;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId, Lba, ZoneId};
use shingle_chunk_store::{ChunkStore, FormatOptions, IndexMemory, Options, Stream};
use shingle_lab::load::mix::{self, Mix};
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// SMRstore's memory (section 6.5): bytes a chunk and bytes a record.
const PAPER_CHUNK: f64 = 200.0;
const PAPER_RECORD: f64 = 8.0;

/// Limit for the streams of its Table 3.
const CHUNK_LIMIT: f64 = 100.0;
const RECORD_LIMIT: f64 = 4.0;

/// A drive of the paper, at 80 %.
const FULL_DRIVE: f64 = 20e12 * 0.8;

/// Bytes as they were found, and the most that they may be.
fn at_most(what: &str, bytes: f64, limit: f64) {
    println!("{what}: {bytes:.3} bytes of at most {limit:.0}, ratio {:.3}", bytes / limit);
    assert!(bytes <= limit, "{what} takes {bytes:.3} bytes: more than {limit:.0}");
}

#[test]
fn the_index_takes_less_memory_than_the_papers() {
    let measured = |mix: Mix| shingle_runtime::real::run(|rt| measure(rt, mix)).unwrap();
    let (table3, random) = (measured(Mix::table3()), measured(Mix::random_sizes()));
    let paper = |found: &Found| {
        let memory = &found.memory;
        (PAPER_CHUNK * memory.chunks() as f64 + PAPER_RECORD * memory.records() as f64) * found.scale()
    };
    at_most("chunk", table3.chunk(), CHUNK_LIMIT);
    at_most("record", table3.memory.record_bytes(), RECORD_LIMIT);
    // The goal is the mix's: a stream of few chunks with many records each, as data is, takes more for a chunk.
    for (stream, name, record_limit) in
        [(Stream::Gc, "gc", RECORD_LIMIT), (Stream::Data, "data", RECORD_LIMIT), (Stream::Meta, "meta", PAPER_RECORD)]
    {
        let (chunk, record) = table3.of(stream);
        at_most(&format!("chunk of {name}"), chunk, PAPER_CHUNK);
        at_most(&format!("record of {name}"), record, record_limit);
    }
    at_most("drive", table3.allocated * table3.scale(), paper(&table3));
    at_most("chunk, random", random.chunk(), PAPER_CHUNK);
    at_most("record, random", random.memory.record_bytes(), PAPER_RECORD);
    at_most("drive, random", random.allocated * random.scale(), paper(&random));
}

/// Memory after a load.
struct Found {
    /// As the store counts it, by structure.
    memory: IndexMemory,
    /// As the allocator does: what the filled store has more than the empty one had.
    allocated: f64,
    live_bytes: u64,
}

impl Found {
    /// Bytes a chunk beside its records. Bytes that the store does not count are the chunks'.
    fn chunk(&self) -> f64 {
        let records = self.memory.record_bytes() * self.memory.records() as f64;
        (self.allocated - records) / self.memory.chunks() as f64
    }

    /// The same, and bytes a record, of one stream.
    fn of(&self, stream: Stream) -> (f64, f64) {
        let uncounted = self.chunk() - self.memory.chunk_bytes();
        (self.memory.chunk_bytes_of(stream) + uncounted, self.memory.record_bytes_of(stream))
    }

    fn scale(&self) -> f64 {
        FULL_DRIVE / self.live_bytes as f64
    }
}

/// The memory that a load's chunks take once they are sealed.
async fn measure(rt: Runtime, mix: Mix) -> Found {
    let geometry = Geometry::hm_smr(Blocks(65_536), 2_500, 0, 128);
    let device = Rc::new(Sink {
        inner: MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata),
        sinking: Cell::new(false),
    });
    ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.unwrap();
    let options = Options { background: false, hollow: true, ..Options::default() };
    let (store, _) = ChunkStore::open(&rt, device.clone(), options).await.unwrap();
    device.sinking.set(true);
    // Memory that the first append allocates for good belongs to no chunk.
    let first = ChunkId::from_u64(0);
    store.create(first, Stream::Gc).await.unwrap();
    store.append(first, 0, vec![Bytes::from(vec![0; 1 << 20])]).await.unwrap();
    store.delete(first).await.unwrap();
    let room = store.store_stat().capacity_bytes / 10 * 8;
    let region = Region::new(ALLOCATOR);
    mix::fill(&store, &mix, room, 1).await.unwrap();
    let stats = region.change();
    let allocated = stats.bytes_allocated as f64 - stats.bytes_deallocated as f64;
    Found { memory: store.index_memory(), allocated, live_bytes: store.store_stat().live_bytes }
}

/// Steps of others while a write is under way.
const WRITE_STEPS: u32 = 4;

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
        if !self.sinking.get() {
            return self.inner.write(at, data);
        }
        // As on a drive, everything else goes on while a write is under way.
        Box::pin(async {
            for _ in 0..WRITE_STEPS {
                tokio::task::yield_now().await;
            }
            Ok(())
        })
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
