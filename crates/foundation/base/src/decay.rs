//! Exponential decay, the same to the last bit on every machine.

/// Halvings of the exponent before the series is summed.
const HALVINGS: u32 = 10;

/// `e^-x`, by the four operations that IEEE 754 defines exactly: a mathematical library's own `exp` differs in its last
/// digits from one machine to the next, and one digit is enough to choose another victim and to run another history.
///
/// Within 2 * 10^-12 of the true value, relative to it, as long as that is above 10^-300. Zero or less gives 1.
pub fn decay(x: f64) -> f64 {
    if x <= 0.0 || x.is_nan() {
        return 1.0;
    }
    if x > 745.0 {
        return 0.0;
    }
    // The first terms of the series for a small part of x, then that many squarings.
    let part = x / f64::from(1u32 << HALVINGS);
    let mut sum = 1.0;
    for divisor in (1..=14u32).rev() {
        sum = 1.0 + part / f64::from(divisor) * sum;
    }
    let mut power = sum;
    for _ in 0..HALVINGS {
        power *= power;
    }
    1.0 / power
}

#[cfg(test)]
mod tests {
    use super::decay;

    #[test]
    fn it_is_the_exponential() {
        for number in 0..7000u32 {
            let x = f64::from(number) / 10.0;
            let off = decay(x) / (-x).exp() - 1.0;
            assert!(off.abs() < 1e-11, "{off} at {x}");
        }
    }

    #[test]
    fn its_ends_are_one_and_zero() {
        assert_eq!([-1.0, 0.0, f64::NAN].map(decay), [1.0; 3]);
        assert_eq!([1e4, f64::INFINITY].map(decay), [0.0; 2]);
    }

    /// The bits of the first run ever made; any machine must come to the same.
    #[test]
    fn its_bits_are_the_same_everywhere() {
        let found = [1e-9, 0.3, 1.0, 7.5, 200.0].map(|x: f64| decay(x).to_bits());
        assert_eq!(found, GOLDEN, "{found:?}");
    }

    const GOLDEN: [u64; 5] = [
        4_607_182_418_791_010_304,
        4_604_847_916_870_499_856,
        4_600_298_746_774_614_665,
        4_558_240_526_185_214_649,
        3_307_337_676_801_527_346,
    ];
}
