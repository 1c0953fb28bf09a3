//! The streams of SMRstore's Table 3, one drive's share of them, which fill a drive.
//!
//! A server of the paper has 60 drives, so a drive has a sixtieth of files and rates. All files of all streams are open
//! at once, as on the server, and each is appended to in proportion to its rate; several appends are outstanding.

use std::cmp::Ordering;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, Error, ErrorKind, Stream};
use shingle_sim::Random;

use crate::error::LabError;
use crate::load::table3;

/// Appends outstanding: `numjobs` times `iodepth` of all streams come to 10 a drive.
const OUTSTANDING: usize = 10;

/// One row of Table 3, for one drive.
#[derive(Clone, Copy, Debug)]
pub struct StreamLoad {
    /// Stream of its chunks.
    pub stream: Stream,
    /// Open files.
    pub files: u32,
    /// Bytes a second, of all files together.
    pub rate: f64,
    /// Bytes of an append, from and to; whole blocks.
    pub io_bytes: (u32, u32),
    /// Bytes at which a chunk ends, if its size limit does not end it before.
    pub chunk_bytes: u64,
}

/// All streams of a drive.
#[derive(Clone, Debug)]
pub struct Mix(pub Vec<StreamLoad>);

impl Mix {
    /// Table 3.
    pub fn table3() -> Self {
        let load = |row: &table3::Row| StreamLoad {
            stream: row.stream,
            files: row.files(),
            rate: row.rate(),
            io_bytes: row.io_bytes,
            chunk_bytes: row.chunk_mib << 20,
        };
        Self(table3::ROWS.iter().map(load).collect())
    }

    /// The same, but appends of data and GC are of any length from 512 KiB to 1 MiB (Table 1), so that hardly two that
    /// follow each other are equal.
    pub fn random_sizes() -> Self {
        let mut mix = Self::table3();
        for load in mix.0.iter_mut().filter(|load| load.stream != Stream::Meta) {
            load.io_bytes.0 = 512 << 10;
        }
        mix
    }
}

/// An open file: its present chunk, and the time of its next append.
struct File {
    load: StreamLoad,
    id: ChunkId,
    length: u64,
    due: f64,
    random: Random,
}

/// Ids in no order, none twice.
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> ChunkId {
        self.0 += 1;
        ChunkId::from_u64(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

fn failed(error: Error) -> LabError {
    LabError(error.to_string())
}

/// Appends until `bytes` have been, then seals every chunk. `seed` decides lengths and order.
///
/// # Errors
/// The first failed call.
pub async fn fill(store: &ChunkStore, mix: &Mix, bytes: u64, seed: u64) -> Result<(), LabError> {
    let mut random = Random::new(seed);
    let zeros = AlignedBuf::zeroed(Blocks((1 << 20) / BLOCK_SIZE as u64)).freeze();
    let mut ids = Ids(0);
    let mut files = Vec::new();
    for &load in &mix.0 {
        for _ in 0..load.files {
            let id = ids.next();
            store.create(id, load.stream).await.map_err(failed)?;
            // Not all files of a stream end their chunks at once.
            let due = random.below(1000) as f64 / 1000.0;
            files.push(File { load, id, length: 0, due, random: Random::new(random.number()) });
        }
    }
    let mut done = 0;
    while done < bytes {
        files.sort_unstable_by(|left, right| left.due.partial_cmp(&right.due).unwrap_or(Ordering::Equal));
        let next = files.iter_mut().take(OUTSTANDING).map(|file| {
            let (low, high) = file.load.io_bytes;
            let blocks = file.random.between(u64::from(low) / BLOCK_SIZE as u64, u64::from(high) / BLOCK_SIZE as u64);
            let length = Blocks(blocks).bytes();
            let new = ids.next();
            append(store, file, zeros.slice(..length as usize), new)
        });
        for appended in join_all(next).await {
            done += appended?;
        }
    }
    for file in files {
        store.seal(file.id).await.map_err(failed)?;
    }
    Ok(())
}

/// One append, to a new chunk of id `new` if the file's is full.
async fn append(store: &ChunkStore, file: &mut File, data: Bytes, new: ChunkId) -> Result<u64, LabError> {
    let length = data.len() as u64;
    file.due += length as f64 * f64::from(file.load.files) / file.load.rate;
    let fits = file.length + length <= file.load.chunk_bytes;
    if fits {
        match store.append(file.id, file.length, vec![data.clone()]).await {
            Ok(end) => {
                file.length = end;
                return Ok(length);
            }
            Err(error) if error.kind == ErrorKind::ChunkFull => {}
            Err(error) => return Err(failed(error)),
        }
    }
    store.seal(file.id).await.map_err(failed)?;
    store.create(new, file.load.stream).await.map_err(failed)?;
    (file.id, file.length) = (new, 0);
    file.length = store.append(new, 0, vec![data]).await.map_err(failed)?;
    Ok(length)
}
