//! Seeds of tests, and random numbers from them.

use std::ops::RangeInclusive;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The seeds a test runs: `count` of them from 1; `SHINGLE_SEEDS` times as many if that is a number; of that many, with
/// `SHINGLE_SEEDS=A..B`, those that `SHINGLE_SEEDS=B` runs and `SHINGLE_SEEDS=A` does not; or only `SHINGLE_SEED`, to
/// replay a failure. A test that fails among them prints the command that replays its seed alone.
///
/// # Panics
/// If either variable is set to something else.
pub fn seeds(count: u64) -> Seeds {
    let number = |name: &str, text: &str| {
        text.parse::<u64>().unwrap_or_else(|_| panic!("{name} has `{text}`, which is no number"))
    };
    let variable = |name: &str| std::env::var(name).ok();
    let left = match (variable("SHINGLE_SEED"), variable("SHINGLE_SEEDS")) {
        (Some(seed), _) => {
            let seed = number("SHINGLE_SEED", &seed);
            seed..=seed
        }
        (None, factors) => {
            let factors = factors.as_deref().unwrap_or("1");
            let (from, to) = factors.split_once("..").unwrap_or(("0", factors));
            let end_of = |factor| count.saturating_mul(number("SHINGLE_SEEDS", factor));
            end_of(from).saturating_add(1)..=end_of(to)
        }
    };
    Seeds { left, now: None }
}

/// `length` bytes from `from` on of the contents that `key` names. They differ with the key and from place to place, so
/// that bytes of another write, or of the same one elsewhere, are seen.
pub fn contents(key: u64, from: u64, length: u64) -> Vec<u8> {
    let word = |number: u64| number.wrapping_add(key).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let (first, skipped) = (from / 8, (from % 8) as usize);
    let mut bytes = vec![0; length as usize];
    // The end of a word, whole words, the beginning of one: tests make gigabytes of this.
    let (front, rest) = bytes.split_at_mut((8 - skipped).min(length as usize));
    front.copy_from_slice(&word(first)[skipped..skipped + front.len()]);
    let (words, back) = rest.as_chunks_mut();
    let mut number = first;
    for target in words {
        number += 1;
        *target = word(number);
    }
    back.copy_from_slice(&word(number + 1)[..back.len()]);
    bytes
}

/// The seeds that are left to a test. A loop holds it while a seed runs, so it knows which one failed.
#[derive(Debug)]
pub struct Seeds {
    left: RangeInclusive<u64>,
    now: Option<u64>,
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.now = self.left.next();
        self.now
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if let Some(seed) = self.now
            && std::thread::panicking()
        {
            eprintln!("to replay: {}", replay(seed));
        }
    }
}

/// The command that runs the test of this thread with one seed.
fn replay(seed: u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo puts a hash behind the name of the test program.
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.rsplit_once('-').map_or(&*stem, |(name, _)| name);
    let target = if name == package.replace('-', "_") { "--lib".to_owned() } else { format!("--test {name}") };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    format!("SHINGLE_SEED={seed} cargo test -p {package} {target} -- --exact {test}")
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

#[cfg(test)]
mod tests {
    use super::{contents, replay};

    #[test]
    fn a_failure_names_the_command_that_replays_it() {
        assert_eq!(
            replay(14),
            "SHINGLE_SEED=14 cargo test -p shingle-sim --lib -- --exact \
             seeds::tests::a_failure_names_the_command_that_replays_it"
        );
    }

    #[test]
    fn contents_are_the_same_wherever_they_begin() {
        let whole = contents(7, 0, 100);
        assert_eq!(whole.len(), 100);
        for from in 0..40 {
            for length in 0..=100 - from {
                assert!(contents(7, from, length) == whole[from as usize..(from + length) as usize], "{from}+{length}");
            }
        }
        assert!(contents(8, 0, 100) != whole && contents(7, 8, 64) != whole[..64]);
    }
}
