//! Cost of a nearly full drive of 75,000 zones to its one thread: an append that finds no zone, one step of GC, and `stat`.
//! Beside each the same on a drive of a hundredth of the zones. A step of GC chooses among zones that are all alike, which is
//! the worst case of the search, and moves 8 MB.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, ErrorKind, FormatOptions, Options, Stream};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::bench::figure::{Figure, median};
use crate::failure::{Failure, Outcome};

/// Zones of the drive, and of the smaller one beside it.
const ZONES: u32 = 75_000;
const FEW_ZONES: u32 = 750;

/// Bytes of a chunk: two take a zone of 16 MiB.
const CHUNK_BYTES: usize = 8_000_000;

/// Measurements of each figure.
const TIMES: usize = 101;

/// Microseconds each takes.
struct Costs {
    starved_append: f64,
    gc_step: f64,
    stat: f64,
}

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let many = shingle_runtime::real::run(|rt| measure(rt, ZONES))??;
    let few = shingle_runtime::real::run(|rt| measure(rt, FEW_ZONES))??;
    let us = |id, value, limit| Figure { id, unit: "us", value, limit };
    Ok(vec![
        us("starved_append", many.starved_append, few.starved_append),
        us("gc_step", many.gc_step, few.gc_step),
        us("stat", many.stat, few.stat),
    ])
}

async fn measure(rt: Runtime, zones: u32) -> Outcome<Costs> {
    let geometry = Geometry::hm_smr(Blocks(4096), zones, 0, 128);
    let device = Rc::new(MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata));
    ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await?;
    let options = Options { background: false, hollow: true, landing: None, ..Options::default() };
    let (store, _) = ChunkStore::open(&rt, device, options).await?;
    let data = Bytes::from(vec![0; CHUNK_BYTES]);
    let chunks = fill(&store, &data).await?;
    let starving = ChunkId::from_u64(u64::MAX);
    store.create(starving, Stream::Data).await?;
    let mut starved = Vec::new();
    for _ in 0..TIMES {
        let began = rt.now();
        let answer = store.append(starving, 0, vec![data.clone()]).await;
        starved.push(micros(rt.now().since(began)));
        if answer.is_ok() {
            return Err(Failure::new("the drive was to be full, but took an append"));
        }
    }
    // Every zone keeps one chunk of two.
    let mut stats = Vec::new();
    for (number, &id) in chunks.iter().enumerate() {
        let measured = number % (chunks.len() / TIMES) == 0;
        if measured {
            // So that one change is left to count.
            std::hint::black_box(store.store_stat());
        }
        if number % 2 == 0 {
            store.delete(id).await?;
        }
        if measured {
            let began = rt.now();
            std::hint::black_box(store.store_stat());
            stats.push(micros(rt.now().since(began)));
        }
    }
    let mut steps = Vec::new();
    for _ in 0..TIMES {
        let began = rt.now();
        let emptied = store.gc(1, |_| {}).await?.zones;
        steps.push(micros(rt.now().since(began)));
        if emptied != 1 {
            return Err(Failure::new("GC found no zone to empty"));
        }
    }
    Ok(Costs { starved_append: median(starved), gc_step: median(steps), stat: median(stats) })
}

/// Fills the drive. Returns the chunks in the order they were written.
async fn fill(store: &ChunkStore, data: &Bytes) -> Outcome<Vec<ChunkId>> {
    let mut chunks = Vec::new();
    loop {
        let id = ChunkId::from_u64(chunks.len() as u64);
        store.create(id, Stream::Data).await?;
        match store.append(id, 0, vec![data.clone()]).await {
            Ok(_) => {
                store.seal(id).await?;
                chunks.push(id);
            }
            Err(error) if error.kind == ErrorKind::NoSpace => {
                store.delete(id).await?;
                return Ok(chunks);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
