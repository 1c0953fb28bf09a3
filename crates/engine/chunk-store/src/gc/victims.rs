//! Choice of the victim: the zone with the best score among those that are sure to win space.
//!
//! # Invariants
//! - CS-VICTIM-1: the choice is that of a look at every zone; those are passed over that cannot score higher.
//! - CS-VICTIM-2: a choice looks at [`LOOK_MAX`] zones of a stream at most, those in which least lives. On a drive with
//!   more victims of which none can be passed over it is the best of these. `a_choice_among_75_000_zones_looks_at_few`.
//! - CS-VICTIM-3: a zone is a victim if emptying it wins something whatever records it holds
//!   ([`gain`](crate::zones::census::gain)); the records of other zones do not count.
//!   `one_long_record_keeps_no_other_zone_from_being_emptied`.
//! - CS-VICTIM-4: where another stream's destination would have to be ended for a victim, those of the streams that have
//!   one come first. Else two streams could end each other's, and what was moved last, with little in it, would be the
//!   best victim again. `gc_of_streams_that_share_a_destination_comes_to_an_end`.

use shingle_base::ZoneId;

use crate::gc::Lifetimes;
use crate::gc::policy::{Candidate, VictimPolicy};
use crate::types::Stream;
use crate::zones::ZoneTable;

/// The most zones of a stream that one choice looks at.
pub(crate) const LOOK_MAX: usize = 2048;

/// Inputs of a choice, beside the zones.
pub(crate) struct Choice<'a> {
    pub(crate) policy: &'a dyn VictimPolicy,
    pub(crate) lifetimes: &'a Lifetimes,
    /// The last sequence number.
    pub(crate) now: u64,
    /// Records until free zones run out.
    pub(crate) horizon: u64,
    /// Blocks of records that a zone holds.
    pub(crate) zone_room: u32,
    /// Blocks left in destinations, by stream.
    pub(crate) room: [u64; 3],
    /// No zone is left to move to but destinations.
    pub(crate) full: bool,
    /// The least garbage that is worth the work.
    pub(crate) least: u32,
}

