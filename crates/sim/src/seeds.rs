//! Seeds of tests, and random numbers from them.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The seeds a test runs: `count` of them from 1, `SHINGLE_SEEDS` times as many if that is set, or only `SHINGLE_SEED`,
/// to replay a failure.
///
/// # Panics
/// If either variable is set to what is no number.
pub fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is `{text}`, which is no number")))
    };
    if let Some(seed) = number("SHINGLE_SEED") {
        return seed..=seed;
    }
    1..=number("SHINGLE_SEEDS").map_or(count, |factor| count.saturating_mul(factor))
}

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`, which must not be zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The bias of the remainder does not matter for tests.
        self.number() % limit
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64 <= share && share > 0.0
    }

    /// `length` random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
