//! A drive whose bytes lie in one piece of memory: each write is copied there, each read out of it, as nbdkit's memory plugin does.
//!
//! A [`MemoryDevice`] would keep the pieces that it is given and hand them out again: without copies, but each write would take fresh
//! memory from the kernel.

use std::cell::RefCell;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, BufferPool, Lba, ZoneId};
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

/// A drive in memory.
pub(super) struct FlatDrive {
    geometry: Geometry,
    /// Its zones, without bytes.
    zones: MemoryDevice,
    bytes: RefCell<Vec<u8>>,
    /// Buffers of reads, used again as those of real drives are.
    pool: BufferPool,
}

/// Bytes of buffers that are kept: those of as many requests as the client has under way.
const POOLED: usize = 64 << 20;

impl FlatDrive {
    pub(super) fn new(geometry: Geometry) -> Self {
        // Not zeros: the kernel gives those without memory behind them.
        let bytes = vec![0xa5; geometry.blocks().bytes() as usize];
        let zones = MemoryDevice::metadata_only(geometry.clone(), |_| 0);
        Self { geometry, zones, bytes: RefCell::new(bytes), pool: BufferPool::new(POOLED) }
    }

    fn take(&self, at: Lba, data: &[Bytes]) {
        let (mut bytes, mut from) = (self.bytes.borrow_mut(), at.0 as usize * BLOCK_SIZE);
        for piece in data {
            bytes[from..from + piece.len()].copy_from_slice(piece);
            from += piece.len();
        }
    }
}

impl ZonedDevice for FlatDrive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.zones.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            let (from, bytes) = (at.0 as usize * BLOCK_SIZE, self.bytes.borrow());
            let mut buffer = self.pool.take(length.bytes() as usize);
            buffer.extend_from_slice(&bytes[from..from + length.bytes() as usize]);
            Ok(self.pool.share(buffer))
        })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.zones.write_now(at, data.clone())?;
            self.take(at, &data);
            Ok(())
        })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move {
            let at = self.zones.append_now(zone, data.clone())?;
            self.take(at, &data);
            Ok(at)
        })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.zones.manage(zone, op)
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.zones.flush()
    }
}
