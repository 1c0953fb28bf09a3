//! Verdicts on a zone's pairs: which count, and where the zone ends (TL-REC-2, TL-REC-3).

use shingle_base::ZoneId;
use shingle_record::Pair;

use super::report::{RecoveryReport, Unknown};

/// Blocks of a zone, as a scan found them.
#[derive(Clone, Debug)]
pub(super) enum Stretch {
    /// A pair that is whole.
    Whole(Pair),
    /// A pair that is not, but whose names are known.
    Damaged {
        pair: Pair,
        blocks: u32,
        /// Some of it cannot be read; if not, some of it fails its check.
        unreadable: bool,
    },
    /// Blocks of which nothing is known.
    Unknown { from: u32, to: u32, unreadable: bool },
}

impl Stretch {
    /// Its first block.
    pub(super) fn from(&self) -> u32 {
        match self {
            Self::Whole(pair) | Self::Damaged { pair, .. } => pair.place.block,
            Self::Unknown { from, .. } => *from,
        }
    }
}

/// Pairs that count, and the zone's end.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) pairs: Vec<Pair>,
    /// The block behind the last pair that counts.
    pub(super) end: u32,
    /// Nothing that does not count lies behind it.
    pub(super) clean: bool,
    /// Pairs that count lie behind blocks that do not. These would pass for damage once all is durable.
    pub(super) scarred: bool,
}

