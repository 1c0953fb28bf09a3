//! Space of files: blocks for those that grow, and all metadata that this changes.
//!
//! # Invariants
//! - LAB-EX-1: the extents of a file cover its blocks from 0 in order, and no two files share a block.
//! - LAB-EX-2: blocks set aside for a file count as used until they are given back.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::alloc::{Allocator, Run, window_end};
use super::journal::Journal;
use super::layout::{GROUP, Layout};
use crate::rig::target::TargetError;

/// Blocks of a file's first 64 KiB, which come from the window that small files share.
const SMALL: u64 = 16;
/// Blocks of that window.
const SHARED_WINDOW: u64 = 512;
/// Extents that an inode holds by itself.
const EXTENTS_INLINE: usize = 4;
/// Extents in a block.
const EXTENTS_LEAF: usize = 340;

/// Blocks of a file.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// In order of the file's blocks: the first of them, and where they are.
    pub(super) list: Vec<(u32, Run)>,
    /// Set aside for later appends.
    pub(super) window: Option<Run>,
    /// Blocks that hold extents.
    pub(super) leaves: Vec<u64>,
}

impl Extents {
    /// Blocks that have a place.
    pub(crate) fn blocks(&self) -> u64 {
        self.list.last().map_or(0, |&(first, run)| u64::from(first) + run.blocks)
    }

    /// Places of blocks of the file.
    pub(crate) fn places(&self, blocks: &Range<u32>) -> Vec<Run> {
        let mut runs = Vec::with_capacity(1);
        let from = self.list.partition_point(|extent| extent.0 <= blocks.start).saturating_sub(1);
        for &(first, run) in self.list.get(from..).unwrap_or_default() {
            let begin = u64::from(first.max(blocks.start));
            let end = (u64::from(first) + run.blocks).min(u64::from(blocks.end));
            if begin >= end {
                break;
            }
            runs.push(Run { at: run.at + begin - u64::from(first), blocks: end - begin });
        }
        runs
    }
}

/// Space of a file system.
pub(crate) struct Space {
    pub(super) layout: Layout,
    pub(super) allocator: Rc<RefCell<Allocator>>,
    pub(super) journal: Rc<Journal>,
    /// The window that small files share.
    pub(super) shared: RefCell<Option<Run>>,
}

impl Space {
    pub(crate) fn new(layout: Layout, allocator: Rc<RefCell<Allocator>>, journal: Rc<Journal>) -> Self {
        Self { layout, allocator, journal, shared: RefCell::default() }
    }

    /// Places of everything that is not data.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The journal of all changes.
    pub(crate) fn journal(&self) -> &Rc<Journal> {
        &self.journal
    }

    /// Gives a file places for its blocks up to `end`.
    pub(crate) fn grow(&self, file: &mut Extents, end: u64) -> Result<(), TargetError> {
        let mut at = file.blocks();
        while at < end {
            let run = self.next_run(file, at, end)?;
            self.add(file, run);
            at += run.blocks;
        }
        Ok(())
    }

    /// Gives a new file so many blocks at once, without windows.
    pub(crate) fn preallocate(&self, file: &mut Extents, mut blocks: u64) -> Result<(), TargetError> {
        while blocks > 0 {
            let run = self.allocator.borrow_mut().take(blocks).ok_or(TargetError::NoSpace)?;
            blocks -= run.blocks;
            self.add(file, run);
        }
        Ok(())
    }

    /// Blocks for `at..end` of a file: as many as one run has.
    fn next_run(&self, file: &mut Extents, at: u64, end: u64) -> Result<Run, TargetError> {
        let (allocator, shared) = (&mut *self.allocator.borrow_mut(), &mut *self.shared.borrow_mut());
        let (window, want) =
            if end <= SMALL { (shared, SHARED_WINDOW) } else { (&mut file.window, window_end(at, end) - at) };
        let whole = match window.take() {
            Some(run) => run,
            None => {
                let goal = file.list.last().map(|&(_, run)| run.end());
                match goal {
                    Some(goal) if end > SMALL && allocator.take_at(goal, want) => Run { at: goal, blocks: want },
                    _ => allocator.take(want).ok_or(TargetError::NoSpace)?,
                }
            }
        };
        let used = Run { at: whole.at, blocks: whole.blocks.min(end - at) };
        if used.blocks < whole.blocks {
            *window = Some(Run { at: used.end(), blocks: whole.blocks - used.blocks });
        }
        Ok(used)
    }

    /// Adds a run to a file, with all metadata that this changes.
    fn add(&self, file: &mut Extents, run: Run) {
        let first = file.list.last().map_or(0, |&(first, run)| first + run.blocks as u32);
        match file.list.last_mut() {
            Some((_, last)) if last.end() == run.at && last.blocks + run.blocks <= GROUP => last.blocks += run.blocks,
            _ => file.list.push((first, run)),
        }
        self.change_bits(run);
        let needed = if file.list.len() <= EXTENTS_INLINE { 0 } else { file.list.len().div_ceil(EXTENTS_LEAF) };
        while file.leaves.len() < needed {
            // Without room for a leaf there is none for its blocks either: the next append finds out.
            let Some(leaf) = self.allocator.borrow_mut().take(1) else { break };
            self.change_bits(leaf);
            file.leaves.push(leaf.at);
        }
        if let Some(&leaf) = file.leaves.last() {
            self.journal.change(leaf);
        }
    }

    /// The bits of a run change, and with them the counts in their groups' descriptors.
    fn change_bits(&self, run: Run) {
        for group in run.at / GROUP..=(run.end() - 1) / GROUP {
            self.journal.change(self.layout.bitmap(group));
            self.journal.change(self.layout.descriptor(group));
        }
    }

    /// Gives back what was set aside for a file.
    pub(crate) fn give_window(&self, file: &mut Extents) {
        if let Some(window) = file.window.take() {
            self.allocator.borrow_mut().give(window);
        }
    }

    /// Gives back all blocks of a file: those with bits once that has committed, those set aside at once.
    pub(crate) fn release(&self, file: &mut Extents) {
        let leaves = file.leaves.drain(..).map(|at| Run { at, blocks: 1 });
        for run in file.list.drain(..).map(|(_, run)| run).chain(leaves) {
            self.change_bits(run);
            self.journal.free(run);
        }
        self.give_window(file);
    }
}

/// Numbers of inodes: those of deleted files are given out again.
#[derive(Debug, Default)]
pub(crate) struct Inodes {
    free: BTreeSet<u64>,
    next: u64,
}

impl Inodes {
    pub(crate) fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(crate) fn give(&mut self, inode: u64) {
        self.free.insert(inode);
    }
}
