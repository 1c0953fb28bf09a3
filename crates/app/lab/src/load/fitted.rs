//! Loads fitted to figures of a recorded one: share of writes, sizes, sequentiality, working set, skew.

use shingle_sim::Random;

use crate::error::LabError;
use crate::trace::io::{Io, IoKind, Ios, Source};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Figures of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// Its name.
    pub name: String,
    /// I/Os in all.
    pub ios: u64,
    /// Writes among a hundred I/Os.
    pub writes_percent: u64,
    /// Sizes in KiB, each with its weight; whole pages.
    pub sizes: Vec<(u64, u64)>,
    /// Among a hundred I/Os so many go on where the last one of their kind ended.
    pub sequential_percent: u64,
    /// Among a hundred others so many go to hot places.
    pub hot_percent: u64,
    /// Those that do not come so many at a time, with as much more time between: 1 = each by itself.
    pub burst: u64,
    /// Bytes of the hot places, which lie together, a third of the span from its beginning.
    pub hot: u64,
    /// Bytes from the beginning that I/Os touch.
    pub span: u64,
}

struct Draw {
    load: Fitted,
    random: Random,
    left: u64,
    /// I/Os of a burst that are still to come.
    burst_left: u64,
    /// Ends of the last read and the last write.
    ends: [u64; 2],
}

impl Draw {
    fn size(&mut self) -> u64 {
        let all: u64 = self.load.sizes.iter().map(|size| size.1).sum();
        let mut drawn = self.random.below(all.max(1));
        for &(kib, weight) in &self.load.sizes {
            if drawn < weight {
                return kib << 10;
            }
            drawn -= weight;
        }
        PAGE
    }

    fn place(&mut self, kind: usize, length: u64) -> u64 {
        let (load, random) = (&self.load, &mut self.random);
        let last = load.span - length;
        if random.below(100) < load.sequential_percent && self.ends[kind] <= last {
            return self.ends[kind];
        }
        let hot = match self.burst_left.checked_sub(1) {
            Some(left) => {
                self.burst_left = left;
                false
            }
            // A burst is as much rarer as it is longer.
            None if load.burst > 1 && load.hot_percent < 100 => {
                let (cold, all) = (100 - load.hot_percent, load.hot_percent * load.burst + 100 - load.hot_percent);
                let begins = random.below(all) < cold;
                self.burst_left = if begins { load.burst - 1 } else { 0 };
                !begins
            }
            None => random.below(100) < load.hot_percent,
        };
        if hot {
            let offset = load.span / 3 / PAGE * PAGE + random.below((load.hot / PAGE).max(1)) * PAGE;
            return offset.min(last);
        }
        random.below(last / PAGE + 1) * PAGE
    }
}

impl Iterator for Draw {
    type Item = Result<Io, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let writes = self.random.below(100) < self.load.writes_percent;
        let (kind, number) = if writes { (IoKind::Write, 1) } else { (IoKind::Read, 0) };
        let length = self.size();
        let offset = self.place(number, length);
        self.ends[number] = offset + length;
        Some(Ok(Io::new(0, kind, offset, length)))
    }
}

impl Source for Fitted {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.span
    }

    fn open(&self, seed: u64) -> Result<Ios, LabError> {
        let largest = self.sizes.iter().map(|size| size.0 << 10).max().unwrap_or(0);
        if largest == 0 || self.span < largest {
            return Err(LabError(format!("the load {}: its I/Os have no place", self.name)));
        }
        Ok(Box::new(Draw {
            load: self.clone(),
            random: Random::new(seed),
            left: self.ios,
            burst_left: 0,
            ends: [0; 2],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::stat::Counter;

    #[test]
    fn a_load_has_the_figures_that_it_was_given() {
        let load = Fitted {
            name: "some".to_owned(),
            ios: 20_000,
            writes_percent: 70,
            sizes: vec![(4, 1), (64, 3)],
            sequential_percent: 40,
            hot_percent: 80,
            burst: 1,
            hot: 16 << 20,
            span: 4 << 30,
        };
        let ios: Vec<Io> = load.open(3).unwrap().map(Result::unwrap).collect();
        assert!(ios.iter().all(|io| io.check(load.span, 0).is_ok()));
        let mut counter = Counter::default();
        ios.iter().for_each(|io| counter.take(io));
        let stat = counter.stat();
        assert!((stat.writes.share_percent - 70.0).abs() < 1.0, "{stat:?}");
        assert!((stat.writes.mean_bytes / (49.0 * 1024.0) - 1.0).abs() < 0.02, "{stat:?}");
        assert!((stat.writes.sequential_percent - 40.0).abs() < 3.0, "{stat:?}");
        // Four fifths of what is not sequential go to 16 MiB; the rest scatters.
        assert!((150..300).contains(&(stat.footprint_bytes >> 20)), "{}", stat.footprint_bytes >> 20);
        assert_eq!(ios, load.open(3).unwrap().map(Result::unwrap).collect::<Vec<_>>());
    }
}
