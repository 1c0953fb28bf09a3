//! The spindle: how far the platters have turned at a time, and when they will have turned further.
//!
//! Turns are told in the nominal time that they take. On a drive without jitter that is the time itself. One with jitter has a
//! speed of its own, and its platters are sometimes a little ahead of it and sometimes behind: at knots, a second apart, by an
//! amount that is drawn, and between them in proportion.

use crate::command::Nanos;
use crate::profile::Jitter;
use crate::random;

/// Time between two knots.
const KNOT: Nanos = 1 << 30;

/// Numbers of the seed's sequence that are not those of knots, which count from zero.
const PHASE: u64 = u64::MAX - 1;
const SPEED: u64 = u64::MAX - 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Spindle {
    /// Nominal time of a turn.
    pub(super) revolution: Nanos,
    wobble: Option<Wobble>,
}

/// Deviations from the nominal turns.
#[derive(Clone, Copy, Debug)]
struct Wobble {
    seed: u64,
    /// Turned at the start.
    phase: Nanos,
    /// Turned more or less than nominal in the time between two knots.
    gain: i64,
    /// Most that a knot is off.
    wander: f64,
}

impl Spindle {
    pub(super) fn new(revolution: Nanos, jitter: Option<&Jitter>) -> Self {
        let wobble = jitter.map(|jitter| {
            let gain = random::either_way(jitter.seed, SPEED) * f64::from(jitter.spindle_ppm) / 1e6 * KNOT as f64;
            let wander = f64::from(jitter.wander_us) * 1e3;
            let phase = random::number(jitter.seed, PHASE) % revolution;
            // The first knot may be behind by its whole wander.
            Wobble { seed: jitter.seed, phase: phase + wander as Nanos, gain: gain as i64, wander }
        });
        Self { revolution, wobble }
    }

    /// Turned from the start until `time`.
    pub(super) fn turned(&self, time: Nanos) -> Nanos {
        let Some(wobble) = &self.wobble else { return time };
        let (knot, since) = (time / KNOT, time % KNOT);
        let (from, to) = (wobble.at_knot(knot), wobble.at_knot(knot + 1));
        from + (to - from) * since / KNOT
    }

    /// Turned from `earlier` to `later`.
    pub(super) fn between(&self, earlier: Nanos, later: Nanos) -> Nanos {
        if self.wobble.is_none() {
            return later.saturating_sub(earlier);
        }
        self.turned(later).saturating_sub(self.turned(earlier))
    }

    /// The time when the platters have turned by `way` more than at `time`.
    pub(super) fn after(&self, time: Nanos, way: Nanos) -> Nanos {
        let Some(wobble) = &self.wobble else { return time + way };
        let mut knot = time / KNOT;
        let (mut from, mut to) = (wobble.at_knot(knot), wobble.at_knot(knot + 1));
        let aim = self.turned(time) + way;
        while to < aim {
            knot += 1;
            (from, to) = (to, wobble.at_knot(knot + 1));
        }
        (knot * KNOT + ((aim - from) * KNOT).div_ceil(to - from)).max(time)
    }

    /// The platters at a time, for the angle soon after.
    pub(super) fn at(&self, time: Nanos) -> Rotation {
        Rotation { spindle: *self, at: time, angle: self.turned(time) % self.revolution }
    }
}

impl Wobble {
    /// Turned from the start until a knot.
    fn at_knot(&self, knot: u64) -> Nanos {
        let wander = (random::either_way(self.seed, knot) * self.wander) as i64;
        let gained = self.gain.wrapping_mul(knot as i64) + wander;
        (self.phase + knot * KNOT).saturating_add_signed(gained)
    }
}

/// Angle of the platters at one time; without jitter the angle soon after follows without a division.
pub(super) struct Rotation {
    spindle: Spindle,
    at: Nanos,
    angle: Nanos,
}

impl Rotation {
    pub(super) fn angle_at(&self, time: Nanos) -> Nanos {
        let revolution = self.spindle.revolution;
        if self.spindle.wobble.is_some() {
            return self.spindle.turned(time) % revolution;
        }
        let angle = self.angle + (time - self.at);
        if angle >= 4 * revolution {
            return angle % revolution;
        }
        let angle = angle.min(angle.wrapping_sub(2 * revolution));
        angle.min(angle.wrapping_sub(revolution))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Nanos = 8_333_333;

    #[test]
    fn the_way_to_a_time_and_back_is_the_same_to_the_nanosecond() {
        for seed in 0..50 {
            let jitter = Jitter { seed, spindle_ppm: 2000, wander_us: 300, completion_us: 0.0 };
            let spindle = Spindle::new(TURN, Some(&jitter));
            let mut time = 0;
            for step in 0..2000 {
                let way = random::number(seed, step) % (3 * TURN);
                let next = spindle.after(time, way);
                let turned = spindle.between(time, next);
                assert!((way..=way + 1).contains(&turned), "seed {seed}: {turned} and not {way} from {time} on");
                time = next + random::number(step, seed) % (1 << 32);
            }
        }
    }

    #[test]
    fn the_speed_is_within_its_bounds_and_no_two_drives_have_the_same() {
        let hour = 3_600_000_000_000;
        let speed = |seed| {
            let jitter = Jitter { seed, spindle_ppm: 1000, wander_us: 50, completion_us: 0.0 };
            Spindle::new(TURN, Some(&jitter)).between(0, hour) as f64 / hour as f64
        };
        let speeds: Vec<f64> = (0..100).map(speed).collect();
        assert!(speeds.iter().all(|speed| (speed - 1.0).abs() < 0.001_000_1));
        let spread = speeds.iter().filter(|speed| (*speed - 1.0).abs() > 0.0005).count();
        assert!((30..70).contains(&spread), "{spread} of 100 in the outer half of the bounds");
    }

    #[test]
    fn without_jitter_the_platters_turn_with_the_time() {
        let spindle = Spindle::new(TURN, None);
        for time in [0, 1, TURN, 10 * TURN + 77, 1 << 40] {
            assert_eq!(spindle.turned(time), time);
            assert_eq!(spindle.after(time, 5 * TURN), time + 5 * TURN);
            assert_eq!(spindle.at(time).angle_at(time + 3 * TURN + 5), (time + 5) % TURN);
        }
    }
}
