//! Reading a range that cannot be read at once. Failing commands may take a drive seconds each, so few are issued.
//!
//! **Owns** the choice of commands. **Knows nothing of** the blocks' contents.
//!
//! # Invariants
//! - RC-BAD-1: a block is called unreadable only if a command that read it failed, or if it lies between two such blocks
//!   of its range.
//! - RC-BAD-2: while few blocks were found unreadable each is tried alone, several times. After that a failing range costs
//!   twice the logarithm of its length: the readable part before its first bad block and behind its last.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZonedDevice};

/// Reads of a block before it counts as unreadable.
pub(crate) const TRIES: u32 = 3;

/// Limit of unreadable blocks; beyond it blocks are not tried one by one any more (RC-BAD-2).
const ALONE_MAX: usize = 256;

/// Blocks of a zone, some of which cannot be read.
pub(crate) struct Damaged<'a> {
    pub(crate) dev: &'a Rc<dyn ZonedDevice>,
    /// First block of the zone on the device.
    pub(crate) start: Lba,
    /// Blocks that were found unreadable.
    pub(crate) unreadable: &'a mut BTreeSet<u32>,
}

impl Damaged<'_> {
    /// Reads a range whose single read failed: unreadable blocks are noted, and zeros in the result.
    ///
    /// # Errors
    /// Only if the device is gone.
    pub(crate) async fn read(mut self, range: Range<u32>) -> Result<Bytes, DeviceError> {
        let mut good = BTreeMap::new();
        // Ranges that failed, the first on top.
        let mut failed = vec![range.clone()];
        while let Some(range) = failed.pop() {
            if range.len() == 1 {
                self.block(range.start, &mut good).await?;
            } else if self.unreadable.len() < ALONE_MAX {
                let middle = range.start + range.len() as u32 / 2;
                for half in [middle..range.end, range.start..middle] {
                    match self.at_once(half.clone()).await? {
                        Some(bytes) => drop(good.insert(half.start, bytes)),
                        None => failed.push(half),
                    }
                }
            } else {
                self.ends(range, &mut good).await?;
            }
        }
        let mut whole = AlignedBuf::builder(Blocks(range.len() as u64));
        let mut next = range.start;
        for (start, bytes) in good {
            (next..start).for_each(|_| whole.extend(&[0; BLOCK_SIZE]));
            whole.extend(&bytes);
            next = start + (bytes.len() / BLOCK_SIZE) as u32;
        }
        (next..range.end).for_each(|_| whole.extend(&[0; BLOCK_SIZE]));
        Ok(whole.finish())
    }

    /// One block that failed.
    async fn block(&mut self, block: u32, good: &mut BTreeMap<u32, Bytes>) -> Result<(), DeviceError> {
        let tries = if self.unreadable.len() < ALONE_MAX { TRIES } else { 1 };
        match read_retrying(self.dev, self.start + Blocks(u64::from(block)), Blocks(1), tries).await? {
            Some(bytes) => drop(good.insert(block, bytes)),
            None => drop(self.unreadable.insert(block)),
        }
        Ok(())
    }

    /// The longest readable beginning and end of a failed range; all between them is unreadable.
    async fn ends(&mut self, range: Range<u32>, good: &mut BTreeMap<u32, Bytes>) -> Result<(), DeviceError> {
        let (mut first, mut untold) = (range.start, range.len() as u32 - 1);
        while untold > 0 {
            let length = untold.div_ceil(2);
            match self.at_once(first..first + length).await? {
                Some(bytes) => {
                    good.insert(first, bytes);
                    (first, untold) = (first + length, untold - length);
                }
                None => untold = length - 1,
            }
        }
        let (mut last, mut untold) = (range.end, range.end - first - 1);
        while untold > 0 {
            let length = untold.div_ceil(2);
            match self.at_once(last - length..last).await? {
                Some(bytes) => {
                    good.insert(last - length, bytes);
                    (last, untold) = (last - length, untold - length);
                }
                None => untold = length - 1,
            }
        }
        self.unreadable.extend(first..last);
        Ok(())
    }

    async fn at_once(&self, range: Range<u32>) -> Result<Option<Bytes>, DeviceError> {
        let at = self.start + Blocks(u64::from(range.start));
        read_retrying(self.dev, at, Blocks(range.len() as u64), 1).await
    }
}

/// Reads up to `tries` times; `None` if the medium cannot be read.
///
/// # Errors
/// Only if the device is gone.
pub(crate) async fn read_retrying(
    dev: &Rc<dyn ZonedDevice>,
    at: Lba,
    length: Blocks,
    tries: u32,
) -> Result<Option<Bytes>, DeviceError> {
    for _ in 0..tries {
        match dev.read(at, length).await {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}
