//! Choice of the zone that GC empties next. (SMRstore, section 5.5.)

use std::fmt;

use shingle_base::ZoneId;

/// Figures of a closed zone that holds garbage, for a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The zone.
    pub zone: ZoneId,
    /// Blocks of live records: what must be moved.
    pub live: u32,
    /// Blocks of dead records: what is won.
    pub garbage: u32,
    /// Age of its last record, in records that the whole store has written since.
    pub age: u64,
    /// The share of what lives that is expected to be alive still when free zones run out, in 0..=1.
    pub survival: f64,
}

/// Chooses victims. A policy sees only numbers and keeps no state, so that it can be tested alone.
pub trait VictimPolicy: fmt::Debug {
    /// The policy's name, for reports.
    fn name(&self) -> &'static str;
    /// Score of the zone as a victim; the highest is taken first.
    fn score(&self, candidate: &Candidate) -> f64;
    /// A score that no zone exceeds in which at least `live` blocks live, at most `garbage` are dead, and which was last
    /// written at most `age` ago: zones that cannot be the best need not be looked at. Without it all are.
    fn score_max(&self, _live: u32, _garbage: u32, _age: u64) -> f64 {
        f64::INFINITY
    }
}

/// The zone with most garbage: the paper's choice.
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl VictimPolicy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn score(&self, candidate: &Candidate) -> f64 {
        f64::from(candidate.garbage)
    }

    fn score_max(&self, _live: u32, garbage: u32, _age: u64) -> f64 {
        f64::from(garbage)
    }
}

/// Space won times age over the cost of reading and writing what lives: old zones are emptied earlier, for what is
/// still alive in them will stay so, while a young zone may yet become all garbage by itself. (Rosenblum and
/// Ousterhout, TOCS 1992.)
#[derive(Clone, Copy, Debug)]
pub struct CostBenefit;

impl VictimPolicy for CostBenefit {
    fn name(&self) -> &'static str {
        "cost-benefit"
    }

    fn score(&self, candidate: &Candidate) -> f64 {
        let (live, garbage) = (f64::from(candidate.live), f64::from(candidate.garbage));
        garbage * (candidate.age + 1) as f64 / (2.0 * live + garbage).max(1.0)
    }

    fn score_max(&self, live: u32, garbage: u32, age: u64) -> f64 {
        let (live, garbage) = (f64::from(live), f64::from(garbage));
        garbage * (age + 1) as f64 / (2.0 * live + garbage).max(1.0)
    }
}

/// Space won over the cost of moving live data, counting data that will live on: a zone whose data is about to die is
/// left to die. The lifetime of data is inferred from data that has died, by stream and age. (After He and others' and
/// SepBIT's use of inferred death times, FAST 2017 and 2022; here for victims rather than for placement, which streams
/// decide.)
#[derive(Clone, Copy, Debug)]
pub struct ExpectedDeath;

impl VictimPolicy for ExpectedDeath {
    fn name(&self) -> &'static str {
        "expected-death"
    }

    fn score(&self, candidate: &Candidate) -> f64 {
        let (live, garbage) = (f64::from(candidate.live), f64::from(candidate.garbage));
        let dying = live * (1.0 - candidate.survival);
        // Data that dies by itself is moved in vain, and waiting would win its space for nothing.
        garbage / (2.0 * live + dying * DYING_COST + 1.0)
    }

    fn score_max(&self, live: u32, garbage: u32, _age: u64) -> f64 {
        f64::from(garbage) / (2.0 * f64::from(live) + 1.0)
    }
}

/// Weight of a block moved in vain, beside the two of reading and writing it.
const DYING_COST: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(live: u32, garbage: u32, age: u64) -> Candidate {
        Candidate { zone: ZoneId(0), live, garbage, age, survival: 1.0 }
    }

    #[test]
    fn expected_death_leaves_alone_what_dies_by_itself() {
        let (lives, dies) = (candidate(50, 50, 1), Candidate { survival: 0.2, ..candidate(40, 60, 1) });
        assert!(ExpectedDeath.score(&lives) > ExpectedDeath.score(&dies));
        assert!(ExpectedDeath.score(&candidate(40, 60, 1)) > ExpectedDeath.score(&lives), "as greedy where all lives");
        assert!(
            ExpectedDeath.score(&candidate(0, 60, 1)) > ExpectedDeath.score(&candidate(1, 99, 1)),
            "free of charge"
        );
    }

    #[test]
    fn greedy_takes_most_garbage_whatever_its_age() {
        assert!(Greedy.score(&candidate(40, 60, 1)) > Greedy.score(&candidate(41, 59, 1000)));
    }

    #[test]
    fn cost_benefit_prefers_the_old_among_equals_and_may_prefer_it_to_more_garbage() {
        assert!(CostBenefit.score(&candidate(50, 50, 100)) > CostBenefit.score(&candidate(50, 50, 10)));
        assert!(CostBenefit.score(&candidate(60, 40, 1000)) > CostBenefit.score(&candidate(40, 60, 10)));
    }
}
