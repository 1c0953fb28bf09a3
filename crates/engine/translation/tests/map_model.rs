//! The extent map beside a plain map of sectors, in long random histories.

use std::collections::BTreeMap;
use std::ops::Range;

use shingle_base::Lba;
use shingle_sim::{Random, seeds};
use shingle_translation::{Extent, ExtentMap, LENGTH_MAX, Place, Stride};

/// Leaves and nodes so small that some hundred sectors fill several of each.
type SmallMap = ExtentMap<8, 4>;

/// The sectors of a history, by number. Between two blocks of `block` of them there may be a gap, and each stands for `unit`
/// sectors of the map.
#[derive(Clone, Copy)]
struct Shape {
    numbers: u64,
    block: u64,
    spread: u64,
    unit: u32,
}

/// Sectors beside each other; lengths that reach the limit of an extent; blocks so far apart that few share a leaf.
const SHAPES: [Shape; 3] = [
    Shape { numbers: 600, block: 600, spread: 0, unit: 1 },
    Shape { numbers: 600, block: 600, spread: 0, unit: 8192 },
    Shape { numbers: 600, block: 20, spread: 1 << 30, unit: 1 },
];

impl Shape {
    fn lba(self, number: u64) -> u64 {
        number / self.block * self.spread + number * u64::from(self.unit)
    }
}

struct History {
    shape: Shape,
    stride: Stride,
    map: SmallMap,
    /// Place of each number's first sector.
    model: BTreeMap<u64, Place>,
    random: Random,
    /// The place of the next write in sequence.
    frontier: Place,
}

impl History {
    fn new(seed: u64, shape: Shape) -> Self {
        let mut random = Random::new(seed);
        let stride = Stride::new(random.between(1, 64) as u32, random.between(1, 9) as u32).expect("it is one");
        let frontier = Place::new(Lba(1), 0).expect("it is a place");
        Self { shape, stride, map: SmallMap::new(stride), model: BTreeMap::new(), random, frontier }
    }

    fn step(&mut self, most: u64) {
        let from = self.random.below(self.shape.numbers);
        let numbers = from..(from + self.random.between(1, most)).min(self.shape.numbers);
        match self.random.below(10) {
            0..3 => self.discard(numbers),
            3 => self.write(numbers, Place::LOST),
            4 => {
                let place = Place::new(Lba(self.random.below(1 << 30)), 0).expect("it is a place");
                self.write(numbers, place);
            }
            // Back to where the number was or could have been: such an extent continues its neighbours.
            5 => {
                let ahead = numbers.start as u32 * self.shape.unit;
                self.write(numbers, Place::new(Lba(0), 0).expect("it is a place").advance(ahead, self.stride));
            }
            _ => self.write(numbers, self.frontier),
        }
    }

    fn write(&mut self, numbers: Range<u64>, place: Place) {
        // Numbers of one block follow each other.
        let end = numbers.end.min((numbers.start / self.shape.block + 1) * self.shape.block);
        let numbers = numbers.start..end;
        self.replace(numbers.clone(), Some(place));
        let mut at = place;
        for number in numbers {
            self.model.insert(number, at);
            at = at.advance(self.shape.unit, self.stride);
        }
        if place == self.frontier {
            self.frontier = at;
        }
    }

    fn discard(&mut self, numbers: Range<u64>) {
        self.replace(numbers.clone(), None);
        self.model.retain(|number, _| !numbers.contains(number));
    }

    /// TL-MAP-3
    fn replace(&mut self, numbers: Range<u64>, place: Option<Place>) {
        let (start, end) =
            (self.shape.lba(numbers.start), self.shape.lba(numbers.end - 1) + u64::from(self.shape.unit));
        let mut pieces = Vec::new();
        self.map.replace(start..end, place, |piece| pieces.push(piece));
        assert!(pieces.iter().all(|piece| piece.sectors > 0 && start <= piece.lba && piece.end() <= end));
        let before = self.model.range(numbers).map(|(number, place)| (*number, *place)).collect();
        self.assert_same(&pieces, &before, "displaced");
    }

