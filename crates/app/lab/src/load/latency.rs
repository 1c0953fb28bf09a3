//! Distribution of times in bounded memory: counts of times that differ by less than 1.6 %.

use crate::load::times::Summary;

/// Parts into which each octave of times is divided, as a power of two.
const PARTS_LOG: u32 = 6;
const PARTS: u64 = 1 << PARTS_LOG;

/// Times, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// By class, as far as there were any.
    counts: Vec<u64>,
    count: u64,
    total: u128,
    longest: u64,
}

/// The class of a time: exact up to 128 ns, then 64 classes for each doubling.
fn class(nanos: u64) -> usize {
    let shift = (nanos | 1).ilog2().saturating_sub(PARTS_LOG);
    (u64::from(shift) * PARTS + (nanos >> shift)) as usize
}

/// The longest time of a class.
fn longest_of(class: usize) -> u64 {
    let shift = (class as u64 / PARTS).saturating_sub(1);
    let part = class as u64 - shift * PARTS;
    ((part + 1) << shift).wrapping_sub(1)
}

impl Latency {
    /// Takes in a time, in nanoseconds.
    pub fn note(&mut self, nanos: u64) {
        let class = class(nanos);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.count += 1;
        self.total += u128::from(nanos);
        self.longest = self.longest.max(nanos);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of those of at least so many nanoseconds, to within their class.
    pub fn at_least(&self, nanos: u64) -> u64 {
        self.counts.get(class(nanos)..).unwrap_or_default().iter().sum()
    }

    /// Nanoseconds that so many of a thousand take no longer than, to within 1.6 %.
    pub fn percentile(&self, per_mille: u64) -> u64 {
        let rank = self.count * per_mille / 1000;
        let mut below = 0;
        for (class, &count) in self.counts.iter().enumerate() {
            below += count;
            if below > rank {
                return longest_of(class).min(self.longest);
            }
        }
        self.longest
    }

    /// Mean, percentiles and the longest; a stall is another matter.
    pub fn summary(&self) -> Summary {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Summary {
            requests: self.count,
            mean_ms: self.total as f64 / 1e6 / self.count.max(1) as f64,
            p50_ms: ms(self.percentile(500)),
            p99_ms: ms(self.percentile(990)),
            p999_ms: ms(self.percentile(999)),
            longest_ms: ms(self.longest),
            stall_ms: 0.0,
        }
    }

    /// Points of the cumulative distribution: milliseconds, and the percentage that takes no longer.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut point = |(class, &count): (usize, &u64)| {
            below += count;
            let nanos = longest_of(class).min(self.longest);
            (nanos as f64 / 1e6, below as f64 / self.count as f64 * 100.0)
        };
        counted.map(&mut point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_lies_in_its_class_and_classes_are_narrow() {
        let mut nanos = 0u64;
        while nanos < u64::MAX / 2 {
            let of = class(nanos);
            let longest = longest_of(of);
            assert!(
                longest >= nanos && class(longest) == of && class(longest + 1) == of + 1,
                "{nanos}: {of}, {longest}"
            );
            assert!((longest - nanos) as f64 <= nanos as f64 / 63.0, "{nanos}: {longest}");
            nanos = nanos + nanos / 7 + 1;
        }
        assert!(class(u64::MAX) < 4096, "memory is bounded");
    }

    #[test]
    fn percentiles_are_those_of_all_times() {
        let mut latency = Latency::default();
        assert_eq!((latency.percentile(500), latency.summary()), (0, Summary::default()));
        (1..=1000).for_each(|ms| latency.note(ms * 1_000_000));
        let found = latency.summary();
        for (found, exact) in
            [(found.p50_ms, 501.0), (found.p99_ms, 991.0), (found.p999_ms, 1000.0), (found.mean_ms, 500.5)]
        {
            assert!((found / exact - 1.0).abs() < 0.016, "{found} and {exact}");
        }
        assert_eq!((found.longest_ms, found.requests), (1000.0, 1000));
        let seconds = latency.at_least(900_000_000) as i64 - 101;
        assert!(seconds.abs() <= 16, "{seconds}");
        assert_eq!(latency.distribution().last(), Some(&(1000.0, 100.0)));
    }
}
