//! Which zones form sets. (SMORE, section III-B.)

use shingle_base::ZoneId;

use crate::format::Member;
use crate::types::DriveId;

/// Drives are taken in the same groups for so many rounds at most...
const STAYS_MAX: usize = 64;

/// ...and fewer where there are not zones enough to go round so often.
const ROUNDS_MIN: usize = 4;

/// Forms as many sets of `width` zones as the free zones allow, each of `width` different drives; lists are in
/// ascending order of zones. Zones are taken from the start of a drive first, so that a set's zones are about equally
/// fast and sets fill from the outside in.
///
/// Each set takes its zones from the drives with the most left: that forms the most sets that can be formed. Where
/// drives have equally many, it goes round, so that every drive shares sets with every other and a rebuild reads from
/// all of them. (Parity declustering, section VI-C.) It goes round slowly: sets that follow each other are on the same drives or on
/// others, so that several can be written side by side.
pub(crate) fn form_sets(free: &[(DriveId, Vec<ZoneId>)], width: usize) -> Vec<Vec<Member>> {
    let mut taken = vec![0; free.len()];
    let mut sets = Vec::new();
    let zones = free.iter().map(|(_, zones)| zones.len()).max().unwrap_or(0);
    let stays = (zones / (ROUNDS_MIN * free.len().max(1))).clamp(1, STAYS_MAX);
    loop {
        // A round takes a zone of every drive.
        let turn = sets.len() * width / free.len().max(1) / stays;
        let left = |at: usize| free[at].1.len() - taken[at];
        let mut order: Vec<usize> = (0..free.len()).filter(|&at| left(at) > 0).collect();
        if order.len() < width || width == 0 {
            return sets;
        }
        order.sort_by_key(|&at| (std::cmp::Reverse(left(at)), (at + free.len() - turn % free.len()) % free.len()));
        order.truncate(width);
        // Members in the order of drives; which fragment goes to which member is turned by the set's number.
        order.sort_unstable();
        let members = order.iter().map(|&at| Member { drive: free[at].0, zone: free[at].1[taken[at]] }).collect();
        order.iter().for_each(|&at| taken[at] += 1);
        sets.push(members);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(zones: &[u32]) -> Vec<(DriveId, Vec<ZoneId>)> {
        zones.iter().enumerate().map(|(at, &count)| (DriveId(at as u8), (0..count).map(ZoneId).collect())).collect()
    }

    #[test]
    fn every_zone_of_equal_drives_is_used_once() {
        for (drives, width) in [(6, 6), (7, 6), (12, 6), (20, 20), (5, 2)] {
            let sets = form_sets(&free(&vec![60; drives]), width);
            assert_eq!(sets.len(), drives * 60 / width);
            let mut all: Vec<Member> = sets.concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), sets.len() * width);
            for set in sets {
                assert!(set.windows(2).all(|pair| pair[0].drive < pair[1].drive));
            }
        }
    }

    #[test]
    fn large_drives_are_used_as_far_as_others_match_them() {
        // 100 zones of one drive face 30 + 30 of the others: 60 pairs.
        assert_eq!(form_sets(&free(&[100, 30, 30]), 2).len(), 60);
        assert_eq!(form_sets(&free(&[10, 10]), 3), Vec::<Vec<Member>>::new());
    }
}
