//! Room in the metadata log: for the index, which has to fit a checkpoint, and for the next entry of the journal.
//!
//! **Owns** what is known of the index's size on the drive. **Knows nothing of** metazones, which are the log's.
//!
//! # Invariants
//! - CS-ROOM-1: no chunk is created, and no append taken, that the index has no room for: a checkpoint can be written
//!   later. Appends that wait, are being written or have only landed count as if each were a group of its own.
//!   `appends_are_refused_before_the_index_outgrows_a_checkpoint`,
//!   `what_has_only_landed_counts_for_the_room_of_the_index`.
//! - CS-ROOM-4: GC makes the index no larger than its reservation. Records that it keeps in their order may lie at
//!   other distances then, and runs of equal ones fall apart; so beyond half of the room it puts those of a chunk
//!   together. Creates and appends leave it a part of the room. `gc_leaves_the_index_as_much_room_as_there_was`.
//! - CS-ROOM-2: a checkpoint is not begun unless it fits the metazones that are free: one that ends for want of room stops
//!   the store.
//! - CS-ROOM-3: no task writes checkpoints again and again that make no room. If so few metazones are usable that none
//!   can, changes are refused, reads go on, and background work waits.
//!   `with_too_few_metazones_changes_are_refused_and_reads_go_on`, `gc_rests_while_the_log_is_full`,
//!   `appends_do_not_wait_for_garbage_that_a_full_log_keeps`, `appends_do_not_wait_for_gc_that_a_full_log_stops`.
//! - CS-ROOM-5: however many callers wait for the journal, one checkpoint makes room for all of them.
//!   `callers_that_wait_for_the_journal_share_a_checkpoint`.

use std::rc::Rc;

use shingle_base::ChunkId;

use crate::drive::host_full;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CHUNK_BYTES, GROUP_BYTES, PLACE_BYTES, RECORD_BYTES, zone_table_bytes};
use crate::index::{Groups, IndexGroup};
use crate::journal::log_room::IndexSize;
use crate::state::StoreState;

/// Message for callers.
const LOG_FULL: &str = "too few metazones are usable: the journal takes no entry; replace the drive";

/// The most that GC adds to the index with each zone that it empties, where it puts records of a chunk together: a
/// chunk is split where one zone that takes records is full, and a few times more where writes fail.
const SPLITS_BYTES: u64 = 4 * (GROUP_BYTES + 2 * RECORD_BYTES);

/// Creates and appends leave GC one part in so many of the index's room, and room for some zones.
const GC_SHARE: u64 = 32;

impl StoreState {
    /// The index, of a drive with so many data zones.
    fn index_size(&self) -> IndexSize {
        let beside = zone_table_bytes(self.zones.len() as usize)
            + self.chunks.len() as u64 * CHUNK_BYTES
            + self.zones.groups() * GROUP_BYTES
            + self.resumed.count() * PLACE_BYTES;
        IndexSize { beside, tally: self.tally }
    }

    /// The bytes that runs of records take in a checkpoint. Looks at every chunk.
    fn runs_bytes(&self) -> u64 {
        self.chunks.after(None).map(|(_, chunk)| runs_bytes(&chunk.groups)).sum()
    }
}

/// Bytes that the runs of a chunk take in a checkpoint.
fn runs_bytes(groups: &Groups) -> u64 {
    let run_bytes = |stride: u32| if stride == 0 { RECORD_BYTES } else { 2 * RECORD_BYTES };
    groups.iter().flat_map(IndexGroup::runs).map(|run| run_bytes(run.stride)).sum()
}

/// Bytes that a chunk's groups take in a checkpoint.
pub(crate) fn groups_bytes(groups: &Groups) -> u64 {
    groups.len() as u64 * GROUP_BYTES + runs_bytes(groups)
}

impl Engine {
    /// True if `fits` holds for the size of the index with `more` bytes, and with all that will be in it.
    fn index_fits(&self, state: &StoreState, more: u64, fits: impl Fn(u64) -> bool) -> bool {
        self.log_room.holds(state.index_size(), more, || state.unindexed(), || state.runs_bytes(), fits)
    }

    /// True if GC has room in the index to empty a zone (CS-ROOM-4).
    pub(crate) fn has_gc_room(&self, state: &StoreState) -> bool {
        self.index_fits(state, SPLITS_BYTES, |bytes| self.log.room_for_checkpoint(bytes))
    }

