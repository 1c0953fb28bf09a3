//! Progress marks: what was recently written, in a few bytes in the journal, so that recovery need not scan for it. See
//! `docs/decisions/0011-progress-marks.md`.
//!
//! A mark names the live records of a zone between two blocks, a run of equal records once, and each chunk once. Marks
//! are made from the index by a task of their own, for all zones together whenever so much was written, and in front of
//! resets; appends only count.
//!
//! # Invariants
//! - CS-MARK-1: a mark names only records that are in the index, and so durable, when it takes its place in the journal;
//!   and of its blocks all such. Records that it leaves out there are dead, since `to` is not past `indexed_to`
//!   (CS-ZONE-3).
//! - CS-MARK-2: the chunk of each of its records lives when the mark is journaled. So the mark's own number stands for
//!   those of its records: a chunk of that id that is younger than the mark is another one (CS-REC-1).
//! - CS-MARK-3: a zone's marks adjoin, or overlap with what the checkpoint has; recovery trusts one that does not for its
//!   records, but not to cover any blocks. Such a one names the records that an opening found behind blocks that it
//!   could not read, and is the only one to reach past `indexed_to`. It too has no block between its ends that the
//!   opening could not read or judge: the checkpoint, or marks that the opening did not heed, may have more of the zone
//!   than the opening could read, and it then covers what it has.
//!   `marks_of_what_lies_between_bad_blocks_cover_none_of_them`.
//! - CS-MARK-4: where the journal wants a checkpoint, no marks are made but those that a reset needs.
//! - CS-MARK-5: no zone is reset before marks, or a checkpoint, name all that was moved, by GC or out of landing zones.
//!   Until then the original is there; from then on the copy has not only itself to say that it was durable.
//!   `a_bad_copy_costs_its_own_bytes_once_the_original_is_reset`, `copies_behind_what_cannot_be_read_are_marked_too`.
//! - CS-MARK-6: the end of a zone in which a write failed, or whose copies did not count (CS-GC-8), is marked at once: of what it has behind the
//!   index nothing counts, and an opening would tell of it as lost (CS-ZONE-5). Of a landing zone it is marked once nothing in it is needed.
//!   `originals_stay_where_the_zone_with_their_copies_goes_offline`, `an_append_goes_elsewhere_if_its_zone_loses_the_cache`.

use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{ChunkId, ZoneId};

use crate::engine::Engine;
use crate::error::Result;
use crate::format::{JournalEntry, MARK_HEAD_BYTES, Mark};
use crate::index::Located;
use crate::state::StoreState;
use crate::types::ZoneStatus;

/// The longest mark: small beside a device write of the journal.
const BYTES_MAX: usize = 16 << 10;

impl StoreState {
    /// Marks for what a zone has to say, none longer than `bytes_max`.
    fn marks_of(&self, zone: ZoneId, bytes_max: usize) -> Vec<Mark> {
        let slot = self.zones.get(zone);
        // A garbage zone may be reset. The index of a landing zone has all of its live records only at its end (CS-MARK-1).
        let (open, ended) = (slot.status == ZoneStatus::Activated, slot.status.is_ended());
        if !(ended || open && !slot.landing) || slot.landed > 0 {
            return Vec::new();
        }
        let closed = slot.status.is_ended() && slot.indexed_to >= slot.needed_to();
        let mut marks = Vec::new();
        if slot.marked_to < slot.indexed_to || closed {
            marks = self.marks_between(zone, slot.marked_to, slot.indexed_to, bytes_max);
        }
        if let Some(last) = marks.last_mut() {
            last.closed = closed;
        }
        for &(from, to) in self.unmarked.behind(zone) {
            marks.extend(self.marks_between(zone, from, to, bytes_max));
        }
        marks
    }

    /// Marks for what lies between two blocks of a zone: one at least, none longer than `bytes_max`.
    fn marks_between(&self, zone: ZoneId, from: u32, to: u32, bytes_max: usize) -> Vec<Mark> {
        let slot = self.zones.get(zone);
        let (epoch, stream) = (slot.epoch, slot.stream);
        let new = |from| Mark::new(zone, epoch, stream, from);
        let mut marks = Vec::new();
        let mut mark = new(from);
        let mut length = MARK_HEAD_BYTES;
        for (id, record) in self.live_records(zone, from, to) {
            let cost = mark.cost(id, &record);
            if length + cost > bytes_max && !mark.is_empty() {
                mark.to = record.block;
                let next = new(record.block);
                marks.push(std::mem::replace(&mut mark, next));
                length = MARK_HEAD_BYTES;
            }
            length += mark.cost(id, &record);
            mark.push(id, &record);
        }
        mark.to = to;
        marks.push(mark);
        marks
    }

