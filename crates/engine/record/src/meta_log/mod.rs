//! The metadata log: a journal and checkpoints over a few zones. (SMRstore, section 5.6.)
//!
//! **Owns** the metazones it was given; nobody else writes or resets them. **Knows nothing of** the meaning of journal
//! entries and checkpoint parts.
//!
//! Journal entries and checkpoint parts share one queue and one stream of records, so that a checkpoint is written while
//! the journal goes on. Each log record has a position; positions have no gaps.
//!
//! # Invariants
//! - RC-LOG-1: an entry is acknowledged once it is durable, and so are all entries before it.
//! - RC-LOG-2: recovery yields the newest complete checkpoint and every journal entry behind its start, in order, none twice:
//!   a missing position in front of a later one is damage, never passed over.
//! - RC-LOG-3: zones from the newest complete checkpoint's start on are never reset.
//! - RC-LOG-4: a checkpoint can always be written: the journal is refused before it takes the zones a checkpoint needs.
//! - RC-LOG-5: a write begins once all before it are durable. So a power cut spoils the last one alone, of which any
//!   blocks may be lost; a spoiled write counts as a whole or not at all; and nothing is written behind it in its zone.
//!   The next zone gives its first position: records of older zones from there on do not count.
//! - RC-LOG-6: a zone is left by a link to the next, or full without one; the oldest is reset first. So the loss of the
//!   newest zone is noticed, and a zone that cannot be read does no harm if the log provably ends elsewhere.
//! - RC-LOG-7: any one block of a write can be lost, unreadable or rotten, head and parity included.
//! - RC-LOG-8: while the file system that holds an emulated drive is full the log waits, and goes on by itself: no entry is
//!   refused that took its place, and no zone counts as bad. `a_log_waits_for_room_on_a_full_host`.
//! - RC-LOG-9: a checkpoint that was never complete uses up no zone, however often the power fails: zones at the log's end
//!   that hold nothing else are reset before the log goes on, the newest first, and it goes on where it did before
//!   them. If one of them turns read-only or offline before that, the log stops; the next opening goes on behind it.

mod dump;
mod format;
mod log;
mod reader;
mod recover;
mod write;
mod zones;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{StoreId, ZoneId};
use shingle_zoned::DeviceError;

pub use dump::{LogRecord, dump};
pub use format::parse_journal;
pub use log::{CheckpointWriter, MetaLog, room_for_checkpoint};

/// The fewest metazones.
pub const META_ZONES_MIN: u32 = 4;

/// Zones and parameters of a log.
#[derive(Clone, Debug)]
pub struct MetaLogConfig {
    /// The store it belongs to.
    pub store: StoreId,
    /// Its zones.
    pub zones: Range<u32>,
    /// The kind its zone heads carry.
    pub zone_kind: u16,
    /// Reads in flight while it is opened.
    pub read_depth: u32,
}

/// A journal entry, as recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number.
    pub sequence: u64,
    /// The journaled bytes.
    pub bytes: Bytes,
}

/// Result of opening a log.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The parts of the newest complete checkpoint, in order.
    pub parts: Vec<Bytes>,
    /// The journal from its start on, in order.
    pub journal: Vec<Entry>,
    /// The highest sequence number seen anywhere in the log.
    pub sequence: u64,
    /// Lost blocks that were made anew from others (RC-LOG-7): zone, block in it.
    pub mended: Vec<(ZoneId, u32)>,
    /// Metazones that hold anything.
    pub zones: u64,
    /// Blocks read of the heads of metazones.
    pub find_blocks: u64,
    /// Blocks read to load it and the journal.
    pub load_blocks: u64,
    /// Time to read the heads of the metazones.
    pub find_time: Duration,
    /// Time to read the zones that the heads led to: checkpoint and journal.
    pub load_time: Duration,
}

/// Reason why a log cannot be opened or written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MetaLogError {
    /// No metazone is left to write to.
    Full,
    /// A record is missing or damaged in front of later ones: its content is lost.
    Damaged {
        /// Its zone, if known.
        zone: Option<ZoneId>,
        /// Its position in the log.
        position: u64,
    },
    /// There is no complete checkpoint.
    NoCheckpoint,
    /// The drive failed the command.
    Device(Arc<DeviceError>),
    /// The log was closed by an earlier error.
    Stopped,
}

impl fmt::Display for MetaLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no metazone is left to write to"),
            Self::Damaged { zone: Some(zone), position } => {
                write!(
                    f,
                    "{zone}: the metadata log cannot be read from record {position} on, and what it says may be lost; if the \
                     drive only failed to read, try again"
                )
            }
            Self::Damaged { zone: None, position } => {
                write!(f, "record {position} of the metadata log is missing, and later ones depend on it")
            }
            Self::NoCheckpoint => f.write_str("the metazones hold no complete checkpoint"),
            Self::Device(error) => error.fmt(f),
            Self::Stopped => f.write_str("the metadata log stopped after an earlier error"),
        }
    }
}

impl std::error::Error for MetaLogError {}

impl From<DeviceError> for MetaLogError {
    fn from(error: DeviceError) -> Self {
        Self::Device(Arc::new(error))
    }
}
