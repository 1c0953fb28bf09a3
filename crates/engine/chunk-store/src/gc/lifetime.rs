//! Expected remaining lifetime of data, inferred from data that has died: GC had better not move data that is about to
//! die.
//!
//! For each stream and each doubling of age the store counts blocks that died, and blocks that were there to die for how
//! long. Their quotient is the hazard at that age; how much of a zone survives follows from it. Ages and spans count
//! sequence numbers, that is records of the whole store: a store that rests does not age.

use shingle_base::decay;

use crate::types::Stream;

/// Doublings of age that are told apart.
const AGES: usize = 48;

/// Blocks that must have died before a hazard is believed.
const DEATHS_MIN: f64 = 1024.0;

/// Blocks that have died after which what was seen counts half: loads change.
const DEATHS_MAX: f64 = (1u64 << 26) as f64;

/// Deaths and exposure at one age.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Blocks that died.
    deaths: f64,
    /// Blocks that could have, times for how long.
    exposure: f64,
}

/// Statistics of records' lifetimes.
#[derive(Clone, Debug)]
pub(crate) struct Lifetimes {
    seen: [[Seen; AGES]; 3],
    /// When exposure was last counted.
    counted: u64,
}

/// Live records of a closed zone: stream, age and blocks.
pub(crate) type Alive = (Stream, u64, u32);

impl Lifetimes {
    /// Nothing is known.
    pub(crate) fn new(now: u64) -> Self {
        Self { seen: [[Seen::default(); AGES]; 3], counted: now }
    }

    /// When exposure was last counted.
    pub(crate) fn counted(&self) -> u64 {
        self.counted
    }

    /// Blocks of that age died.
    pub(crate) fn died(&mut self, stream: Stream, age: u64, blocks: u64) {
        let of_stream = &mut self.seen[stream.slot()];
        of_stream[doubling(age)].deaths += blocks as f64;
        if of_stream.iter().map(|seen| seen.deaths).sum::<f64>() > DEATHS_MAX {
            for seen in of_stream {
                (seen.deaths, seen.exposure) = (seen.deaths / 2.0, seen.exposure / 2.0);
            }
        }
    }

    /// Counts what could have died since this was last done.
    pub(crate) fn expose(&mut self, now: u64, alive: impl Iterator<Item = Alive>) {
        let span = now.saturating_sub(self.counted) as f64;
        self.counted = now;
        for (stream, age, blocks) in alive {
            self.seen[stream.slot()][doubling(age)].exposure += f64::from(blocks) * span;
        }
    }

    /// The share of data of that age that will be alive `span` later: 1 where nothing is known.
    pub(crate) fn survival(&self, stream: Stream, age: u64, span: u64) -> f64 {
        let of_stream = &self.seen[stream.slot()];
        if of_stream.iter().map(|seen| seen.deaths).sum::<f64>() < DEATHS_MIN {
            return 1.0;
        }
        let (mut from, end) = (age, age.saturating_add(span));
        let mut hazard = 0.0;
        while from < end {
            let at = doubling(from);
            // The last age has no end.
            let to = if at + 1 == AGES { end } else { end.min(1 << (at + 1)) };
            let Seen { deaths, exposure } = of_stream[at];
            if exposure > 0.0 {
                hazard += deaths / exposure * (to - from) as f64;
            }
            from = to;
        }
        decay(hazard)
    }
}

/// The number of the doubling that an age is in: 0 and 1, 2 and 3, 4 to 7, and so on.
fn doubling(age: u64) -> usize {
    (age.max(1).ilog2() as usize).min(AGES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_expected_to_die_until_something_has() {
        let mut lifetimes = Lifetimes::new(0);
        lifetimes.expose(1000, [(Stream::Gc, 10, 60_000)].into_iter());
        assert_eq!(lifetimes.survival(Stream::Gc, 5, 1 << 40), 1.0);
    }

    #[test]
    fn a_constant_hazard_is_found_again() {
        // Of 100,000 blocks one in a thousand dies with every record.
        let mut lifetimes = Lifetimes::new(0);
        for now in 1..=4096u64 {
            lifetimes.expose(now, [(Stream::Meta, now, 100_000)].into_iter());
            lifetimes.died(Stream::Meta, now, 100);
        }
        for (age, span) in [(1, 1000), (500, 1000), (100, 10)] {
            let (found, expected) = (lifetimes.survival(Stream::Meta, age, span), (-0.001 * span as f64).exp());
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
        assert_eq!(lifetimes.survival(Stream::Data, 1, 1000), 1.0, "another stream");
    }

    #[test]
    fn infants_die_and_the_old_live_on() {
        let mut lifetimes = Lifetimes::new(0);
        for now in 1..=1000u64 {
            lifetimes.expose(now, [(Stream::Data, 100, 1000), (Stream::Data, 1 << 20, 100_000)].into_iter());
            lifetimes.died(Stream::Data, 100, 10);
        }
        assert!(lifetimes.survival(Stream::Data, 64, 60) < 0.6);
        assert_eq!(lifetimes.survival(Stream::Data, 1 << 20, 1000), 1.0);
    }

    #[test]
    fn ages_at_the_end_of_time_are_no_trouble() {
        let mut lifetimes = Lifetimes::new(u64::MAX - 1);
        lifetimes.expose(u64::MAX, [(Stream::Data, u64::MAX, u32::MAX)].into_iter());
        lifetimes.died(Stream::Data, u64::MAX, 1 << 30);
        assert!((0.0..=1.0).contains(&lifetimes.survival(Stream::Data, u64::MAX, u64::MAX)));
        assert!((0.0..=1.0).contains(&lifetimes.survival(Stream::Data, u64::MAX - 5, u64::MAX)));
    }
}
