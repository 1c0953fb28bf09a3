//! Choice of the landing zone that comes by the head soonest. (Track-based logging: Chiueh and Huang, 2002.)
//!
//! With the write cache off, a write completes at the moment its last block has passed the head. So the time of that
//! moment, modulo the revolution, is the angle at which the zone goes on; and all zones of a disk turn together. A
//! write that follows at once into the same zone has just missed its place and waits a whole turn; one into a zone
//! whose place is some milliseconds ahead, enough to get to its track, waits next to nothing.
//!
//! The time of the seek is not known but learned: a write that waited a turn more than expected came too late, and the
//! lead is made longer; each one that came in time makes it a little shorter.

use shingle_runtime::Instant;

/// Position of the head before a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a landing zone: they lie together.
    Near,
    /// Anywhere.
    Far,
}

/// Growth of a lead after a write that came too late; divided, its shrinking after one that did not.
const STEP_NANOS: u64 = 128_000;
const STEP_BACK: u64 = 128;

/// Writes that a choice looks ahead.
const AHEAD: u32 = 2;

/// Weight of a nanosecond of crowding beside one of waiting.
const CROWDING: u64 = 1;

/// Times and angles of landing zones.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    /// Nanoseconds of a turn; zero where nothing turns.
    revolution: u64,
    /// Distance ahead of the head that a place must have to be reached in time.
    leads: [u64; 2],
    /// Time that a write passes under the head, smoothed.
    transfer: u64,
    /// Goes round where no phase is known.
    next: usize,
}

/// A chosen zone, and when its place comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Its place among those to choose from.
    pub(crate) at: usize,
    from: Origin,
    /// When its place comes by, in nanoseconds of the clock.
    expected: Option<u64>,
}

impl Phases {
    /// For a disk of this revolution, in nanoseconds; zero for what does not turn.
    pub(crate) fn new(revolution: u64) -> Self {
        // A short seek and settling take 1 to 2 ms of a turn of 8.3.
        Self { revolution, leads: [revolution / 5, revolution / 3], transfer: 0, next: 0 }
    }

