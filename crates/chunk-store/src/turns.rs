//! Which zone is written next.
//!
//! On a disk a visit to a zone costs a seek and part of a turn whatever is written there, so that few long visits beat
//! many short ones: zones that have something to write wait for their turn, and meanwhile more gathers for them. Turns
//! go in the order of zones, from one end of the drive to the other and again (C-LOOK), so that ways are short.
//!
//! # Invariants
//! - TURN-1: a zone that waits is visited within one round of those that wait with it.

use std::collections::BTreeSet;

use shingle_base::ZoneId;

/// Zones that wait for their turn, and how many have it.
#[derive(Debug)]
pub(crate) struct Turns {
    waiting: BTreeSet<ZoneId>,
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
        Self { waiting: BTreeSet::new(), taken: 0, most: most.max(1), last: ZoneId(0) }
    }

    /// A zone has something to write.
    pub(crate) fn wait(&mut self, zone: ZoneId) {
        self.waiting.insert(zone);
    }

    /// The zone whose turn it is, unless enough have theirs. Each turn taken must [end](Self::end).
    pub(crate) fn take(&mut self) -> Option<ZoneId> {
        if self.taken == self.most {
            return None;
        }
        let next = self.waiting.range(ZoneId(self.last.0.saturating_add(1))..).next();
        let zone = *next.or_else(|| self.waiting.first())?;
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
        assert_eq!((turns.take(), turns.take(), turns.take()), (Some(ZoneId(2)), Some(ZoneId(5)), None));
        turns.wait(ZoneId(3));
        turns.end();
        assert_eq!(turns.take(), Some(ZoneId(9)), "the round goes on upwards");
        turns.end();
        assert_eq!(turns.take(), Some(ZoneId(3)), "and then begins again");
    }

    #[test]
    fn no_zone_waits_longer_than_a_round() {
        let mut turns = Turns::new(1);
        (0..50).for_each(|zone| turns.wait(ZoneId(zone)));
        let mut since = [0u32; 50];
        for _ in 0..5000 {
            let zone = turns.take().unwrap();
            turns.end();
            since.iter_mut().for_each(|since| *since += 1);
            assert!(since[zone.0 as usize] <= 50, "{zone} waited");
            since[zone.0 as usize] = 0;
            turns.wait(zone);
        }
    }
}
