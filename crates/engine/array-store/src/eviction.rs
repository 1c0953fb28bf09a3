//! Choice of the drives that the array gives up: a pure decision, without clock or device.
//!
//! # Invariants
//! - AS-EVICT-1: no failure is recorded that leaves a set which may hold something with fewer zones than its data
//!   needs: parity covers all that is recorded, and zones on drives that were taken out. Past that nothing is written
//!   and nothing recorded; a drive that comes back is what it was.
//! - AS-EVICT-2: a drive that answers is given up for its errors alone, and only within AS-EVICT-1. Reads that fail
//!   count as often as places are bad, not as often as these are read: bad blocks are mended, and make no bad drive. Resets
//!   that fail count as often as sets are out of use for them (AS-RESET-1).
//! - AS-EVICT-3: where more drives fail their writes than parity makes up for, the cause is common to them, and none is
//!   given up; nothing is written then, and whoever writes is told.
//! - AS-EVICT-4: no failure is recorded, and nothing written, that leaves no more drives in use than an opening may do
//!   without: the newest superblock would be on those alone (AS-GATHER-4). An array that has no more than twice as many
//!   drives as parity is used all the same: it would serve nobody with as many drives gone as parity makes up for.

use std::collections::VecDeque;

use shingle_base::{Blocks, Lba, ZoneId};

use crate::format::Member;
use crate::types::{DriveId, DriveSet, SetState};

/// A failed command adds so much.
const FAILED: u32 = 4;

/// A command that succeeds takes off so much.
const SUCCEEDED: u32 = 1;

/// A drive with so much is given up: one on which every write fails after eight, one on which fewer than a fifth fail
/// never.
const TOO_MUCH: u32 = 32;

/// Score of a drive's recent write failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Score(u32);

impl Score {
    /// The score behind one more command.
    pub(crate) fn after(self, good: bool) -> Self {
        match good {
            true => Self(self.0.saturating_sub(SUCCEEDED)),
            false => Self((self.0 + FAILED).min(TOO_MUCH)),
        }
    }

    /// The drive is better done without.
    pub(crate) fn is_too_much(self) -> bool {
        self.0 >= TOO_MUCH
    }

    /// It fails often, if not yet too often: what it has in common with others shows before the first is given up.
    pub(crate) fn is_bad(self) -> bool {
        self.0 >= TOO_MUCH / 2
    }
}

/// Places in which reads failed that are remembered.
const PLACES_MAX: usize = 16;

/// Places in one zone that count: a zone that cannot be read any more makes no bad drive.
const PLACES_OF_ZONE: usize = 4;

/// Score of a drive's recent read failures, with their places.
#[derive(Debug, Default)]
pub(crate) struct ReadScore {
    score: Score,
    /// The zone, and the blocks of the read.
    places: VecDeque<(ZoneId, Lba, Lba)>,
}

impl ReadScore {
    /// One more read succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.score = self.score.after(true);
        if self.score == Score::default() {
            self.places.clear();
        }
    }

    /// One more failed; whether the drive is better done without.
    pub(crate) fn failed(&mut self, zone: ZoneId, at: Lba, blocks: Blocks) -> bool {
        let end = at + blocks;
        // Overlapping reads may have failed for one bad block.
        let known = self.places.iter().any(|(_, from, to)| *from < end && at < *to);
        if !known && self.places.iter().filter(|(other, ..)| *other == zone).count() < PLACES_OF_ZONE {
            self.places.truncate(PLACES_MAX - 1);
            self.places.push_front((zone, at, end));
            self.score = self.score.after(false);
        }
        self.score.is_too_much()
    }
}

/// Zones that the set with the fewest left lacks, of those that may hold something.
pub(crate) fn most_lacking<M: AsRef<[Member]>>(
    sets: impl Iterator<Item = (SetState, M)>,
    lost: impl IntoIterator<Item = DriveId>,
) -> usize {
    let lost: DriveSet = lost.into_iter().collect();
    let lacking = |members: M| {
        let drives: DriveSet = members.as_ref().iter().map(|member| member.drive).collect();
        drives.common(&lost) as usize
    };
    sets.filter(|(state, _)| *state != SetState::Empty).map(|(_, members)| lacking(members)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::ZoneId;

    fn after(commands: impl IntoIterator<Item = bool>) -> Score {
        commands.into_iter().fold(Score::default(), Score::after)
    }

    #[test]
    fn a_drive_on_which_all_fails_is_given_up_soon_and_one_with_a_bad_zone_never() {
        assert!(!after([false; 7]).is_too_much());
        assert!(after([false; 8]).is_too_much());
        assert!(after((0..10_000).map(|number| number % 2 == 0)).is_too_much());
        assert!(!after((0..10_000).map(|number| number % 6 != 0)).is_too_much());
        // Many good ones before do not make up for what comes later.
        assert!(after((0..10_000).map(|number| number < 9_990)).is_too_much());
    }

    /// AS-EVICT-2: reads that fail all over the drive, and reads that fail in few places, over and over.
    #[test]
    fn a_drive_is_given_up_for_bad_reads_in_many_places_and_not_for_bad_blocks() {
        let read = |score: &mut ReadScore, zone: u32, at: u64| score.failed(ZoneId(zone), Lba(at), Blocks(10));
        let mut all_over = ReadScore::default();
        let places: Vec<bool> = (0..8).map(|number| read(&mut all_over, number / 4, u64::from(number) * 10)).collect();
        assert_eq!(places, [false, false, false, false, false, false, false, true]);
        // A bad block, in reads that all have it.
        let mut block = ReadScore::default();
        assert!((0..1000).all(|number| !read(&mut block, 7, 1000 + number % 10)));
        // A bad zone.
        let mut zone = ReadScore::default();
        assert!((0..1000).all(|number| !read(&mut zone, 7, 10 * number)));
        // Bad blocks here and there, among many that are good.
        let mut few = ReadScore::default();
        for number in 0..1000 {
            assert!(!read(&mut few, number, 100 * u64::from(number)));
            (0..5).for_each(|_| few.succeeded());
        }
    }

    /// AS-EVICT-1: it counts which sets lose what, and not how many drives there are.
    #[test]
    fn sets_that_hold_nothing_and_drives_of_other_sets_do_not_count() {
        let set = |state, drives: [u8; 3]| {
            (state, drives.map(|drive| Member { drive: DriveId(drive), zone: ZoneId(3) }).to_vec())
        };
        let sets =
            [set(SetState::Closed, [0, 1, 2]), set(SetState::Available, [3, 4, 5]), set(SetState::Empty, [0, 3, 4])];
        let lacking = |lost: &[u8]| most_lacking(sets.iter().cloned(), lost.iter().copied().map(DriveId));
        assert_eq!((lacking(&[]), lacking(&[9]), lacking(&[0])), (0, 0, 1));
        assert_eq!((lacking(&[0, 3]), lacking(&[0, 1]), lacking(&[3, 4, 5])), (1, 2, 3));
    }
}
