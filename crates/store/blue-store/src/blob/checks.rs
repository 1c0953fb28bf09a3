//! Checksums of stored bytes, one for each unit. (Dissertation, section 4.5.1.)
//!
//! # Invariants
//! - BLU-CHECK-1: bytes count as read only if the CRC-32C of each unit they are in is that of the metadata.

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, crc32c};

use super::{BLOCK, Blob};

/// Bytes as they are stored: in whole blocks, aligned for the drive.
pub(crate) fn padded(pieces: &[&[u8]]) -> Bytes {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut builder = AlignedBuf::builder(Blocks(length.div_ceil(BLOCK as usize) as u64));
    pieces.iter().for_each(|piece| builder.extend(piece));
    builder.finish()
}

/// Checksums of padded bytes.
pub(crate) fn checks_of(padded: &[u8], unit_shift: u8) -> Vec<u32> {
    padded.chunks((BLOCK << unit_shift) as usize).map(crc32c).collect()
}

impl Blob {
    /// The first unit of `blocks`, which begin with a unit, whose bytes are not those that were written; as its first block.
    /// (BLU-CHECK-1)
    pub(crate) fn first_bad(&self, first_block: u32, bytes: &[u8]) -> Option<u32> {
        let unit = 1u32 << self.unit_shift;
        let mut at = first_block;
        for stored in bytes.chunks((BLOCK << self.unit_shift) as usize) {
            let known = self.checks.get((at / unit) as usize);
            if known != Some(&crc32c(stored)) {
                return Some(at);
            }
            at += unit;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::blob::packing::Packing;

    /// BLU-CHECK-1.
    #[test]
    fn each_changed_unit_is_found() {
        let content: Vec<u8> = (0..50_000u32).map(|at| (at / 7) as u8).collect();
        for unit_shift in 0..3 {
            let bytes = padded(&[&content[..100], &content[100..]]);
            assert_eq!((bytes.len(), &bytes[..50_000]), (13 * 4096, &content[..]));
            let checks = checks_of(&bytes, unit_shift);
            let (raw, packing, state) = (50_000, Packing::Plain, RefCell::default());
            let blob = Blob { raw, stored: raw, packing, unit_shift, checks, state };
            assert_eq!(blob.first_bad(0, &bytes), None);
            for block in 0..13usize {
                let mut bad = bytes.to_vec();
                bad[block * 4096 + 5] ^= 4;
                let unit = block as u32 >> unit_shift << unit_shift;
                assert_eq!(blob.first_bad(0, &bad), Some(unit));
                assert_eq!(blob.first_bad(unit, &bad[unit as usize * 4096..]), Some(unit));
            }
        }
    }
}
