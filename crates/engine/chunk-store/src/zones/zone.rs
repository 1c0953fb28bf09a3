//! One data zone, as the store knows it.

use crate::types::{Stream, ZoneStatus};
use crate::zones::residents::Residents;

/// Reason to leave a zone alone for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Its reset failed (CS-ZONE-6).
    Reset,
    /// GC could not empty it, for the drive failed commands (CS-GC-10).
    Gc,
}

/// One data zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) status: ZoneStatus,
    /// The stream its records belong to; without meaning for a free zone.
    pub(crate) stream: Stream,
    /// It takes small appends of all chunks.
    pub(crate) landing: bool,
    /// Records in it that live and are not in the index (CS-LAND-3).
    pub(crate) landed: u32,
    /// Its generation: the sequence number of its head; zero before the first.
    pub(crate) epoch: u64,
    /// Blocks written or being written, head included.
    pub(crate) written: u32,
    /// CS-ZONE-3.
    pub(crate) indexed_to: u32,
    /// Before this block checkpoint and marks tell recovery of every record.
    pub(crate) marked_to: u32,
    /// Blocks of records that live.
    pub(crate) live: u32,
    /// Blocks of the longest record that the index has had in it since it was reset.
    pub(crate) longest: u32,
    /// When (by sequence number) a record was last written: how old its data is.
    pub(crate) last_write: u64,
    /// The chunk of each group that lies here (SMRstore: "live index groups").
    pub(crate) groups: Residents,
    /// Readers and movers that rely on the zone's contents.
    pub(crate) pins: u32,
    /// Holds a record that fails its check, or that the index has no room to move: GC leaves it alone.
    pub(crate) damaged: bool,
    /// A later opening has to look at it again: recovery could not read all of it, or could not judge all (CS-ZONE-4).
    pub(crate) suspect: bool,
    /// It is offline, and an opening found that it had records that are not in the index (CS-ZONE-5).
    pub(crate) lost: bool,
    /// Block of the record at which GC gave it up last (CS-GC-7).
    pub(crate) given_up_at: u32,
    /// It is left alone for a while.
    pub(crate) resting: Option<Rest>,
    /// Holds copies that GC has not swapped in yet: it is no garbage, even if nothing else lives in it (CS-GC-5).
    pub(crate) filling: bool,
}

impl Zone {
    pub(crate) fn new() -> Self {
        Self {
            status: ZoneStatus::Free,
            stream: Stream::Data,
            landing: false,
            landed: 0,
            epoch: 0,
            written: 0,
            indexed_to: 0,
            marked_to: 0,
            live: 0,
            longest: 0,
            last_write: 0,
            groups: Residents::default(),
            pins: 0,
            damaged: false,
            suspect: false,
            lost: false,
            given_up_at: 0,
            resting: None,
            filling: false,
        }
    }

    /// Blocks of it that recovery has to know. Blocks that a failed write left behind the index were written again
    /// elsewhere; but behind it may lie landed records, copies that are not swapped in, or blocks that no opening could
    /// read (CS-ZONE-5).
    pub(crate) fn needed_to(&self) -> u32 {
        let more = self.landed > 0 || self.filling || self.suspect || self.lost;
        if self.status.is_ended() && !more { self.written.min(self.indexed_to) } else { self.written }
    }

    /// Blocks of dead records.
    pub(crate) fn garbage(&self) -> u32 {
        // The head is neither.
        self.written.saturating_sub(1).saturating_sub(self.live)
    }
}
