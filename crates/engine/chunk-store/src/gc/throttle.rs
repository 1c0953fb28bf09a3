//! Speed limit of GC: as fast as callers do not notice. (SMRstore, section 5.5.)

use std::cell::Cell;
use std::time::Duration;

use crate::stats::Forecast;

/// Watches append latency and sets the pause between two steps of GC.
///
/// Additive increase of speed while appends are near their best, halving when they are not: the rule that finds the
/// spare capacity of a drive without knowing the drive.
pub(crate) struct Throttle {
    factor: f64,
    /// Best latency lately seen, in nanoseconds a block, slowly forgotten.
    best: Cell<f64>,
    /// Latency now, smoothed.
    now: Cell<f64>,
    /// GC's share of its own top speed, in 0..=1.
    speed: Cell<f64>,
}

impl Throttle {
    pub(crate) fn new(factor: f64) -> Self {
        Self { factor, best: Cell::new(0.0), now: Cell::new(0.0), speed: Cell::new(0.5) }
    }

    /// Takes in the latency of an append of `bytes`.
    pub(crate) fn observe(&self, latency: Duration, bytes: u32) {
        // A constant for the positioning of the head, so that small appends do not look slow.
        let sample = latency.as_nanos() as f64 / (64.0 + f64::from(bytes) / 4096.0);
        let now = self.now.get();
        let smoothed = if now == 0.0 { sample } else { now + (sample - now) / 16.0 };
        self.now.set(smoothed);
        let best = self.best.get();
        self.best.set(if best == 0.0 || smoothed < best { smoothed } else { best * 1.0005 });
    }

    /// Pause of GC after a step that took `step`, at most the pause at `least` of its top speed. An `urgent` step is
    /// followed by none.
    pub(crate) fn pause(&self, step: Duration, urgent: bool, least: f64) -> Duration {
        let slowed = self.now.get() > self.best.get() * self.factor;
        let speed = self.speed.get();
        self.speed.set(if slowed { (speed / 2.0).max(0.02) } else { (speed + 0.05).min(1.0) });
        if urgent {
            return Duration::ZERO;
        }
        step.mul_f64((1.0 / self.speed.get().max(least).min(1.0) - 1.0).min(50.0))
    }

    /// GC's share of its own top speed.
    pub(crate) fn speed(&self) -> f64 {
        self.speed.get()
    }
}

/// The least speed at which GC wins a zone, which takes it `zone` without pauses, in half the time until free zones run
/// out: however slow appends are, they had better wait a little for each step than for a whole zone.
pub(crate) fn least_speed(forecast: Forecast, zone: Duration) -> f64 {
    match forecast {
        Forecast::Seconds(left) => (2.0 * zone.as_secs_f64() / left.max(f64::MIN_POSITIVE)).min(1.0),
        Forecast::Never | Forecast::Unknown => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gc_does_not_idle_while_free_zones_run_out() {
        let (zone, step) = (Duration::from_secs(4), Duration::from_millis(10));
        assert_eq!(least_speed(Forecast::Never, zone), 0.0);
        assert_eq!(least_speed(Forecast::Seconds(3.0), zone), 1.0);
        let throttle = Throttle::new(2.0);
        for latency in [1, 100] {
            for _ in 0..100 {
                throttle.observe(Duration::from_millis(latency), 4096);
                throttle.pause(step, false, 0.0);
            }
        }
        let slowed = |forecast| throttle.pause(step, false, least_speed(forecast, zone));
        assert!(slowed(Forecast::Seconds(1e6)) > step * 10, "there is time");
        for left in [800.0, 80.0, 16.0, 8.0] {
            // A zone is won in half of what is left.
            let whole = zone.as_secs_f64() * (1.0 + slowed(Forecast::Seconds(left)).div_duration_f64(step));
            assert!(whole <= left / 2.0 + 0.001, "{whole} of {left} s");
        }
        assert_eq!(slowed(Forecast::Seconds(5.0)), Duration::ZERO);
    }

    #[test]
    fn gc_yields_to_slow_appends_and_comes_back() {
        let throttle = Throttle::new(2.0);
        let step = Duration::from_millis(10);
        for _ in 0..100 {
            throttle.observe(Duration::from_millis(1), 4096);
            throttle.pause(step, false, 0.0);
        }
        assert_eq!(throttle.pause(step, false, 0.0), Duration::ZERO, "idle: full speed");
        for _ in 0..50 {
            throttle.observe(Duration::from_millis(20), 4096);
            throttle.pause(step, false, 0.0);
        }
        assert!(throttle.pause(step, false, 0.0) > step * 10, "appends suffer: GC nearly stops");
        assert_eq!(throttle.pause(step, true, 0.0), Duration::ZERO, "free zones ran out: GC does not wait");
        for _ in 0..100 {
            throttle.observe(Duration::from_millis(1), 4096);
            throttle.pause(step, false, 0.0);
        }
        assert_eq!(throttle.speed(), 1.0);
    }
}
