//! Counters of a store, for metrics and experiments.

use shingle_base::decay;
use shingle_runtime::Instant;

/// Counters of a store since it was opened. They only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Appends acknowledged.
    pub appends: u64,
    /// Bytes of callers' data in records written for them, whether acknowledged yet or not.
    pub appended_bytes: u64,
    /// Bytes written to data zones for callers: data, headers, footers, padding.
    pub written_bytes: u64,
    /// Of those, bytes written to landing zones.
    pub landed_bytes: u64,
    /// Of those, bytes that had landed and were written to their chunks' own zones.
    pub moved_bytes: u64,
    /// Device writes that took them.
    pub writes: u64,
    /// Reads answered.
    pub reads: u64,
    /// Bytes returned by them.
    pub read_bytes: u64,
    /// Device writes that failed, but for want of room in the file system that holds the drive.
    pub write_errors: u64,
    /// Reads that found bytes that fail their check.
    pub corrupt_reads: u64,
    /// Bytes that GC wrote.
    pub gc_written_bytes: u64,
    /// Zones that GC emptied.
    pub gc_zones: u64,
    /// Zones reset.
    pub resets: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Progress marks journaled.
    pub marks: u64,
    /// Journal entries written.
    pub journal_entries: u64,
}

impl Counters {
    /// Bytes written to data zones for every byte first written for callers: 1 where neither GC nor landed appends
    /// moved.
    pub fn write_amplification(&self) -> f64 {
        let first = self.written_bytes.saturating_sub(self.moved_bytes);
        if first == 0 {
            return 1.0;
        }
        (self.written_bytes + self.gc_written_bytes) as f64 / first as f64
    }
}

/// When free zones will run out if things go on as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forecast {
    /// Free zones do not grow fewer.
    Never,
    /// In about this many seconds.
    Seconds(f64),
    /// It is too early to tell.
    Unknown,
}

/// Watches the number of usable zones and tells where it is heading.
#[derive(Debug, Default)]
pub(crate) struct ZoneTrend {
    last: Option<(Instant, f64)>,
    /// Zones lost a second, smoothed.
    rate: Option<f64>,
}

impl ZoneTrend {
    /// Takes in that `usable` zones (in fractions) can be written now.
    pub(crate) fn observe(&mut self, now: Instant, usable: f64) {
        let Some((then, before)) = self.last else {
            self.last = Some((now, usable));
            return;
        };
        let seconds = now.since(then).as_secs_f64();
        // Shorter spans say more about the length of a write than about the trend.
        if seconds < 1.0 {
            return;
        }
        let rate = (before - usable) / seconds;
        // Half of the weight lies on the last minute.
        let weight = 1.0 - decay(seconds / 60.0 * std::f64::consts::LN_2);
        self.rate = Some(self.rate.map_or(rate, |old| old + weight * (rate - old)));
        self.last = Some((now, usable));
    }

    pub(crate) fn forecast(&self) -> Forecast {
        match (self.last, self.rate) {
            (Some((_, usable)), Some(rate)) if rate > 0.0 => Forecast::Seconds(usable / rate),
            (_, Some(_)) => Forecast::Never,
            _ => Forecast::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_steady_loss_of_zones_is_forecast() {
        let mut trend = ZoneTrend::default();
        assert_eq!(trend.forecast(), Forecast::Unknown);
        let start = Instant { nanos: 0 };
        for second in 0..300u64 {
            trend.observe(start + Duration::from_secs(second), 1000.0 - second as f64 * 2.0);
        }
        match trend.forecast() {
            Forecast::Seconds(seconds) => assert!((seconds - 201.0).abs() < 2.0, "{seconds}"),
            other => panic!("{other:?}"),
        }
        for second in 300..900u64 {
            trend.observe(start + Duration::from_secs(second), 402.0 + second as f64);
        }
        assert_eq!(trend.forecast(), Forecast::Never);
    }
}
