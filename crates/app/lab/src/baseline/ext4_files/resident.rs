//! Pages that are in memory: those that were read or written last.

use std::collections::BTreeMap;

use super::machine::FileId;

/// Pages of a unit: what Linux reads ahead (128 KiB), and what is given up together.
pub(super) const UNIT: u64 = 32;

/// Units that are looked at when room is wanted, at most: where nearly all are dirty, a look at each for every write would be most of a run.
/// (Linux, too, looks at some and lets the others be.)
const LOOKS_MOST: u64 = 256;

/// Units in memory, and the order in which they were used.
#[derive(Default)]
pub(super) struct Resident {
    used: BTreeMap<(FileId, u64), u64>,
    order: BTreeMap<u64, (FileId, u64)>,
    clock: u64,
}

impl Resident {
    /// A unit is used. False if it was not in memory.
    pub(super) fn touch(&mut self, file: FileId, unit: u64) -> bool {
        self.clock += 1;
        let before = self.used.insert((file, unit), self.clock);
        if let Some(before) = before {
            self.order.remove(&before);
        }
        self.order.insert(self.clock, (file, unit));
        before.is_some()
    }

    /// Gives up units until there are at most so many, but those that `keeps` says stay. It looks at some: the next call goes on behind these.
    pub(super) fn shrink(&mut self, most: u64, keeps: impl Fn(FileId, u64) -> bool) {
        let mut looks = (self.used.len() as u64).min(LOOKS_MOST);
        while self.used.len() as u64 > most && looks > 0 {
            looks -= 1;
            let Some((_, (file, unit))) = self.order.pop_first() else { return };
            self.used.remove(&(file, unit));
            if keeps(file, unit) {
                self.touch(file, unit);
            }
        }
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, file: FileId) {
        let of: Vec<(u64, u64)> = self.used.range((file, 0)..=(file, u64::MAX)).map(|(key, at)| (key.1, *at)).collect();
        for (unit, at) in of {
            self.used.remove(&(file, unit));
            self.order.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_given_up_first() {
        let mut resident = Resident::default();
        let (one, other) = (FileId(1), FileId(2));
        for unit in 0..4 {
            assert!(!resident.touch(one, unit));
        }
        assert!(resident.touch(one, 0));
        assert!(!resident.touch(other, 0));
        // Unit 1 is dirty.
        resident.shrink(3, |_, unit| unit == 1);
        assert!(!resident.touch(one, 2) && !resident.touch(one, 3));
        assert!(resident.touch(one, 0) && resident.touch(one, 1) && resident.touch(other, 0));
        resident.forget(one);
        assert!(!resident.touch(one, 0) && resident.touch(other, 0));
    }

    #[test]
    fn one_call_looks_at_some_and_the_next_goes_on_behind_these() {
        let (mut resident, file) = (Resident::default(), FileId(1));
        let all = 10 * LOOKS_MOST;
        for unit in 0..all {
            resident.touch(file, unit);
        }
        let looked = std::cell::Cell::new(0);
        let keeps = |_: FileId, unit: u64| {
            looked.set(looked.get() + 1);
            unit != all - 1
        };
        for call in 1..=10 {
            resident.shrink(all - 1, keeps);
            assert_eq!(looked.get(), call * LOOKS_MOST);
        }
        assert!(!resident.touch(file, all - 1) && resident.touch(file, 0));
    }
}
