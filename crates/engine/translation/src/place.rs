//! The place of a sector of a volume on its drive: a record, and the sector's number in the stream of sectors that the record holds.
//!
//! Most sectors that follow each other in a volume follow each other on the drive, within a record or from one full record to
//! the next. [`Place::advance`] counts on from one to the next, so the map needs one entry for all of them.
//!
//! # Invariants
//! - TL-PLACE-1: steps add up: a place `a + b` sectors on is that `b` sectors on from that `a` sectors on.
//! - TL-PLACE-2: no step leads from a place to one that does not exist: behind the last one lies [`Place::LOST`], and behind that
//!   nothing else.

use shingle_base::Lba;

/// Bits of a place: those of the record's block, and those of the sector in it.
const BLOCK_BITS: u32 = 37;
const SECTOR_BITS: u32 = 11;

/// Size of a full record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    sectors: u32,
    blocks: u32,
}

impl Stride {
    /// Records of one sector and one block.
    pub(crate) const ONE: Self = Self { sectors: 1, blocks: 1 };

    /// A full record holds `sectors` sectors, and the next one begins `blocks` blocks behind its begin. `None` unless both are at
    /// least 1 and a place can name all the sectors, 2,048.
    pub fn new(sectors: u32, blocks: u32) -> Option<Self> {
        let named = (1..=1 << SECTOR_BITS).contains(&sectors) && blocks > 0;
        named.then_some(Self { sectors, blocks })
    }

    /// Sectors that a full record holds.
    pub fn sectors(self) -> u32 {
        self.sectors
    }

    /// Blocks from the begin of a full record to that of the next.
    pub fn blocks(self) -> u32 {
        self.blocks
    }
}

/// The place of a sector, in 48 bits: 37 for the block at which its record begins (512 TiB), 11 for its number in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    /// The place of sectors whose data is lost: they were written, and cannot be read.
    pub const LOST: Self = Self((1 << (BLOCK_BITS + SECTOR_BITS)) - 1);

    /// The place, in the map of a snapshot, of sectors that had none when the snapshot was taken.
    pub const HOLE: Self = Self(Self::LOST.0 - 1);

    /// Sector `sector` of the record that begins at `record`. `None` if that takes more than 48 bits or would be [`Self::LOST`] or [`Self::HOLE`].
    pub fn new(record: Lba, sector: u32) -> Option<Self> {
        let named = record.0 < 1 << BLOCK_BITS && sector < 1 << SECTOR_BITS;
        let place = Self(record.0.wrapping_shl(SECTOR_BITS) | u64::from(sector));
        (named && place.is_stored()).then_some(place)
    }

    /// The place, or [`Self::LOST`], whose [`Self::bits`] these are. `None` above 48 bits.
    pub fn from_bits(bits: u64) -> Option<Self> {
        (bits <= Self::LOST.0).then_some(Self(bits))
    }

    /// A number of 48 bits that stands for it.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// It is neither [`Self::LOST`] nor [`Self::HOLE`].
    pub(crate) fn is_stored(self) -> bool {
        self.0 < Self::HOLE.0
    }

    /// The block at which its record begins.
    pub fn record(self) -> Lba {
        Lba(self.0 >> SECTOR_BITS)
    }

    /// Its number in the record, from 0.
    pub fn sector(self) -> u32 {
        (self.0 & ((1 << SECTOR_BITS) - 1)) as u32
    }

    /// The place `sectors` sectors on, where all records between are full ones of size `stride`. (TL-PLACE-1, TL-PLACE-2)
    #[must_use]
    pub fn advance(self, sectors: u32, stride: Stride) -> Self {
        if !self.is_stored() {
            return self;
        }
        let sector = u64::from(self.sector()) + u64::from(sectors);
        let full = u64::from(stride.sectors);
        if sector < full {
            return Self(self.0 + u64::from(sectors));
        }
        // 33 bits times 32 bits may not fit, but the quotient has 33 bits only where the divisor is 1.
        let onwards = (sector / full).saturating_mul(u64::from(stride.blocks));
        let record = Lba(self.record().0.saturating_add(onwards));
        Self::new(record, (sector % full) as u32).unwrap_or(Self::LOST)
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::{Random, seeds};

    use super::*;

    const STRIDE: Stride = Stride { sectors: 256, blocks: 257 };

    fn place(record: u64, sector: u32) -> Place {
        Place::new(Lba(record), sector).expect("it is named")
    }

    #[test]
    fn a_place_counts_on_through_full_records() {
        assert_eq!(place(1, 0).advance(0, STRIDE), place(1, 0));
        assert_eq!(place(1, 0).advance(255, STRIDE), place(1, 255));
        assert_eq!(place(1, 0).advance(256, STRIDE), place(258, 0));
        assert_eq!(place(1, 250).advance(256 * 3 + 10, STRIDE), place(1 + 257 * 4, 4));
    }

    #[test]
    fn only_48_bits_are_a_place() {
        let last = (1 << 37) - 1;
        assert_eq!(Place::new(Lba(last), 2047), None, "that is LOST");
        assert_eq!(Place::new(Lba(last), 2046), None, "that is HOLE");
        assert_eq!(Place::new(Lba(last), 2045).map(Place::bits), Some((1 << 48) - 3));
        for (record, sector) in [(1 << 37, 0), (u64::MAX, 0), (0, 2048), (0, u32::MAX), (1 << 53, 5)] {
            assert_eq!(Place::new(Lba(record), sector), None, "{record} {sector}");
        }
        assert_eq!(Place::from_bits(1 << 48), None);
        assert_eq!(Place::from_bits((1 << 48) - 1), Some(Place::LOST));
        let taken = [(0, 1), (1, 0), (2049, 1)].map(|(sectors, blocks)| Stride::new(sectors, blocks));
        assert_eq!(taken, [None; 3]);
        assert!(Stride::new(2048, 257).is_some());
    }

    /// TL-PLACE-2
    #[test]
    fn nothing_but_lost_lies_behind_the_last_place() {
        let last = place((1 << 37) - 1, 0);
        assert_eq!(last.advance(255, STRIDE), place((1 << 37) - 1, 255));
        assert_eq!(last.advance(256, STRIDE), Place::LOST);
        assert_eq!(last.advance(u32::MAX, Stride { sectors: 1, blocks: u32::MAX }), Place::LOST);
        assert_eq!(Place::LOST.advance(7, STRIDE), Place::LOST);
    }

    /// TL-PLACE-1
    #[test]
    fn steps_add_up() {
        for seed in seeds(200) {
            let mut random = Random::new(seed);
            for _ in 0..100 {
                let stride = Stride { sectors: random.between(1, 2048) as u32, blocks: random.between(1, 1000) as u32 };
                let bits = random.between(1, 48);
                let from = Place::from_bits(random.below(1 << bits)).expect("it is a place");
                let (a, b) = (random.below(100_000) as u32, random.below(100_000) as u32);
                assert_eq!(from.advance(a, stride).advance(b, stride), from.advance(a + b, stride), "{from:?} {a} {b}");
            }
        }
    }
}
