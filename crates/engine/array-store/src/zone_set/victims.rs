//! Sets in the order in which they are cleaned, by the drives that they lie on: the choice of the next one looks at a
//! few for each group of drives, however many there are.
//!
//! # Invariants
//! - AS-VICTIM-1: the choice is that of a scan of all sets. `the_victim_is_that_of_a_scan_of_all_sets`.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::CleaningPolicy;
use crate::types::{DriveSet, SetId};

/// Shares of live bytes that are told apart: in each, the oldest set is the best.
const SHARES: u64 = 256;

/// Figures for a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) hurt: bool,
    pub(crate) live: u64,
    /// Bytes of data that the set holds if it is filled.
    pub(crate) data: u64,
    /// When it was closed.
    pub(crate) closed: u64,
}

impl Candidate {
    /// The share of it that lives, in [`SHARES`].
    fn share(&self) -> u64 {
        (self.live.saturating_mul(SHARES) / self.data.max(1)).min(SHARES - 1)
    }

    /// It comes before all that are not.
    fn is_urgent(&self) -> bool {
        self.hurt || self.live == 0
    }
}

/// Sets that may be cleaned.
pub(crate) enum Victims {
    /// Sets that are not hurt behind the others; in both, those with the least live data first.
    Greedy(BTreeMap<DriveSet, BTreeSet<(bool, u64, SetId)>>),
    Lifetime(Ages),
}

/// Sets by their drives, by whether they are urgent and by the share that lives; of each the oldest first.
#[derive(Default)]
pub(crate) struct Ages {
    sets: BTreeMap<(DriveSet, bool, u64), BTreeSet<(u64, SetId)>>,
    count: u64,
    shares: u64,
}

/// Benefit of cleaning: space, for as long as it is likely to stay won, over the cost of moving.
fn benefit(share: u64, closed: u64, now: u64, mean: f64) -> f64 {
    let live = share as f64 / SHARES as f64;
    let age = now.saturating_sub(closed).max(1) as f64;
    // A set with less dead than others would cost much and win little, however old.
    if share as f64 > mean { -live } else { (1.0 - live) * age / (1.0 + live) }
}

impl Victims {
    pub(crate) fn new(policy: CleaningPolicy) -> Self {
        match policy {
            CleaningPolicy::Greedy => Self::Greedy(BTreeMap::new()),
            CleaningPolicy::Lifetime => Self::Lifetime(Ages::default()),
        }
    }

    pub(super) fn insert(&mut self, id: SetId, drives: DriveSet, candidate: &Candidate) {
        match self {
            Self::Greedy(groups) => {
                groups.entry(drives).or_default().insert((!candidate.hurt, candidate.live, id));
            }
            Self::Lifetime(ages) => {
                let share = candidate.share();
                let key = (drives, candidate.is_urgent(), share);
                ages.sets.entry(key).or_default().insert((candidate.closed, id));
                ages.count += 1;
                ages.shares += share;
            }
        }
    }

    pub(super) fn remove(&mut self, id: SetId, drives: DriveSet, candidate: &Candidate) {
        match self {
            Self::Greedy(groups) => {
                let Some(sets) = groups.get_mut(&drives) else { return };
                sets.remove(&(!candidate.hurt, candidate.live, id));
                if sets.is_empty() {
                    groups.remove(&drives);
                }
            }
            Self::Lifetime(ages) => {
                let share = candidate.share();
                let key = (drives, candidate.is_urgent(), share);
                if let Some(sets) = ages.sets.get_mut(&key) {
                    sets.remove(&(candidate.closed, id));
                    if sets.is_empty() {
                        ages.sets.remove(&key);
                    }
                }
                ages.count -= 1;
                ages.shares -= share;
            }
        }
    }

