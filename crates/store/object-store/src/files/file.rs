//! A file of the log: its chunks, the place for appends, and reservations.
//!
//! # Invariants
//! - OS-FIL-3: only what a drive said of a chunk's end proves that an append has landed ([`End`]).
//!   `appends_that_all_fail_are_not_taken_for_landed`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shingle_chunk_store::Stream;

use crate::files::pins::Pinnable;
use crate::records::{FileRecord, Position};

/// Owner of a file's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Those of clients.
    Clients,
    /// The copies of one collector: each has files of its own (OS-GC-5).
    Collector(u64),
}

impl Log {
    pub(crate) fn stream(self) -> Stream {
        match self {
            Self::Clients => Stream::Data,
            Self::Collector(_) => Stream::Gc,
        }
    }

    /// True if appends go to all drives. A collector has one place to go to at a time, and would leave a file on each
    /// drive.
    pub(crate) fn spreads(self) -> bool {
        matches!(self, Self::Clients)
    }

    pub(crate) fn collector(self) -> Option<u64> {
        match self {
            Self::Clients => None,
            Self::Collector(number) => Some(number),
        }
    }
}

/// Place for appends to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The last chunk.
    pub(crate) ordinal: u32,
    /// Its end, reservations included.
    pub(crate) next: u64,
    /// Bytes that it will take beyond that, as far as known.
    pub(crate) room: u64,
    /// It takes no more: it is being sealed.
    pub(crate) rolling: bool,
}

/// End of a closed chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The drive sealed it at this size.
    Sealed(u64),
    /// The drive did not answer when it was to be sealed. It ends here at the latest, where the reservations end; what was
    /// on its way to it may be there or not (OS-FIL-3).
    Within(u64),
}

impl End {
    /// The size, or the most it can be.
    pub(crate) fn most(self) -> u64 {
        match self {
            Self::Sealed(size) | Self::Within(size) => size,
        }
    }

    /// The size, if it is known.
    pub(crate) fn sealed(self) -> Option<u64> {
        match self {
            Self::Sealed(size) => Some(size),
            Self::Within(_) => None,
        }
    }
}

/// A file.
#[derive(Debug)]
pub(crate) struct LogFile {
    /// Its drive's place in the engine's list; none if the drive is missing.
    pub(crate) drive: Option<usize>,
    pub(crate) stream: Stream,
    /// Chunks that are closed, and where they end.
    pub(crate) closed: BTreeMap<u32, End>,
    /// The open chunk; none once the file is finished.
    pub(crate) tail: Option<Tail>,
    /// Reserved places whose entries are not in the index yet.
    pub(crate) pending: BTreeSet<Position>,
    /// Bytes reserved and not yet answered for.
    pub(crate) outstanding: u64,
    /// The index's record of it.
    pub(crate) record: FileRecord,
    /// Its readers' side; none until it is one of [`Files`].
    pub(super) pins: Option<Arc<Pinnable>>,
    /// GC is at work on it.
    pub(crate) collecting: bool,
    /// The collector that writes copies to it; none for what clients write, and for files of earlier lives (OS-GC-5).
    pub(crate) collector: Option<u64>,
    /// GC could not read all of it: it stays.
    pub(crate) damaged: bool,
    /// It may hold entries that nobody has seen yet: it stays, and nothing is appended to it.
    pub(crate) unseen: bool,
    /// The bytes of it that could not be read are given up: it is emptied, whatever lives in it (OS-REC-5).
    pub(crate) given_up: bool,
    /// GC has looked at the graves in it: all are needed, until a file is dropped.
    pub(crate) graves_seen: bool,
    /// Number of changes that the index has reported in it.
    pub(crate) changes: u64,
}

impl LogFile {
    pub(crate) fn new(drive: Option<usize>, stream: Stream, record: FileRecord) -> Self {
        Self {
            drive,
            stream,
            closed: BTreeMap::new(),
            tail: None,
            pending: BTreeSet::new(),
            outstanding: 0,
            record,
            pins: None,
            collecting: false,
            collector: None,
            damaged: false,
            unseen: false,
            given_up: false,
            graves_seen: false,
            changes: 0,
        }
    }

    /// True if readers need its chunks.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.as_ref().is_some_and(|pins| pins.is_pinned())
    }

    /// Bytes appended to it.
    pub(crate) fn size(&self) -> u64 {
        self.closed.values().map(|end| end.most()).sum::<u64>() + self.tail.map_or(0, |tail| tail.next)
    }

    /// Bytes of entries nobody needs.
    pub(crate) fn garbage(&self) -> u64 {
        self.sums().garbage_bytes
    }

    pub(super) fn sums(&self) -> Sums {
        let bytes = self.size();
        let live_bytes = self.record.live_bytes;
        Sums { files: 1, bytes, live_bytes, garbage_bytes: bytes.saturating_sub(live_bytes) }
    }

    /// Its tail, if it can be appended to now.
    pub(crate) fn appendable(&self) -> Option<&Tail> {
        self.tail.as_ref().filter(|tail| !tail.rolling && !self.record.dropping)
    }

    /// All entries before this are in the index once those at the places `arriving` are (OS-FIL-1).
    pub(crate) fn indexed(&self, arriving: &BTreeSet<Position>) -> Position {
        let end = match self.tail {
            Some(tail) => Position { ordinal: tail.ordinal, offset: tail.next },
            None => Position { ordinal: self.closed.keys().next_back().map_or(0, |last| last + 1), offset: 0 },
        };
        // A place reserved past the end of a chunk that was closed meanwhile was never written.
        let written = |at: &&Position| self.closed.get(&at.ordinal).is_none_or(|end| at.offset < end.most());
        let missing = self.pending.difference(arriving);
        missing.copied().find(|at| written(&at)).unwrap_or(end)
    }
}

/// Sums over files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) files: u64,
    /// Bytes appended to them.
    pub(crate) bytes: u64,
    /// Of them, those of entries that are needed.
    pub(crate) live_bytes: u64,
    /// Those of entries that nobody needs.
    pub(crate) garbage_bytes: u64,
}

impl Sums {
    pub(super) fn add(&mut self, more: Self) {
        self.files += more.files;
        self.bytes += more.bytes;
        self.live_bytes += more.live_bytes;
        self.garbage_bytes += more.garbage_bytes;
    }

    pub(super) fn take(&mut self, less: Self) {
        self.files -= less.files;
        self.bytes -= less.bytes;
        self.live_bytes -= less.live_bytes;
        self.garbage_bytes -= less.garbage_bytes;
    }
}
