//! Sections of the main area: free ones, valid blocks of each, and the choice of victims.
//!
//! Owners of blocks are kept as runs, in the order of their writing; a run is valid while its owner still names it.
//!
//! # Invariants
//! - LAB-FS-1: a section is free, open, closed or prefree; only a free one is opened, and a prefree one becomes free only by
//!   a checkpoint.
//! - LAB-FS-2: a closed section becomes prefree when nothing in it is valid and no write to it is under way.
//! - LAB-FS-3: valid blocks of all sections are the blocks that owners name.

use std::collections::BTreeSet;

use super::layout::SEGMENT;

/// Owner of a block: a file's slot, and the number of its block or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Data { slot: u32, block: u32 },
    Node { slot: u32, node: u32 },
}

/// Blocks that one owner's blocks took in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u32,
    pub(crate) blocks: u32,
    pub(crate) owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionState {
    Free,
    Open,
    Closed,
    Prefree,
}

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) state: SectionState,
    /// Blocks given out from its start.
    pub(crate) next: u32,
    pub(crate) valid: u32,
    /// Blocks given out that are not written yet.
    under_way: u32,
    /// When it last changed, averaged over its segments.
    changed: u64,
    pub(crate) entries: Vec<Entry>,
}

/// Blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) section: u32,
    pub(crate) offset: u32,
    pub(crate) blocks: u32,
}

/// Choice of a victim. (F2FS, FAST'15, section 2.5.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The least valid: in the foreground.
    Greedy,
    /// Least valid and oldest: in the background.
    CostBenefit,
}

/// Dirty sections that a search for a victim looks at, at most (`max_victim_search`).
const SEARCH_MAX: usize = 4096;

pub(crate) struct Sections {
    pub(crate) all: Vec<Section>,
    free: BTreeSet<u32>,
    prefree: Vec<u32>,
    /// Blocks of a section.
    pub(crate) blocks: u32,
    /// Valid blocks in all.
    pub(crate) valid: u64,
    /// Segments whose valid bits changed since the last checkpoint.
    pub(crate) changed_segments: BTreeSet<u32>,
    /// Segments that were filled since the last checkpoint, whose owners are to be written.
    pub(crate) filled_segments: BTreeSet<u32>,
    /// Ends of the last searches, by policy.
    searched: [u32; 2],
}

impl Sections {
    pub(crate) fn new(count: u32, blocks: u32) -> Self {
        let section =
            Section { state: SectionState::Free, next: 0, valid: 0, under_way: 0, changed: 0, entries: Vec::new() };
        Self {
            all: vec![section; count as usize],
            free: (0..count).collect(),
            prefree: Vec::new(),
            blocks,
            valid: 0,
            changed_segments: BTreeSet::new(),
            filled_segments: BTreeSet::new(),
            searched: [0; 2],
        }
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn prefree_count(&self) -> usize {
        self.prefree.len()
    }

    /// Opens the next free section behind `after`, or the first one. (`get_new_segment`.)
    pub(crate) fn open_next(&mut self, after: u32) -> Option<u32> {
        let next = self.free.range(after..).next().or_else(|| self.free.first()).copied()?;
        self.free.remove(&next);
        self.all[next as usize].state = SectionState::Open;
        Some(next)
    }

    /// Takes up to `blocks` blocks of an open section; it closes when it is full.
    pub(crate) fn take(&mut self, number: u32, blocks: u32, now: u64) -> Piece {
        let section = &mut self.all[number as usize];
        debug_assert_eq!(section.state, SectionState::Open, "LAB-FS-1");
        let piece = Piece { section: number, offset: section.next, blocks: blocks.min(self.blocks - section.next) };
        section.next += piece.blocks;
        section.under_way += piece.blocks;
        if section.next == self.blocks {
            section.state = SectionState::Closed;
        }
        for segment in piece.offset / SEGMENT..(piece.offset + piece.blocks) / SEGMENT {
            self.filled_segments.insert(number * (self.blocks / SEGMENT) + segment);
        }
        self.change(piece, now);
        piece
    }

    /// A piece is written; `owner` names it now, or nothing does.
    pub(crate) fn written(&mut self, piece: Piece, owner: Option<Owner>) {
        let section = &mut self.all[piece.section as usize];
        section.under_way -= piece.blocks;
        if let Some(owner) = owner {
            section.valid += piece.blocks;
            self.valid += u64::from(piece.blocks);
            section.entries.push(Entry { offset: piece.offset, blocks: piece.blocks, owner });
        }
        self.look(piece.section);
    }

    /// A piece has no owner any more.
    pub(crate) fn invalidate(&mut self, piece: Piece, now: u64) {
        let section = &mut self.all[piece.section as usize];
        section.valid -= piece.blocks;
        self.valid -= u64::from(piece.blocks);
        self.change(piece, now);
        self.look(piece.section);
    }

    /// The sections that this checkpoint makes free, once their zones are reset.
    pub(crate) fn take_prefree(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.prefree)
    }

