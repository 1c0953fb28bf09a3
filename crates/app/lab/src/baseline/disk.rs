//! A drive for a file system's block layer: runs of blocks across zones.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_zoned::{DeviceResult, Geometry, ZoneOp, ZonedDevice};

use crate::rig::target::TargetError;

/// Blocks that one bio reads.
const BIO_MAX: u64 = 256;
/// Blocks of zeros to write from.
const ZEROS: u64 = 256;

pub(crate) struct Disk {
    device: Rc<dyn ZonedDevice>,
    zeros: Bytes,
    written: Cell<u64>,
}

impl Disk {
    pub(crate) fn new(device: Rc<dyn ZonedDevice>) -> Self {
        Self { device, zeros: AlignedBuf::zeroed(Blocks(ZEROS)).freeze(), written: Cell::new(0) }
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    /// Bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        Blocks(self.written.get()).bytes()
    }

    /// Writes `blocks` blocks at `at`.
    pub(crate) async fn write(&self, at: u64, blocks: u64) -> Result<(), TargetError> {
        self.written.set(self.written.get() + blocks);
        let parts =
            self.cut(at, blocks, u64::MAX).into_iter().map(|(at, blocks)| self.device.write(at, self.zeros(blocks)));
        all(join_all(parts).await)
    }

    /// Reads `blocks` blocks at `at`.
    pub(crate) async fn read(&self, at: u64, blocks: u64) -> Result<(), TargetError> {
        let parts = self.cut(at, blocks, BIO_MAX).into_iter().map(|(at, blocks)| self.device.read(at, Blocks(blocks)));
        all(join_all(parts).await)
    }

    /// Empties a zone.
    pub(crate) async fn reset(&self, zone: ZoneId) -> Result<(), TargetError> {
        all([self.device.manage(zone, ZoneOp::Reset).await])
    }

    /// Writes runs of blocks, all at once; in a file system they wait in the block layer's queue.
    pub(crate) async fn write_runs(&self, runs: impl IntoIterator<Item = (u64, u64)>) -> Result<(), TargetError> {
        join_all(runs.into_iter().map(|(at, blocks)| self.write(at, blocks))).await.into_iter().collect()
    }

    /// Cuts a run where zones end, and after `most` blocks.
    fn cut(&self, mut at: u64, mut blocks: u64, most: u64) -> Vec<(Lba, u64)> {
        let zone = self.geometry().zone_size.0;
        let mut parts = Vec::with_capacity(1);
        while blocks > 0 {
            let part = blocks.min(zone - at % zone).min(most);
            parts.push((Lba(at), part));
            (at, blocks) = (at + part, blocks - part);
        }
        parts
    }

    fn zeros(&self, mut blocks: u64) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(1 + (blocks / ZEROS) as usize);
        while blocks > 0 {
            let part = blocks.min(ZEROS);
            pieces.push(self.zeros.slice(..Blocks(part).bytes() as usize));
            blocks -= part;
        }
        pieces
    }
}

/// Runs of consecutive numbers, from numbers in order.
pub(crate) fn runs(blocks: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some((at, length)) if *at + *length == block => *length += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

fn all<T>(results: impl IntoIterator<Item = DeviceResult<T>>) -> Result<(), TargetError> {
    for result in results {
        result.map_err(|error| TargetError::Failed(error.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn consecutive_blocks_are_one_run() {
        assert_eq!(runs([1, 2, 3, 7, 9, 10]), [(1, 3), (7, 1), (9, 2)]);
        assert_eq!(runs([]), []);
    }
}
