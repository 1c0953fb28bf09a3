//! A data zone, as its engine knows it.

/// Use of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nothing in it is needed.
    #[default]
    Free,
    /// It is written to.
    Open,
    /// Nothing more is written to it.
    Closed,
    /// It holds nothing, and can be written no more.
    Dead,
}

/// The end of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reset {
    /// The zone is empty.
    Done,
    /// It is as it was, and may be tried another time.
    NotNow,
    /// The drive says that it neither writes nor resets it any more.
    Broken,
}

/// A data zone, with its engine's part (`own`). Only its table changes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Zone<Own> {
    /// Its use.
    pub status: Status,
    /// The stream that it was opened for, as the engine numbers them.
    pub stream: u8,
    /// Its generation.
    pub epoch: u64,
    /// Its number among the zones that were opened in this life, from 1; 0 for older ones.
    pub order: u64,
    /// The block behind the last that was written.
    pub next: u32,
    /// Its blocks before this one are durable.
    pub durable: u32,
    /// Blocks in it that are needed, or the sectors, or whatever its engine counts.
    pub live: u64,
    /// Entries on their way to the drive that say what has left it. (ZK-ZONE-2)
    pub unsettled: u32,
    /// The drive neither writes nor resets it any more.
    pub broken: bool,
    /// The drive did not tell behind a flush whether the zone had failed before. It is used like any other.
    pub untold: bool,
    /// Some of what lives in it cannot be read, so it cannot leave.
    pub stuck: bool,
    /// Writes that failed since the last that succeeded; of a free zone, attempts to reset it.
    pub failures: u32,
    /// Free, and not reset yet.
    pub dirty: bool,
    /// The engine's part.
    pub own: Own,
}

impl<Own> Zone<Own> {
    /// It holds data, or is about to.
    pub fn is_used(&self) -> bool {
        matches!(self.status, Status::Open | Status::Closed)
    }

    /// Nothing more is written to it, and nothing lives in it.
    pub fn is_empty(&self) -> bool {
        self.status == Status::Closed && self.live == 0
    }

    /// It failed, or may have, before a flush covered all of its blocks: those behind the durable ones may be lost. (ZK-ZONE-5)
    pub fn is_in_doubt(&self) -> bool {
        (self.broken || self.untold) && self.durable < self.next
    }
}
