//! Which zone GC empties next. (SMRstore, section 5.5.)

use shingle_base::ZoneId;

/// What a policy knows of a closed zone that holds garbage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The zone.
    pub zone: ZoneId,
    /// Blocks of live records: what must be moved.
    pub live: u32,
    /// Blocks of dead records: what is won.
    pub garbage: u32,
    /// How long ago its last record was written, in records of the whole store since.
    pub age: u64,
}

/// Chooses victims. A policy sees only numbers and keeps no state, so that it can be tested alone.
pub trait VictimPolicy {
    /// The policy's name, for reports.
    fn name(&self) -> &'static str;
    /// How good a victim the zone is; the highest score is taken first.
    fn score(&self, candidate: &Candidate) -> f64;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(live: u32, garbage: u32, age: u64) -> Candidate {
        Candidate { zone: ZoneId(0), live, garbage, age }
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
