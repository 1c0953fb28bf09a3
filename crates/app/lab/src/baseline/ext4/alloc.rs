//! Places of growing files: ext4's multi-block allocator, on runs of free blocks instead of bits.
//!
//! As in Linux 4.19 (fs/ext4/mballoc.c): a request is rounded up to a window that grows with the file, from 16 KiB to
//! 8 MiB; the window is looked for right behind the file's last block, else from the group of the last stream
//! allocation on, first aligned to its own size (criterion 0), then anywhere of that length (1), then shorter (2, 3).
//!
//! # Invariants
//! - LAB-EA-1: runs of free blocks are in order, apart, and do not touch; each lies in one group.
//! - LAB-EA-2: a block is free, or was given out once.

use super::layout::{GROUP, Layout};

/// Blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) at: u64,
    pub(crate) blocks: u64,
}

impl Run {
    pub(crate) fn end(self) -> u64 {
        self.at + self.blocks
    }
}

/// A window of the file in which blocks are set aside: its end, in blocks, for a request that ends at `end`.
pub(crate) fn window_end(start: u64, end: u64) -> u64 {
    let aligned = |blocks: u64| (start / blocks + 1) * blocks;
    match end {
        ..=256 => end.next_power_of_two().max(4),
        257..=1024 => aligned(512),
        1025..=2048 => aligned(1024),
        _ => aligned(2048),
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    runs: Vec<(u32, u32)>,
    free: u32,
    largest: u32,
}

impl Group {
    fn count(&mut self) {
        self.free = self.runs.iter().map(|run| run.1).sum();
        self.largest = self.runs.iter().map(|run| run.1).max().unwrap_or(0);
    }

    /// Takes `length` blocks at `at` out of run number `run`.
    fn take(&mut self, run: usize, at: u32, length: u32) {
        let (start, whole) = self.runs[run];
        let behind = (at + length, start + whole - (at + length));
        match (at > start, behind.1 > 0) {
            (false, false) => drop(self.runs.remove(run)),
            (false, true) => self.runs[run] = behind,
            (true, false) => self.runs[run].1 = at - start,
            (true, true) => {
                self.runs[run].1 = at - start;
                self.runs.insert(run + 1, behind);
            }
        }
        self.count();
    }

    /// The run with block `at` in it.
    fn run_of(&self, at: u32) -> Option<usize> {
        let run = self.runs.partition_point(|run| run.0 <= at).checked_sub(1)?;
        (at < self.runs[run].0 + self.runs[run].1).then_some(run)
    }

    /// The first place of `length` blocks that is aligned to `length`.
    fn aligned(&self, length: u32) -> Option<(usize, u32)> {
        self.runs.iter().enumerate().find_map(|(run, &(start, whole))| {
            let at = start.next_multiple_of(length);
            (at + length <= start + whole).then_some((run, at))
        })
    }

    /// The shortest run of at least `length` blocks.
    fn fitting(&self, length: u32) -> Option<(usize, u32)> {
        let fits = self.runs.iter().enumerate().filter(|(_, run)| run.1 >= length);
        fits.min_by_key(|(_, run)| run.1).map(|(number, run)| (number, run.0))
    }
}

/// Free blocks.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    groups: Vec<Group>,
    free: u64,
    /// The group of the last stream allocation: where the next one begins to look.
    last: usize,
}

impl Allocator {
    pub(crate) fn new(layout: &Layout) -> Self {
        let whole = Group { runs: vec![(0, GROUP as u32)], free: GROUP as u32, largest: GROUP as u32 };
        let groups = vec![whole; layout.groups() as usize];
        let mut this = Self { groups, free: layout.groups() * GROUP, last: 0 };
        for area in layout.reserved() {
            let mut at = area.start;
            while at < area.end {
                let length = (area.end - at).min(GROUP - at % GROUP);
                let taken = this.take_at(at, length);
                debug_assert!(taken, "two areas overlap");
                at += length;
            }
        }
        this
    }

