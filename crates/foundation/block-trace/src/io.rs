//! An I/O of a block trace, whatever format it was read from.
//!
//! # Invariants
//! - BT-IO-1: an I/O that was [checked](Io::check) lies inside the trace's address space, in whole sectors, and depends only on I/Os
//!   before it, of which the farthest is [`WINDOW`] back.

use serde::{Deserialize, Serialize};

use crate::error::TraceError;

/// Bytes of a sector, the unit of addresses and lengths.
pub const SECTOR: u64 = 512;

/// An I/O depends on others that are at most so many I/Os back: so many are remembered while a trace is read or replayed.
pub const WINDOW: usize = 1 << 16;

/// I/Os that one depends on, at most.
pub const AFTER_MAX: usize = 256;

/// Bytes of a read or write, at most.
pub const LENGTH_MAX: u64 = 1 << 30;

/// Largest address space.
pub const SIZE_MAX: u64 = 1 << 60;

/// Kind of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IoKind {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes durable what was written before.
    Flush,
    /// Says that bytes are not needed any more.
    Trim,
    /// Makes bytes read as zeros.
    Zero,
}

/// One I/O.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Its arrival, in nanoseconds since the trace began.
    pub at: u64,
    /// Its kind.
    #[serde(rename = "op")]
    pub kind: IoKind,
    /// Its first byte; 0 of a flush.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Its bytes; 0 of a flush.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub length: u64,
    /// It is durable when it completes (force unit access): a write, zeros or a trim.
    #[serde(default, skip_serializing_if = "is_false")]
    pub fua: bool,
    /// Nanoseconds that it took where it was recorded, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<u64>,
    /// I/Os that completed before this one was issued, and that it may have waited for: how far back each is in the trace, where 1 is
    /// the I/O just before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Io {
    /// An I/O of bytes that depends on nothing.
    pub fn new(at: u64, kind: IoKind, offset: u64, length: u64) -> Self {
        Self { at, kind, offset, length, fua: false, took: None, after: Vec::new() }
    }

    /// A flush that depends on nothing.
    pub fn flush(at: u64) -> Self {
        Self::new(at, IoKind::Flush, 0, 0)
    }

    /// Holds it against the rules of a trace of `size` bytes, as the I/O with that number, from 0. (BT-IO-1)
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self, size: u64, number: u64) -> Result<(), TraceError> {
        let wrong = |rule: String| Err(TraceError(rule));
        let end = self.offset.checked_add(self.length).filter(|&end| end <= size);
        let whole = self.offset.is_multiple_of(SECTOR) && self.length.is_multiple_of(SECTOR);
        match self.kind {
            IoKind::Flush if self.offset != 0 || self.length != 0 => {
                return wrong("a flush has no offset and no length".to_owned());
            }
            IoKind::Flush => {}
            _ if end.is_none() || self.length == 0 || !whole => {
                return wrong(format!(
                    "{} bytes at {}: it must have whole sectors of {SECTOR} bytes, one at least, inside the {size} bytes of the trace",
                    self.length, self.offset
                ));
            }
            IoKind::Read | IoKind::Write if self.length > LENGTH_MAX => {
                return wrong(format!("{} bytes: a read or write has at most {LENGTH_MAX}", self.length));
            }
            _ => {}
        }
        if self.fua && matches!(self.kind, IoKind::Read | IoKind::Flush) {
            return wrong("a read or flush has no `fua`".to_owned());
        }
        let farthest = number.min(WINDOW as u64);
        if self.after.len() > AFTER_MAX || self.after.iter().any(|&back| back == 0 || u64::from(back) > farthest) {
            return wrong(format!(
                "`after` has at most {AFTER_MAX} numbers, each from 1 (the I/O just before) to {farthest} here (the first one, \
                 and never more than {WINDOW})"
            ));
        }
        Ok(())
    }
}