    /// Reserves room in the index for `records` records that GC moves, for any form of their runs. If that would leave
    /// less than half of it GC has to put the records of a chunk together, and `false` is returned (CS-ROOM-4).
    pub(crate) fn reserve_index_room(&self, state: &StoreState, records: u64) -> bool {
        let most = records * (GROUP_BYTES + RECORD_BYTES);
        let apart = self.index_fits(state, most, |bytes| self.log.room_for_checkpoint(2 * bytes));
        self.log_room.reserve(if apart { most } else { SPLITS_BYTES });
        apart
    }

    /// The rest of GC's reservation, in bytes.
    pub(crate) fn reserved_index_room(&self) -> u64 {
        self.log_room.reserved()
    }

    /// GC ends, or gives back the rest of its reservation.
    pub(crate) fn release_index_room(&self) {
        self.log_room.reserve(0);
    }

    /// GC replaced groups of `before` bytes by others of `after` (CS-ROOM-4).
    pub(crate) fn note_replaced(&self, before: &Groups, after: &Groups) {
        self.log_room.note_replaced(runs_bytes(before), runs_bytes(after));
    }

    /// Fails if a chunk with `more` bytes in the index cannot be taken (CS-ROOM-1).
    pub(crate) fn has_index_room(&self, state: &StoreState, id: ChunkId, more: u64) -> Result<()> {
        let left = |bytes: u64| bytes + bytes / GC_SHARE + 4 * SPLITS_BYTES;
        if self.index_fits(state, more, |bytes| self.log.room_for_checkpoint(left(bytes))) {
            return Ok(());
        }
        let why = "the metazones are too small for a larger index; delete chunks, or store larger ones";
        Err(Error::new(ErrorKind::NoSpace, why).of(id))
    }

    /// True if a checkpoint can be begun (CS-ROOM-2). For whoever begins one: while another is written, it uses up free
    /// zones.
    pub(crate) fn has_checkpoint_room(&self) -> bool {
        self.index_fits(&self.state.borrow(), 0, |bytes| self.log.fits_free_zones(bytes))
    }

    /// A checkpoint was not begun, for want of room. Returns what its caller hears.
    pub(crate) fn note_no_checkpoint(&self) -> Error {
        if !self.log.has_journal_room() {
            // While the journal takes entries, deletions may make the index fit.
            self.log_room.note_futile();
        }
        Error::new(ErrorKind::Device, "too few metazones are usable for a checkpoint; replace the drive")
    }

    /// A checkpoint has ended.
    pub(crate) fn note_checkpoint(&self) {
        self.log_room.note_checkpoint(self.log.has_journal_room());
    }

    /// True if the journal takes no entry, and no checkpoint helps (CS-ROOM-3).
    pub(crate) fn is_log_full(&self) -> bool {
        !self.log.has_journal_room() && self.log_room.is_futile()
    }

    /// Returns when the journal may take entries, or the store has stopped: at once unless the log is full (CS-ROOM-3).
    pub(crate) async fn log_changes(&self) {
        loop {
            let changed = self.log_room.changed.notified();
            if !self.is_log_full() || self.state.borrow().stopped.is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Wakes callers that wait for the journal: the store has stopped.
    pub(crate) fn wake_for_log(&self) {
        self.log_room.changed.notify_waiters();
    }

    /// Refuses the appends that wait for what the journal has to take first (CS-ROOM-3).
    pub(crate) fn refuse_for_full_log(self: &Rc<Self>) {
        let state = &mut *self.state.borrow_mut();
        for handle in state.waiting() {
            self.fail_appends(state, handle, ErrorKind::Device, LOG_FULL);
        }
    }

    /// Waits until the journal takes another entry. A checkpoint makes room where there is none.
    ///
    /// # Errors
    /// `HostFull` where that would have to wait for room on the host; `Stopped`, `Device`.
    pub(crate) async fn journal_room(self: &Rc<Self>) -> Result<()> {
        while !self.log.has_journal_room() {
            self.state.borrow().running()?;
            self.has_host_room()?;
            if self.is_log_full() {
                return Err(Error::new(ErrorKind::Device, LOG_FULL));
            }
            let engine = self.clone();
            // A checkpoint that was begun goes on, whoever waits.
            let checkpoint = self.rt.spawn(async move { engine.checkpoint_for_room().await });
            match self.unless_stalled(checkpoint).await {
                Ok(done) => done.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopped, "the store is gone")))?,
                Err(_) => return Err(host_full()),
            }
        }
        self.state.borrow().running()
    }
}