    /// Free blocks in all.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free
    }

    /// The used share of each group.
    pub(crate) fn used(&self) -> impl Iterator<Item = f32> + '_ {
        self.groups.iter().map(|group| 1.0 - group.free as f32 / GROUP as f32)
    }

    /// Takes `length` blocks at `at`, if all are free and in one group.
    pub(crate) fn take_at(&mut self, at: u64, length: u64) -> bool {
        let (number, start) = ((at / GROUP) as usize, (at % GROUP) as u32);
        let Some(group) = self.groups.get_mut(number) else { return false };
        let Some(run) = group.run_of(start) else { return false };
        if group.runs[run].0 + group.runs[run].1 < start + length as u32 {
            return false;
        }
        group.take(run, start, length as u32);
        self.free -= length;
        true
    }

    /// Takes up to `want` blocks, at most a group's, in a row: fewer only where no such run is left.
    pub(crate) fn take(&mut self, want: u64) -> Option<Run> {
        let mut length = want.clamp(1, GROUP) as u32;
        if length.is_power_of_two()
            && length <= 1 << 13
            && let Some(run) = self.search(length, Group::aligned)
        {
            return Some(run);
        }
        while length > 0 {
            if let Some(run) = self.search(length, Group::fitting) {
                return Some(run);
            }
            length /= 2;
        }
        None
    }

    fn search(&mut self, length: u32, find: impl Fn(&Group, u32) -> Option<(usize, u32)>) -> Option<Run> {
        let count = self.groups.len();
        for step in 0..count {
            let number = (self.last + step) % count;
            let group = &mut self.groups[number];
            if group.largest >= length
                && let Some((run, at)) = find(group, length)
            {
                group.take(run, at, length);
                self.free -= u64::from(length);
                self.last = number;
                return Some(Run { at: number as u64 * GROUP + u64::from(at), blocks: u64::from(length) });
            }
        }
        None
    }

    /// Gives blocks back.
    ///
    /// # Panics
    /// If one of them is free already (LAB-EA-2).
    pub(crate) fn give(&mut self, run: Run) {
        let (mut at, mut left) = (run.at, run.blocks);
        while left > 0 {
            let length = left.min(GROUP - at % GROUP);
            self.give_part((at / GROUP) as usize, (at % GROUP) as u32, length as u32);
            (at, left) = (at + length, left - length);
        }
        self.free += run.blocks;
    }

    fn give_part(&mut self, number: usize, at: u32, length: u32) {
        let group = &mut self.groups[number];
        let next = group.runs.partition_point(|run| run.0 < at);
        let apart = next == 0 || group.runs[next - 1].0 + group.runs[next - 1].1 <= at;
        let apart = apart && group.runs.get(next).is_none_or(|run| at + length <= run.0);
        assert!(apart, "LAB-EA-2: blocks of group {number} were freed twice");
        let joins_next = group.runs.get(next).is_some_and(|run| run.0 == at + length);
        let joins_last = next > 0 && group.runs[next - 1].0 + group.runs[next - 1].1 == at;
        match (joins_last, joins_next) {
            (true, true) => {
                group.runs[next - 1].1 += length + group.runs[next].1;
                group.runs.remove(next);
            }
            (true, false) => group.runs[next - 1].1 += length,
            (false, true) => group.runs[next] = (at, length + group.runs[next].1),
            (false, false) => group.runs.insert(next, (at, length)),
        }
        group.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_sim::{Random, seeds};

    #[test]
    fn windows_grow_with_the_file() {
        assert_eq!([1, 5, 16, 17, 200].map(|end| window_end(0, end)), [4, 8, 16, 32, 256]);
        assert_eq!(window_end(256, 512), 512);
        assert_eq!(window_end(520, 780), 1024);
        assert_eq!(window_end(1024, 1030), 2048);
        assert_eq!(window_end(2040, 2300), 2048);
        assert_eq!(window_end(2048, 2300), 4096);
    }

    /// LAB-EA-1 and LAB-EA-2, against a map of blocks.
    #[test]
    fn every_block_is_given_out_once() {
        for seed in seeds(20) {
            let mut random = Random::new(seed);
            let layout = Layout::new(4 * GROUP);
            let mut allocator = Allocator::new(&layout);
            let mut map = vec![false; 4 * GROUP as usize];
            for area in layout.reserved() {
                map[area.start as usize..area.end as usize].fill(true);
            }
            let mut held: Vec<Run> = Vec::new();
            for _ in 0..3_000 {
                if random.chance(0.55) {
                    let want = 1 << random.below(12);
                    let want = if random.chance(0.2) { want + random.below(700) } else { want };
                    let Some(run) = allocator.take(want) else { continue };
                    assert!(run.blocks <= want);
                    let blocks = &mut map[run.at as usize..run.end() as usize];
                    assert!(!blocks.contains(&true), "seed {seed}: {run:?} was given out twice");
                    blocks.fill(true);
                    held.push(run);
                } else if !held.is_empty() {
                    let run = held.swap_remove(random.below(held.len() as u64) as usize);
                    map[run.at as usize..run.end() as usize].fill(false);
                    allocator.give(run);
                }
                let free = map.iter().filter(|used| !**used).count() as u64;
                assert_eq!(allocator.free_blocks(), free, "seed {seed}");
            }
            for group in &allocator.groups {
                assert!(group.runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "LAB-EA-1, seed {seed}");
            }
        }
    }
}
