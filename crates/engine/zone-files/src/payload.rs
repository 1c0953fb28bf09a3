//! Data of records, between memory and the drive. A drive that keeps no data is written headers and shared zeros, and reads zeros
//! ([0054](../../../../docs/decisions/0054-payload-handed-in.md)).

use bytes::Bytes;
use shingle_base::BufferPool;
use shingle_record::{RecordPlace, SliceError, SlicePlan, SlicedFramer, extract, frame_hollow};
use shingle_zoned::Geometry;

use crate::format::{DATA, Owner};

/// Bytes of buffers that are kept for the next use.
const POOLED: usize = 16 << 20;

/// Bytes of a file, to be framed as one record.
pub(crate) struct Framed<'a> {
    pub(crate) serial: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) data: &'a [Bytes],
    /// The zone's blocks before this one are durable.
    pub(crate) durable: u32,
}

/// A form of data.
pub(crate) struct Payload {
    pool: BufferPool,
    keeps: bool,
}

impl Payload {
    /// The form for a drive: hollow only if it keeps no data.
    pub(crate) fn of(geometry: &Geometry) -> Self {
        Self { pool: BufferPool::new(POOLED), keeps: geometry.keeps_payload }
    }

    /// Frames a record, as the pieces to be written.
    pub(crate) fn frame(&self, record: &Framed<'_>, place: &RecordPlace, sequence: u64) -> Vec<Bytes> {
        let owner = Owner::at(record.serial, place.epoch, record.offset).encode();
        let low = record.offset as u32;
        if !self.keeps {
            return frame_hollow(DATA, place, sequence, owner, low, record.length);
        }
        let mut framer = SlicedFramer::new(owner, low, record.length as usize, &self.pool).behind(record.durable);
        record.data.iter().for_each(|piece| framer.extend(piece));
        vec![framer.finish(DATA, place, sequence, &self.pool)]
    }

    /// Adds the verified bytes that a plan asks for; `raw` begins at the plan's first block.
    pub(crate) fn extract(
        &self,
        plan: &SlicePlan,
        raw: &[u8],
        owner: Owner,
        offset: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), SliceError> {
        if self.keeps {
            return extract(plan, raw, owner.encode(), offset as u32, out);
        }
        out.resize(out.len() + plan.length() as usize, 0);
        Ok(())
    }
}
