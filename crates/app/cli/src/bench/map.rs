//! The extent map of translation layers beside a `BTreeMap` of the standard library with the same keys, in one thread: extents
//! inserted at random, looked up and given another place, and bytes an extent.
//!
//! Each lookup waits for the answer of the one before, so the rate is that of single lookups. The limit of bytes is the goal.

use std::collections::BTreeMap;
use std::hint::black_box;

use shingle_base::Lba;
use shingle_translation::{ExtentMap, Place, Stride};

use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::failure::{Failure, Outcome};

pub(crate) const EXTENTS: u64 = 10_000_000;

/// Lookups and changes of a round, and rounds. The maps take turns.
const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 5;

/// Extents of 4 KiB begin at some of the multiples of 8 KiB in 16 TiB, and have sectors of 512 B.
const BEGINS: u64 = 1 << 31;
const APART: u64 = 16;
const SECTORS: u64 = 8;

/// Goal: bytes an extent.
const BYTES_MAX: f64 = 16.0;

pub(crate) fn run(extents: u64) -> Outcome<Vec<Figure>> {
    let stride = Stride::new(2048, 257).ok_or_else(|| Failure::new("a record has 1 MiB"))?;
    let mut map: ExtentMap = ExtentMap::new(stride);
    let mut tree: BTreeMap<u64, u64> = BTreeMap::new();
    let began = limit::now();
    for number in 0..extents {
        let lba = lba(number);
        map.replace(lba..lba + SECTORS, place(number), |_| ());
    }
    let inserts = extents as f64 / began.elapsed().as_secs_f64();
    let began = limit::now();
    tree.extend((0..extents).map(|number| (lba(number), packed(number))));
    let tree_inserts = extents as f64 / began.elapsed().as_secs_f64();
    if map.len() != extents || tree.len() as u64 != extents {
        return Err(Failure::new("the maps lost extents"));
    }
    let mut rates: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS as u64 {
        let look = |lba| map.get(lba).map(|extent| extent.place.bits());
        rates[0].push(rate(extents, round, look)?);
        let look = |lba| {
            let (first, value) = tree.range(..=lba).next_back()?;
            (lba < first + (value >> 48)).then_some(value & Place::LOST.bits())
        };
        rates[1].push(rate(extents, round, look)?);
        let change = |lba| {
            let mut old = None;
            map.replace(lba..lba + SECTORS, place(lba), |extent| old = Some(extent.place.bits()));
            old
        };
        rates[2].push(rate(extents, round, change)?);
        rates[3].push(rate(extents, round, |lba| tree.insert(lba, packed(lba)))?);
    }
    let [lookups, tree_lookups, changes, tree_changes] = rates.map(median);
    let bytes = map.memory_bytes() as f64 / map.len() as f64;
    Ok(vec![
        Figure { id: "lookups", unit: "lookups/s", value: lookups, limit: tree_lookups },
        Figure { id: "inserts", unit: "inserts/s", value: inserts, limit: tree_inserts },
        Figure { id: "changes", unit: "changes/s", value: changes, limit: tree_changes },
        Figure { id: "memory", unit: "bytes/extent", value: bytes, limit: BYTES_MAX },
    ])
}

/// Calls a second, each for the first sector of an extent. The answer of each decides the next one's.
fn rate(extents: u64, round: u64, mut call: impl FnMut(u64) -> Option<u64>) -> Outcome<f64> {
    let mut number = round;
    let began = limit::now();
    for _ in 0..CALLS {
        let found = call(lba(number % extents)).ok_or_else(|| Failure::new("a map does not have what it was given"))?;
        number += 7_368_787 + (black_box(found) & 1);
    }
    Ok(CALLS as f64 / began.elapsed().as_secs_f64())
}

/// The first sector of an extent: numbers below [`BEGINS`] have different ones, in no order.
fn lba(number: u64) -> u64 {
    let mixed = [0x9E37_79B9, 0x85EB_CA6B].into_iter().fold(number, |number, odd| {
        let number = number % BEGINS;
        (number ^ (number >> 16)).wrapping_mul(odd)
    });
    mixed % BEGINS * APART
}

/// Some place; none continues another.
fn place(number: u64) -> Option<Place> {
    Place::new(Lba(number % (1 << 36)), 1)
}

/// Length and place, for a map of numbers.
fn packed(number: u64) -> u64 {
    SECTORS << 48 | place(number).map_or(0, Place::bits)
}
