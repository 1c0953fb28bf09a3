//! An axis: its range, in equal steps or equal factors, and the places that are marked on it.

use super::figure::Axis;
use crate::report::number::number;

/// The range of an axis.
#[derive(Clone, Debug)]
pub(super) struct Span {
    first: f64,
    last: f64,
    logarithmic: bool,
    /// Marks lie at powers of two, since all values do.
    binary: bool,
    names: Vec<String>,
}

/// A marked place: its value, and its text.
pub(super) type Tick = (f64, String);

impl Span {
    /// The range that holds all values, and zero if `from_zero` asks for it or it is near.
    pub(super) fn of(axis: &Axis, values: &[f64], from_zero: bool) -> Self {
        let values = || values.iter().copied().filter(|value| value.is_finite() && (!axis.logarithmic || *value > 0.0));
        let (mut first, mut last) = values()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), value| (first.min(value), last.max(value)));
        if first > last {
            (first, last) = (0.1, 1.0);
        }
        let mut binary = false;
        if !axis.names.is_empty() {
            (first, last) = (-0.6, axis.names.len() as f64 - 0.4);
        } else if axis.logarithmic {
            binary = values().all(|value| value.log2().fract() == 0.0);
            let room = (last / first).powf(0.04).max(1.1);
            (first, last) = (first / room, last * room);
        } else if from_zero || (first >= 0.0 && first < last * 0.6) {
            (first, last) = (first.min(0.0), last + (last - first.min(0.0)).max(1e-9) * 0.08);
        } else {
            let room = (last - first).max(last.abs() * 0.01).max(1e-9) * 0.08;
            (first, last) = (first - room, last + room);
        }
        let span = Self { first, last, logarithmic: axis.logarithmic, binary, names: axis.names.clone() };
        // An axis of factors with less than two marks does not tell its scale.
        if axis.logarithmic && span.factors().len() < 2 { span.out_to_marks() } else { span }
    }

    /// The range out to the next mark on either side.
    fn out_to_marks(self) -> Self {
        let marks = self.all_factors();
        let below = marks.iter().copied().rfind(|at| *at <= self.first).unwrap_or(self.first);
        let above = marks.iter().copied().find(|at| *at >= self.last).unwrap_or(self.last);
        Self { first: below, last: above, ..self }
    }

    /// Start of the range.
    pub(super) fn first(&self) -> f64 {
        self.first
    }

    /// Position of a value along the axis, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.logarithmic { value.max(1e-12).ln() } else { value };
        (scaled(value) - scaled(self.first)) / (scaled(self.last) - scaled(self.first))
    }

    /// The marked places, about `most` of them on an axis of numbers.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        if !self.names.is_empty() {
            return self.names.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect();
        }
        if self.logarithmic {
            return self.factors().into_iter().map(|at| (at, number(at))).collect();
        }
        let step = nice_step((self.last - self.first) / most.max(2) as f64);
        let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let (from, to) = ((self.first / step).ceil() as i64, (self.last / step).floor() as i64);
        let text = |at: f64| if at.abs() >= 10_000.0 { number(at) } else { format!("{at:.decimals$}") };
        (from..=to).map(|at| at as f64 * step).map(|at| (at, text(at))).collect()
    }

    /// Marks of the range.
    fn factors(&self) -> Vec<f64> {
        self.all_factors().into_iter().filter(|at| (self.first..=self.last).contains(at)).collect()
    }

    /// Powers of two if all values are such, else 1, 2 and 5 of every power of ten, or that alone if it is many.
    fn all_factors(&self) -> Vec<f64> {
        if self.binary {
            return (-20..60).map(|power| 2f64.powi(power)).collect();
        }
        let steps: &[f64] = if self.last / self.first > 1e4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        (-9..=15).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power))).collect()
    }
}

/// The next of 1, 2, 5, 10, 20, 50 and so on.
fn nice_step(least: f64) -> f64 {
    let mut step = 1e-6;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if step * factor >= least {
                return step * factor;
            }
        }
        step *= 10.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, values: &[f64], most: usize) -> Vec<String> {
        Span::of(axis, values, false).ticks(most).into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn marks_are_few_round_and_as_long_as_they_must_be() {
        assert_eq!(texts(&Axis::linear("s"), &[3.0, 100.0], 5), ["0", "50", "100"]);
        assert_eq!(texts(&Axis::linear("s"), &[0.98, 1.02], 5), ["0.98", "0.99", "1.00", "1.01", "1.02"]);
        assert_eq!(texts(&Axis::logarithmic("KiB"), &[4.0, 32.0], 5), ["4", "8", "16", "32"]);
        assert_eq!(texts(&Axis::logarithmic("MB/s"), &[3.0, 120.0], 5), ["5", "10", "20", "50", "100"]);
        assert_eq!(texts(&Axis::logarithmic("ms"), &[25.0, 25.4], 5), ["20", "50"], "a narrow range has marks too");
        assert_eq!(texts(&Axis::logarithmic("KiB"), &[4.0], 5), ["2", "4", "8"]);
        assert_eq!(texts(&Axis::of_names("", vec!["a".to_owned(), "b".to_owned()]), &[], 5), ["a", "b"]);
        assert!(!texts(&Axis::linear("s"), &[], 5).is_empty(), "nothing to show is no reason to fail");
    }

    #[test]
    fn places_lie_between_the_ends() {
        let span = Span::of(&Axis::logarithmic("x"), &[1.0, 100.0], false);
        assert!((span.share(10.0) - 0.5).abs() < 1e-9);
        assert!(span.share(1.0) > 0.0 && span.share(100.0) < 1.0);
    }
}
