//! Data on its way to the drive: framed; or hollow, in experiments on drives that keep none.

use bytes::Bytes;
use shingle_base::ChunkId;
use shingle_record::{Place, SlicedFramer, frame_hollow};

use crate::format::RecordKind;
use crate::store::Inner;

impl Inner {
    /// True if data is neither copied nor checked. Never on a drive that keeps it.
    pub(crate) fn hollow(&self) -> bool {
        self.verifier.hollow
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
}
