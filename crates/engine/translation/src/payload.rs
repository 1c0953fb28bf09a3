//! Data of pairs, between memory and the drive. A volume is given one form of it when it is opened, and no read or write asks which.
//!
//! - [`Whole`]: data is copied into pairs and verified when it is read, as every drive that keeps data needs it.
//! - [`Hollow`]: for experiments on modelled drives that keep none. Shared zeros are written, and reads are zeros, so that terabytes
//!   cost no time for bytes that nobody will see. ([0054](../../../../docs/decisions/0054-payload-handed-in.md))

use bytes::Bytes;
use shingle_base::BufferPool;
use shingle_record::{Pair, PairFramer, PairPlan, PairSliceError, RecordPlace, frame_hollow_pair};
use shingle_zoned::Geometry;

/// Bytes of buffers that are kept for the next use.
const POOLED: usize = 32 << 20;

/// Pieces of what is read, each with its first byte there.
pub(crate) type Placed = Vec<(usize, Bytes)>;

/// A form of data.
pub(crate) trait Payload {
    /// Frames a pair of that data, as the pieces to be written.
    fn frame(&self, pair: Pair, data: &mut dyn Iterator<Item = &Bytes>) -> Vec<Bytes>;

    /// Zeros, for `length` bytes that are read.
    fn buffer(&self, length: usize) -> Vec<u8>;

    /// Puts the verified bytes that a plan asks for at the front of `out`; `raw` begins at the plan's first block.
    fn extract(&self, plan: &PairPlan, raw: &[u8], place: &RecordPlace, out: &mut [u8]) -> Result<(), PairSliceError>;

    /// As [`extract`](Self::extract), with the bytes where `raw` has them: each piece with its place, from `at` on.
    fn pieces(&self, plan: &PairPlan, raw: &Bytes, place: &RecordPlace, at: usize) -> Result<Placed, PairSliceError>;

    /// Bytes that were read, for their caller.
    fn share(&self, buffer: Vec<u8>) -> Bytes;
}

/// The form for a drive: hollow only if it keeps no data.
pub(crate) fn of(geometry: &Geometry) -> Box<dyn Payload> {
    let pool = BufferPool::new(POOLED);
    if geometry.keeps_payload { Box::new(Whole { pool }) } else { Box::new(Hollow { pool }) }
}

/// Data in slices, each with its check.
struct Whole {
    pool: BufferPool,
}

impl Payload for Whole {
    fn frame(&self, pair: Pair, data: &mut dyn Iterator<Item = &Bytes>) -> Vec<Bytes> {
        let mut framer = PairFramer::new(pair, &self.pool);
        data.for_each(|piece| framer.extend(piece));
        vec![framer.finish(&self.pool)]
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        zeroed(&self.pool, length)
    }

    fn extract(&self, plan: &PairPlan, raw: &[u8], place: &RecordPlace, out: &mut [u8]) -> Result<(), PairSliceError> {
        let mut at = 0;
        for slice in plan.extract(raw, place) {
            let slice = slice?;
            out[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        Ok(())
    }

    fn pieces(&self, plan: &PairPlan, raw: &Bytes, place: &RecordPlace, at: usize) -> Result<Placed, PairSliceError> {
        let mut at = at;
        let each = |slice: Result<&[u8], PairSliceError>| {
            let slice = slice?;
            let piece = (at, raw.slice_ref(slice));
            at += slice.len();
            Ok(piece)
        };
        plan.extract(raw, place).map(each).collect()
    }

    fn share(&self, buffer: Vec<u8>) -> Bytes {
        self.pool.share(buffer)
    }
}

/// Zeros in place of data.
struct Hollow {
    pool: BufferPool,
}

impl Payload for Hollow {
    fn frame(&self, pair: Pair, _data: &mut dyn Iterator<Item = &Bytes>) -> Vec<Bytes> {
        frame_hollow_pair(&pair)
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        zeroed(&self.pool, length)
    }

    fn extract(&self, _: &PairPlan, _: &[u8], _: &RecordPlace, _: &mut [u8]) -> Result<(), PairSliceError> {
        Ok(())
    }

    fn pieces(&self, _: &PairPlan, _: &Bytes, _: &RecordPlace, _: usize) -> Result<Placed, PairSliceError> {
        Ok(Vec::new())
    }

    fn share(&self, buffer: Vec<u8>) -> Bytes {
        self.pool.share(buffer)
    }
}

fn zeroed(pool: &BufferPool, length: usize) -> Vec<u8> {
    let mut buffer = pool.take(length);
    buffer.resize(length, 0);
    buffer
}
