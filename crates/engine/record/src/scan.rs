//! Reading the records of a zone one after the other, whatever state they are in.
//!
//! # Invariants
//! - RC-SCAN-1: a scan yields every intact record of the expected generation between its bounds, in order.
//! - RC-SCAN-2: nothing on the drive makes a scan fail or panic but the loss of the drive.
//! - RC-SCAN-3: a block that cannot be read, or lies between two that cannot (RC-BAD-1), is reported as unreadable; it never
//!   passes for a block with other contents. Each is tried several times as long as few are bad (RC-BAD-2).
//! - RC-SCAN-4: a zone with many unreadable blocks takes few commands (RC-BAD-2), and records before and behind them are
//!   found.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, StoreId, ZoneId};
use shingle_zoned::{DeviceError, ZonedDevice};

use crate::damaged::{Damaged, TRIES, read_retrying};
use crate::header::{Expect, Form, Header};

/// Blocks read at once, unless the reader asks for others. Headers are not picked out of long records: a disk's head
/// passes over skipped blocks all the same, and may miss the next header.
const WINDOW: u32 = 256;

/// Zeros in a row that end the search for a record behind a bad block: more than the longest record has blocks. A zone
/// that was finished early reads as zeros to its end.
const ZEROS_MAX: u32 = 4352;

/// A step of a scan.
#[derive(Clone, Debug)]
pub enum Scanned {
    /// A record with a good header.
    Record {
        /// Its header.
        header: Header,
        /// The whole record.
        bytes: Bytes,
        /// Its payload passes its check.
        intact: bool,
        /// Blocks of it could not be read; then it is not intact, and `bytes` has zeros in their places.
        unreadable: bool,
    },
    /// Blocks without a record of the generation, with a record behind them.
    Gap {
        /// The first bad block.
        from: u32,
        /// Start of the next record.
        to: u32,
        /// Some of them could not be read.
        unreadable: bool,
    },
    /// The end of the written blocks, all of them records.
    Clean,
    /// The end of the records: none is found between here and the end of the written blocks.
    Torn {
        /// The first block that is no record.
        from: u32,
        /// Blocks of it could not be read: there may be records, then.
        unreadable: bool,
    },
}

/// A scan of one zone.
pub struct ZoneScanner {
    dev: Rc<dyn ZonedDevice>,
    store: StoreId,
    epoch: u64,
    zone: ZoneId,
    next: u32,
    to: u32,
    window: u32,
    /// Read blocks that are still needed, without gaps: first block and bytes. Nothing is read twice.
    windows: VecDeque<(u32, Bytes)>,
    /// Blocks that could not be read (RC-SCAN-3).
    unreadable: BTreeSet<u32>,
    /// Blocks read from the device.
    pub blocks_read: u64,
}

impl ZoneScanner {
    /// A scan of generation `epoch` of `zone`, from block `from` to block `to`, both from the zone's start.
    pub fn new(dev: Rc<dyn ZonedDevice>, store: StoreId, epoch: u64, zone: ZoneId, from: u32, to: u32) -> Self {
        let (window, windows, unreadable) = (WINDOW, VecDeque::new(), BTreeSet::new());
        Self { dev, store, epoch, zone, next: from, to, window, windows, unreadable, blocks_read: 0 }
    }

    /// Reads `blocks` at once: many where other readers use the device too, and each visit to a zone costs a seek.
    #[must_use]
    pub fn reading(self, blocks: u32) -> Self {
        Self { window: blocks.max(1), ..self }
    }

    /// The next step. After [`Scanned::Clean`] or [`Scanned::Torn`] there is nothing more.
    ///
    /// # Errors
    /// Only if the device is gone.
    pub async fn next(&mut self) -> Result<Scanned, DeviceError> {
        if self.next >= self.to {
            return Ok(Scanned::Clean);
        }
        if let Some(header) = self.header_at(self.next).await? {
            return self.record(header).await;
        }
        let from = self.next;
        let mut zeros = 0;
        for block in from + 1..self.to {
            if self.header_at(block).await?.is_some() {
                self.next = block;
                return Ok(Scanned::Gap { from, to: block, unreadable: self.is_unreadable(from, block) });
            }
            let nothing = !self.unreadable.contains(&block) && self.read(block, 1).await?.iter().all(|&byte| byte == 0);
            zeros = if nothing { zeros + 1 } else { 0 };
            if zeros == ZEROS_MAX {
                break;
            }
        }
        Ok(Scanned::Torn { from, unreadable: self.is_unreadable(from, self.to) })
    }

