//! The seek curve: time of the arm over distance.

/// Time over distance: `settle + a * sqrt(x) + b * x`, where `x` is the distance as a share of the full stroke. The
/// square root is the arm speeding up and slowing down on short ways, the linear term its top speed on long ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekCurve {
    settle: f64,
    root: f64,
    linear: f64,
    /// One over the full stroke in cylinders.
    scale: f64,
}

impl SeekCurve {
    /// The curve through three published figures, in milliseconds: track to track, the mean over random pairs of
    /// places, and the full stroke.
    ///
    /// The distance `x` of two places drawn uniformly has density `2 (1 - x)`, so that `sqrt(x)` has mean 8/15 and `x`
    /// has mean 1/3: two equations for the two factors.
    pub fn new(settle_ms: f64, average_ms: f64, full_ms: f64) -> Self {
        let (average, full) = (average_ms - settle_ms, full_ms - settle_ms);
        let root = (average - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        Self { settle: settle_ms * 1e6, root: root * 1e6, linear: (full - root) * 1e6, scale: 1.0 }
    }

    /// The curve of a disk with this many cylinders.
    #[must_use]
    pub fn over(self, cylinders: u64) -> Self {
        Self { scale: 1.0 / cylinders.max(1) as f64, ..self }
    }

    /// A table of lower bounds of seek times, for a disk with this many cylinders: cheaper than the curve itself.
    pub(crate) fn bounds(self, cylinders: u64) -> SeekBounds {
        let shift = (u64::BITS - cylinders.leading_zeros()).saturating_sub(9);
        // Rounding may put a time below that of a shorter way, by a nanosecond.
        let least = |bucket: u64| self.nanos((bucket << shift).max(1)).saturating_sub(2);
        SeekBounds { shift, least: (0..=cylinders >> shift).map(least).collect() }
    }

    /// True if time never falls with distance: other figures belong to no arm.
    pub fn is_sound(&self) -> bool {
        // The derivative, root / (2 sqrt(x)) + linear, is least at the full stroke.
        self.settle >= 0.0 && self.root >= 0.0 && self.root / 2.0 + self.linear >= 0.0
    }

    /// Nanoseconds for a seek over `cylinders`; zero for none.
    pub fn nanos(&self, cylinders: u64) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        // Signed, since processors convert such numbers faster.
        let x = cylinders as i64 as f64 * self.scale;
        (self.settle + self.root * x.sqrt() + self.linear * x) as i64 as u64
    }
}

/// Lower bounds of seek times.
#[derive(Clone, Debug)]
pub(crate) struct SeekBounds {
    shift: u32,
    least: Vec<u64>,
}

impl SeekBounds {
    /// Lower bound in nanoseconds for a seek over `cylinders`, at least one.
    pub(crate) fn least(&self, cylinders: u64) -> u64 {
        self.least.get((cylinders >> self.shift) as usize).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_goes_through_its_three_figures() {
        let stroke = 100_000;
        let curve = SeekCurve::new(0.9, 4.1, 8.5).over(stroke);
        assert!(curve.is_sound());
        assert!((curve.nanos(1) as f64 / 1e6 - 0.9).abs() < 0.05);
        assert!((curve.nanos(stroke) as f64 / 1e6 - 8.5).abs() < 1e-3);
        // The mean over pairs of a regular grid of places.
        let places = 400u64;
        let mut sum = 0.0;
        for from in 0..places {
            for to in 0..places {
                sum += curve.nanos(from.abs_diff(to) * (stroke / places)) as f64;
            }
        }
        let mean = sum / (places * places) as f64 / 1e6;
        assert!((mean - 4.1).abs() < 0.02, "{mean}");
        assert_eq!(curve.nanos(0), 0);
    }

    #[test]
    fn no_seek_is_shorter_than_its_bound() {
        for cylinders in [1, 300, 100_000, 512, 1 << 20] {
            let curve = SeekCurve::new(0.9, 4.1, 8.5).over(cylinders);
            let bounds = curve.bounds(cylinders);
            for way in (1..=cylinders).step_by(1 + cylinders as usize / 5000) {
                let (least, taken) = (bounds.least(way), curve.nanos(way));
                assert!(least <= taken, "{way} of {cylinders}: {least} and {taken} ns");
            }
        }
    }

    #[test]
    fn figures_of_no_arm_are_noticed() {
        assert!(!SeekCurve::new(1.0, 9.0, 9.5).is_sound());
        assert!(!SeekCurve::new(1.0, 2.0, 20.0).is_sound());
    }
}
