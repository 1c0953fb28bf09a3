//! Order in which zones are written.
//!
//! On a disk a visit to a zone costs a seek and part of a revolution whatever is written there, so that few long visits
//! beat many short ones: zones that have something to write wait for their turn, and meanwhile more gathers for them.
//! Turns go in the order of zones, from one end of the drive to the other and again (C-LOOK), so that ways are short; a
//! zone for which little has gathered yet, beside others, is passed over twice.
//!
//! # Invariants
//! - CS-TURN-1: a zone that waits is visited within three rounds of those that wait with it.

use std::collections::BTreeMap;
use std::ops::Bound;

use shingle_base::ZoneId;

/// A zone is passed over that has less than this share of the most that waits for any.
const LITTLE: (u64, u64) = (3, 5);

/// Times that a zone may be passed over.
const PASSES_MAX: u8 = 2;

/// Zones that wait for their turn, and how many have it.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Times that each was passed over.
    waiting: BTreeMap<ZoneId, u8>,
    /// Writes under way.
    taken: u32,
    /// The most of them.
    most: u32,
    /// The zone that last had its turn.
    last: ZoneId,
}

impl Turns {
    /// Turns of at most `most` zones at once.
    pub(crate) fn new(most: u32) -> Self {
        Self { waiting: BTreeMap::new(), taken: 0, most: most.max(1), last: ZoneId(0) }
    }

    /// A zone has something to write.
    pub(crate) fn wait(&mut self, zone: ZoneId) {
        self.waiting.insert(zone, 0);
    }

    /// The zone whose turn it is, unless enough have theirs; `queued` says how much waits for a zone. Each turn taken
    /// must [end](Self::end).
    pub(crate) fn take(&mut self, queued: impl Fn(ZoneId) -> u32) -> Option<ZoneId> {
        if self.taken == self.most {
            return None;
        }
        let most = self.waiting.keys().map(|&zone| u64::from(queued(zone))).max()?;
        let has_enough = |zone| u64::from(queued(zone)) * LITTLE.1 >= most * LITTLE.0;
        let (ahead, behind) = (Bound::Excluded(self.last), Bound::Included(self.last));
        let mut chosen = None;
        for range in [(ahead, Bound::Unbounded), (Bound::Unbounded, behind)] {
            let mut round = self.waiting.range_mut(range);
            chosen = chosen.or_else(|| {
                round.find_map(|(&zone, passes)| {
                    let goes = *passes >= PASSES_MAX || has_enough(zone);
                    *passes += u8::from(!goes);
                    goes.then_some(zone)
                })
            });
        }
        let zone = chosen?;
        self.waiting.remove(&zone);
        self.last = zone;
        self.taken += 1;
        Some(zone)
    }

    /// A turn is over.
    pub(crate) fn end(&mut self) {
        self.taken -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_round_and_never_exceed_the_limit() {
        let mut turns = Turns::new(2);
        for zone in [5, 9, 2] {
            turns.wait(ZoneId(zone));
        }
        let take = |turns: &mut Turns| turns.take(|_| 1).map(|zone| zone.0);
        assert_eq!([take(&mut turns), take(&mut turns), take(&mut turns)], [Some(2), Some(5), None]);
        turns.wait(ZoneId(3));
        turns.end();
        assert_eq!(take(&mut turns), Some(9), "the round goes on upwards");
        turns.end();
        assert_eq!(take(&mut turns), Some(3), "and then begins again");
    }

    #[test]
    fn a_zone_with_little_to_write_is_passed_over_twice() {
        let mut turns = Turns::new(1);
        (1..=3).for_each(|zone| turns.wait(ZoneId(zone)));
        let order = [(); 6].map(|()| {
            let zone = turns.take(|zone| if zone == ZoneId(1) { 2 } else { 4 }).unwrap();
            turns.end();
            turns.wait(zone);
            zone.0
        });
        assert_eq!(order, [2, 3, 2, 3, 1, 2]);
    }

    /// CS-TURN-1.
    #[test]
    fn no_zone_waits_longer_than_three_rounds() {
        let mut turns = Turns::new(1);
        (0..50).for_each(|zone| turns.wait(ZoneId(zone)));
        let mut since = [0u32; 50];
        for _ in 0..5000 {
            let zone = turns.take(|zone| zone.0).unwrap();
            turns.end();
            since.iter_mut().for_each(|since| *since += 1);
            since[zone.0 as usize] = 0;
            assert!(since.iter().all(|&since| since <= 150), "a zone waits: {since:?}");
            turns.wait(zone);
        }
    }
}
