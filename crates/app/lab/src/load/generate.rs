//! Generated block loads: random, sequential, and overwrites of which few places get most.

use shingle_sim::Random;

use crate::error::LabError;
use crate::trace::io::{Io, IoKind, Ios, SECTOR, Source};

/// Order of the places of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Anywhere in the span, with equal chances.
    Random,
    /// One behind the other; from the beginning again at the span's end.
    Sequential,
    /// By a place's rank, in inverse proportion (Zipf's law with exponent 1, in steps of octaves): each octave of ranks has equal chances.
    /// Ranks are spread over the span.
    Zipf,
}

/// A generated load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Its name.
    pub name: String,
    /// Order of places.
    pub order: Order,
    /// I/Os in all.
    pub ios: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Reads among a hundred I/Os.
    pub reads_percent: u64,
    /// Durable writes among a hundred writes.
    pub fua_percent: u64,
    /// Bytes of the address space.
    pub size: u64,
    /// Bytes from its beginning that the I/Os touch.
    pub span: u64,
    /// Nanoseconds from one arrival to the next, in the mean: each gap is drawn from none to twice as long. 0: all arrive at once.
    pub gap: u64,
}

/// Draws the I/Os of a load.
struct Draw {
    load: Generated,
    random: Random,
    places: u64,
    number: u64,
    at: u64,
}

impl Draw {
    fn place(&mut self) -> u64 {
        match self.load.order {
            Order::Sequential => self.number % self.places,
            Order::Random => self.random.below(self.places),
            Order::Zipf => {
                let octaves = u64::from(self.places.ilog2()) + 1;
                let first = 1u64 << self.random.below(octaves);
                let rank = (first + self.random.below(first)).min(self.places) - 1;
                spread(rank, self.places)
            }
        }
    }
}

/// The place of a rank: another one for each, far from those of its neighbours.
fn spread(rank: u64, places: u64) -> u64 {
    // A step that has no divisor in common with the number of places visits each of them once.
    let mut step = places / 21 * 13 + 1;
    while greatest_common_divisor(step, places) != 1 {
        step += 1;
    }
    (u128::from(rank) * u128::from(step) % u128::from(places)) as u64
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Iterator for Draw {
    type Item = Result<Io, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.number == self.load.ios {
            return None;
        }
        if self.number > 0 && self.load.gap > 0 {
            self.at += self.random.below(2 * self.load.gap + 1);
        }
        let offset = self.place() * self.load.bytes;
        self.number += 1;
        let reads = self.random.below(100) < self.load.reads_percent;
        let fua = !reads && self.random.below(100) < self.load.fua_percent;
        let kind = if reads { IoKind::Read } else { IoKind::Write };
        Some(Ok(Io { fua, ..Io::new(self.at, kind, offset, self.load.bytes) }))
    }
}

impl Source for Generated {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn open(&self, seed: u64) -> Result<Ios, LabError> {
        let places = self.span.min(self.size).checked_div(self.bytes).unwrap_or(0);
        if places == 0 || !self.bytes.is_multiple_of(SECTOR) {
            return Err(LabError(format!(
                "the load {}: {} bytes of {} have no place",
                self.name, self.bytes, self.span
            )));
        }
        Ok(Box::new(Draw { load: self.clone(), random: Random::new(seed), places, number: 0, at: 0 }))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeSet;

    use super::*;

    /// Shares of the I/Os that the most used places get: of 1, 10 and 100 of a thousand places.
    fn skew(counts: impl IntoIterator<Item = u64>) -> [f64; 3] {
        let mut counts: Vec<u64> = counts.into_iter().collect();
        counts.sort_unstable_by_key(|&count| Reverse(count));
        let all = counts.iter().sum::<u64>().max(1) as f64;
        [1, 10, 100].map(|per_mille| counts.iter().take(counts.len() * per_mille / 1000).sum::<u64>() as f64 / all)
    }

    fn load(order: Order) -> Generated {
        Generated {
            name: "some".to_owned(),
            order,
            ios: 20_000,
            bytes: 4096,
            reads_percent: 30,
            fua_percent: 10,
            size: 1 << 30,
            span: 1000 * 4096,
            gap: 1000,
        }
    }

    fn ios(load: &Generated, seed: u64) -> Vec<Io> {
        load.open(seed).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_load_is_what_it_says_and_the_same_for_a_seed() {
        for order in [Order::Random, Order::Sequential, Order::Zipf] {
            let load = load(order);
            let found = ios(&load, 1);
            assert_eq!(found, ios(&load, 1));
            assert_ne!(found, ios(&load, 2));
            let share = |is: fn(&Io) -> bool| found.iter().filter(|io| is(io)).count() as f64 / found.len() as f64;
            assert!(
                (share(|io| io.kind == IoKind::Read) - 0.3).abs() < 0.02 && (share(|io| io.fua) - 0.07).abs() < 0.01
            );
            assert!(found.is_sorted_by_key(|io| io.at) && found.iter().all(|io| io.check(load.span, 0).is_ok()));
            let mean = found.last().unwrap().at as f64 / found.len() as f64;
            assert!((mean / 1000.0 - 1.0).abs() < 0.02, "{mean}");
            let mut counts = vec![0; 1000];
            found.iter().for_each(|io| counts[(io.offset / 4096) as usize] += 1);
            let [top, _, tenth] = skew(counts.clone());
            match order {
                Order::Sequential => assert!(counts.iter().all(|&count| count == 20)),
                Order::Random => assert!(top < 0.003 && (0.1..0.15).contains(&tenth), "{top} {tenth}"),
                // One of ten octaves is a single place, and 127 of the places are in seven of them.
                Order::Zipf => assert!((0.08..0.12).contains(&top) && (0.6..0.75).contains(&tenth), "{top} {tenth}"),
            }
        }
    }

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        for places in [1, 2, 7, 1000, 1024, 30_030] {
            let spread: BTreeSet<u64> = (0..places).map(|rank| spread(rank, places)).collect();
            assert!(spread.len() as u64 == places && spread.iter().all(|&place| place < places), "{places}");
        }
        let none = Generated { span: 100, ..load(Order::Random) };
        assert!(none.open(1).is_err_and(|error| error.0.contains("some")));
    }
}
