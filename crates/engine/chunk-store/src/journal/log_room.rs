//! Knowledge of the room in the metadata log: the size that the index would have there, and whether checkpoints help.
//!
//! **Owns** what was measured and counted last. **Knows nothing of** chunks and of the log: both are asked through what is
//! handed in, as seldom as will do.

use std::cell::Cell;

use tokio::sync::Notify;

use crate::format::{GROUP_BYTES, RECORD_BYTES};
use crate::index::Tally;

/// Checkpoints in a row that may make no room: entries that were on their way when one began are still needed behind
/// it.
const FUTILE_MAX: u32 = 3;

/// Runs are measured again once one record in so many came or went.
const MEASURE_AGAIN: u64 = 64;

/// Runs of records in the index, as they were measured last.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The bytes that they take in a checkpoint.
    runs: u64,
    /// The index at that time.
    tally: Tally,
}

/// Appends that have no entry in the index, as they were counted last.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    appends: u64,
    /// Appends that had been taken until then.
    taken: u64,
}

impl Counted {
    /// No more than that: whatever became of the others, only those that were taken since are new.
    fn most(self, taken: u64) -> u64 {
        self.appends + (taken - self.taken)
    }
}

/// The index at present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSize {
    /// Bytes that all but its records takes in a checkpoint, at most.
    pub(crate) beside: u64,
    pub(crate) tally: Tally,
}

/// Room in the metadata log, as far as known.
#[derive(Debug, Default)]
pub(crate) struct LogRoom {
    measured: Cell<Option<Measured>>,
    unindexed: Cell<Counted>,
    /// The most that GC may add while it empties a zone (CS-ROOM-4).
    reserved: Cell<u64>,
    /// Checkpoints in a row that made no room for the journal, or had none themselves.
    futile: Cell<u32>,
    /// Wakes callers that wait for the journal to take entries again.
    pub(crate) changed: Notify,
}

impl LogRoom {
    /// True if `fits` holds for the size of the index with `more` bytes, with what will be in it, and what GC has
    /// reserved. Equal records that follow each other take far less than the most that they could, so where that is too
    /// much they are measured, now and then (`runs`: their bytes); and what is not in it yet is counted (`unindexed`).
    pub(crate) fn holds(
        &self,
        size: IndexSize,
        more: u64,
        unindexed: impl FnOnce() -> u64,
        runs: impl FnOnce() -> u64,
        fits: impl Fn(u64) -> bool,
    ) -> bool {
        let tally = size.tally;
        if self.holds_as_counted(size, more, &fits) {
            return true;
        }
        if self.unindexed.get().taken < tally.taken {
            self.unindexed.set(Counted { appends: unindexed(), taken: tally.taken });
            if self.holds_as_counted(size, more, &fits) {
                return true;
            }
        }
        if let Some(Measured { tally: before, .. }) = self.measured.get() {
            let came = tally.indexed - before.indexed;
            let went = (before.records + came).saturating_sub(tally.records);
            if came + went <= before.records / MEASURE_AGAIN {
                return false;
            }
        }
        self.measured.set(Some(Measured { runs: runs(), tally }));
        self.holds_as_counted(size, more, &fits)
    }

    /// The same by what was counted and measured last, and the most that may have come since.
    fn holds_as_counted(&self, IndexSize { beside, tally }: IndexSize, more: u64, fits: &impl Fn(u64) -> bool) -> bool {
        let unindexed = self.unindexed.get().most(tally.taken) * (GROUP_BYTES + RECORD_BYTES);
        let rest = beside + unindexed + more + self.reserved.get();
        let with_runs = |measured: Measured| {
            let came = (tally.indexed - measured.tally.indexed) * RECORD_BYTES;
            fits(rest + measured.runs + came)
        };
        fits(rest + tally.records * RECORD_BYTES) || self.measured.get().is_some_and(with_runs)
    }

    /// GC may add so many bytes (CS-ROOM-4).
    pub(crate) fn reserve(&self, bytes: u64) {
        self.reserved.set(bytes);
    }

