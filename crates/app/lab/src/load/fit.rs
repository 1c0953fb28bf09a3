//! A straight line through points.

/// A line by least squares.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its height at 0.
    pub start: f64,
    /// Its rise.
    pub slope: f64,
    /// R^2: the share of the points' variance that it explains.
    pub r2: f64,
}

impl Line {
    /// The line through these points.
    pub fn through(points: &[(f64, f64)]) -> Self {
        let count = points.len().max(1) as f64;
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let (x, y) = (sum(&|point| point.0) / count, sum(&|point| point.1) / count);
        let xx = sum(&|point| (point.0 - x).powi(2)).max(f64::MIN_POSITIVE);
        let xy = sum(&|point| (point.0 - x) * (point.1 - y));
        let yy = sum(&|point| (point.1 - y).powi(2)).max(f64::MIN_POSITIVE);
        Self { start: y - xy / xx * x, slope: xy / xx, r2: xy * xy / (xx * yy) }
    }

    /// Its height.
    pub fn at(&self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_points_that_lie_on_one() {
        let line = Line::through(&[(0.0, 1.0), (10.0, 3.0), (30.0, 7.0)]);
        assert!((line.start - 1.0).abs() < 1e-9 && (line.slope - 0.2).abs() < 1e-9 && line.r2 > 0.999_999);
        let off = Line::through(&[(0.0, 1.0), (10.0, 5.0), (30.0, 2.0)]);
        assert!(off.r2 < 0.1, "{off:?}");
    }
}
