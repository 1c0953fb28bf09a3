//! The extent map at its limits: lengths, sector numbers, leaves that reach too far, arguments that make no sense.

use std::ops::Range;

use shingle_base::Lba;
use shingle_translation::{Extent, ExtentMap, LENGTH_MAX, Malformed, Place, Stride};

type SmallMap = ExtentMap<8, 4>;

const MAX: u64 = LENGTH_MAX as u64;

fn stride() -> Stride {
    Stride::new(256, 257).expect("it is one")
}

fn place(record: u64) -> Place {
    Place::new(Lba(record), 0).expect("it is one")
}

fn put<const N: usize, const D: usize>(
    map: &mut ExtentMap<N, D>,
    range: Range<u64>,
    place: Option<Place>,
) -> Vec<Extent> {
    let mut pieces = Vec::new();
    map.replace(range, place, |piece| pieces.push(piece));
    map.check().expect("the map keeps its invariants");
    pieces
}

fn all<const N: usize, const D: usize>(map: &ExtentMap<N, D>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    map.within(0..u64::MAX, |extent| all.push((extent.lba, extent.sectors)));
    all
}

#[test]
fn a_range_longer_than_an_extent_takes_several() {
    let mut map = SmallMap::new(stride());
    put(&mut map, 10..10 + 2 * MAX + 5, Some(place(1)));
    assert_eq!(all(&map), [(10, LENGTH_MAX), (10 + MAX, LENGTH_MAX), (10 + 2 * MAX, 5)]);
    let last = map.get(10 + 2 * MAX + 4).expect("it has a place");
    assert_eq!(last.place, place(1).advance(2 * LENGTH_MAX, stride()));
    assert_eq!(put(&mut map, 0..1 << 48, None).len(), 3);
    assert!(map.is_empty());
}

/// TL-MAP-1: 65,535 sectors are one extent, 65,536 are two, in whatever order they come.
#[test]
fn neighbours_are_joined_up_to_the_limit() {
    for backwards in [false, true] {
        for (length, extents) in [(MAX - 1, 1), (MAX, 1), (MAX + 1, 2)] {
            let mut map = SmallMap::new(stride());
            let parts = [0..40_000, 40_000..40_001, 40_001..length];
            let order = if backwards { [2, 1, 0] } else { [0, 1, 2] };
            for range in order.map(|part| parts[part].clone()) {
                let at = place(7).advance(range.start as u32, stride());
                put(&mut map, range, Some(at));
            }
            assert_eq!(map.len(), extents, "{length} sectors, backwards {backwards}");
        }
    }
}

/// TL-MAP-1: a cut makes an extent short enough for its neighbour.
#[test]
fn what_a_cut_leaves_is_joined_with_its_neighbour() {
    let mut map = SmallMap::new(stride());
    let parts = [0..40_000, 40_000..90_000];
    for range in parts {
        let at = place(7).advance(range.start as u32, stride());
        put(&mut map, range, Some(at));
    }
    assert_eq!(all(&map), [(0, 40_000), (40_000, 50_000)]);
    put(&mut map, 60_000..90_000, None);
    assert_eq!(all(&map), [(0, 60_000)], "the head of the second and the first");

    let mut map = SmallMap::new(stride());
    for range in [0..50_000, 50_000..90_000] {
        let at = place(7).advance(range.start as u32, stride());
        put(&mut map, range, Some(at));
    }
    put(&mut map, 0..30_000, Some(Place::LOST));
    assert_eq!(all(&map), [(0, 30_000), (30_000, 60_000)], "the tail of the first and the second");
}

#[test]
fn empty_and_reversed_ranges_change_nothing() {
    let mut map = SmallMap::new(stride());
    put(&mut map, 10..20, Some(place(1)));
    for range in [Range { start: 15, end: 15 }, Range { start: 18, end: 12 }, Range { start: u64::MAX, end: 0 }] {
        assert_eq!(put(&mut map, range.clone(), Some(place(9))), []);
        assert_eq!(put(&mut map, range.clone(), None), []);
        map.within(range, |part| panic!("{part:?} is in no range"));
    }
    assert_eq!(all(&map), [(10, 10)]);
    let nothing = SmallMap::new(stride());
    assert_eq!((nothing.get(0), nothing.next(0), nothing.memory_bytes()), (None, None, 0));
}