    /// The set to clean next of those that `may` be, on drives that `may_on` names; `now` is a stamp. (AS-VICTIM-1)
    pub(crate) fn best(
        &self,
        now: u64,
        may_on: impl Fn(&DriveSet) -> bool,
        may: impl Fn(SetId) -> bool,
    ) -> Option<SetId> {
        match self {
            Self::Greedy(groups) => {
                let groups = groups.iter().filter(|(drives, _)| may_on(drives));
                groups.filter_map(|(_, sets)| sets.iter().find(|(.., id)| may(*id))).min().map(|(.., id)| *id)
            }
            Self::Lifetime(ages) => {
                let mean = ages.shares as f64 / ages.count.max(1) as f64;
                let groups = ages.sets.iter().filter(|((drives, ..), _)| may_on(drives));
                let oldest = groups.filter_map(|((_, urgent, share), sets)| {
                    let (closed, id) = sets.iter().find(|(_, id)| may(*id))?;
                    Some((*urgent, benefit(*share, *closed, now, mean), *id))
                });
                let first = oldest
                    .max_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).then(other.2.cmp(&one.2)));
                first.map(|(.., id)| id)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::Random;

    use super::*;
    use crate::types::DriveId;

    /// The same by looking at all.
    fn scanned(
        policy: CleaningPolicy,
        all: &BTreeMap<SetId, Candidate>,
        now: u64,
        may: impl Fn(SetId) -> bool,
    ) -> Option<SetId> {
        let mean = all.values().map(Candidate::share).sum::<u64>() as f64 / all.len().max(1) as f64;
        let able = all.iter().filter(|(id, _)| may(**id));
        match policy {
            CleaningPolicy::Greedy => able.min_by_key(|(id, one)| (!one.hurt, one.live, **id)),
            CleaningPolicy::Lifetime => able.max_by(|(id, one), (other_id, other)| {
                let benefit = |one: &Candidate| benefit(one.share(), one.closed, now, mean);
                let urgent = one.is_urgent().cmp(&other.is_urgent());
                urgent.then(benefit(one).total_cmp(&benefit(other))).then(other_id.cmp(id))
            }),
        }
        .map(|(id, _)| *id)
    }

    /// The drives of a set: of one group of three.
    fn drives(id: SetId) -> DriveSet {
        [DriveId((id.0 % 3) as u8)].into_iter().collect()
    }

    /// AS-VICTIM-1
    #[test]
    fn the_victim_is_that_of_a_scan_of_all_sets() {
        for seed in 1..=20 {
            for policy in [CleaningPolicy::Greedy, CleaningPolicy::Lifetime] {
                let mut random = Random::new(seed);
                let (mut victims, mut all) = (Victims::new(policy), BTreeMap::new());
                for step in 0..600u64 {
                    let id = SetId(random.below(80) as u32);
                    if let Some(old) = all.remove(&id) {
                        victims.remove(id, drives(id), &old);
                    }
                    if random.below(4) > 0 {
                        let data = 1000 + random.below(3) * 500;
                        let live = random.below(data) * random.below(4).min(1);
                        let closed = random.below(step + 2) / 3;
                        let candidate = Candidate { hurt: random.below(12) == 0, live, data, closed };
                        victims.insert(id, drives(id), &candidate);
                        all.insert(id, candidate);
                    }
                    let now = step + 5;
                    let any = |_: &DriveSet| true;
                    let best = victims.best(now, any, |_| true);
                    assert_eq!(best, scanned(policy, &all, now, |_| true), "seed {seed}, step {step}");
                    // One that is passed over leaves the choice to the others; they still make the mean.
                    let other = |id: SetId| Some(id) != best;
                    let found = victims.best(now, any, other);
                    assert_eq!(found, scanned(policy, &all, now, other), "seed {seed}, step {step}");
                    // So do those on other drives.
                    let busy = drives(id);
                    let found = victims.best(now, |drives| !drives.meets(&busy), |_| true);
                    let apart = |id: SetId| !drives(id).meets(&busy);
                    assert_eq!(found, scanned(policy, &all, now, apart), "seed {seed}, step {step}");
                }
            }
        }
    }
}
