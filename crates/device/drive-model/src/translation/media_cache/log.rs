//! The cache as a circular log of journal entries. Places are counted in quanta: the blocks that pass in half a turn.

use std::collections::VecDeque;
use std::ops::Range;

/// One journal entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Its quanta, counted from the first ever written.
    quanta: Range<u64>,
    /// Of these, such as hold the host's data.
    data: u64,
    /// Blocks in it that the map still has.
    live: u64,
    /// The host's extents, in the order in which they lie.
    pub(super) extents: Vec<Range<u64>>,
}

/// The log.
#[derive(Clone, Debug)]
pub(super) struct Log {
    ring: u64,
    head: u64,
    entries: VecDeque<Entry>,
    /// Number of the oldest entry.
    first: u64,
    data: u64,
}

impl Log {
    pub(super) fn new(ring: u64) -> Self {
        Self { ring, head: 0, entries: VecDeque::new(), first: 0, data: 0 }
    }

    /// Quanta of the host's data in the entries that the log has.
    pub(super) fn data(&self) -> u64 {
        self.data
    }

    /// First quantum for an entry of so many quanta, `skip` behind the first possible one; `None` if the log has no room.
    pub(super) fn place(&self, quanta: u64, skip: u64) -> Option<u64> {
        let at = self.head + skip;
        // An entry lies in one piece.
        let at = if at % self.ring + quanta > self.ring { at.next_multiple_of(self.ring) } else { at };
        let tail = self.entries.front().map_or(self.head, |entry| entry.quanta.start);
        (at + quanta - tail <= self.ring).then_some(at)
    }

    /// The place in the ring of a quantum.
    pub(super) fn in_ring(&self, quantum: u64) -> u64 {
        quantum % self.ring
    }

    /// Takes in an entry that was written; its number.
    pub(super) fn push(&mut self, quanta: Range<u64>, data: u64, extents: Vec<Range<u64>>) -> u64 {
        self.head = quanta.end;
        self.data += data;
        let live = extents.iter().map(|extent| extent.end - extent.start).sum();
        self.entries.push_back(Entry { quanta, data, live, extents });
        self.first + self.entries.len() as u64 - 1
    }

    /// Blocks of an entry live no longer. The oldest entries are forgotten once nothing in them lives (DM-LOG-1).
    pub(super) fn let_go(&mut self, number: u64, blocks: u64) {
        if let Some(entry) = number.checked_sub(self.first).and_then(|at| self.entries.get_mut(at as usize)) {
            entry.live -= blocks;
        }
        while let Some(oldest) = self.entries.front().filter(|entry| entry.live == 0) {
            self.data -= oldest.data;
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// The oldest entry, in which something lives, and its number.
    pub(super) fn oldest(&self) -> Option<(u64, &Entry)> {
        self.entries.front().map(|entry| (self.first, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DM-LOG-1.
    #[test]
    fn room_comes_back_from_the_oldest_entry_on() {
        let mut log = Log::new(10);
        let write = |log: &mut Log, quanta: u64| {
            let at = log.place(quanta, 0)?;
            Some((at, log.push(at..at + quanta, 1, std::iter::once(0..4).collect())))
        };
        assert_eq!([write(&mut log, 4), write(&mut log, 4)], [Some((0, 0)), Some((4, 1))]);
        assert_eq!(log.place(4, 0), None, "two quanta are left");
        log.let_go(1, 4);
        assert_eq!((log.place(4, 0), log.data()), (None, 2), "the oldest entry lives");
        log.let_go(0, 3);
        log.let_go(0, 1);
        assert_eq!(log.data(), 0);
        assert_eq!((log.place(4, 0), log.in_ring(10)), (Some(10), 0), "not across the ring's end");
    }
}
