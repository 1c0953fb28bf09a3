//! Sets of blocks, and counts of references to them, as ranges.

use std::ops::Range;

/// Ranges in order, with a gap between each two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range<u32>>);

impl Ranges {
    /// The ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.0.iter().cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|other| other.end < range.start);
        let last = self.0.partition_point(|other| other.start <= range.end);
        let mut whole = range;
        for other in &self.0[first..last] {
            whole = whole.start.min(other.start)..whole.end.max(other.end);
        }
        self.0.splice(first..last, [whole]);
    }

    /// Parts of these that are not in `others`.
    pub(crate) fn without(&self, others: &Self) -> Self {
        let mut left = Self::default();
        for range in &self.0 {
            let mut from = range.start;
            for other in others.0.iter().filter(|other| other.start < range.end && other.end > range.start) {
                left.add(from..other.start.max(from));
                from = from.max(other.end);
            }
            left.add(from..range.end);
        }
        left
    }
}

impl FromIterator<Range<u32>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(ranges: I) -> Self {
        let mut all = Self::default();
        ranges.into_iter().for_each(|range| all.add(range));
        all
    }
}

/// References to each block of a shared blob: ranges in order with a count above zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) Vec<(Range<u32>, u32)>);

impl Counts {
    /// Counts `by` more for each block of some ranges. A count never goes below zero: `false` if one would have to.
    pub(crate) fn change(&mut self, ranges: &Ranges, by: i32) -> bool {
        let mut edges: Vec<(u32, i64)> = Vec::new();
        let mut edge = |range: Range<u32>, count: i64| edges.extend([(range.start, count), (range.end, -count)]);
        self.0.iter().for_each(|(range, count)| edge(range.clone(), i64::from(*count)));
        ranges.iter().for_each(|range| edge(range, i64::from(by)));
        edges.sort_unstable_by_key(|(at, _)| *at);
        let (mut counts, mut count, mut from, mut good) = (Vec::<(Range<u32>, u32)>::new(), 0i64, 0, true);
        for (at, by) in edges {
            if at > from && count != 0 {
                good &= count > 0;
                let kept = u32::try_from(count).unwrap_or(0);
                match counts.last_mut() {
                    Some((last, same)) if last.end == from && *same == kept => last.end = at,
                    _ => counts.push((from..at, kept)),
                }
            }
            count += by;
            from = at;
        }
        counts.retain(|(_, count)| *count > 0);
        self.0 = counts;
        good
    }

    /// Blocks with a reference.
    pub(crate) fn used(&self) -> Ranges {
        self.0.iter().map(|(range, _)| range.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::{Random, seeds};

    use super::*;

    fn bits(ranges: &Ranges) -> Vec<bool> {
        (0..64).map(|block| ranges.iter().any(|range| range.contains(&block))).collect()
    }

    #[test]
    fn ranges_and_counts_are_those_of_a_model() {
        for seed in seeds(50) {
            let mut random = Random::new(seed);
            let (mut ranges, mut model) = (Ranges::default(), vec![false; 64]);
            let (mut counts, mut numbers) = (Counts::default(), vec![0u32; 64]);
            for _ in 0..60 {
                let from = random.below(60) as u32;
                let one = from..(from + random.below(9) as u32).min(64);
                let set: Ranges = [one.clone()].into_iter().collect();
                let inside = |block: &usize| one.contains(&(*block as u32));
                if random.chance(0.6) {
                    ranges.add(one.clone());
                    (0..64).filter(inside).for_each(|block| model[block] = true);
                } else {
                    ranges = ranges.without(&set);
                    (0..64).filter(inside).for_each(|block| model[block] = false);
                }
                assert_eq!(bits(&ranges), model, "seed {seed}");
                assert!(ranges.0.is_sorted_by(|one, next| one.end < next.start), "seed {seed}: {ranges:?}");
                let up = random.chance(0.6) || (0..64).filter(inside).any(|block| numbers[block] == 0);
                assert!(counts.change(&set, if up { 1 } else { -1 }), "seed {seed}");
                for block in (0..64).filter(inside) {
                    numbers[block] = if up { numbers[block] + 1 } else { numbers[block] - 1 };
                }
                let counted: Vec<u32> = (0..64u32)
                    .map(|block| {
                        counts.0.iter().find(|(range, _)| range.contains(&block)).map_or(0, |(_, count)| *count)
                    })
                    .collect();
                assert_eq!(counted, numbers, "seed {seed}");
                assert!(counts.0.is_sorted_by(|(one, count), (next, other)| {
                    one.end < next.start || one.end == next.start && count != other
                }));
            }
        }
        assert!(!Counts::default().change(&std::iter::once(0..3).collect(), -1), "nothing is there to be let go");
    }
}
