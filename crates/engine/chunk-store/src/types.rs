//! Arguments and results of a chunk store's calls.

use std::fmt;
use std::str::FromStr;

use shingle_base::{ChunkId, ZoneId};

/// Use of a chunk's data, and so its likely lifetime: chunks of different streams never share a zone. (SMRstore,
/// sections 2.1 and 5.4.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Objects as users write them: short-lived.
    Data,
    /// Objects rewritten by object garbage collection: long-lived, most of a drive.
    Gc,
    /// Metadata of the service above: small chunks.
    Meta,
}

impl Stream {
    /// All streams.
    pub const ALL: [Self; 3] = [Self::Data, Self::Gc, Self::Meta];

    /// Its place in arrays that have one entry a stream.
    pub(crate) fn slot(self) -> usize {
        match self {
            Self::Data => 0,
            Self::Gc => 1,
            Self::Meta => 2,
        }
    }

    /// The stream's name, as commands and dumps show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Gc => "gc",
            Self::Meta => "meta",
        }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Stream {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|stream| stream.name() == text)
            .ok_or_else(|| format!("`{text}` is no stream: data, gc or meta"))
    }
}

/// Blocks that an opening could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Their zone.
    pub zone: ZoneId,
    /// The zone's generation: after a reset it holds other records.
    pub epoch: u64,
    /// The first of them, from the zone's start.
    pub from: u32,
    /// The first behind them.
    pub to: u32,
}

impl Unread {
    /// True if `other` lies in it.
    pub(crate) fn has(&self, other: &Self) -> bool {
        (self.zone, self.epoch) == (other.zone, other.epoch) && self.from <= other.from && other.to <= self.to
    }
}

/// Status of a data zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneStatus {
    /// Empty.
    Free,
    /// Open, holding nothing but its head; waiting in a pool.
    Opened,
    /// Open, holding records, taking more.
    Activated,
    /// Takes no more records.
    Closed,
    /// Holds nothing that lives; to be reset when free zones run short.
    Garbage,
    /// Readable, never writable again.
    ReadOnly,
    /// Lost, with what it held.
    Offline,
}

impl ZoneStatus {
    /// All, in the order of their numbers on the drive.
    pub(crate) const ALL: [Self; 7] =
        [Self::Free, Self::Opened, Self::Activated, Self::Closed, Self::Garbage, Self::ReadOnly, Self::Offline];

    /// True if nothing more is written to this generation of the zone, though it may hold records that count.
    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Self::Closed | Self::ReadOnly | Self::Offline)
    }
}

/// A chunk, as [`stat`](crate::ChunkClient::stat) and [`list`](crate::ChunkClient::list) show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkStat {
    /// Its identity.
    pub id: ChunkId,
    /// Its stream.
    pub stream: Stream,
    /// Durable bytes: what a read can return.
    pub size: u64,
    /// It is sealed, and takes no more appends.
    pub sealed: bool,
    /// The longest append it would still take; zero when it is sealed or at its limit.
    pub room: u64,
}

/// A drive's space, in bytes of data zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStat {
    /// Data zones in use, garbage and free together.
    pub capacity_bytes: u64,
    /// Free zones and zones that hold only garbage, without those kept for GC.
    pub free_bytes: u64,
    /// Garbage in zones that also hold live data: what GC could bring back.
    pub garbage_bytes: u64,
    /// Live data, with its headers, footers and padding.
    pub live_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Appends that are waiting or being written now: how busy the drive is.
    pub queued_appends: u64,
    /// The file system that holds the drive was full at the last write: writes are refused until there is room.
    pub host_full: bool,
}

/// A data zone, for experiments and maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneStat {
    /// The zone.
    pub zone: ZoneId,
    /// Its status.
    pub status: ZoneStatus,
    /// The stream it is for, or was last.
    pub stream: Stream,
    /// Blocks written since its last reset, its head included.
    pub written_blocks: u32,
    /// Blocks of live records.
    pub live_blocks: u32,
    /// Blocks of records that it can hold.
    pub capacity_blocks: u32,
}