    /// The records of a zone that live and begin between two blocks, in the order they lie.
    fn live_records(&self, zone: ZoneId, from: u32, to: u32) -> Vec<(ChunkId, Located)> {
        let mut handles = self.zones.get(zone).groups.to_vec();
        handles.sort_unstable();
        handles.dedup();
        let mut live = Vec::new();
        for chunk in handles.into_iter().filter_map(|handle| self.chunks.get(handle)) {
            for group in chunk.groups.iter().filter(|group| group.zone == zone) {
                let here = group.records().filter(|record| (from..to).contains(&record.block));
                live.extend(here.map(|record| (chunk.id, record)));
            }
        }
        live.sort_unstable_by_key(|(_, record)| record.block);
        live
    }

    /// Indexed end of every zone with records: a checkpoint that begins here covers this.
    pub(crate) fn indexed_zones(&self) -> Vec<(ZoneId, u64, u32)> {
        let entry = |zone: ZoneId| (zone, self.zones.get(zone).epoch, self.zones.get(zone).indexed_to);
        self.unmarked.zones().map(entry).collect()
    }

    /// A checkpoint covers zones as far as this: later marks need not say it again.
    pub(crate) fn covered(&mut self, zones: Vec<(ZoneId, u64, u32)>) {
        for (zone, epoch, indexed_to) in zones {
            let slot = self.zones.get_mut(zone);
            if slot.epoch == epoch {
                slot.marked_to = slot.marked_to.max(indexed_to);
            }
        }
    }
}

impl Engine {
    /// Takes note of what entered the index, or of a closed zone (with no blocks).
    pub(crate) fn note_unmarked(&self, state: &mut StoreState, zone: ZoneId, blocks: u64) {
        if state.unmarked.note(zone, blocks) {
            self.wakes.marks.notify_one();
        }
    }

    /// Makes marks whenever they are due, until the store stops.
    pub(crate) async fn mark_task(self: Rc<Self>) {
        loop {
            self.wakes.marks.notified().await;
            if self.state.borrow().stopped.is_some() || self.write_marks().await.is_err() {
                return;
            }
        }
    }

    /// Journals marks for all zones that have something to say.
    async fn write_marks(self: &Rc<Self>) -> Result<()> {
        let journaled = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            state.unmarked.restart();
            if self.log.needs_checkpoint() {
                self.wakes.checkpoint.notify_one();
                return Ok(());
            }
            let zones = state.unmarked.take_due();
            self.journal_marks(&mut state, zones)
        };
        join_all(journaled).await.into_iter().collect()
    }

    /// Journals marks for all that was moved, in front of the entry of a reset (CS-MARK-5): they become durable with it.
    pub(crate) fn mark_moved(self: &Rc<Self>, state: &mut StoreState) -> Vec<impl Future<Output = Result<()>> + use<>> {
        let zones = state.unmarked.take_moved();
        self.journal_marks(state, zones)
    }

    /// Journals marks for zones that have ended so (CS-MARK-6); where the journal wants a checkpoint, that tells as much (CS-MARK-4).
    pub(crate) fn mark_ended(self: &Rc<Self>, state: &mut StoreState, zones: impl IntoIterator<Item = ZoneId>) {
        let mut any = false;
        for zone in zones {
            any = true;
            state.unmarked.note_moved(zone);
        }
        if any && self.log.needs_checkpoint() {
            self.wakes.checkpoint.notify_one();
        } else if any {
            let journaled = self.mark_moved(state);
            // An error stops the store.
            self.rt.spawn_detached(async move { drop(join_all(journaled).await) });
        }
    }

    fn journal_marks(
        self: &Rc<Self>,
        state: &mut StoreState,
        zones: BTreeSet<ZoneId>,
    ) -> Vec<impl Future<Output = Result<()>> + use<>> {
        let bytes_max = BYTES_MAX.min(self.log.entry_max()) - 1;
        let mut journaled = Vec::new();
        for zone in zones {
            let marks = state.marks_of(zone, bytes_max);
            if !marks.is_empty() {
                let slot = state.zones.get_mut(zone);
                slot.marked_to = slot.marked_to.max(slot.indexed_to);
                state.unmarked.forget_behind(zone);
            }
            state.counters.marks += marks.len() as u64;
            journaled
                .extend(marks.into_iter().map(|mark| self.journal(JournalEntry::Mark(mark), self.sequence.next())));
        }
        journaled
    }
}