/// Judges a zone. `ended` is its end, if the journal has it: all before was durable. `subsets`: of writes that were not flushed a power cut
/// leaves any blocks, and not only the first ones; elsewhere what lies before a header or trailer that is there was there, too.
pub(super) fn judge(
    zone: ZoneId,
    stretches: &[Stretch],
    ended: Option<u32>,
    subsets: bool,
    report: &mut RecoveryReport,
) -> Judged {
    let durable = stretches.iter().filter_map(|stretch| match stretch {
        Stretch::Whole(pair) | Stretch::Damaged { pair, .. } if subsets => Some(pair.durable),
        Stretch::Whole(pair) | Stretch::Damaged { pair, .. } => Some(pair.place.block),
        Stretch::Unknown { .. } => None,
    });
    let durable = durable.max().unwrap_or(0).max(ended.unwrap_or(0));
    let mut judged = Judged { clean: true, ..Judged::default() };
    for stretch in stretches {
        match stretch {
            Stretch::Whole(pair) => {
                judged.end = pair.place.block + shingle_record::pair_blocks(pair.length()).0 as u32;
                judged.scarred |= !judged.clean;
                judged.clean = true;
                judged.pairs.push(pair.clone());
            }
            Stretch::Damaged { pair, blocks, unreadable } if *unreadable || durable > pair.place.block => {
                let from = pair.place.block;
                if subsets && durable <= from {
                    // Perhaps it was torn, and perhaps acknowledged: only who can read all of it knows (TL-REC-2).
                    report.unknown.push(Unknown { zone, from, to: from + blocks, unreadable: true });
                }
                report.damaged.push((pair.place.zone, pair.place.block));
                judged.end = pair.place.block + blocks;
                judged.scarred |= !judged.clean;
                judged.clean = false;
                judged.pairs.push(pair.clone());
            }
            Stretch::Unknown { from, to, unreadable } if *unreadable || durable > *from => {
                report.unknown.push(Unknown { zone, from: *from, to: *to, unreadable: *unreadable });
                judged.clean = false;
            }
            Stretch::Damaged { .. } | Stretch::Unknown { .. } => {
                report.torn.push((zone, stretch.from()));
                judged.clean = false;
            }
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use shingle_base::StoreId;
    use shingle_record::{Name, NameKind, Numbering, RecordPlace};

    use super::*;

    /// A pair of two blocks, written when those before `durable` were.
    fn pair(block: u32, durable: u32) -> Pair {
        Pair {
            kind: crate::format::PAIR,
            place: RecordPlace { store: StoreId(1), epoch: 5, zone: ZoneId(3), block },
            sequence: u64::from(block),
            sector_shift: 12,
            durable,
            next: None,
            numbering: Numbering::Consecutive,
            names: vec![Name { lba: 7, sectors: 1, kind: NameKind::Data, number: u64::from(block) }],
        }
    }

    fn damaged(block: u32, durable: u32, unreadable: bool) -> Stretch {
        Stretch::Damaged { pair: pair(block, durable), blocks: 2, unreadable }
    }

    fn unknown(from: u32, to: u32, unreadable: bool) -> Stretch {
        Stretch::Unknown { from, to, unreadable }
    }

    /// Blocks of the pairs that count, the zone's end, and whether it is clean and scarred.
    fn judged(stretches: &[Stretch], ended: Option<u32>) -> (Vec<u32>, u32, bool, bool) {
        judged_on(stretches, ended, true)
    }

    fn judged_on(stretches: &[Stretch], ended: Option<u32>, subsets: bool) -> (Vec<u32>, u32, bool, bool) {
        let judged = judge(ZoneId(3), stretches, ended, subsets, &mut RecoveryReport::default());
        let blocks = judged.pairs.iter().map(|pair| pair.place.block).collect();
        (blocks, judged.end, judged.clean, judged.scarred)
    }

    fn whole(block: u32, durable: u32) -> Stretch {
        Stretch::Whole(pair(block, durable))
    }

    /// TL-REC-2
    #[test]
    fn a_pair_is_torn_only_if_nothing_says_that_it_was_durable() {
        assert_eq!(judged(&[whole(1, 0), damaged(3, 1, false)], None), (vec![1], 3, false, false));
        assert_eq!(judged(&[whole(1, 0), unknown(3, 9, false)], None), (vec![1], 3, false, false));
        assert_eq!(judged(&[whole(1, 0), damaged(3, 1, false)], Some(5)), (vec![1, 3], 5, false, false));
        let behind = [whole(1, 0), damaged(3, 1, false), whole(5, 5)];
        assert_eq!(judged(&behind, None), (vec![1, 3, 5], 7, true, true));
        // Both of one command.
        let behind = [whole(1, 0), damaged(3, 1, false), whole(5, 1)];
        assert_eq!(judged_on(&behind, None, false), (vec![1, 3, 5], 7, true, true));
    }

    /// TL-REC-2: where a power cut leaves any blocks of a write, those that cannot be read may never have been there.
    #[test]
    fn a_pair_that_cannot_be_read_and_may_be_torn_is_not_decided() {
        let unknown = |stretches: &[Stretch], subsets| {
            let mut report = RecoveryReport::default();
            let judged = judge(ZoneId(3), stretches, None, subsets, &mut report);
            (judged.pairs.len(), report.unknown.iter().map(|place| (place.from, place.to)).collect::<Vec<_>>())
        };
        let last = [whole(1, 0), damaged(3, 1, true)];
        assert_eq!(unknown(&last, true), (2, vec![(3, 5)]), "it counts for those who go on all the same");
        assert_eq!(unknown(&last, false), (2, vec![]), "its last block is there, and so are all others");
        let known = [whole(1, 0), damaged(3, 1, true), whole(5, 5)];
        assert_eq!(unknown(&known, true), (3, vec![]), "a pair behind it says that it was durable");
    }

    /// TL-REC-4
    #[test]
    fn a_torn_pair_before_others_is_a_scar() {
        let behind = [whole(1, 0), damaged(3, 1, false), whole(5, 3)];
        assert_eq!(judged(&behind, None), (vec![1, 5], 7, true, true));
    }

    /// TL-REC-3
    #[test]
    fn blocks_that_cannot_be_read_are_never_torn() {
        assert_eq!(judged(&[whole(1, 0), damaged(3, 1, true)], None), (vec![1, 3], 5, false, false));
        let mut report = RecoveryReport::default();
        judge(ZoneId(3), &[whole(1, 0), unknown(3, 9, true)], None, false, &mut report);
        assert_eq!(report.unknown, [Unknown { zone: ZoneId(3), from: 3, to: 9, unreadable: true }]);
        judge(ZoneId(3), &[unknown(1, 3, false), whole(3, 3)], None, false, &mut report);
        assert_eq!(report.unknown.len(), 2, "it was durable, so it is damage");
        assert_eq!(report.torn, []);
    }
}
