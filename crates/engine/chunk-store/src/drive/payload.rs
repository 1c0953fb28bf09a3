//! Payload of data records, between memory and the drive. A store is given one form of it when it is opened, and no read or
//! write asks which.
//!
//! - [`Sliced`]: payload is copied, framed in slices and verified, as every drive that keeps payload needs it.
//! - [`Hollow`]: for experiments on modelled drives that keep none. Shared zeros are written and read, so that terabytes
//!   cost no time for bytes that nobody will see. ([0054](../../../../../docs/decisions/0054-payload-handed-in.md))

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use shingle_base::{BufferPool, ChunkId};
use shingle_record::{RecordPlace, SliceError, SlicePlan, SlicedFramer, extract, frame_hollow};
use shingle_zoned::Geometry;

use crate::config::Options;
use crate::format::RecordKind;

/// Place of a record's data: in a zone, and in its chunk.
pub(crate) struct Home {
    pub(crate) place: RecordPlace,
    pub(crate) sequence: u64,
    pub(crate) id: ChunkId,
    /// Bytes from the chunk's start.
    pub(crate) offset: u32,
    /// Block of the zone before which all was durable by now.
    pub(crate) durable: u32,
}

/// A form of payload.
pub(crate) trait Payload: Send + Sync {
    /// Frames a data record, as the pieces to be written.
    fn frame(&self, home: &Home, data: &[Bytes]) -> Vec<Bytes>;

    /// Data to be kept in memory for long.
    fn keep(&self, data: Vec<Bytes>) -> Vec<Bytes>;

    /// Appends the verified bytes that a plan asks for to `out`.
    fn extract(
        &self,
        plan: &SlicePlan,
        blocks: &[u8],
        id: ChunkId,
        record_offset: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SliceError>;

    /// A buffer for `length` bytes that are read.
    fn buffer(&self, length: usize) -> Vec<u8>;

    /// Bytes that were read, for their caller.
    fn share(&self, buffer: Vec<u8>) -> Bytes;
}

/// The form for a drive: hollow only if that was asked for, and never on a drive that keeps payload.
pub(crate) fn of(options: &Options, geometry: &Geometry) -> Arc<dyn Payload> {
    let sliced = Sliced { buffers: BufferPool::new(options.buffer_bytes) };
    if options.hollow && !geometry.keeps_payload { Arc::new(Hollow(sliced)) } else { Arc::new(sliced) }
}

/// Payload in slices, each with its checksum.
pub(crate) struct Sliced {
    pub(crate) buffers: BufferPool,
}

impl Payload for Sliced {
    fn frame(&self, home: &Home, data: &[Bytes]) -> Vec<Bytes> {
        let length = data.iter().map(Bytes::len).sum();
        // The zone's head is not flushed before its first records are.
        let durable = if home.durable > 1 { home.durable } else { 0 };
        let mut framer = SlicedFramer::new(home.id, home.offset, length, &self.buffers).behind(durable);
        data.iter().for_each(|piece| framer.extend(piece));
        vec![framer.finish(RecordKind::Data.record_type(), &home.place, home.sequence, &self.buffers)]
    }

    /// A copy: what a caller passes may be a small part of a large buffer.
    fn keep(&self, data: Vec<Bytes>) -> Vec<Bytes> {
        let mut kept = BytesMut::with_capacity(data.iter().map(Bytes::len).sum());
        data.iter().for_each(|piece| kept.extend_from_slice(piece));
        vec![kept.freeze()]
    }

    fn extract(
        &self,
        plan: &SlicePlan,
        blocks: &[u8],
        id: ChunkId,
        record_offset: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SliceError> {
        extract(plan, blocks, id, record_offset, out)
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        self.buffers.take(length)
    }

    fn share(&self, buffer: Vec<u8>) -> Bytes {
        self.buffers.share(buffer)
    }
}

/// Zeros in place of payload; buffers as in the other form.
pub(crate) struct Hollow(Sliced);

impl Payload for Hollow {
    fn frame(&self, home: &Home, data: &[Bytes]) -> Vec<Bytes> {
        let length: usize = data.iter().map(Bytes::len).sum();
        let kind = RecordKind::Data.record_type();
        frame_hollow(kind, &home.place, home.sequence, home.id, home.offset, length as u32)
    }

    fn keep(&self, data: Vec<Bytes>) -> Vec<Bytes> {
        data
    }

    fn extract(
        &self,
        plan: &SlicePlan,
        _blocks: &[u8],
        _id: ChunkId,
        _record_offset: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SliceError> {
        out.resize(out.len() + plan.length() as usize, 0);
        Ok(())
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        self.0.buffer(length)
    }

    fn share(&self, buffer: Vec<u8>) -> Bytes {
        self.0.share(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::{Blocks, StoreId, ZoneId};

    fn form(hollow: bool, keeps_payload: bool) -> Arc<dyn Payload> {
        let geometry = Geometry { keeps_payload, ..Geometry::hm_smr(Blocks(64), 40, 0, 7) };
        of(&Options { hollow, ..Options::default() }, &geometry)
    }

    /// The bytes that come back, of a record that is damaged or not.
    fn read_back(form: &Arc<dyn Payload>, damaged: bool) -> Option<Vec<u8>> {
        let (store, id) = (StoreId(9), ChunkId::from_u64(7));
        let place = RecordPlace { store, epoch: 3, zone: ZoneId(4), block: 5 };
        let data = [Bytes::from(vec![1; 5000]), Bytes::from(vec![2; 3000])];
        let home = Home { place, sequence: 8, id, offset: 100, durable: 5 };
        let mut record = form.frame(&home, &data).concat();
        if damaged {
            record[6000] ^= 1;
        }
        let mut out = form.buffer(8000);
        let plan = SlicePlan::new(8000, 0, 8000);
        form.extract(&plan, &record, id, 100, &mut out).ok()?;
        Some(form.share(out).to_vec())
    }

    #[test]
    fn payload_is_hollow_only_where_it_was_asked_for_and_the_drive_keeps_none() {
        let data = [vec![1; 5000], vec![2; 3000]].concat();
        for (hollow, keeps) in [(false, false), (false, true), (true, true)] {
            let form = form(hollow, keeps);
            assert_eq!(read_back(&form, false).as_ref(), Some(&data), "{hollow} {keeps}");
            assert_eq!(read_back(&form, true), None, "CS-READ-1: {hollow} {keeps}");
        }
        assert_eq!(read_back(&form(true, false), true), Some(vec![0; 8000]));
    }
}
