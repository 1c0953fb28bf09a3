//! Bytes of a sector that tell which write they are of, and where they belong.
//!
//! **Owns** the form: units of 16 bytes, each with the sector, its own place in the sector, and the number of the write. So bytes
//! of another sector, of two writes, or moved inside the sector are all seen.

use super::versions::ZEROS;

const UNIT: usize = 16;

/// Bits of a unit's first word that have the sector; the place of the unit is above.
const SECTOR_BITS: u32 = 48;

fn unit(sector: u64, place: usize, number: u64) -> [u8; UNIT] {
    let mut bytes = [0; UNIT];
    let (at, of) = bytes.split_at_mut(8);
    at.copy_from_slice(&(sector | (place as u64) << SECTOR_BITS).to_le_bytes());
    of.copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Bytes of write `number`, which is not zero, for sectors of `sector_bytes` from `first` on.
///
/// # Panics
/// If a length is not of whole units.
pub fn fill(data: &mut [u8], first: u64, sector_bytes: u64, number: u64) {
    assert!(number != ZEROS, "write 0 stands for zeros");
    for (sector, bytes) in (first..).zip(data.chunks_exact_mut(sector_bytes as usize)) {
        for (place, target) in bytes.chunks_exact_mut(UNIT).enumerate() {
            target.copy_from_slice(&unit(sector, place, number));
        }
    }
}

/// The number of the write that the bytes of `sector` are of, wholly; [`ZEROS`] for zeros.
///
/// # Errors
/// A description of the bytes, if they are neither.
pub(super) fn written_by(sector: u64, bytes: &[u8]) -> Result<u64, String> {
    let mut units = bytes.chunks_exact(UNIT);
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(ZEROS);
    }
    let words = |unit: &[u8]| {
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&unit[from..from + 8]);
            u64::from_le_bytes(word)
        };
        (word(0), word(8))
    };
    let number = units.next().map_or(ZEROS, |first| words(first).1);
    let wrong = bytes.chunks_exact(UNIT).enumerate().find(|(place, found)| **found != unit(sector, *place, number));
    match wrong {
        None if number != ZEROS => Ok(number),
        None => Err("its bytes are of no write".to_owned()),
        Some((place, found)) => {
            let (at, of) = words(found);
            let (sector, own) = (at & ((1 << SECTOR_BITS) - 1), at >> SECTOR_BITS);
            Err(format!(
                "it begins with bytes of write {number}, but its unit {place} has those of write {of} for sector {sector}, unit {own}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_another_sector_or_write_or_place_are_seen() {
        for sector_bytes in [512, 4096] {
            let size = sector_bytes as usize;
            let mut data = vec![0; 3 * size];
            fill(&mut data, 7, sector_bytes, 5);
            let sectors: Vec<_> = data.chunks(size).collect();
            assert_eq!(written_by(8, sectors[1]), Ok(5));
            assert_eq!(written_by(8, &vec![0; size]), Ok(ZEROS));
            assert!(written_by(7, sectors[1]).is_err());
            let mut other = vec![0; size];
            fill(&mut other, 8, sector_bytes, 6);
            for at in [0, 16, size / 2, size - 16] {
                let torn = [&sectors[1][..at], &other[at..]].concat();
                assert_eq!(written_by(8, &torn).is_err(), at > 0, "torn at {at}");
                let zeroed = [&sectors[1][..at], &vec![0; size - at]].concat();
                assert_eq!(written_by(8, &zeroed).is_err(), at > 0, "zeros from {at}");
            }
            let moved = [&sectors[1][16..], &sectors[1][..16]].concat();
            assert!(written_by(8, &moved).is_err());
            let mut flipped = sectors[1].to_vec();
            flipped[size - 1] ^= 1;
            assert!(written_by(8, &flipped).is_err());
        }
    }
}
