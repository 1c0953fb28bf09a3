//! Times of reads: counts by duration, of which old ones fade.
//!
//! **Owns** the counts of one drive and one size of read. **Knows nothing of** clocks.

use std::time::Duration;

use shingle_base::Blocks;

/// Sizes of reads that are told apart.
pub(crate) const CLASSES: usize = 7;

/// Counts after which all are halved: a few hundred reads decide.
const WINDOW: u32 = 1024;

/// Fewer reads than this say nothing.
const SAMPLES_MIN: u32 = 32;

/// Durations up to this many nanoseconds share the first counter; above it, each doubling has eight.
const FINEST: u64 = 1 << 10;
const STEPS: u64 = 8;

/// The class of a read of that many blocks: one for each factor of four.
pub(crate) fn class_of(blocks: Blocks) -> usize {
    let bits = u64::BITS - blocks.0.saturating_sub(1).leading_zeros();
    (bits.div_ceil(2) as usize).min(CLASSES - 1)
}

/// Durations of recent reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    counts: Vec<u16>,
    total: u32,
}

fn counter_of(latency: Duration) -> usize {
    let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
    if nanos < FINEST {
        return 0;
    }
    let octave = u64::from(nanos.ilog2());
    let step = (nanos >> (octave - 3)) & (STEPS - 1);
    (1 + (octave - u64::from(FINEST.ilog2())) * STEPS + step) as usize
}

/// The least duration that no read of this counter reached.
fn end_of(counter: usize) -> Duration {
    let Some(number) = (counter as u64).checked_sub(1) else { return Duration::from_nanos(FINEST) };
    let (octave, step) = (number / STEPS, number % STEPS);
    let nanos = (u128::from(FINEST * (STEPS + step + 1)) << octave) / u128::from(STEPS);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Latencies {
    /// One more read.
    pub(crate) fn record(&mut self, latency: Duration) {
        let counter = counter_of(latency);
        if self.counts.len() <= counter {
            self.counts.resize(counter + 1, 0);
        }
        self.counts[counter] += 1;
        self.total += 1;
        if self.total >= WINDOW {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().map(|&count| u32::from(count)).sum();
        }
    }

    /// The duration in which so many percent of recent reads ended, rounded up by an eighth at most; `None` where there
    /// were too few to tell.
    pub(crate) fn percentile(&self, percent: u32) -> Option<Duration> {
        if self.total < SAMPLES_MIN {
            return None;
        }
        let rank = (self.total * percent).div_ceil(100);
        let mut seen = 0;
        let reached = |&count: &u16| {
            seen += u32::from(count);
            seen >= rank
        };
        self.counts.iter().position(reached).map(end_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_classes_by_factors_of_four() {
        let blocks = [1, 2, 4, 5, 16, 64, 65, 256, 1024, 1025, 1 << 40];
        assert_eq!(blocks.map(|blocks| class_of(Blocks(blocks))), [0, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6]);
    }

    #[test]
    fn a_percentile_is_right_to_an_eighth() {
        for scale in [1_000, 77_777, 5_000_000, 3_000_000_000_u64] {
            let mut latencies = Latencies::default();
            for number in 1..=1000 {
                latencies.record(Duration::from_nanos(number * scale));
            }
            for percent in [1, 50, 99] {
                let found = latencies.percentile(percent).unwrap().as_nanos() as f64;
                let exact = f64::from(percent) * 10.0 * scale as f64;
                assert!(found >= exact * 0.999 && found <= exact * 1.14 + 1024.0, "{percent} of {scale}: {found}");
            }
        }
    }

    #[test]
    fn old_reads_fade_and_few_say_nothing() {
        let mut latencies = Latencies::default();
        for _ in 0..SAMPLES_MIN - 1 {
            latencies.record(Duration::from_millis(1));
        }
        assert_eq!(latencies.percentile(99), None);
        for _ in 0..10_000 {
            latencies.record(Duration::from_secs(1));
        }
        assert!(latencies.percentile(10).unwrap() > Duration::from_millis(900));
        latencies.record(Duration::MAX);
        latencies.record(Duration::ZERO);
        assert!(latencies.percentile(100).unwrap() > Duration::from_secs(1 << 30));
    }
}
