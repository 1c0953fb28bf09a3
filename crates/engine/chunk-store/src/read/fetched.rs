//! Bytes on their way to a reader, not verified yet: the reader's thread does it, and has them in its cache for what comes next.
//!
//! # Invariants
//! - CS-FETCH-1: only [`Fetched::verify`] gives bytes out, all of them verified (CS-READ-1). `nothing_gets_out_unverified`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use shingle_base::{ChunkId, Lba};
use shingle_record::SlicePlan;

use crate::drive::payload::Payload;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of reads that a drive has under way: 32 of a MiB, which is what the queues of disks hold.
pub(crate) const UNDER_WAY: usize = 32 << 20;

/// A part of a record as the drive gave it.
pub(crate) struct Raw {
    pub(crate) plan: SlicePlan,
    pub(crate) blocks: Bytes,
    /// Offset of the record's data in the chunk.
    pub(crate) record_offset: u32,
    /// Address of the blocks.
    pub(crate) at: Lba,
}

/// Verification of blocks, and the count of bad ones.
#[derive(Clone)]
pub(crate) struct Verifier {
    pub(crate) payload: Arc<dyn Payload>,
    pub(crate) corrupt_reads: Arc<AtomicU64>,
}

impl Verifier {
    pub(crate) fn new(payload: Arc<dyn Payload>) -> Self {
        Self { payload, corrupt_reads: Arc::default() }
    }

    /// Appends the verified bytes of a record that was read to `out`. Damage is counted.
    pub(crate) fn append(&self, id: ChunkId, raw: &Raw, out: &mut Vec<u8>) -> Result<()> {
        self.payload.extract(&raw.plan, &raw.blocks, id, raw.record_offset, out).map_err(|error| {
            self.corrupt_reads.fetch_add(1, Ordering::Relaxed);
            Error::new(ErrorKind::Corrupt, error.to_string()).of(id).at(raw.at)
        })
    }
}

/// Bytes of a chunk that were read. They come out verified, or not at all.
pub struct Fetched(Inner);

enum Inner {
    Verified(Bytes),
    Raw { id: ChunkId, records: Vec<Raw>, landed: Vec<Bytes>, length: usize, verifier: Verifier },
}

impl Fetched {
    /// Parts of records of a chunk, and behind them bytes that are still in memory: `length` bytes in all.
    pub(crate) fn raw(id: ChunkId, records: Vec<Raw>, landed: Vec<Bytes>, length: usize, verifier: Verifier) -> Self {
        Self(Inner::Raw { id, records, landed, length, verifier })
    }

    /// The bytes, verified on the caller's thread.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn verify(self) -> Result<Bytes> {
        match self.0 {
            Inner::Verified(bytes) => Ok(bytes),
            Inner::Raw { id, records, landed, length, verifier } => {
                let mut out = verifier.payload.buffer(length);
                records.iter().try_for_each(|raw| verifier.append(id, raw, &mut out))?;
                landed.iter().for_each(|piece| out.extend_from_slice(piece));
                debug_assert_eq!(out.len(), length, "CS-READ-3: fewer bytes than were asked for");
                Ok(verifier.payload.share(out))
            }
        }
    }
}

/// Bytes that need no check any more.
impl From<Bytes> for Fetched {
    fn from(verified: Bytes) -> Self {
        Self(Inner::Verified(verified))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::payload::Sliced;
    use shingle_base::{BufferPool, StoreId, ZoneId};
    use shingle_record::{RecordPlace, RecordType, frame_sliced};

    /// CS-FETCH-1.
    #[test]
    fn nothing_gets_out_unverified() {
        let (buffers, id) = (BufferPool::new(1 << 20), ChunkId::from_u64(7));
        let data = Bytes::from((0..9000u32).map(|at| at as u8).collect::<Vec<_>>());
        let place = RecordPlace { store: StoreId(1), epoch: 2, zone: ZoneId(3), block: 4 };
        let record = frame_sliced(RecordType(9), &place, 1, id, 500, std::slice::from_ref(&data), &buffers);
        let verifier = Verifier::new(Arc::new(Sliced { buffers }));
        let fetched = |of: ChunkId, record: &[u8]| {
            let plan = SlicePlan::new(9000, 100, 8000);
            let (from, blocks) = (plan.first_block().bytes() as usize, plan.blocks().bytes() as usize);
            let blocks = Bytes::copy_from_slice(&record[from..from + blocks]);
            let raw = Raw { plan, blocks, record_offset: 500, at: Lba(3) };
            Fetched::raw(of, vec![raw], vec![Bytes::from("tail")], 8004, verifier.clone()).verify()
        };
        let good = fetched(id, &record).unwrap();
        assert_eq!((&good[..8000], &good[8000..]), (&data[100..8100], &b"tail"[..]));
        for at in (200..8900).step_by(997) {
            let mut damaged = record.to_vec();
            damaged[at] ^= 1;
            assert_eq!(fetched(id, &damaged).unwrap_err().kind, ErrorKind::Corrupt, "byte {at}");
        }
        assert_eq!(fetched(ChunkId::from_u64(8), &record).unwrap_err().kind, ErrorKind::Corrupt);
        assert_eq!(verifier.corrupt_reads.load(Ordering::Relaxed), 10);
        assert_eq!(Fetched::from(data.clone()).verify().unwrap(), data);
    }
}
