//! A file: its blocks' places, and its nodes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sections::Piece;
use super::temperature::Temperature;
use crate::baseline::frame::Frame;

/// Addresses in an inode.
const IN_INODE: u32 = 923;
/// Addresses in a direct node, and direct nodes in an indirect one.
const IN_NODE: u32 = 1018;
/// Direct nodes that the inode names itself.
const DIRECT: u32 = 2;
/// Numbers of indirect nodes begin here; the inode is node 0, direct nodes follow.
pub(crate) const INDIRECT: u32 = 1 << 24;

/// A node: an inode, a direct or an indirect one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Its number in the node address table.
    pub(crate) nid: u32,
    /// Its place, once it was written.
    pub(crate) at: Option<Piece>,
    /// Number of its last write, which counts even if an earlier one completes later.
    pub(crate) write: u64,
}

/// A file of one chunk.
#[derive(Debug)]
pub(crate) struct File {
    /// Tells it from another that had its slot.
    pub(crate) serial: u64,
    /// The log that its data goes to.
    pub(crate) temperature: Temperature,
    pub(crate) frame: Frame,
    /// Blocks that are written, by the first of each run.
    extents: Vec<(u32, Piece)>,
    pub(crate) nodes: BTreeMap<u32, Node>,
    pub(crate) sealed: bool,
}

/// The node with the address of a block.
pub(crate) fn node_of(block: u32) -> u32 {
    if block < IN_INODE { 0 } else { 1 + (block - IN_INODE) / IN_NODE }
}

/// The indirect node that names a direct one, if the inode does not.
pub(crate) fn parent_of(node: u32) -> Option<u32> {
    (node > DIRECT && node < INDIRECT).then(|| INDIRECT + (node - DIRECT - 1) / IN_NODE)
}

impl File {
    pub(super) fn new(serial: u64, temperature: Temperature) -> Self {
        Self {
            serial,
            temperature,
            frame: Frame::default(),
            extents: Vec::new(),
            nodes: BTreeMap::new(),
            sealed: false,
        }
    }

    pub(crate) fn extents(&self) -> &[(u32, Piece)] {
        &self.extents
    }

    /// Blocks from `block` on are in `piece`.
    pub(crate) fn add(&mut self, block: u32, piece: Piece) {
        let at = self.extents.partition_point(|extent| extent.0 < block);
        self.extents.insert(at, (block, piece));
    }

    /// True if blocks from `block` on are in `piece`, and nowhere else.
    pub(crate) fn names(&self, block: u32, piece: Piece) -> bool {
        let at = self.extents.partition_point(|extent| extent.0 < block);
        self.extents.get(at) == Some(&(block, piece))
    }

    /// Blocks from `block` on, which were one run, are in `pieces` now.
    pub(crate) fn replace(&mut self, block: u32, pieces: &[Piece]) {
        let at = self.extents.partition_point(|extent| extent.0 < block);
        let mut next = block;
        let moved = pieces.iter().map(|&piece| {
            next += piece.blocks;
            (next - piece.blocks, piece)
        });
        self.extents.splice(at..at + 1, moved);
    }

    /// Places of blocks; unwritten ones are left out.
    pub(crate) fn locate(&self, blocks: &Range<u32>) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(1);
        let from = self.extents.partition_point(|extent| extent.0 <= blocks.start).saturating_sub(1);
        for &(first, piece) in self.extents.get(from..).unwrap_or_default() {
            let (begin, end) = (first.max(blocks.start), (first + piece.blocks).min(blocks.end));
            if first >= blocks.end {
                break;
            }
            if begin < end {
                pieces.push(Piece { offset: piece.offset + begin - first, blocks: end - begin, ..piece });
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_cover_a_file() {
        assert_eq!([0, 922, 923, 1940, 1941].map(node_of), [0, 0, 1, 1, 2]);
        assert_eq!(
            [1, 2, 3, 1020, 1021].map(parent_of),
            [None, None, Some(INDIRECT), Some(INDIRECT), Some(INDIRECT + 1)]
        );
    }

    #[test]
    fn a_moved_run_is_found_in_its_pieces() {
        let piece = |section, offset, blocks| Piece { section, offset, blocks };
        let mut file = File::new(1, Temperature::WarmData);
        file.add(10, piece(1, 100, 10));
        file.add(0, piece(2, 0, 10));
        assert!(file.names(0, piece(2, 0, 10)));
        file.replace(0, &[piece(3, 90, 4), piece(4, 0, 6)]);
        assert!(!file.names(0, piece(2, 0, 10)));
        assert_eq!(file.locate(&(2..12)), [piece(3, 92, 2), piece(4, 0, 6), piece(1, 100, 2)]);
    }
}
