//! A zone of the drive, its bands, and the share of cleaning.

use std::collections::VecDeque;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos};
use crate::translation::extents::Extent;
use crate::translation::managed::Work;
use crate::translation::steps::Step;

/// A band on the platters, by number.
pub(super) type Physical = u64;

/// A logged band.
#[derive(Clone, Debug)]
pub(super) struct Logged {
    pub(super) band: Physical,
    /// Extents in it, in the order of writing.
    pub(super) written: Vec<Range<u64>>,
    /// Blocks that the map has of it.
    pub(super) live: u64,
}

/// A zone: an area of the drive with spare bands of its own.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) free: VecDeque<Physical>,
    /// The band that takes writes, and its blocks that are written.
    pub(super) open: Option<(Physical, u64)>,
    /// Logged bands, the open one included, oldest first.
    pub(super) logged: VecDeque<Logged>,
    /// Bands that are written from their starts on.
    pub(super) streams: Vec<Stream>,
    /// Writes that wait for a spare band.
    pub(super) waiting: VecDeque<(Work, Range<u64>)>,
    pub(super) merging: Option<Merge>,
}

/// A band that is written in sequence, to a spare band of its own.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) band: u64,
    pub(super) to: Physical,
    /// Block up to which writes of it have come, and how many of them are under way.
    pub(super) end: u64,
    pub(super) writing: u32,
}

/// A merge of a band with what is logged of it.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    pub(super) band: u64,
    pub(super) to: Physical,
    pub(super) taken: Vec<Extent>,
    pub(super) steps: VecDeque<Step>,
    pub(super) runs: bool,
}

/// Cleaning that takes its share of the time while the host is at work.
#[derive(Clone, Debug)]
pub(super) struct Mixing {
    pub(super) share: f64,
    /// Begin of the host's work, and time of cleaning since then.
    pub(super) from: Nanos,
    pub(super) cleaned: Nanos,
    /// Begin of the step that is under way; commands of the host wait for its end.
    pub(super) step: Option<Nanos>,
    pub(super) held: VecDeque<(CommandId, Command)>,
}

impl Mixing {
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.step.is_none() && (self.cleaned as f64) < self.share * now.saturating_sub(self.from) as f64
    }
}
