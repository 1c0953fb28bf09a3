//! How fast GC may go: as fast as callers do not notice. (SMRstore, section 5.5.)

use std::cell::Cell;
use std::time::Duration;

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

    /// How long GC pauses after a step that took `step`. An `urgent` step is followed by none.
    pub(crate) fn pause(&self, step: Duration, urgent: bool) -> Duration {
        let slowed = self.now.get() > self.best.get() * self.factor;
        let speed = self.speed.get();
        self.speed.set(if slowed { (speed / 2.0).max(0.02) } else { (speed + 0.05).min(1.0) });
        if urgent {
            return Duration::ZERO;
        }
        step.mul_f64((1.0 / self.speed.get() - 1.0).min(50.0))
    }

    /// GC's share of its own top speed.
    pub(crate) fn speed(&self) -> f64 {
        self.speed.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gc_yields_to_slow_appends_and_comes_back() {
        let throttle = Throttle::new(2.0);
        let step = Duration::from_millis(10);
        for _ in 0..100 {
            throttle.observe(Duration::from_millis(1), 4096);
            throttle.pause(step, false);
        }
        assert_eq!(throttle.pause(step, false), Duration::ZERO, "idle: full speed");
        for _ in 0..50 {
            throttle.observe(Duration::from_millis(20), 4096);
            throttle.pause(step, false);
        }
        assert!(throttle.pause(step, false) > step * 10, "appends suffer: GC nearly stops");
        assert_eq!(throttle.pause(step, true), Duration::ZERO, "free zones ran out: GC does not wait");
        for _ in 0..100 {
            throttle.observe(Duration::from_millis(1), 4096);
            throttle.pause(step, false);
        }
        assert_eq!(throttle.speed(), 1.0);
    }
}
