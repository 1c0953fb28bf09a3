//! Memory that the extent map takes, counted from what is allocated: TL-MAP-2.

use shingle_base::Lba;
use shingle_sim::{Random, seeds};
use shingle_translation::{Extent, ExtentMap, Place, Stride};

/// Bytes an extent at most.
const GOAL: u64 = 16;

fn map() -> ExtentMap {
    ExtentMap::new(Stride::new(256, 257).expect("it is one"))
}

/// Somewhere, and nowhere that continues another place.
fn somewhere(random: &mut Random) -> Place {
    Place::new(Lba(random.below(1 << 36)), 1).expect("it is one")
}

/// Extents of 8 sectors at random sectors of 16 TiB, until there are `extents`. Calls `each` after each.
fn fill(map: &mut ExtentMap, random: &mut Random, extents: u64, mut each: impl FnMut(&ExtentMap)) {
    while map.len() < extents {
        let lba = random.below(1 << 31) * 16;
        map.replace(lba..lba + 8, Some(somewhere(random)), |_| ());
        each(map);
    }
}

#[track_caller]
fn assert_small(map: &ExtentMap, what: &str) {
    let (bytes, len) = (map.memory_bytes(), map.len());
    assert!(bytes <= GOAL * len, "{what}: {bytes} bytes for {len} extents, {:.2} each", bytes as f64 / len as f64);
}

/// TL-MAP-2
#[test]
fn ten_million_random_extents_take_at_most_160_mb() {
    let mut map = map();
    fill(&mut map, &mut Random::new(1), 10_000_000, |_| ());
    assert_small(&map, "random");
    map.check().expect("the map keeps its invariants");
}

/// TL-MAP-2, at each size at which 40 KiB of directory and scratch no longer matter: splits that come in waves cost no more.
#[test]
fn no_size_between_takes_more() {
    for seed in seeds(3) {
        let mut map = map();
        let check = |map: &ExtentMap| {
            if map.len() >= 50_000 && map.len() % 16 == 0 {
                assert_small(map, "at random")
            }
        };
        fill(&mut map, &mut Random::new(seed), 200_000, check);
        // Leaves that are all as full as each other are split at about the same time.
        map.tidy(0, usize::MAX);
        fill(&mut map, &mut Random::new(seed + 1000), 500_000, check);
    }
}

/// TL-MAP-2
#[test]
fn a_map_that_is_written_in_order_is_dense() {
    let mut map = map();
    let mut random = Random::new(1);
    for number in 0..500_000 {
        map.replace(number * 8..number * 8 + 8, Some(somewhere(&mut random)), |_| ());
    }
    assert!(map.memory_bytes() <= 125 * map.len() / 10, "{} bytes", map.memory_bytes());
}

/// TL-MAP-2: an adversary keeps, of each leaf, just so much that it is not merged with its neighbours; `tidy` makes them dense.
#[test]
fn a_map_that_was_thinned_out_becomes_dense_again() {
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let mut map = map();
        let lbas = 0..400_000;
        for number in lbas.clone() {
            map.replace(number * 8..number * 8 + 8, Some(somewhere(&mut random)), |_| ());
        }
        // Leaves of 336 were filled one after the other. Of two neighbours 1 and 252 extents are left.
        for number in lbas {
            let keep = if number / 336 % 2 == 0 { 1 } else { 252 };
            if number % 336 >= keep {
                map.replace(number * 8..number * 8 + 8, None, |_| ());
            }
        }
        let thin = map.memory_bytes() as f64 / map.len() as f64;
        assert!(thin > 30.0, "the adversary found another map than it was made for: {thin} bytes an extent");
        let before: Vec<Extent> = extents(&map);
        let (mut from, mut calls) = (Some(0), 0);
        while let Some(next) = from {
            from = map.tidy(next, 32);
            calls += 1;
        }
        assert!(calls > 10, "it works in portions");
        assert_small(&map, "tidied");
        assert!(map.memory_bytes() <= 14 * map.len(), "{} bytes an extent", map.memory_bytes() / map.len());
        map.check().expect("the map keeps its invariants");
        assert!(before == extents(&map), "seed {seed}: it holds other extents");
        // Half of it at random goes: as sparse as chance makes it.
        for extent in before.iter().filter(|_| random.chance(0.5)) {
            map.replace(extent.lba..extent.end(), None, |_| ());
        }
        map.tidy(0, usize::MAX);
        assert_small(&map, "tidied again");
        map.check().expect("the map keeps its invariants");
    }
}

fn extents(map: &ExtentMap) -> Vec<Extent> {
    let mut all = Vec::new();
    map.within(0..u64::MAX, |extent| all.push(extent));
    all
}