    /// True if one of the blocks was found unreadable. Blocks that were not read yet were not.
    pub fn is_unreadable(&self, from: u32, to: u32) -> bool {
        self.unreadable.range(from..to).next().is_some()
    }

    async fn record(&mut self, header: Header) -> Result<Scanned, DeviceError> {
        let block = self.next;
        let blocks = header.blocks().0 as u32;
        let bytes = self.read(block, blocks).await?;
        let keeps_payload = self.dev.geometry().keeps_payload || header.form == Form::Plain;
        let unreadable = self.is_unreadable(block, block + blocks);
        let intact = !unreadable && (!keeps_payload || header.verify_payload(&bytes).is_ok());
        self.next = block + blocks;
        Ok(Scanned::Record { header, bytes, intact, unreadable })
    }

    /// The good header of a record that begins at `block` and ends before the end, if one does.
    async fn header_at(&mut self, block: u32) -> Result<Option<Header>, DeviceError> {
        let bytes = self.read(block, 1).await?;
        if self.unreadable.contains(&block) {
            return Ok(None);
        }
        let expect = Expect { store: Some(self.store), epoch: Some(self.epoch), at: Some((self.zone, block)) };
        let header = Header::decode(&bytes, &expect).ok();
        Ok(header.filter(|header| header.blocks().0 <= u64::from(self.to - block)))
    }

    /// `blocks` from `block`, which never falls behind an earlier call's. Blocks that cannot be read are noted as such, and
    /// zeros.
    async fn read(&mut self, block: u32, blocks: u32) -> Result<Bytes, DeviceError> {
        let end_of = |(start, bytes): &(u32, Bytes)| start + (bytes.len() / BLOCK_SIZE) as u32;
        while self.windows.front().is_some_and(|window| end_of(window) <= block) {
            self.windows.pop_front();
        }
        let end = block + blocks;
        let mut have = self.windows.back().map_or(block, end_of);
        while have < end {
            let length = (end - have).max(self.window.min(self.to - have));
            let bytes = self.read_device(have, length).await?;
            self.windows.push_back((have, bytes));
            have += length;
        }
        let mut parts = Vec::with_capacity(1);
        for window in &self.windows {
            let (from, to) = (window.0.max(block), end_of(window).min(end));
            if from < to {
                parts.push(
                    window.1.slice((from - window.0) as usize * BLOCK_SIZE..(to - window.0) as usize * BLOCK_SIZE),
                );
            }
        }
        if let [part] = parts.as_slice() {
            return Ok(part.clone());
        }
        let mut whole = AlignedBuf::builder(Blocks(u64::from(blocks)));
        parts.iter().for_each(|part| whole.extend(part));
        Ok(whole.finish())
    }

    async fn read_device(&mut self, block: u32, length: u32) -> Result<Bytes, DeviceError> {
        self.blocks_read += u64::from(length);
        let at = self.dev.geometry().start_of(self.zone) + Blocks(u64::from(block));
        if let Some(bytes) = read_retrying(&self.dev, at, Blocks(u64::from(length)), 1).await? {
            return Ok(bytes);
        }
        let start = self.dev.geometry().start_of(self.zone);
        Damaged { dev: &self.dev, start, unreadable: &mut self.unreadable }.read(block..block + length).await
    }
}

/// Reads one block, again if that fails (RC-SCAN-3); `None` if it cannot be read.
///
/// # Errors
/// Only if the device is gone.
pub async fn read_block(dev: &Rc<dyn ZonedDevice>, at: Lba) -> Result<Option<Bytes>, DeviceError> {
    read_retrying(dev, at, Blocks(1), TRIES).await
}
