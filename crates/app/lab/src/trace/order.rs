//! Brings I/Os of a reader into the form of a block trace: whole sectors, one address space, in the order of their arrival from 0.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::foreign::Reader;
use super::io::{Io, IoKind, LENGTH_MAX, SECTOR};
use crate::error::LabError;

/// I/Os that are looked at ahead for those that arrived earlier.
const AHEAD: usize = 4096;

/// Differences of a reader's I/Os from a block trace's, and what was done about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Records that are no I/O, or of no bytes, or of other volumes than the one that was asked for.
    pub left_out: u64,
    /// I/Os that were not of whole sectors, and now touch all that they touched part of.
    pub rounded: u64,
    /// I/Os that stood so far behind later ones that they now arrive with those.
    pub late: u64,
}

/// Places of volumes in the trace's address space, by number; those that are left out have none.
pub type Layout = BTreeMap<usize, u64>;

/// An I/O with its arrival and its number, the earliest first.
struct Waiting(Io, u64);

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0.at, self.1).cmp(&(other.0.at, other.1))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}

/// I/Os of a reader as a block trace has them.
pub struct Ordered {
    reader: Box<dyn Reader>,
    layout: Layout,
    /// The reader's time of the trace's beginning.
    begin: u64,
    ahead: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    last_at: u64,
    mended: Mended,
    failed: bool,
}

/// The bytes of whole sectors that an I/O touches; `None` if they are out of all bounds.
pub(super) fn whole_sectors(offset: u64, length: u64) -> Option<(u64, u64)> {
    let start = offset / SECTOR * SECTOR;
    let end = offset.checked_add(length)?.checked_next_multiple_of(SECTOR)?;
    Some((start, end - start))
}

impl Ordered {
    /// The I/Os of `reader` on the volumes of `layout`, in a trace that begins at the reader's time `begin`.
    pub fn new(reader: Box<dyn Reader>, layout: Layout, begin: u64) -> Self {
        let (ahead, mended) = (BinaryHeap::new(), Mended::default());
        Self { reader, layout, begin, ahead, number: 0, last_at: 0, mended, failed: false }
    }

    /// Differences met so far.
    pub fn mended(&self) -> Mended {
        Mended { left_out: self.mended.left_out + self.reader.left_out(), ..self.mended }
    }

    /// Takes one more I/O from the reader; `false` if it has none.
    fn take(&mut self) -> Result<bool, LabError> {
        let Some(raw) = self.reader.next_raw()? else { return Ok(false) };
        let io = raw.io;
        let Some(base) = self.layout.get(&raw.volume).filter(|_| io.kind == IoKind::Flush || io.length > 0) else {
            self.mended.left_out += 1;
            return Ok(true);
        };
        let wrong =
            || LabError(format!("I/O {}: {} bytes at {}: out of all bounds", self.number, io.length, io.offset));
        let (offset, length) = match io.kind {
            IoKind::Flush => (0, 0),
            _ => {
                let (offset, length) = whole_sectors(io.offset, io.length).ok_or_else(wrong)?;
                (base.checked_add(offset).ok_or_else(wrong)?, length)
            }
        };
        if matches!(io.kind, IoKind::Read | IoKind::Write) && length > LENGTH_MAX {
            return Err(wrong());
        }
        self.mended.rounded += u64::from(length != io.length);
        let at = io.at.saturating_sub(self.begin);
        self.ahead.push(Reverse(Waiting(Io { at, offset, length, ..io }, self.number)));
        self.number += 1;
        Ok(true)
    }

    fn next_io(&mut self) -> Result<Option<Io>, LabError> {
        while self.ahead.len() <= AHEAD && self.take()? {}
        let Some(Reverse(Waiting(mut io, _))) = self.ahead.pop() else { return Ok(None) };
        if io.at < self.last_at {
            self.mended.late += 1;
            io.at = self.last_at;
        }
        self.last_at = io.at;
        Ok(Some(io))
    }
}

/// I/Os, up to the first error.
impl Iterator for Ordered {
    type Item = Result<Io, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.failed { None } else { self.next_io().transpose() };
        self.failed |= matches!(next, Some(Err(_)));
        next
    }
}