    /// A prefree section is free.
    pub(crate) fn freed(&mut self, number: u32) {
        let section = &mut self.all[number as usize];
        debug_assert_eq!(section.state, SectionState::Prefree, "LAB-FS-1");
        (section.state, section.next, section.entries) = (SectionState::Free, 0, Vec::new());
        self.free.insert(number);
    }

    /// The victim: among the sections with garbage that the search comes by.
    pub(crate) fn victim(&mut self, policy: Policy, now: u64) -> Option<u32> {
        let count = self.all.len() as u32;
        let from = &mut self.searched[policy as usize];
        let mut best: Option<(u64, u32)> = None;
        let (mut seen, mut last) = (0, *from);
        for step in 0..count {
            last = (*from + step) % count;
            let section = &self.all[last as usize];
            if section.state != SectionState::Closed || section.under_way > 0 || section.valid == self.blocks {
                continue;
            }
            let cost = match policy {
                Policy::Greedy => u64::from(section.valid),
                Policy::CostBenefit => {
                    let used = u64::from(section.valid) * 100 / u64::from(self.blocks);
                    let age = (now - section.changed) * 100 / now.max(1);
                    u64::MAX - 100 * (100 - used) * age / (100 + used)
                }
            };
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, last));
            }
            seen += 1;
            if seen == SEARCH_MAX {
                break;
            }
        }
        *from = (last + 1) % count;
        best.map(|(_, number)| number)
    }

    fn change(&mut self, piece: Piece, now: u64) {
        let section = &mut self.all[piece.section as usize];
        let segments = self.blocks / SEGMENT;
        section.changed += (now - section.changed.min(now)) / u64::from(segments);
        let last = (piece.offset + piece.blocks.max(1) - 1) / SEGMENT;
        for segment in piece.offset / SEGMENT..=last {
            self.changed_segments.insert(piece.section * segments + segment);
        }
    }

    fn look(&mut self, number: u32) {
        let section = &mut self.all[number as usize];
        if section.state == SectionState::Closed && section.valid == 0 && section.under_way == 0 {
            section.state = SectionState::Prefree;
            section.entries = Vec::new();
            self.prefree.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(sections: &mut Sections, valid: u32) -> u32 {
        let number = sections.open_next(0).unwrap();
        let piece = sections.take(number, u32::MAX, 1);
        sections.written(piece, Some(Owner::Data { slot: 0, block: 0 }));
        if valid < piece.blocks {
            sections.invalidate(Piece { blocks: piece.blocks - valid, ..piece }, 1);
        }
        number
    }

    /// LAB-FS-1 and LAB-FS-2.
    #[test]
    fn a_section_is_free_again_only_by_a_checkpoint() {
        let mut sections = Sections::new(2, 1024);
        let number = sections.open_next(0).unwrap();
        let first = sections.take(number, 1000, 1);
        let second = sections.take(number, 1000, 1);
        assert_eq!((first.blocks, second.blocks), (1000, 24));
        sections.written(first, None);
        assert_eq!(sections.prefree_count(), 0);
        sections.written(second, Some(Owner::Data { slot: 0, block: 0 }));
        sections.invalidate(second, 2);
        assert_eq!((sections.prefree_count(), sections.free_count()), (1, 1));
        let prefree = sections.take_prefree();
        sections.freed(prefree[0]);
        assert_eq!((sections.prefree_count(), sections.free_count()), (0, 2));
    }

    #[test]
    fn the_least_valid_section_is_the_victim() {
        let mut sections = Sections::new(8, 1024);
        for valid in [1024, 500, 100, 700] {
            filled(&mut sections, valid);
        }
        assert_eq!(sections.victim(Policy::Greedy, 10), Some(2));
        // As old as the others and least valid: also the best by cost and benefit.
        assert_eq!(sections.victim(Policy::CostBenefit, 10), Some(2));
    }

    #[test]
    fn a_full_drive_of_valid_sections_has_no_victim() {
        let mut sections = Sections::new(2, 1024);
        filled(&mut sections, 1024);
        filled(&mut sections, 1024);
        assert_eq!(sections.victim(Policy::Greedy, 10), None);
        assert_eq!(sections.open_next(0), None);
    }
}
