//! The drives: how full each is. `load.rs` says how busy it is, `lateness.rs` how slow, `placement.rs` which one takes what comes next.

pub(crate) mod lateness;
mod load;
pub(crate) mod placement;

use std::time::Duration;

use shingle_base::StoreId;
use shingle_chunk_store::{ChunkClient, StoreStat, Stream};
use shingle_runtime::Instant;

use lateness::Lateness;
use load::Load;

/// Time that a drive gets no new files after it failed a command.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// Part of it after which the drive is tried where no other has room.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// Largest age of a drive's figures.
const STAT_AGE: Duration = Duration::from_millis(500);

/// Kind of a caller that appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Objects of users: they leave the reserve alone.
    User,
    /// Deletes, GC and other writes that make space or are needed to.
    System,
}

/// State of a drive, as the store meets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It answers.
    #[default]
    Up,
    /// It appends far slower than the others, which take its place for a while.
    Slow,
    /// It failed the last command that changes it.
    Failing,
    /// It does not answer: others take its place until it does.
    Silent,
    /// Its owner has ended. It comes back when the store is opened again.
    Ended,
}

/// A drive.
pub(crate) struct DriveState {
    pub(crate) client: ChunkClient,
    pub(crate) store: StoreId,
    stat: StoreStat,
    stat_at: Option<Instant>,
    /// New ones have been asked for.
    refreshing: bool,
    /// Bytes appended since the figures were taken.
    since: u64,
    /// The longest append a fresh chunk takes, once one has been seen.
    pub(crate) room: Option<u64>,
    /// It failed: others are preferred before this.
    bad_until: Option<Instant>,
    /// No append has succeeded since it failed.
    failing: bool,
    /// Lateness of its appends (OS-SLOWD-1).
    pub(crate) lateness: Lateness,
    /// Calls that were given up and are not answered yet (OS-PAT-2).
    silent: u32,
    last_answer: Instant,
    /// Work on its way to it.
    pub(crate) load: Load,
    /// Files being created, by stream.
    creating: [u32; 3],
    reserve: Option<u64>,
}

impl DriveState {
    pub(crate) fn new(client: ChunkClient, store: StoreId, reserve: Option<u64>) -> Self {
        Self {
            client,
            store,
            stat: StoreStat::default(),
            stat_at: None,
            refreshing: false,
            since: 0,
            room: None,
            bad_until: None,
            failing: false,
            lateness: Lateness::default(),
            silent: 0,
            last_answer: Instant::default(),
            load: Load::default(),
            creating: [0; 3],
            reserve,
        }
    }

    /// Takes its figures. Returns the bytes that it took since the last ones beside those that were appended: headers and padding, of which
    /// small appends cost more the fewer go together.
    pub(crate) fn set_stat(&mut self, stat: StoreStat, now: Instant) -> u64 {
        let stored = |stat: &StoreStat| stat.live_bytes + stat.garbage_bytes;
        // Less where garbage was collected, and much more only where it came to be.
        let more = stored(&stat).saturating_sub(stored(&self.stat)).saturating_sub(self.since).min(self.since);
        self.stat = stat;
        self.stat_at = Some(now);
        self.since = 0;
        self.refreshing = false;
        more
    }

    /// True if its figures say too little about now and no new ones were asked for; the caller then asks.
    pub(crate) fn begin_refresh(&mut self, now: Instant) -> bool {
        let old = self.stat_at.is_none_or(|at| now.since(at) > STAT_AGE) || self.since > self.stat.free_bytes / 8;
        let ask = old && !self.refreshing;
        self.refreshing |= ask;
        ask
    }

    /// The drive did not answer.
    pub(crate) fn end_refresh(&mut self) {
        self.refreshing = false;
    }

    pub(crate) fn stat(&self) -> StoreStat {
        self.stat
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.since = self.since.saturating_add(bytes);
    }

    /// Bytes that can be written before zones must be reclaimed.
    pub(crate) fn free(&self) -> u64 {
        // Garbage that shares zones with live data is space, too: the chunk store's own GC makes it so while appends
        // wait. A part of it is left out, since cleaning needs room to work.
        let reclaimable = self.stat.garbage_bytes - self.stat.garbage_bytes / 4;
        (self.stat.free_bytes + reclaimable).saturating_sub(self.since)
    }

    /// Bytes that only [`Class::System`] may use.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserve.unwrap_or_else(|| {
            let capacity = self.stat.capacity_bytes;
            (capacity / 32).max(2 * self.room.unwrap_or(0)).min(capacity / 4)
        })
    }

    /// Bytes that those may write.
    pub(crate) fn free_for(&self, class: Class) -> u64 {
        self.free().saturating_sub(if class == Class::User { self.reserved() } else { 0 })
    }

    /// True if `bytes` more fit.
    pub(crate) fn takes(&self, class: Class, bytes: u64) -> bool {
        let reserved = if class == Class::User { self.reserved() } else { 0 };
        self.free() >= bytes.saturating_add(reserved)
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.bad_until = Some(now + COOL_DOWN);
        self.failing = true;
    }

    /// It took an append.
    pub(crate) fn took(&mut self) {
        self.failing = false;
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        match self {
            drive if drive.client.is_closed() => Standing::Ended,
            drive if drive.is_silent() => Standing::Silent,
            drive if drive.failing => Standing::Failing,
            drive if drive.lateness.is_slow(now) => Standing::Slow,
            _ => Standing::Up,
        }
    }

    /// True if others are preferred before it: it failed a while ago, or does not answer.
    pub(crate) fn is_bad(&self, now: Instant) -> bool {
        self.is_silent() || self.bad_until.is_some_and(|until| now < until)
    }

    /// True if it failed, and is worth a try where no other drive has room: not by every write, since it may be broken.
    pub(crate) fn may_be_tried(&self, now: Instant) -> bool {
        let calm = |until: Instant| now < until && now + (COOL_DOWN - TRIED_AGAIN) >= until;
        !self.is_silent() && self.bad_until.is_some_and(calm)
    }

    /// True if it is set aside until it answers (OS-PAT-2).
    pub(crate) fn is_silent(&self) -> bool {
        self.silent > 0
    }

    pub(crate) fn begin_silence(&mut self) {
        self.silent += 1;
    }

    pub(crate) fn end_silence(&mut self) {
        self.silent = self.silent.saturating_sub(1);
    }

    pub(crate) fn answered(&mut self, now: Instant) {
        self.last_answer = now;
    }

    /// When it last answered a call that reaches its medium.
    pub(crate) fn last_answer(&self) -> Instant {
        self.last_answer
    }

    pub(crate) fn creating(&mut self, stream: Stream) -> &mut u32 {
        &mut self.creating[stream as usize]
    }

    pub(crate) fn is_creating(&self, stream: Stream) -> u32 {
        self.creating[stream as usize]
    }

    /// Free space as a fraction of the drive, for comparing drives.
    pub(crate) fn free_fraction(&self) -> f64 {
        if self.stat.capacity_bytes == 0 { 0.0 } else { self.free() as f64 / self.stat.capacity_bytes as f64 }
    }
}