    /// The zone to write to, of those with these `last` ends of writes; `None` if there are none.
    pub(crate) fn choose(&mut self, now: Instant, from: Origin, last: &[Option<Instant>]) -> Option<Choice> {
        if last.is_empty() {
            return None;
        }
        let lead = self.leads[from as usize];
        // A zone whose angle is not known yet is tried first: then it is.
        let unknown = last.iter().position(Option::is_none);
        if self.revolution == 0 || unknown.is_some() {
            self.next = (self.next + 1) % last.len();
            let at = if self.revolution == 0 { self.next } else { unknown.unwrap_or(0) };
            return Some(Choice { at, from, expected: None });
        }
        let mut angles: Vec<u64> = last.iter().flatten().map(|last| last.nanos % self.revolution).collect();
        // The ways to this one and to the next: a greedy choice often leaves nothing in reach.
        let mut best: Option<(u64, usize, u64)> = None;
        for at in 0..angles.len() {
            let expected = self.comes_by(now.nanos + lead, *angles.get(at)?);
            let cost = self.reached(expected, at, &mut angles, AHEAD) + self.crowding(&angles, at);
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, at, expected));
            }
        }
        let (_, at, expected) = best?;
        Some(Choice { at, from, expected: Some(expected) })
    }

    /// When the last of `more` further writes begins at the soonest, if one to the zone `at` begins at `begun`.
    fn reached(&self, begun: u64, at: usize, angles: &mut [u64], more: u32) -> u64 {
        if more == 0 {
            return begun;
        }
        let ended = begun + self.transfer;
        let Some(before) = angles.get_mut(at).map(|angle| std::mem::replace(angle, ended % self.revolution)) else {
            return begun;
        };
        let mut soonest = u64::MAX;
        for next in 0..angles.len() {
            let Some(&angle) = angles.get(next) else { break };
            let begins = self.comes_by(ended + self.leads[Origin::Near as usize], angle);
            if begins < soonest {
                soonest = soonest.min(self.reached(begins, next, angles, more - 1));
            }
        }
        if let Some(angle) = angles.get_mut(at) {
            *angle = before;
        }
        soonest
    }

    /// When an angle next comes by, from `time` on.
    fn comes_by(&self, time: u64, angle: u64) -> u64 {
        time + (angle + self.revolution - time % self.revolution) % self.revolution
    }

    /// Penalty of a zone for others close ahead. A write moves its zone on towards the next one ahead. Without the
    /// penalty, zones would bunch up, for of two that are close together only the one behind is in time.
    fn crowding(&self, angles: &[u64], at: usize) -> u64 {
        let Some(angle) = angles.get(at) else { return 0 };
        let others = angles.iter().enumerate().filter(|(other, _)| *other != at);
        let gap = others.map(|(_, other)| (other + self.revolution - angle) % self.revolution).min();
        (self.revolution / angles.len() as u64).saturating_sub(gap.unwrap_or(self.revolution)) * CROWDING
    }

    /// Takes in when the write to a chosen zone ended.
    pub(crate) fn learn(&mut self, choice: Choice, ended: Instant) {
        let Some(expected) = choice.expected else { return };
        let lead = &mut self.leads[choice.from as usize];
        // A landing write is shorter than a turn; a longer one teaches nothing.
        let late = ended.nanos.saturating_sub(expected) / self.revolution.max(1);
        if late == 1 {
            *lead = (*lead + STEP_NANOS).min(self.revolution * 3 / 4);
        } else if late == 0 {
            let took = ended.nanos.saturating_sub(expected);
            self.transfer = (self.transfer * 7 + took) / 8;
            *lead = lead.saturating_sub(STEP_NANOS / STEP_BACK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: u64 = 8_333_333;

    fn at(nanos: u64) -> Option<Instant> {
        Some(Instant { nanos })
    }

    #[test]
    fn the_zone_that_comes_by_soonest_behind_the_lead_is_chosen() {
        let mut phases = Phases::new(TURN);
        let now = Instant { nanos: 100 * TURN };
        // The lead is a fifth of a turn at first: what comes by sooner is too soon.
        let last = [at(3 * TURN + TURN / 10), at(5 * TURN + TURN / 2), at(7 * TURN + TURN / 4), at(TURN - 1)];
        assert_eq!(phases.choose(now, Origin::Near, &last).unwrap().at, 2);
        assert_eq!(phases.choose(now, Origin::Far, &last).unwrap().at, 1, "from afar it takes longer");
        assert_eq!(phases.choose(now, Origin::Near, &[at(0), None]).unwrap().at, 1, "an unknown angle is found out");
        assert_eq!(phases.choose(now, Origin::Near, &[]), None);
    }

    #[test]
    fn where_nothing_turns_zones_take_turns() {
        let mut phases = Phases::new(0);
        let last = [at(1), None, at(2)];
        let chosen: Vec<usize> =
            (0..4).map(|_| phases.choose(Instant { nanos: 5 }, Origin::Near, &last).unwrap().at).collect();
        assert_eq!(chosen, [1, 2, 0, 1]);
    }

    /// A disk on which every way takes `way`, and 16 zones on it: writes of 0.3 ms come to nearly way and write alone.
    #[test]
    fn the_lead_is_learned_from_the_disk() {
        for way in [400_000, 1_300_000, 3_000_000] {
            let mut phases = Phases::new(TURN);
            let mut zones: Vec<Option<Instant>> = (0..16).map(|zone| at(zone * TURN / 16)).collect();
            let (mut now, mut waited) = (TURN * 50, 0);
            for round in 0..4000 {
                let choice = phases.choose(Instant { nanos: now }, Origin::Near, &zones).unwrap();
                let place = zones[choice.at].unwrap().nanos % TURN;
                let reached = now + way;
                let begun = reached + (place + TURN - reached % TURN) % TURN;
                now = begun + 300_000;
                phases.learn(choice, Instant { nanos: now });
                zones[choice.at] = at(now);
                if round >= 2000 {
                    waited += begun - reached;
                }
            }
            assert!(waited / 2000 < TURN / 6, "a way of {way}: waits {} more", waited / 2000);
        }
    }
}