impl Choice<'_> {
    /// The best zone to empty, if emptying zones of its stream is sure to win a whole one.
    ///
    /// If records do not fit together, a zone they are moved to keeps less room than the longest record of the zone
    /// that is being emptied then, L. If n zones with garbage g filled n others, n - 1 of these would have been left,
    /// so (n - 1) room <= sum(room - g + L) - min(L), which sum(g - L) >= room - min(L) excludes. Zones with no more
    /// garbage than L never count, so GC cannot go in circles.
    ///
    /// If no zone is left to move to, only records that fit behind earlier moves can go.
    pub(crate) fn of(&self, zones: &mut ZoneTable) -> Option<ZoneId> {
        self.among(zones, &Stream::ALL)
    }

    /// The same among zones of some streams.
    pub(crate) fn among(&self, zones: &mut ZoneTable, streams: &[Stream]) -> Option<ZoneId> {
        zones.settle();
        let mut best: Option<(f64, ZoneId)> = None;
        for &stream in streams {
            self.best_of(zones, stream, &mut best);
        }
        best.map(|(_, zone)| zone)
    }

    fn best_of(&self, zones: &ZoneTable, stream: Stream, best: &mut Option<(f64, ZoneId)>) {
        let at = stream.slot();
        let census = zones.census();
        let oldest = self.now.saturating_sub(census.oldest(at).unwrap_or(self.now));
        let wins = !self.full && self.wins(zones, at);
        for (live, number) in census.victims(at).take(LOOK_MAX) {
            let garbage = self.zone_room.saturating_sub(live);
            let fits = u64::from(live) <= self.room[at];
            // None behind it has less that lives.
            if garbage < self.least || !(fits || wins) {
                return;
            }
            if best.is_some_and(|(score, _)| self.policy.score_max(live, garbage, oldest) < score) {
                return;
            }
            let zone = zones.number(number);
            let age = self.now.saturating_sub(zones.get(zone).last_write);
            let survival = self.lifetimes.survival(stream, age, self.horizon);
            let score = self.policy.score(&Candidate { zone, live, garbage, age, survival });
            let better = best.is_none_or(|(most, first)| match score.total_cmp(&most) {
                std::cmp::Ordering::Greater => true,
                std::cmp::Ordering::Equal => zone < first,
                std::cmp::Ordering::Less => false,
            });
            if better {
                *best = Some((score, zone));
            }
        }
    }

    /// True if zones of a stream hold so much garbage that a whole zone can be won.
    fn wins(&self, zones: &ZoneTable, at: usize) -> bool {
        let need = self.zone_room.saturating_sub(zones.census().shortest(at));
        self.room[at] + zones.census().gains(at) >= u64::from(need)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::gc::{CostBenefit, ExpectedDeath, Greedy};
    use crate::types::ZoneStatus;
    use shingle_base::Blocks;
    use shingle_sim::Random;

    /// A look at every zone.
    fn full_scan(choice: &Choice<'_>, zones: &ZoneTable) -> Option<ZoneId> {
        let (mut gains, mut shortest) = (choice.room, [u32::MAX; 3]);
        let candidates: Vec<(Stream, Candidate)> = zones
            .iter()
            .filter(|(_, zone)| {
                zone.status == ZoneStatus::Closed && !zone.damaged && zone.resting.is_none() && zone.landed == 0
            })
            .filter_map(|(id, zone)| {
                let garbage = choice.zone_room.saturating_sub(zone.live);
                if garbage <= zone.longest {
                    return None;
                }
                gains[zone.stream.slot()] += u64::from(garbage - zone.longest);
                let least = &mut shortest[zone.stream.slot()];
                *least = zone.longest.min(*least);
                let age = choice.now.saturating_sub(zone.last_write);
                let survival = choice.lifetimes.survival(zone.stream, age, choice.horizon);
                Some((zone.stream, Candidate { zone: id, live: zone.live, garbage, age, survival }))
            })
            .collect();
        candidates
            .into_iter()
            .filter(|(stream, candidate)| {
                let fits = choice.room[stream.slot()] >= u64::from(candidate.live);
                let need = choice.zone_room.saturating_sub(shortest[stream.slot()]);
                let wins = gains[stream.slot()] >= u64::from(need);
                (fits || wins && !choice.full) && candidate.garbage >= choice.least
            })
            .map(|(_, candidate)| (choice.policy.score(&candidate), candidate.zone))
            .max_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(&left.1)))
            .map(|(_, zone)| zone)
    }

    fn lifetimes(random: &mut Random) -> Lifetimes {
        let mut lifetimes = Lifetimes::new(0);
        if random.chance(0.8) {
            for now in 1..=40 {
                let stream = Stream::ALL[random.below(3) as usize];
                lifetimes.expose(now * 100, [(stream, random.below(4000), 10_000)].into_iter());
                lifetimes.died(stream, random.below(4000), random.below(100_000));
            }
        }
        lifetimes
    }

    /// CS-VICTIM-1 and CS-CENSUS-1: zones change at random, and now and then somebody asks.
    #[test]
    fn the_choice_is_that_of_a_look_at_every_zone() {
        const ROOM: u32 = 60;
        let (mut asked, mut found) = (0, 0);
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let first = random.below(20) as u32;
            let count = 1 + random.below(120) as u32;
            let mut zones = ZoneTable::new(first, count, ROOM);
            let lifetimes = lifetimes(&mut random);
            for _ in 0..400 {
                let zone = ZoneId(first + random.below(u64::from(count)) as u32);
                let slot = zones.get_mut(zone);
                match random.below(5) {
                    0 => slot.stream = Stream::ALL[random.below(3) as usize],
                    1 => (slot.last_write, slot.longest) = (random.below(5000), random.below(20) as u32),
                    2 => (slot.damaged, slot.landed) = (random.chance(0.1), u32::from(random.chance(0.1))),
                    3 => {
                        slot.written = 1 + random.below(u64::from(ROOM) + 1) as u32;
                        slot.live = slot.live.min(slot.written - 1);
                    }
                    _ => {
                        let room = slot.written.saturating_sub(1 + slot.live);
                        if room > 0 {
                            zones.add_live(zone, Blocks(1 + random.below(u64::from(room))));
                        }
                    }
                }
                if random.chance(0.5) {
                    // Mostly closed.
                    let status = if random.chance(0.8) { 3 } else { random.below(5) as usize };
                    zones.set_status(zone, ZoneStatus::ALL[status]);
                }
                if random.chance(0.8) {
                    continue;
                }
                let policies: [&dyn VictimPolicy; 3] = [&Greedy, &CostBenefit, &ExpectedDeath];
                let choice = Choice {
                    policy: policies[random.below(3) as usize],
                    lifetimes: &lifetimes,
                    now: 4000 + random.below(3000),
                    horizon: random.below(10_000),
                    zone_room: ROOM,
                    room: [(); 3].map(|()| random.below(80)),
                    full: random.chance(0.2),
                    least: 1 + random.below(10) as u32,
                };
                let chosen = choice.of(&mut zones);
                assert_eq!(chosen, full_scan(&choice, &zones), "seed {seed}: CS-VICTIM-1");
                (asked, found) = (asked + 1, found + u32::from(chosen.is_some()));
                for status in ZoneStatus::ALL {
                    let all: Vec<ZoneId> =
                        zones.iter().filter(|(_, zone)| zone.status == status).map(|(id, _)| id).collect();
                    assert!(zones.of(status).eq(all.iter().copied()), "seed {seed}: {status:?}");
                    let after = all.iter().find(|id| **id > zone).or(all.first());
                    assert_eq!(zones.next_of(status, zone), after.copied(), "seed {seed}: {status:?}");
                }
                let live: u64 = zones.iter().map(|(_, zone)| u64::from(zone.live)).sum();
                assert_eq!(zones.census().sums().live, live, "seed {seed}: CS-CENSUS-1");
            }
        }
        assert!(found > 500 && asked > found, "{found} of {asked}");
    }

    /// Counts how often it is asked.
    #[derive(Debug)]
    struct Counting(Cell<usize>);

    impl VictimPolicy for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn score(&self, candidate: &Candidate) -> f64 {
            self.0.set(self.0.get() + 1);
            ExpectedDeath.score(candidate)
        }

        fn score_max(&self, live: u32, garbage: u32, age: u64) -> f64 {
            ExpectedDeath.score_max(live, garbage, age)
        }
    }

    /// A table of closed zones, of which `describe` says what lives and how long the longest record is.
    fn closed(count: u32, room: u32, describe: impl Fn(u32) -> (u32, u32)) -> ZoneTable {
        let mut zones = ZoneTable::new(0, count, room);
        for zone in (0..count).map(ZoneId) {
            zones.set_status(zone, ZoneStatus::Closed);
            let slot = zones.get_mut(zone);
            (slot.live, slot.longest) = describe(zone.0);
            (slot.written, slot.last_write) = (room + 1, 1);
        }
        zones
    }

    fn choice<'a>(policy: &'a dyn VictimPolicy, lifetimes: &'a Lifetimes, zone_room: u32) -> Choice<'a> {
        let (room, full, least) = ([0; 3], false, 1);
        Choice { policy, lifetimes, now: 1000, horizon: 1_000_000, zone_room, room, full, least }
    }

    /// CS-VICTIM-2: all alike, and most of what lives is expected to die, so that no bound passes any of them over.
    #[test]
    fn a_choice_among_75_000_zones_looks_at_few() {
        let mut lifetimes = Lifetimes::new(0);
        lifetimes.expose(1, [(Stream::Data, 900, 1_000_000)].into_iter());
        lifetimes.died(Stream::Data, 900, 900_000);
        let mut zones = closed(75_000, 4095, |_| (2000, 10));
        let counting = Counting(Cell::new(0));
        assert!(choice(&counting, &lifetimes, 4095).of(&mut zones).is_some());
        assert_eq!(counting.0.get(), LOOK_MAX);
    }

    /// CS-VICTIM-3: one zone holds a record of half a zone; all others have a third of garbage and short records.
    #[test]
    fn one_long_record_keeps_no_other_zone_from_being_emptied() {
        let lifetimes = Lifetimes::new(0);
        let mut zones = closed(100, 60, |zone| if zone == 7 { (40, 30) } else { (40, 3) });
        let chosen = choice(&Greedy, &lifetimes, 60).of(&mut zones);
        assert!(chosen.is_some_and(|zone| zone != ZoneId(7)), "{chosen:?}");
        let mut long = closed(100, 60, |_| (40, 30));
        assert_eq!(choice(&Greedy, &lifetimes, 60).of(&mut long), None, "two of these fit in no zone");
    }
}
