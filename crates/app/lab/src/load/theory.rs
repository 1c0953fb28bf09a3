//! Write amplification in theory.

/// Write amplification of greedy cleaning, where objects of equal size are deleted uniformly at random as new ones come: of a
/// store whose units of cleaning hold `objects` each, and of which a share `used` lives. (Desnoyers, Analytic Models of SSD
/// Write Performance, 2014.)
pub fn greedy(used: f64, objects: f64) -> f64 {
    let alpha = (1.0 + 1.0 / (2.0 * objects)) / used;
    let first = 0.5 - objects * used * lambert(-alpha * f64::exp(-alpha));
    objects / (objects - (first - 1.0))
}

/// Lambert's function, the branch above -1.
fn lambert(x: f64) -> f64 {
    let mut w = -0.5;
    for _ in 0..200 {
        w -= (w * f64::exp(w) - x) / ((1.0 + w) * f64::exp(w));
    }
    w
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_theory_has_its_known_values() {
        assert!((greedy(0.72, 1e6) - 1.99).abs() < 0.02, "{}", greedy(0.72, 1e6));
        assert!((greedy(0.9, 1e6) - 5.2).abs() < 0.1, "{}", greedy(0.9, 1e6));
        assert!(greedy(0.8, 20.0) < greedy(0.8, 1e6), "few large objects die with their unit");
    }
}
