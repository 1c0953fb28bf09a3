//! Formation of sets from zones, and of groups from drives. (SMORE, section III-B; `docs/decisions/0038-groups.md`.)

use std::cmp::Reverse;

use shingle_base::ZoneId;

use crate::format::Member;
use crate::types::{DriveId, DriveSet};

/// Groups of drives that are tried as the first one when groups are chosen.
const BEGINNINGS: usize = 64;

/// Forms as many sets of `width` zones as the free zones allow, each of `width` different drives; lists are in
/// ascending order of zones. Zones are taken from the start of a drive first, so that a set's zones are about equally
/// fast and sets fill from the outside in.
///
/// Each set takes its zones from the drives with the most left: that forms the most sets that can be formed. Drives
/// that have equally many are grouped anew `width` times, so that a drive shares sets with most others and a rebuild
/// reads from all of them (parity declustering, section VI-C); and no more often: as long as drives stay in their
/// groups, sets of different groups can be written side by side.
pub(crate) fn form_sets(free: &[(DriveId, Vec<ZoneId>)], width: usize) -> Vec<Vec<Member>> {
    let drives = free.len();
    let mut taken = vec![0; drives];
    let mut sets = Vec::new();
    let zones = free.iter().map(|(_, zones)| zones.len()).max().unwrap_or(0);
    let stays = (zones / width.max(1)).max(1);
    let strides: Vec<usize> = (1..=drives).filter(|stride| coprime(*stride, drives)).collect();
    loop {
        let left = |at: usize| free[at].1.len() - taken[at];
        let mut order: Vec<usize> = (0..drives).filter(|&at| left(at) > 0).collect();
        if order.len() < width || width == 0 {
            return sets;
        }
        // A round takes a zone of every drive.
        let round = sets.len() * width / drives;
        let grouping = round / stays;
        let stride = strides[grouping % strides.len()];
        order.sort_by_key(|&at| (std::cmp::Reverse(left(at)), (at * stride + grouping) % drives));
        order.truncate(width);
        // Members in the order of drives; which fragment goes to which member is turned by the set's number.
        order.sort_unstable();
        let members = order.iter().map(|&at| Member { drive: free[at].0, zone: free[at].1[taken[at]] }).collect();
        order.iter().for_each(|&at| taken[at] += 1);
        sets.push(members);
    }
}

/// Drives for a group, as some sets lie on them, and how many of those are free and open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) free: u32,
    pub(crate) open: u32,
    pub(crate) drives: DriveSet,
}

/// Drives for as many groups as `kept` has, of candidates with free sets: disjoint, as many as can be, with many free
/// sets each. Groups keep those that they have if sets are free there, unless more groups could have some. Groups left
/// over have none.
pub(crate) fn choose_groups(mut candidates: Vec<Candidate>, mut kept: Vec<DriveSet>) -> Vec<DriveSet> {
    candidates.sort_unstable_by_key(|&candidate| Reverse(candidate));
    let free = |home: &DriveSet| candidates.iter().any(|candidate| candidate.drives == *home);
    kept.iter_mut().filter(|home| !free(home)).for_each(|home| *home = DriveSet::EMPTY);
    let beginnings = (0..candidates.len().min(BEGINNINGS)).map(|first| disjoint(&candidates, first, kept.len()));
    let best = beginnings.max_by_key(|found| (found.len(), found.iter().map(|candidate| candidate.free).min()));
    let best = best.unwrap_or_default();
    if best.len() <= kept.iter().filter(|home| **home != DriveSet::EMPTY).count() {
        return kept;
    }
    let mut homes: Vec<DriveSet> = best.into_iter().map(|candidate| candidate.drives).collect();
    homes.sort_unstable();
    homes.resize(kept.len(), DriveSet::EMPTY);
    homes
}

/// Candidates that share no drive, at most `most`: that one, and of the others always the first that does.
fn disjoint(candidates: &[Candidate], first: usize, most: usize) -> Vec<Candidate> {
    let mut found = vec![candidates[first]];
    for candidate in candidates {
        if found.len() == most {
            break;
        }
        if found.iter().all(|other| !other.drives.meets(&candidate.drives)) {
            found.push(*candidate);
        }
    }
    found
}

fn coprime(one: usize, other: usize) -> bool {
    if other == 0 { one == 1 } else { coprime(other, one % other) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn free(zones: &[u32]) -> Vec<(DriveId, Vec<ZoneId>)> {
        zones.iter().enumerate().map(|(at, &count)| (DriveId(at as u8), (0..count).map(ZoneId).collect())).collect()
    }

    /// AS-MEMBER-2.
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
    fn drives_stay_in_their_groups_for_long_and_share_sets_with_most_others() {
        for (drives, width) in [(12, 6), (24, 6), (60, 12), (20, 5), (7, 6), (14, 6)] {
            let sets = form_sets(&free(&vec![240; drives]), width);
            let groups: Vec<Vec<u8>> =
                sets.iter().map(|set| set.iter().map(|member| member.drive.0).collect()).collect();
            let partners: BTreeSet<u8> = groups.iter().filter(|group| group.contains(&0)).flatten().copied().collect();
            assert!(partners.len() > drives * 2 / 3, "{drives} drives: the first shares sets with {}", partners.len());
            if drives % width == 0 {
                let stay = groups.iter().zip(&groups[drives / width..]).filter(|(one, next)| one == next).count();
                assert!(stay > sets.len() * 9 / 10 - 2 * drives, "{drives} drives: {stay} of {} sets stay", sets.len());
            }
        }
    }

    /// Places with free sets, as [`form_sets`] made them; the first `used` are not free.
    fn candidates(drives: usize, width: usize, used: usize) -> Vec<Candidate> {
        let mut candidates: std::collections::BTreeMap<DriveSet, u32> = Default::default();
        for set in &form_sets(&free(&vec![240; drives]), width)[used..] {
            *candidates.entry(set.iter().map(|member| member.drive).collect()).or_default() += 1;
        }
        candidates.into_iter().map(|(drives, free)| Candidate { free, open: 0, drives }).collect()
    }

    /// As an array fills, all of its groups have drives of their own that sets are free on, and they change seldom.
    #[test]
    fn as_many_groups_as_sets_side_by_side_have_drives_until_the_array_is_full() {
        for (drives, width) in [(12, 6), (24, 6), (24, 12), (60, 12)] {
            let side_by_side = drives / width;
            let all = 240 * side_by_side;
            let mut groups = vec![DriveSet::EMPTY; side_by_side];
            let mut changes = 0;
            for used in (0..all - side_by_side).step_by(side_by_side) {
                let next = choose_groups(candidates(drives, width, used), groups.clone());
                assert!(
                    next.iter().all(|home| home.count() as usize == width),
                    "{drives} drives, {used} used: {next:?}"
                );
                for (at, home) in next.iter().enumerate() {
                    assert!(next[..at].iter().all(|other| !other.meets(home)), "{drives} drives, {used} used");
                }
                changes += usize::from(next != groups);
                groups = next;
            }
            assert!(changes <= 2 * width, "{drives} drives: groups change {changes} times");
        }
    }

    #[test]
    fn large_drives_are_used_as_far_as_others_match_them() {
        // 100 zones of one drive face 30 + 30 of the others: 60 pairs.
        assert_eq!(form_sets(&free(&[100, 30, 30]), 2).len(), 60);
        assert_eq!(form_sets(&free(&[10, 10]), 3), Vec::<Vec<Member>>::new());
    }
}
