//! Statistics of latencies: places of order, bootstrap intervals, a rank test, a change point, a robust line.
//!
//! **Owns** the mathematics of every decision. **Knows nothing of** drives.

use crate::random::Random;

/// Resamples of a bootstrap interval.
const RESAMPLES: usize = 400;

/// Confidence of every decision, unless one says otherwise.
pub const CONFIDENCE: f64 = 0.99;

/// The value below which that share of a list lies; `NaN` of an empty one.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    of_sorted(&sorted, share)
}

fn of_sorted(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    sorted[low] + (sorted[(low + 1).min(last)] - sorted[low]) * part
}

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The width of the middle half.
pub fn middle_half(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    of_sorted(&sorted, 0.75) - of_sorted(&sorted, 0.25)
}

/// A robust measure of spread, which is the standard deviation of normal values: the median distance from the median.
pub fn spread(values: &[f64]) -> f64 {
    let middle = median(values);
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    1.4826 * median(&distances)
}

/// The interval that has a statistic of the population at [`CONFIDENCE`], by resampling.
pub fn bootstrap(values: &[f64], random: &mut Random, statistic: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let mut found: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<f64> = values.iter().map(|_| values[random.below(values.len() as u64) as usize]).collect();
            statistic(&drawn)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    (of_sorted(&found, tail), of_sorted(&found, 1.0 - tail))
}

/// The probability that two lists from one population differ in rank as much as these do (Mann and Whitney, both sides).
pub fn rank_test(one: &[f64], other: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        one.iter().map(|&value| (value, true)).chain(other.iter().map(|&value| (value, false))).collect();
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (mut sum, mut ties, mut at) = (0.0, 0.0, 0);
    while at < all.len() {
        let end = at + all[at..].iter().take_while(|entry| entry.0 == all[at].0).count();
        let (rank, count) = ((at + end + 1) as f64 / 2.0, (end - at) as f64);
        sum += all[at..end].iter().filter(|entry| entry.1).count() as f64 * rank;
        ties += count * (count * count - 1.0);
        at = end;
    }
    let (ours, theirs, total) = (one.len() as f64, other.len() as f64, all.len() as f64);
    let expected = ours * (total + 1.0) / 2.0;
    let variance = ours * theirs / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((sum - expected).abs() - 0.5).max(0.0) / variance.sqrt();
    (2.0 * upper_tail(distance)).min(1.0)
}

/// Share of the normal distribution above a value of zero or more (Abramowitz and Stegun, 26.2.17).
fn upper_tail(value: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * value);
    let series =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    (-value * value / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * series
}

/// True if so many tries that all agree are no chance: each would have agreed by half.
pub fn is_unanimous(agree: usize, tries: usize) -> bool {
    agree == tries && 0.5_f64.powi(tries as i32) < 1.0 - CONFIDENCE
}

/// The place at which a list splits best into two parts of different means (least squares): the first of the second part.
/// `None` of a list of fewer than two.
pub fn change_point(values: &[f64]) -> Option<usize> {
    let total: f64 = values.iter().sum();
    let count = values.len() as f64;
    let mut before = 0.0;
    let mut best = None;
    for (at, value) in values.iter().enumerate().take(values.len().saturating_sub(1)) {
        before += value;
        let left = (at + 1) as f64;
        let difference = before / left - (total - before) / (count - left);
        let gain = left * (count - left) / count * difference * difference;
        if best.is_none_or(|(most, _)| gain > most) {
            best = Some((gain, at + 1));
        }
    }
    best.map(|(_, at)| at)
}

/// The line through points by the median of all slopes (Theil and Sen): slope, and value at zero.
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let slopes: Vec<f64> = points
        .iter()
        .enumerate()
        .flat_map(|(at, one)| points[at + 1..].iter().map(move |other| (one, other)))
        .filter(|(one, other)| one.0 != other.0)
        .map(|(one, other)| (other.1 - one.1) / (other.0 - one.0))
        .collect();
    let slope = median(&slopes);
    let rests: Vec<f64> = points.iter().map(|point| point.1 - slope * point.0).collect();
    (slope, median(&rests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_tries_that_agree_are_no_chance() {
        assert_eq!([6, 7, 8].map(|tries| is_unanimous(tries, tries)), [false, true, true]);
        assert!(!is_unanimous(8, 9));
    }

    #[test]
    fn places_of_order_lie_between_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((median(&values), quantile(&values, 0.0), quantile(&values, 1.0)), (2.5, 1.0, 4.0));
        assert_eq!(middle_half(&values), 1.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_bootstrap_interval_has_the_true_value_as_often_as_it_says() {
        let mut random = Random::new(1);
        let has = (0..200).filter(|_| {
            let drawn: Vec<f64> = (0..60).map(|_| random.share()).collect();
            let (low, high) = bootstrap(&drawn, &mut random, median);
            low <= 0.5 && 0.5 <= high
        });
        let has = has.count();
        assert!((190..=200).contains(&has), "{has} of 200");
    }

    #[test]
    fn ranks_tell_shifted_lists_and_not_equal_ones() {
        let mut random = Random::new(2);
        let mut false_alarms = 0;
        for _ in 0..500 {
            let mut draw = |shift: f64| (0..30).map(|_| shift + random.share()).collect::<Vec<f64>>();
            let (one, same, other) = (draw(0.0), draw(0.0), draw(0.6));
            false_alarms += usize::from(rank_test(&one, &same) < 0.05);
            assert!(rank_test(&one, &other) < 0.01);
        }
        assert!((5..50).contains(&false_alarms), "{false_alarms} of 500 at 5 %");
        assert!(rank_test(&[1.0; 6], &[1.0; 6]) > 0.9, "ties alone");
        assert!(rank_test(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[7.0, 8.0, 9.0, 10.0, 11.0, 12.0]) < 0.01);
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let mut random = Random::new(3);
        let values: Vec<f64> = (0..100).map(|at| if at < 37 { 1.0 } else { 3.0 } + random.share()).collect();
        assert_eq!(change_point(&values), Some(37));
        assert_eq!(change_point(&[1.0]), None);
    }

    #[test]
    fn a_line_is_found_among_outliers() {
        let mut points: Vec<(f64, f64)> = (0..30).map(|at| (f64::from(at), 5.0 - 0.25 * f64::from(at))).collect();
        points[3].1 = 90.0;
        points[17].1 = -40.0;
        assert_eq!(line(&points), (-0.25, 5.0));
    }
}
