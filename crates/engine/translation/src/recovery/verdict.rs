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

/// Judges a zone. `ended` is its end, if the journal has it: all before was durable.
pub(super) fn judge(zone: ZoneId, stretches: &[Stretch], ended: Option<u32>, report: &mut RecoveryReport) -> Judged {
    let durable = stretches.iter().filter_map(|stretch| match stretch {
        Stretch::Whole(pair) | Stretch::Damaged { pair, .. } => Some(pair.durable),
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
