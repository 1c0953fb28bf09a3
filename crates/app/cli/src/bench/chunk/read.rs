//! Verified random reads of 4 KiB from chunks of 1 MiB records, on one core.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Options, Stream};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::failure::Outcome;

const CHUNKS: u64 = 16;
const CHUNK_MIB: u64 = 64;
const READS: u64 = 400_000;
const ROUNDS: usize = 5;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let memory = vec![1u8; (CHUNKS * CHUNK_MIB) as usize >> 1 << 20];
    let limits = (0..ROUNDS).map(|_| limit::random_copies(&memory, READS as usize)).collect();
    drop(memory);
    let rates = shingle_runtime::real::run(rounds)??;
    let (value, limit) = (median(rates), median(limits));
    Ok(vec![Figure { id: "read_4kib", unit: "reads/s", value, limit }])
}

async fn rounds(rt: Runtime) -> Outcome<Vec<f64>> {
    let device = Rc::new(MemoryDevice::new(Geometry::hm_smr(Blocks(65_536), 60, 0, 128)));
    ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await?;
    let (store, _) = ChunkStore::open(&rt, device, Options::default()).await?;
    let data = Bytes::from((0..1 << 20).map(|at: u32| (at * 31) as u8).collect::<Vec<_>>());
    for chunk in (0..CHUNKS).map(ChunkId::from_u64) {
        store.create(chunk, Stream::Data).await?;
        for piece in 0..CHUNK_MIB {
            store.append(chunk, piece << 20, vec![data.clone()]).await?;
        }
    }
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let began = limit::now();
        for _ in 0..READS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let chunk = ChunkId::from_u64(state % CHUNKS);
            let offset = (state >> 20) % (CHUNK_MIB << 8) * 4096;
            let bytes = store.read(chunk, offset, 4096).await?;
            std::hint::black_box(bytes);
        }
        rates.push(READS as f64 / began.elapsed().as_secs_f64());
    }
    store.close().await?;
    Ok(rates)
}
