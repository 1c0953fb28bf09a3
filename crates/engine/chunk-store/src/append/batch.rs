//! One device write: records framed side by side in a zone.

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, ChunkId, Lba, ZoneId};
use shingle_record::RecordPlace;

use crate::append::Pending;
use crate::drive::payload::Home;
use crate::engine::Engine;
use crate::index::Located;
use crate::stats::Counters;
use crate::zones::Zone;

/// A record on its way to the drive.
pub(crate) struct Framed {
    pub(crate) located: Located,
    pub(crate) pending: Pending,
}

/// One device write.
pub(crate) struct Batch {
    pub(crate) zone: ZoneId,
    /// First block of the batch.
    pub(crate) start: u32,
    /// Block of the next record.
    pub(crate) next: u32,
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) records: Vec<Framed>,
}

impl Batch {
    /// Nothing yet, to be written at block `start` of `zone`.
    pub(crate) fn new(zone: ZoneId, start: u32) -> Self {
        Self { zone, start, next: start, pieces: Vec::new(), records: Vec::new() }
    }

    /// Bytes to be written.
    pub(crate) fn bytes(&self) -> usize {
        (self.next - self.start) as usize * BLOCK_SIZE
    }
}

impl Engine {
    /// Frames a chunk's record behind those of the batch.
    pub(crate) fn add_record(
        &self,
        batch: &mut Batch,
        slot: &mut Zone,
        counters: &mut Counters,
        id: ChunkId,
        pending: Pending,
    ) {
        let Pending { offset, length, .. } = pending;
        let located = Located { zone: batch.zone, block: batch.next, offset, length };
        let place = RecordPlace { store: self.store, epoch: slot.epoch, zone: batch.zone, block: batch.next };
        let sequence = self.sequence.next();
        let home = Home { place, sequence, id, offset, durable: batch.start };
        batch.pieces.extend(self.verifier.payload.frame(&home, &pending.data));
        batch.next += located.blocks().0 as u32;
        batch.records.push(Framed { located, pending });
        slot.last_write = sequence;
        slot.written = batch.next;
        counters.written_bytes += located.blocks().bytes();
    }

    /// First block of the batch on the device.
    pub(crate) fn start_of(&self, batch: &Batch) -> Lba {
        self.drive.block(batch.zone, batch.start)
    }
}
