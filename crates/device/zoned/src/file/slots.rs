//! Places of zones' bytes in the file.
//!
//! A zone gets a slot (as long as a zone) at its first write and gives it back at its reset. So a drive of 20 TB can be
//! made on a file system whose files end at 16 TiB.
//!
//! # Invariants
//! - ZD-SL-1: no two zones have the same slot, whichever of the table's entries since the last flush a failure of the
//!   machine brings back. So a slot that was given back is given out again only after a flush.

use std::collections::BTreeSet;

use shingle_base::ZoneId;

/// The slots of a drive.
pub(crate) struct Slots {
    /// By zone: 1 + its slot, or 0.
    of_zone: Vec<u32>,
    /// Slots below `end` that no zone has, and none had at the last flush.
    free: BTreeSet<u32>,
    /// Slots given back since, each with the flush (by number) that makes it free.
    given_back: Vec<(u32, u64)>,
    /// The first slot that was never given out.
    end: u32,
}

impl Slots {
    /// No zone has a slot.
    pub(crate) fn new(zone_count: u32) -> Self {
        Self { of_zone: vec![0; zone_count as usize], free: BTreeSet::new(), given_back: Vec::new(), end: 0 }
    }

    /// The slot of `zone`.
    pub(crate) fn get(&self, zone: ZoneId) -> Option<u32> {
        self.of_zone.get(zone.0 as usize)?.checked_sub(1)
    }

    /// Gives `zone`, which has none, the first free slot. `None`: only a flush makes one free.
    pub(crate) fn take(&mut self, zone: ZoneId) -> Option<u32> {
        debug_assert!(self.get(zone).is_none());
        let slot = match self.free.pop_first() {
            Some(slot) => slot,
            None if self.end as usize == self.of_zone.len() => return None,
            None => {
                self.end += 1;
                self.end - 1
            }
        };
        self.of_zone[zone.0 as usize] = slot + 1;
        Some(slot)
    }

    /// True if a flush would make slots free.
    pub(crate) fn any_given_back(&self) -> bool {
        !self.given_back.is_empty()
    }

    /// Takes the slot of `zone` back, which no entry of the table ever named.
    pub(crate) fn untake(&mut self, zone: ZoneId) {
        if let Some(slot) = self.get(zone) {
            self.of_zone[zone.0 as usize] = 0;
            self.free.insert(slot);
            self.trim();
        }
    }

    /// Takes the slot of `zone` back, for others from flush number `flush` on.
    pub(crate) fn release(&mut self, zone: ZoneId, flush: u64) {
        if let Some(slot) = self.get(zone) {
            self.of_zone[zone.0 as usize] = 0;
            self.given_back.push((slot, flush));
        }
    }

    /// Flush number `flush` has completed.
    pub(crate) fn flushed(&mut self, flush: u64) {
        let free = &mut self.free;
        self.given_back.retain(|&(slot, from)| {
            if from <= flush {
                free.insert(slot);
            }
            from > flush
        });
    }

    /// Takes over the slots of a zone table. `false` if that is impossible: another zone has the slot, or there are
    /// fewer.
    pub(crate) fn restore(&mut self, zone: ZoneId, slot: u32) -> bool {
        if slot as usize >= self.of_zone.len() || (slot < self.end && !self.free.remove(&slot)) {
            return false;
        }
        if slot >= self.end {
            self.free.extend(self.end..slot);
            self.end = slot + 1;
        }
        self.of_zone[zone.0 as usize] = slot + 1;
        true
    }

    /// Forgets free slots behind the last one that is given out.
    pub(crate) fn trim(&mut self) {
        while self.end > 0 && self.free.remove(&(self.end - 1)) {
            self.end -= 1;
        }
    }

    /// The number of slots up to the last one that is given out.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Runs of free slots: first, and first past.
    pub(crate) fn free_runs(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &slot in &self.free {
            match runs.last_mut() {
                Some((_, end)) if *end == slot => *end += 1,
                _ => runs.push((slot, slot + 1)),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ZD-SL-1.
    #[test]
    fn slots_are_reused_after_a_flush_and_never_shared() {
        let mut slots = Slots::new(4);
        assert_eq!(slots.take(ZoneId(3)), Some(0));
        assert_eq!(slots.take(ZoneId(1)), Some(1));
        slots.release(ZoneId(3), 7);
        assert_eq!((slots.get(ZoneId(3)), slots.free_runs()), (None, vec![]));
        slots.flushed(6);
        assert_eq!((slots.take(ZoneId(2)), slots.free_runs()), (Some(2), vec![]), "the flush began before the reset");
        slots.flushed(7);
        assert_eq!((slots.free_runs(), slots.take(ZoneId(0))), (vec![(0, 1)], Some(0)));
        slots.untake(ZoneId(1));
        slots.untake(ZoneId(2));
        assert_eq!((slots.end(), slots.free_runs(), slots.take(ZoneId(3))), (1, vec![], Some(1)));
    }

    #[test]
    fn there_are_no_more_slots_than_zones() {
        let mut slots = Slots::new(2);
        for zone in [0, 1] {
            assert_eq!(slots.take(ZoneId(zone)), Some(zone));
        }
        slots.release(ZoneId(0), 1);
        assert_eq!((slots.take(ZoneId(0)), slots.any_given_back()), (None, true));
        slots.flushed(1);
        assert_eq!((slots.take(ZoneId(0)), slots.any_given_back()), (Some(0), false));
    }

    #[test]
    fn a_table_with_impossible_slots_is_refused() {
        let mut slots = Slots::new(4);
        assert!(slots.restore(ZoneId(0), 3));
        assert_eq!(slots.free_runs(), [(0, 3)]);
        assert!(slots.restore(ZoneId(1), 1));
        assert!(!slots.restore(ZoneId(2), 1), "twice");
        assert!(!slots.restore(ZoneId(2), 4), "past the last");
        assert_eq!(slots.free_runs(), [(0, 1), (2, 3)]);
    }
}
