//! Where in the file each zone's bytes lie.
//!
//! A zone gets a slot (as long as a zone) at its first write and gives it back at its reset. So a drive of 20 TB can be
//! made on a file system whose files end at 16 TiB, and its file is as long as what it holds.
//!
//! # Invariants
//! - SL-1: no two zones have the same slot.

use std::collections::BTreeSet;

use shingle_base::ZoneId;

/// The slots of a drive.
pub(crate) struct Slots {
    /// By zone: 1 + its slot, or 0.
    of_zone: Vec<u32>,
    /// Slots below `end` that no zone has.
    free: BTreeSet<u32>,
    /// The first slot that was never given out.
    end: u32,
}

impl Slots {
    /// No zone has a slot.
    pub(crate) fn new(zone_count: u32) -> Self {
        Self { of_zone: vec![0; zone_count as usize], free: BTreeSet::new(), end: 0 }
    }

    /// The slot of `zone`.
    pub(crate) fn get(&self, zone: ZoneId) -> Option<u32> {
        self.of_zone.get(zone.0 as usize)?.checked_sub(1)
    }

    /// Gives `zone`, which has none, the first free slot.
    pub(crate) fn take(&mut self, zone: ZoneId) -> u32 {
        debug_assert!(self.get(zone).is_none());
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        });
        self.of_zone[zone.0 as usize] = slot + 1;
        slot
    }

    /// Takes the slot of `zone` back.
    pub(crate) fn release(&mut self, zone: ZoneId) {
        if let Some(slot) = self.get(zone) {
            self.of_zone[zone.0 as usize] = 0;
            self.free.insert(slot);
        }
    }

    /// Takes over what a zone table says. `false` if that is impossible: another zone has the slot, or there are not
    /// so many.
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

    #[test]
    fn slots_are_reused_and_never_shared() {
        let mut slots = Slots::new(4);
        assert_eq!(slots.take(ZoneId(3)), 0);
        assert_eq!(slots.take(ZoneId(1)), 1);
        slots.release(ZoneId(3));
        assert_eq!((slots.get(ZoneId(3)), slots.free_runs()), (None, vec![(0, 1)]));
        assert_eq!((slots.take(ZoneId(0)), slots.take(ZoneId(2)), slots.end()), (0, 2, 3));
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
