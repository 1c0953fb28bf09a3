//! Layout of ext4 on a drive: groups of 128 MiB, sixteen to a flexible group whose first holds the bitmaps and inode
//! tables of all, descriptors and the directory at the front, the journal in the middle. (mke2fs's choices for a drive
//! above 4 TB: `-T big`, 64-bit, flex_bg.)

use std::ops::Range;

/// Blocks of a group: as many as a block has bits.
pub(crate) const GROUP: u64 = 32_768;
/// Groups of a flexible group.
const FLEX: u64 = 16;
/// Blocks of a group's inode table: an inode of 256 bytes for every 32 KiB.
const TABLE: u64 = 256;
/// Inodes in a block.
const INODES: u64 = 16;
/// Group descriptors in a block.
const DESCRIPTORS: u64 = 64;
/// Names of 48 digits in a block of a hashed directory that is as full as splitting leaves it.
const NAMES: u64 = 50;
/// Blocks for the one directory.
const DIRECTORY: u64 = 4096;

/// Places of everything that is not data.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    groups: u64,
    /// The journal's blocks.
    pub(crate) journal: Range<u64>,
}

impl Layout {
    /// The layout of a drive of `blocks` blocks; a part of a group at its end is not used.
    pub(crate) fn new(blocks: u64) -> Self {
        let groups = blocks / GROUP;
        let length = if blocks >= 1 << 25 { 1 << 18 } else { (blocks / 32).clamp(64, 1 << 15) };
        let middle = groups / 2 / FLEX * FLEX + 1;
        let start = if groups > 2 * FLEX { middle * GROUP } else { Self::directory_of(groups).end };
        Self { groups, journal: start..start + length }
    }

    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }

    /// Blocks that no file may take.
    pub(crate) fn reserved(&self) -> Vec<Range<u64>> {
        let mut all: Vec<_> = (0..self.groups).step_by(FLEX as usize).map(|group| self.flex(group)).collect();
        all.push(0..self.flex(0).start);
        all.push(Self::directory_of(self.groups));
        all.push(self.journal.clone());
        all
    }

    /// The block with the free bits of a group.
    pub(crate) fn bitmap(&self, group: u64) -> u64 {
        self.flex(group).start + group % FLEX
    }

    /// The block with the free bits of an inode's group.
    pub(crate) fn inode_bitmap(&self, inode: u64) -> u64 {
        let group = inode / (TABLE * INODES);
        self.flex(group).start + FLEX + group % FLEX
    }

    /// The block with an inode.
    pub(crate) fn inode(&self, inode: u64) -> u64 {
        let group = inode / (TABLE * INODES);
        self.flex(group).start + 2 * FLEX + group % FLEX * TABLE + inode / INODES % TABLE
    }

    /// The block with a group's descriptor.
    pub(crate) fn descriptor(&self, group: u64) -> u64 {
        1 + group / DESCRIPTORS
    }

    /// The block with a file's name, by its hash, among `files`.
    pub(crate) fn name(&self, hash: u64, files: u64) -> u64 {
        let area = Self::directory_of(self.groups);
        area.start + hash % (1 + files / NAMES).min(area.end - area.start)
    }

    /// Bitmaps and inode tables of the flexible group of `group`.
    fn flex(&self, group: u64) -> Range<u64> {
        let first = group / FLEX * FLEX;
        let groups = FLEX.min(self.groups - first);
        let front = if first == 0 { 1 + self.groups.div_ceil(DESCRIPTORS) } else { 0 };
        let start = first * GROUP + front;
        start..start + 2 * FLEX + groups * TABLE
    }

    fn directory_of(groups: u64) -> Range<u64> {
        let start = 1 + groups.div_ceil(DESCRIPTORS) + 2 * FLEX + FLEX.min(groups) * TABLE;
        start..start + DIRECTORY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_on_anything_else() {
        for blocks in [4 * GROUP, 100 * GROUP, 3_906_250_000] {
            let layout = Layout::new(blocks);
            let mut areas = layout.reserved();
            areas.sort_by_key(|area| area.start);
            assert!(areas.windows(2).all(|pair| pair[0].end <= pair[1].start), "{blocks}: {areas:?}");
            assert!(areas.iter().all(|area| area.end <= blocks));
            let flex = layout.flex(layout.groups() - 1);
            assert!(flex.contains(&layout.bitmap(layout.groups() - 1)));
            let last = layout.groups() * TABLE * INODES - 1;
            assert!(flex.contains(&layout.inode(last)) && flex.contains(&layout.inode_bitmap(last)));
        }
    }
}
