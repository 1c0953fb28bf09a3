//! Data on its way to the drive and back: framed and verified; or hollow, in experiments on drives that keep none.

use bytes::Bytes;
use shingle_base::ChunkId;
use shingle_record::{Place, SliceError, SlicePlan, SlicedFramer, extract, frame_hollow};

use crate::format::RecordKind;
use crate::store::Inner;

impl Inner {
    /// Whether data is neither copied nor checked. Never on a drive that keeps it.
    pub(crate) fn hollow(&self) -> bool {
        self.options.hollow && !self.geometry.keeps_payload
    }

    /// Frames a data record, as the pieces to be written. `durable` is the block of the zone before which all was durable
    /// by now.
    pub(crate) fn frame_data(
        &self,
        place: &Place,
        sequence: u64,
        id: ChunkId,
        offset: u32,
        data: &[Bytes],
        durable: u32,
    ) -> Vec<Bytes> {
        let kind = RecordKind::Data.record_type();
        let length: usize = data.iter().map(Bytes::len).sum();
        if !self.hollow() {
            // The zone's head is not flushed before its first records are.
            let durable = if durable > 1 { durable } else { 0 };
            let mut framer = SlicedFramer::new(id, offset, length, &self.buffers).behind(durable);
            data.iter().for_each(|piece| framer.extend(piece));
            return vec![framer.finish(kind, place, sequence, &self.buffers)];
        }
        frame_hollow(kind, place, sequence, id, offset, length as u32)
    }

    /// Appends the verified bytes that a plan asks for to `out`; zeros where payload is hollow.
    pub(crate) fn extract_data(
        &self,
        plan: &SlicePlan,
        raw: &[u8],
        id: ChunkId,
        record_offset: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), SliceError> {
        if !self.hollow() {
            return extract(plan, raw, id, record_offset, out);
        }
        out.resize(out.len() + plan.length() as usize, 0);
        Ok(())
    }
}