/// The end of the sectors that the formats can name, and of those that a number can.
#[test]
fn the_last_sectors_have_places() {
    for end in [1 << 48, u64::MAX] {
        let mut map = SmallMap::new(stride());
        put(&mut map, 0..8, Some(place(1)));
        put(&mut map, end - 8..end, Some(place(2)));
        let last = Extent { lba: end - 8, sectors: 8, place: place(2) };
        assert_eq!(map.get(end - 1), Some(last));
        assert_eq!(map.next(9), Some(last));
        assert_eq!((map.get(end), map.next(end)), (None, None));
        assert_eq!(put(&mut map, end - 1..u64::MAX, None).len(), 1);
        assert_eq!(all(&map), [(0, 8), (end - 8, 7)]);
    }
}

/// Extents of one leaf begin within 2^32 sectors of each other; others need another one, before or behind.
#[test]
fn a_leaf_that_would_reach_too_far_becomes_two() {
    let far = 1 << 32;
    for (lbas, leaves) in
        [([far - 1, 0, far - 2], 1), ([0, far, 2 * far], 3), ([2 * far, far, 0], 3), ([2 * far, 3, far + 2], 2)]
    {
        let mut map = ExtentMap::<336, 512>::new(stride());
        for lba in lbas {
            put(&mut map, lba..lba + 1, Some(place(lba % 1000)));
        }
        assert_eq!(map.memory_bytes() / 4096 - 2, leaves, "leaves of {lbas:?}, beside 8 KiB of directory");
        for lba in lbas {
            assert_eq!(map.get(lba).map(|extent| extent.place), Some(place(lba % 1000)), "{lba} of {lbas:?}");
        }
        for lba in lbas {
            assert_eq!(put(&mut map, lba..lba + 1, None).len(), 1);
        }
        assert!(map.is_empty());
    }
}

/// Leaves that are too far apart to be merged are merged once what lay between is gone.
#[test]
fn leaves_far_apart_are_merged_when_they_come_near() {
    let mut map = SmallMap::new(stride());
    let near = 3 << 30;
    for lba in [0, near, near + 10, 2 * near] {
        put(&mut map, lba..lba + 1, Some(place(5)));
    }
    let apart = map.memory_bytes();
    put(&mut map, 0..1, None);
    assert!(map.memory_bytes() < apart, "{} of {apart} bytes are left", map.memory_bytes());
}

#[test]
fn extents_that_are_no_map_are_refused() {
    let extent = |lba, sectors| Extent { lba, sectors, place: place(1) };
    for (extents, lba) in [
        (vec![extent(5, 0)], 5),
        (vec![extent(5, 5), extent(9, 5)], 9),
        (vec![extent(5, 5), extent(5, 5)], 5),
        (vec![extent(50, 5), extent(5, 5)], 5),
        (vec![extent(u64::MAX - 3, 4)], u64::MAX - 3),
        (vec![extent(u64::MAX, u32::MAX)], u64::MAX),
    ] {
        let loaded = SmallMap::load(stride(), extents.clone()).map(|map| map.len());
        assert_eq!(loaded, Err(Malformed { lba }), "{extents:?}");
    }
    let last = SmallMap::load(stride(), [extent(u64::MAX - 4, 4)]).expect("it is a map");
    assert_eq!(all(&last), [(u64::MAX - 4, 4)]);
    let longest = SmallMap::load(stride(), [extent(0, u32::MAX)]).expect("it is a map");
    assert_eq!(longest.len(), u64::from(u32::MAX).div_ceil(MAX));
    longest.check().expect("the map keeps its invariants");
}

/// Places from a damaged drive: sectors that no record of this size has, and steps behind the last place.
#[test]
fn odd_places_are_kept_as_they_are() {
    let mut map = SmallMap::new(stride());
    let odd = Place::new(Lba((1 << 37) - 1), 2045).expect("it is one");
    put(&mut map, 0..10, Some(odd));
    assert_eq!(map.get(0).map(|extent| extent.place), Some(odd));
    put(&mut map, 3..4, None);
    assert_eq!(all(&map), [(0, 3), (4, 6)]);
    assert_eq!(map.get(5).map(|extent| extent.place), Some(Place::LOST));
}
