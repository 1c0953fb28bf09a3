//! Appends of 1 MiB, 16 outstanding, over 128 chunks, checksums on, on a device that drops payload: the engine is
//! measured, not the emulation.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, ErrorKind, FormatOptions, Options, Stream};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::failure::{Failure, Outcome};

const CHUNKS: u64 = 128;
const OUTSTANDING: u64 = 16;
const PIECE: usize = 1 << 20;
/// MiB in each of the rounds.
const ROUND: u64 = 8192;
const ROUNDS: usize = 5;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let (value, limit) = measure(&Options::default(), ROUND, ROUNDS)?;
    Ok(vec![Figure { id: "append_1mib", unit: "bytes/s", value, limit }])
}

/// Bytes a second, and the limit: the least work of any store, measured in turn. Medians of `rounds` of `round` MiB.
pub(crate) fn measure(options: &Options, round: u64, rounds: usize) -> Outcome<(f64, f64)> {
    let mut rates = Vec::new();
    let mut limits = Vec::new();
    for _ in 0..rounds {
        limits.push(limit::copy_and_crc(round as usize));
        let options = options.clone();
        rates.push(shingle_runtime::real::run(move |rt| one_round(rt, options, round))??);
    }
    Ok((median(rates), median(limits)))
}

async fn one_round(rt: Runtime, options: Options, round: u64) -> Outcome<f64> {
    let geometry = Geometry::hm_smr(Blocks(65_536), 600, 0, 128);
    let device = Rc::new(MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata));
    ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await?;
    let (store, _) = ChunkStore::open(&rt, device, options).await?;
    for chunk in 0..CHUNKS {
        store.create(ChunkId::from_u64(chunk), Stream::ALL[(chunk % 2) as usize]).await?;
    }
    let data = Bytes::from(vec![0x5Au8; PIECE]);
    let began = limit::now();
    let writers: Vec<_> = (0..OUTSTANDING)
        .map(|writer| {
            let (store, data) = (store.clone(), data.clone());
            rt.spawn(async move {
                let mut chunks: Vec<u64> = (writer..CHUNKS).step_by(OUTSTANDING as usize).collect();
                for step in 0..round / OUTSTANDING {
                    let slot = (step % chunks.len() as u64) as usize;
                    let id = ChunkId::from_u64(chunks[slot]);
                    let size = store.stat(id)?.size;
                    match store.append(id, size, vec![data.clone()]).await {
                        Ok(_) => {}
                        Err(error) if error.kind == ErrorKind::ChunkFull => {
                            store.seal(id).await?;
                            chunks[slot] += CHUNKS;
                            store.create(ChunkId::from_u64(chunks[slot]), Stream::Data).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.map_err(Failure::from)??;
    }
    let rate = (round * PIECE as u64) as f64 / began.elapsed().as_secs_f64();
    store.close().await?;
    Ok(rate)
}
