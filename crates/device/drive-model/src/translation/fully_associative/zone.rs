//! A zone of the drive, and its bands.

use std::collections::VecDeque;
use std::ops::Range;

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
