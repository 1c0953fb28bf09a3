//! A drive that takes a copy of each write, in memory that is there from the start.
//!
//! A [`MemoryDevice`] keeps the pieces themselves. The buffers of a store on it never come back: each write gets fresh memory from the
//! kernel, which costs as much as all else that its thread does for a PUT of a MiB, and which no store on a drive pays. A copy costs
//! less, but more than a drive, which has it made without the processor.

use std::cell::RefCell;

use bytes::{Buf, Bytes, BytesMut};
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

/// A drive in memory.
pub(super) struct Platter {
    device: MemoryDevice,
    /// The rest of its memory, from a block's start.
    free: RefCell<BytesMut>,
}

impl Platter {
    /// A drive with memory for `bytes` of writes; it keeps later ones as they come.
    pub(super) fn new(geometry: Geometry, bytes: usize) -> Self {
        let mut free = BytesMut::with_capacity(bytes + BLOCK_SIZE);
        // Not zeros: the kernel gives those without memory behind them.
        free.resize(bytes + BLOCK_SIZE, 0xa5);
        free.advance(free.as_ptr().align_offset(BLOCK_SIZE));
        free.truncate(bytes);
        Self { device: MemoryDevice::new(geometry), free: RefCell::new(free) }
    }

    fn copies(&self, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let mut free = self.free.borrow_mut();
        let copy = |piece: Bytes| {
            if free.len() < piece.len() {
                return piece;
            }
            let mut copy = free.split_to(piece.len());
            copy.copy_from_slice(&piece);
            copy.freeze()
        };
        pieces.into_iter().map(copy).collect()
    }
}

impl ZonedDevice for Platter {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.device.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.device.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.device.write_now(at, self.copies(data)) })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move { self.device.append_now(zone, self.copies(data)) })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.device.manage(zone, op)
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.device.flush()
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::AlignedBuf;

    use super::*;

    #[test]
    fn writes_come_back_and_their_buffers_too_while_there_is_memory() {
        let drive = Platter::new(Geometry::hm_smr(Blocks(64), 4, 0, 4), 2 * BLOCK_SIZE);
        for (block, copied) in [(0, true), (1, true), (2, false)] {
            let mut piece = AlignedBuf::zeroed(Blocks(1));
            piece.fill(block as u8 + 1);
            let piece = piece.freeze();
            drive.device.write_now(Lba(block), drive.copies(vec![piece.clone()])).unwrap();
            let read = drive.device.read_now(Lba(block), Blocks(1)).unwrap();
            assert_eq!((&read, read.as_ptr() != piece.as_ptr()), (&piece, copied), "{block}");
            assert_eq!(read.as_ptr().align_offset(BLOCK_SIZE), 0, "{block}");
        }
    }
}
