//! Times of a load's requests: their mean, percentiles, the longest one, and the longest stall.

use std::time::Duration;

use shingle_runtime::Instant;

/// Times of requests, as they are answered.
#[derive(Clone, Debug, Default)]
pub struct Times {
    nanos: Vec<u64>,
    /// The last answer.
    last: Option<Instant>,
    stall: Duration,
}

impl Times {
    /// Takes in a request that began then and is answered now.
    pub fn note(&mut self, began: Instant, now: Instant) {
        self.nanos.push(now.since(began).as_nanos() as u64);
        let quiet_from = self.last.map_or(began, |last| last.max(began));
        self.stall = self.stall.max(now.since(quiet_from));
        self.last = Some(now);
    }

    /// Milliseconds that so many of a thousand take no longer than.
    pub fn percentile_ms(&self, per_mille: usize) -> f64 {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        percentile(&sorted, per_mille).unwrap_or(0) as f64 / 1e6
    }

    /// Their mean, percentiles and extremes.
    pub fn summary(&self) -> Summary {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let at = |per_mille: usize| ms(percentile(&sorted, per_mille).unwrap_or(0));
        let total: u64 = sorted.iter().sum();
        Summary {
            requests: sorted.len() as u64,
            mean_ms: ms(total) / sorted.len().max(1) as f64,
            p50_ms: at(500),
            p99_ms: at(990),
            p999_ms: at(999),
            longest_ms: at(1000),
            stall_ms: self.stall.as_secs_f64() * 1e3,
        }
    }
}

/// That many of a thousand take no longer; of times from the shortest.
pub(crate) fn percentile<T: Copy>(sorted: &[T], per_mille: usize) -> Option<T> {
    let at = (sorted.len() * per_mille / 1000).min(sorted.len().checked_sub(1)?);
    sorted.get(at).copied()
}

/// Times of many requests, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Number of requests.
    pub requests: u64,
    /// The mean.
    pub mean_ms: f64,
    /// Half of them take no longer.
    pub p50_ms: f64,
    /// 99 of 100 take no longer.
    pub p99_ms: f64,
    /// 999 of 1,000 take no longer.
    pub p999_ms: f64,
    /// The longest one.
    pub longest_ms: f64,
    /// The longest time in which a request was under way and none was answered.
    pub stall_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant { nanos: ms * 1_000_000 }
    }

    #[test]
    fn percentiles_are_of_all_requests_and_a_stall_is_of_all_at_once() {
        let mut times = Times::default();
        // Two at a time; each takes 2 ms, and one is answered each millisecond.
        for step in 2..1001 {
            times.note(at(step - 2), at(step));
        }
        // Then nothing for 30 ms, of which the drive has no request for 20.
        times.note(at(1020), at(1030));
        let found = times.summary();
        assert_eq!((found.requests, found.p50_ms, found.p999_ms), (1000, 2.0, 10.0));
        assert_eq!((found.p99_ms, found.longest_ms, found.stall_ms), (2.0, 10.0, 10.0));
        assert_eq!([times.percentile_ms(500), times.percentile_ms(999)], [2.0, 10.0]);
        times.note(at(1025), at(1100));
        let found = times.summary();
        assert_eq!((found.longest_ms, found.stall_ms), (75.0, 70.0), "the answer at 1030 ends a stall");
        assert_eq!(Times::default().summary(), Summary::default());
    }
}
