//! The buffer of small objects on two mirrored files: an object is acknowledged when it is durable in both, and written
//! to segments later, many in one. (The coalescing buffer of SMORE, section III, on SSDs instead of battery-backed
//! memory.)
//!
//! A buffered object has an entry in the index that names no zone set but [`BUFFER_SET`]; its bytes are kept in memory.
//! Writing it to a segment moves the entry, as cleaning does (AS-CLEAN-1).
//!
//! # Invariants
//! - AS-BUF-1: an acknowledged object is in both files, or in the one that is left, or in a segment. Before anything is
//!   acknowledged in one file alone, both of its heads and then a superblock name a new generation: a file of an
//!   earlier one does not count, also where it is all that is there. Generations are the clock's time, or above those of both
//!   files: two openings that see different files do not give out the same one, as long as the clock does not go back.
//! - AS-BUF-2: the ring is written over only where nothing is needed: each object there is in a segment, replaced or
//!   deleted, and a durable head says that the log begins behind it. A record is needed from its append on, also while a superblock is
//!   waited for before its object is acknowledged. `what_waits_for_a_superblock_stays_in_the_log`.
//! - AS-BUF-3: a deletion of a name that the log has is acknowledged only when the log says so too: the tombstone may be
//!   gone before the object's record is.
//! - AS-BUF-4: the superblock names the buffer, and the lowest generation of its files that counts, from before
//!   anything is acknowledged in it until it is known to be empty: the array is not opened without it meanwhile. If
//!   both files fail, everything goes to segments, in a full array into the room that cleaning can spare, and the
//!   superblock names none from then on: the files are not believed when they come back. Nothing is acknowledged in a buffer
//!   both of whose files have failed.
//! - AS-BUF-6: nothing stays in the buffer alone for much longer than
//!   [`Options::buffer_time`](crate::Options::buffer_time), so that the loss of both files costs little.
//! - AS-BUF-8: a loss of drives that is accepted gives up no buffer: the files that the superblock names are needed all the same. If
//!   that superblock may not be the newest, no file of the array that has records is written over, whatever it names; only
//!   [`Options::abandon_buffer`](crate::Options::abandon_buffer) gives one up.
//! - AS-BUF-5: there is room in the log for a deletion of each object that it has: deleting works also when neither the
//!   log nor the drives take another object.

mod file;
mod flush;
mod log;
mod objects;
mod reading;
mod replay;
mod ring;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;

pub use file::{BufferFile, BufferFiles, two_files};
pub(crate) use file::{open_file, open_to_read};
pub(crate) use log::{BUFFER_SET, Buffer};
pub(crate) use objects::Buffered;
pub(crate) use replay::{Attached, Wanted};
pub(crate) use ring::{Kind, RING_MAX, RING_MIN, entry, parse, walk};

use crate::format::BufferName;
use crate::types::Version;

/// The buffer of an array, if it has one.
#[derive(Default)]
pub(crate) struct Buffering {
    pub(crate) buffer: RefCell<Option<Rc<Buffer>>>,
    /// As superblocks have it; id 0 without one.
    pub(crate) named: Cell<BufferName>,
    /// The newest tombstone of each name that recovery saw, until the buffer was read.
    pub(crate) found_tombstones: RefCell<BTreeMap<Bytes, Version>>,
}

impl Buffering {
    pub(crate) fn new(named: BufferName) -> Self {
        Self { named: Cell::new(named), ..Self::default() }
    }

    /// The buffer that is open.
    pub(crate) fn open(&self) -> Option<Rc<Buffer>> {
        self.buffer.borrow().clone()
    }

    /// Fields of superblocks about the buffer from now on.
    pub(crate) fn name(&self) -> BufferName {
        let named = self.named.get();
        match &*self.buffer.borrow() {
            Some(buffer) if named.id != 0 => BufferName { generation: buffer.head.get().generation, ..named },
            _ => named,
        }
    }

    /// A durable superblock says that.
    pub(crate) fn is_named(&self, name: BufferName) {
        if let Some(buffer) = &*self.buffer.borrow() {
            buffer.named.set(name.generation);
        }
    }
}
