//! Assignment of a segment's fragments to the members of a set.
//!
//! Parity goes round: within a set too, so that an object that lies in one set is read off all of its drives. It stays
//! for some segments at a time: a drive that reads on seeks over what it is not asked for.

use shingle_base::Blocks;
use shingle_erasure::Code;

use super::Shape;
use crate::format::Member;

/// Full segments after which fragments move on by a member.
const SEGMENTS: u32 = 4;

/// Rotation of fragments in the sets of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    width: usize,
    /// Blocks of a zone after which they move on.
    blocks: u32,
}

impl Rotation {
    /// For segments of up to that many bytes.
    pub(crate) fn new(code: Code, segment_length: u32) -> Self {
        let Blocks(blocks) = Shape::new(code, segment_length).fragment_blocks();
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).saturating_mul(SEGMENTS).max(1);
        Self { width: code.width(), blocks }
    }

    fn shift(self, block: u32) -> usize {
        (block / self.blocks) as usize % self.width
    }

    /// Members in the order of the fragments that begin at `block`; `members` are in the set's order.
    pub(crate) fn in_order(self, mut members: Vec<Member>, block: u32) -> Vec<Member> {
        let shift = self.shift(block) % members.len().max(1);
        members.rotate_left(shift);
        members
    }

    /// Values of fragments that begin at `block`, in their order, put in the order of the set's members.
    pub(crate) fn by_member<T>(self, mut fragments: Vec<T>, block: u32) -> Vec<T> {
        let shift = self.shift(block) % fragments.len().max(1);
        fragments.rotate_right(shift);
        fragments
    }

    /// The fragment that a member has, of those that begin at `block`.
    pub(crate) fn fragment_of(self, member: usize, block: u32) -> usize {
        (member + self.width - self.shift(block)) % self.width
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::ZoneId;

    use super::*;
    use crate::types::DriveId;

    #[test]
    fn every_member_has_every_fragment_in_its_turn() {
        let code = Code::new(5, 1).unwrap();
        let rotation = Rotation::new(code, 20 << 20);
        let members: Vec<Member> = (0..6).map(|drive| Member { drive: DriveId(drive), zone: ZoneId(9) }).collect();
        let mut parity_on = [0; 6];
        for segment in 0..60 {
            let block = 2 + segment * 1028;
            let ordered = rotation.in_order(members.clone(), block);
            let fragments = rotation.by_member((0..6).collect(), block);
            for (number, member) in members.iter().enumerate() {
                let fragment = rotation.fragment_of(number, block);
                assert_eq!((ordered[fragment], fragments[number]), (*member, fragment));
            }
            parity_on[usize::from(ordered[5].drive.0)] += 1;
        }
        assert!(parity_on.iter().all(|&times| (8..=12).contains(&times)), "{parity_on:?}");
    }
}
