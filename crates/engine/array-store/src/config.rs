//! Options for formatting and running an array.

use std::path::PathBuf;
use std::time::Duration;

use shingle_erasure::Code;

use crate::object::naming::Naming;
use crate::types::DriveId;
use crate::watch::HUNG_AFTER;

/// The shape of a new array; fixed from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Data and parity fragments.
    pub code: Code,
    /// Bytes of data in a full segment. (The paper: 20 MiB.)
    pub segment_length: u32,
}

impl FormatOptions {
    /// The paper's segments with that code.
    pub fn new(code: Code) -> Self {
        Self { code, segment_length: 20 << 20 }
    }
}

/// Choice of victims, and targets of moved data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleaningPolicy {
    /// The set with the least that lives; survivors together. Best where all objects are as likely to be deleted.
    /// (SMORE, section III-E.)
    #[default]
    Greedy,
    /// The set with the most dead for its age and for what moving costs (cost-benefit), of those that have their share
    /// of the dead; what is older than most that is moved goes to sets of its own. Best where some objects live far
    /// longer than others.
    Lifetime,
}

/// Options of an open array; may differ each time.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Segments that a writer appends before another one's turn comes; more where few wait and several sets are open.
    /// (The paper, with one open set: 12.)
    pub turn_segments: u32,
    /// Sets that are open for clients' objects, so that each lies in few; `None`: one for each 32 sets, up to 12 for
    /// each set that finds drives of its own. Drives that allow fewer open zones have fewer. As many are written side
    /// by side as that allows: with one, the array writes one set at a time. (The paper: one.)
    pub open_sets: Option<usize>,
    /// Sets that are kept ready to be opened, for each that can be written side by side, and up to three times as many
    /// where drives are regrouped; after a power cut all of them are looked at. At least one more than is left for
    /// cleaning. (The paper: 32 to 64.)
    pub available_sets: usize,
    /// Segments of one writer on their way to the drives; four at most are on their way to a set.
    pub in_flight: usize,
    /// Small objects that come at the same time share a segment.
    pub coalesce: bool,
    /// Write nothing, whatever is found: for looking at an array, also a broken one. Calls that write fail.
    pub read_only: bool,
    /// Choice of victims, and targets of moved data.
    pub cleaning: CleaningPolicy,
    /// Sets that are cleaned side by side at most; `None`: as many as are written side by side, up to one for each 64
    /// sets. Arrays of few sets, and drives that allow few open zones, have fewer. (The paper: one.)
    pub cleaners: Option<usize>,
    /// Two files, best on different SSDs, that small objects are buffered in: they are acknowledged when they are
    /// durable in both, and written to segments later. An array that was not closed in order is not opened without
    /// them.
    pub buffer: Option<[PathBuf; 2]>,
    /// Bytes of the ring in each of a new buffer's files.
    pub buffer_bytes: u32,
    /// The longest time that an object stays in the buffer alone, while the array works in the background.
    pub buffer_time: Duration,
    /// Open the array also if its buffer, or some of it, is gone: what was acknowledged there and is nowhere else is
    /// lost.
    pub abandon_buffer: bool,
    /// Open the array for writing also if its newest table or snapshot, or a zone set that recovery needs, cannot be
    /// read, or more drives are missing than parity makes up for: what that costs is lost then, and objects that were
    /// deleted may be back.
    pub accept_loss: bool,
    /// Drives that an earlier opening gave up, and that are there, to be taken back: what of them is proven to be what
    /// the others hold is used again; a rebuild replaces the rest.
    pub readmit: Vec<DriveId>,
    /// Clean, snapshot and rebuild in the background.
    pub background: bool,
    /// Rebuild rate limit in bytes/s; `None` = unlimited.
    pub rebuild_rate: Option<u64>,
    /// A drive that has been far slower than its peers for so long is given up and rebuilt, in the background; `None`:
    /// never.
    pub slow_for_most: Option<Duration>,
    /// A drive that leaves its commands unanswered for so long counts as gone, as long as the array can do without it;
    /// `None`: it is waited for.
    pub hung_after: Option<Duration>,
    /// Time between snapshots of the index; none is taken while nothing changed. (The paper: two hours.)
    pub snapshot_interval: Duration,
    /// Zone sets that are looked at side by side when an array is opened. (The paper: one.)
    pub recovery_depth: usize,
    /// A table of zone sets with up to so many bytes is in every superblock; of a larger one a few drives have it
    /// whole, and behind that what changed.
    pub whole_table: usize,
    /// Display of objects' names for people.
    pub naming: Naming,
    /// Different sets' digests are read off different drives, and not all off the first. (The paper: off one.)
    pub spread_digests: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            turn_segments: 12,
            open_sets: None,
            available_sets: 32,
            in_flight: 4,
            coalesce: true,
            read_only: false,
            cleaning: CleaningPolicy::Greedy,
            cleaners: None,
            buffer: None,
            buffer_bytes: 128 << 20,
            buffer_time: Duration::from_secs(30),
            abandon_buffer: false,
            accept_loss: false,
            readmit: Vec::new(),
            background: true,
            rebuild_rate: None,
            slow_for_most: Some(Duration::from_secs(10 * 60)),
            hung_after: Some(HUNG_AFTER),
            snapshot_interval: Duration::from_secs(2 * 60 * 60),
            recovery_depth: 64,
            whole_table: 64 << 10,
            naming: Naming::default(),
            spread_digests: true,
        }
    }
}