    /// Some extents are in order and say what a part of the model does.
    fn assert_same(&self, extents: &[Extent], model: &BTreeMap<u64, Place>, what: &str) {
        let unit = self.shape.unit;
        let mut left = extents.iter().copied().peekable();
        let mut sectors = 0;
        for (number, place) in model {
            let (mut lba, mut place) = (self.shape.lba(*number), *place);
            let end = lba + u64::from(unit);
            while lba < end {
                while left.next_if(|extent| extent.end() <= lba).is_some() {}
                let extent = left.peek().filter(|extent| extent.lba <= lba);
                let extent = extent.unwrap_or_else(|| panic!("{what}: sector {lba} is missing"));
                let part = extent.part(&(lba..end), self.stride);
                assert_eq!(part.place, place, "{what}: sector {lba}");
                lba = part.end();
                place = place.advance(part.sectors, self.stride);
                sectors += u64::from(part.sectors);
            }
        }
        let all: u64 = extents.iter().map(|extent| u64::from(extent.sectors)).sum();
        assert_eq!(all, sectors, "{what}: more sectors than there should be");
        assert!(extents.windows(2).all(|pair| pair[0].end() <= pair[1].lba), "{what}: out of order");
    }

    /// TL-MAP-1, TL-MAP-4
    fn compare(&mut self) {
        self.map.check().expect("the map keeps its invariants");
        let mut all = Vec::new();
        while let Some(extent) = self.map.next(all.last().map_or(0, Extent::end)) {
            all.push(extent);
        }
        self.assert_same(&all, &self.model, "all");
        assert_eq!(all.len() as u64, self.map.len());
        assert_eq!(all.is_empty(), self.map.is_empty());
        let (from, length) = (self.random.below(self.shape.numbers), self.random.between(1, 100));
        let numbers = from..(from + length).min(self.shape.numbers);
        let mut found = Vec::new();
        let lbas = self.shape.lba(numbers.start)..self.shape.lba(numbers.end - 1) + u64::from(self.shape.unit);
        self.map.within(lbas, |part| found.push(part));
        self.assert_same(
            &found,
            &self.model.range(numbers).map(|(number, place)| (*number, *place)).collect(),
            "within",
        );
        for number in from..(from + 3).min(self.shape.numbers) {
            let offset = self.random.below(u64::from(self.shape.unit));
            let lba = self.shape.lba(number) + offset;
            let found = self.map.get(lba).map(|extent| extent.part(&(lba..lba + 1), self.stride).place);
            let expected = self.model.get(&number).map(|place| place.advance(offset as u32, self.stride));
            assert_eq!(found, expected, "sector {lba}");
        }
    }

    fn tidy(&mut self) {
        let mut from = Some(self.random.below(self.shape.lba(self.shape.numbers)));
        for _ in 0..self.random.between(1, 20) {
            let leaves = self.random.between(0, 9) as usize;
            from = from.and_then(|from| self.map.tidy(from, leaves));
        }
    }
}

/// TL-MAP-1, TL-MAP-3 and TL-MAP-4, with everything compared after each step.
#[test]
fn it_agrees_with_a_map_of_sectors() {
    let mut full = 0;
    for seed in seeds(6) {
        for shape in SHAPES {
            let mut history = History::new(seed, shape);
            for step in 0..3000 {
                // Small writes fill the map with extents; large ones empty it again.
                let most = if step % 1000 < 800 { 6 } else { 150 };
                history.step(most);
                if step % 50 == 0 {
                    history.tidy();
                }
                history.compare();
                full = full.max(history.map.len());
            }
        }
    }
    assert!(full > 100, "leaves of 8 and nodes of 4 leaves were never many: {full} extents");
}

/// A checkpoint's extents make the same map, whatever their lengths.
#[test]
fn a_loaded_map_is_the_same() {
    for seed in seeds(20) {
        for shape in SHAPES {
            let mut history = History::new(seed, shape);
            (0..400).for_each(|_| history.step(12));
            let mut all = Vec::new();
            history.map.within(0..u64::MAX, |extent| all.push(extent));
            let whole = SmallMap::load(history.stride, all.iter().copied()).expect("it is a map");
            let halves = all.iter().flat_map(|extent| {
                let middle = extent.lba + u64::from(extent.sectors / 2);
                [extent.lba..middle, middle..extent.end()].map(|half| extent.part(&half, history.stride))
            });
            let halves = SmallMap::load(history.stride, halves.filter(|half| half.sectors > 0)).expect("it is a map");
            for map in [whole, halves] {
                history.map = map;
                history.compare();
            }
            // It goes on as one that was written.
            (0..50).for_each(|_| history.step(12));
            history.compare();
            assert!(all.iter().all(|extent| extent.sectors <= LENGTH_MAX));
        }
    }
}