    /// The rest of GC's reservation, in bytes.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.get()
    }

    /// GC replaced runs of `before` bytes by others of `after` (CS-ROOM-4).
    pub(crate) fn note_replaced(&self, before: u64, after: u64) {
        if let Some(mut measured) = self.measured.get() {
            measured.runs = (measured.runs + after).saturating_sub(before);
            self.measured.set(Some(measured));
        }
    }

    /// A checkpoint was not begun, for want of room, though the journal takes no entry.
    pub(crate) fn note_futile(&self) {
        self.futile.set(self.futile.get() + 1);
    }

    /// A checkpoint has ended. The journal takes entries now, or does not.
    pub(crate) fn note_checkpoint(&self, journal_has_room: bool) {
        self.measured.set(None);
        self.futile.set(if journal_has_room { 0 } else { self.futile.get() + 1 });
        self.changed.notify_waiters();
    }

    /// True if no checkpoint helps a journal that takes no entry (CS-ROOM-3).
    pub(crate) fn is_futile(&self) -> bool {
        self.futile.get() >= FUTILE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of that many records, of which as many entered since the opening, with so many appends taken.
    fn size(records: u64, indexed: u64, taken: u64) -> IndexSize {
        IndexSize { beside: 100, tally: Tally { records, indexed, taken } }
    }

    /// Asks whether an index fits into `room` bytes, if `unindexed` appends have no entry and runs take `runs` bytes. Returns
    /// the answer, and whether appends and runs were counted.
    fn ask(room: &LogRoom, size: IndexSize, (unindexed, runs): (u64, u64), most: u64) -> (bool, bool, bool) {
        let (counted, measured) = (Cell::new(false), Cell::new(false));
        let holds = room.holds(
            size,
            0,
            || {
                counted.set(true);
                unindexed
            },
            || {
                measured.set(true);
                runs
            },
            |bytes| bytes <= most,
        );
        (holds, counted.get(), measured.get())
    }

    #[test]
    fn the_index_is_measured_only_where_the_most_that_it_could_take_does_not_fit() {
        let room = LogRoom::default();
        assert_eq!(ask(&room, size(1000, 0, 0), (0, 80), 100 + 1000 * RECORD_BYTES), (true, false, false));
        assert_eq!(ask(&room, size(1000, 0, 0), (0, 80), 180), (true, false, true));
        assert_eq!(ask(&room, size(1000, 0, 0), (0, 80), 180), (true, false, false), "it is known");
        assert_eq!(ask(&room, size(1001, 1, 0), (0, 80), 180), (false, false, false), "little has come since");
        assert_eq!(ask(&room, size(1016, 16, 0), (0, 80), 180), (true, false, true), "one in 64 has");
        room.note_replaced(30, 90);
        assert_eq!(ask(&room, size(1016, 16, 0), (0, 80), 239), (false, false, false), "GC made runs longer");
        assert_eq!(ask(&room, size(1016, 16, 0), (0, 80), 240), (true, false, false));
    }

    #[test]
    fn appends_without_an_entry_count_as_groups_of_their_own_until_they_are_counted_again() {
        let room = LogRoom::default();
        let each = GROUP_BYTES + RECORD_BYTES;
        assert_eq!(ask(&room, size(0, 0, 5), (2, 0), 100 + 5 * each), (true, false, false), "CS-ROOM-1");
        assert_eq!(ask(&room, size(0, 0, 5), (2, 0), 100 + 2 * each), (true, true, false));
        assert_eq!(ask(&room, size(0, 0, 6), (2, 0), 100 + 3 * each), (true, false, false));
        room.reserve(1);
        assert_eq!(ask(&room, size(0, 0, 6), (3, 0), 100 + 3 * each), (false, true, true), "CS-ROOM-4: GC's");
        room.reserve(0);
        assert_eq!((room.reserved(), ask(&room, size(0, 0, 6), (3, 0), 100 + 3 * each).0), (0, true));
    }

    #[test]
    fn checkpoints_in_a_row_that_make_no_room_are_futile() {
        let room = LogRoom::default();
        (0..2).for_each(|_| room.note_checkpoint(false));
        assert!(!room.is_futile());
        room.note_futile();
        assert!(room.is_futile(), "CS-ROOM-3");
        room.note_checkpoint(true);
        assert!(!room.is_futile());
    }
}
