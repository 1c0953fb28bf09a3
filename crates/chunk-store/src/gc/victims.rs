//! Which zone is emptied: the one with the best score among those that are sure to win space.
//!
//! # Invariants
//! - VICTIM-1: the choice is that of a look at every zone; those are passed over that cannot score higher.

use shingle_base::ZoneId;

use crate::gc::policy::{Candidate, VictimPolicy};
use crate::gc::{Lifetimes, slot};
use crate::types::Stream;
use crate::zones::ZoneTable;

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
    /// Blocks of the longest record, by stream.
    pub(crate) longest: [u32; 3],
    /// No zone is left to move to but destinations.
    pub(crate) full: bool,
    /// The least garbage that is worth the work.
    pub(crate) least: u32,
}

impl Choice<'_> {
    /// The best zone to empty, if emptying zones of its stream is sure to win a whole one.
    ///
    /// Where records do not fit together, a zone they are moved to keeps room for up to the longest record of the
    /// stream, W. So n zones with garbage g each need at most ceil(sum(room - g) / (room - W)) others, which is fewer
    /// than n if sum(g - W) >= room - W. Zones with no more garbage than W never count, so GC cannot go in circles.
    ///
    /// Where no zone is left to move to, only what fits behind earlier moves can go.
    pub(crate) fn of(&self, zones: &mut ZoneTable) -> Option<ZoneId> {
        zones.settle();
        let mut best: Option<(f64, ZoneId)> = None;
        for stream in Stream::ALL {
            self.best_of(zones, stream, &mut best);
        }
        best.map(|(_, zone)| zone)
    }

    fn best_of(&self, zones: &ZoneTable, stream: Stream, best: &mut Option<(f64, ZoneId)>) {
        let at = slot(stream);
        let census = zones.census();
        let waste = self.longest[at].min(self.zone_room);
        let oldest = self.now.saturating_sub(census.oldest(at).unwrap_or(self.now));
        let wins = !self.full && self.wins(zones, at, waste);
        for (live, number) in census.victims(at) {
            let garbage = self.zone_room.saturating_sub(live);
            let fits = u64::from(live) <= self.room[at];
            // None behind it has less that lives.
            if garbage <= waste || garbage < self.least || !(fits || wins) {
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

    /// Whether zones of a stream hold so much garbage that a whole zone can be won.
    fn wins(&self, zones: &ZoneTable, at: usize, waste: u32) -> bool {
        let need = u64::from(self.zone_room - waste);
        let mut gain = self.room[at];
        for (live, _) in zones.census().victims(at) {
            let garbage = self.zone_room.saturating_sub(live);
            if gain >= need || garbage <= waste {
                break;
            }
            gain += u64::from(garbage - waste);
        }
        gain >= need
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gc::{CostBenefit, ExpectedDeath, Greedy};
    use crate::zones::ZoneStatus;
    use shingle_base::Blocks;
    use shingle_sim::Random;

    /// A look at every zone.
    fn full_scan(choice: &Choice<'_>, zones: &ZoneTable) -> Option<ZoneId> {
        let mut gain = choice.room;
        let longest = |stream: Stream| choice.longest[slot(stream)].min(choice.zone_room);
        let candidates: Vec<(Stream, Candidate)> = zones
            .iter()
            .filter(|(_, zone)| zone.status == ZoneStatus::Closed && !zone.damaged && zone.landed == 0)
            .filter_map(|(id, zone)| {
                let garbage = choice.zone_room.saturating_sub(zone.live);
                let waste = longest(zone.stream);
                if garbage <= waste {
                    return None;
                }
                gain[slot(zone.stream)] += u64::from(garbage - waste);
                let age = choice.now.saturating_sub(zone.last_write);
                let survival = choice.lifetimes.survival(zone.stream, age, choice.horizon);
                Some((zone.stream, Candidate { zone: id, live: zone.live, garbage, age, survival }))
            })
            .collect();
        candidates
            .into_iter()
            .filter(|(stream, candidate)| {
                let fits = choice.room[slot(*stream)] >= u64::from(candidate.live);
                let wins = gain[slot(*stream)] >= u64::from(choice.zone_room - longest(*stream));
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

    /// VICTIM-1 and CENSUS-1: zones change at random, and now and then somebody asks.
    #[test]
    fn the_choice_is_that_of_a_look_at_every_zone() {
        const ROOM: u32 = 60;
        let (mut asked, mut found) = (0, 0);
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let first = random.below(20) as u32;
            let count = 1 + random.below(120) as u32;
            let mut zones = ZoneTable::new(first, count);
            let lifetimes = lifetimes(&mut random);
            for _ in 0..400 {
                let zone = ZoneId(first + random.below(u64::from(count)) as u32);
                let slot = zones.get_mut(zone);
                match random.below(5) {
                    0 => slot.stream = Stream::ALL[random.below(3) as usize],
                    1 => slot.last_write = random.below(5000),
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
                    longest: [(); 3].map(|()| random.below(20) as u32),
                    full: random.chance(0.2),
                    least: 1 + random.below(10) as u32,
                };
                let chosen = choice.of(&mut zones);
                assert_eq!(chosen, full_scan(&choice, &zones), "seed {seed}: VICTIM-1");
                (asked, found) = (asked + 1, found + u32::from(chosen.is_some()));
                for status in ZoneStatus::ALL {
                    let all: Vec<ZoneId> =
                        zones.iter().filter(|(_, zone)| zone.status == status).map(|(id, _)| id).collect();
                    assert!(zones.of(status).eq(all.iter().copied()), "seed {seed}: {status:?}");
                    let after = all.iter().find(|id| **id > zone).or(all.first());
                    assert_eq!(zones.next_of(status, zone), after.copied(), "seed {seed}: {status:?}");
                }
                let live: u64 = zones.iter().map(|(_, zone)| u64::from(zone.live)).sum();
                assert_eq!(zones.census().sums().live, live, "seed {seed}: CENSUS-1");
            }
        }
        assert!(found > 500 && asked > found, "{found} of {asked}");
    }
}
