//! Inputs that are nearly right: real bytes with bits flipped, numbers at their extremes, parts cut, doubled and
//! exchanged, and checksums made right again, so that parsers get past them.

use shingle_base::{Crc, crc32c};
use shingle_sim::Random;

/// No input is longer.
const BYTES_MAX: usize = 64 << 10;

/// An input made of one or two of `specimens`.
pub fn mutated(random: &mut Random, specimens: &[Vec<u8>]) -> Vec<u8> {
    let pick = |random: &mut Random| &specimens[random.below(specimens.len() as u64) as usize];
    let mut bytes = pick(random).clone();
    if specimens.is_empty() || random.chance(0.02) {
        bytes = random_bytes(random, 300);
    }
    for _ in 0..1 + random.below(4) {
        change(random, &mut bytes, pick);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change<'a>(random: &mut Random, bytes: &mut Vec<u8>, pick: impl Fn(&mut Random) -> &'a Vec<u8>) {
    if bytes.is_empty() {
        *bytes = random_bytes(random, 40);
    }
    // The first bytes decide the most.
    let front = if random.chance(0.5) { bytes.len().min(128) } else { bytes.len() };
    let at = random.below(front as u64) as usize;
    let length = 1 + random.below((bytes.len() - at).min(64) as u64) as usize;
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.number() as u8,
        2 | 3 => extreme(random, bytes, at),
        4 => bytes.truncate(at),
        5 => bytes.extend(random_bytes(random, 64)),
        6 => drop(bytes.drain(at..at + length)),
        7 => {
            let again = bytes[at..at + length].to_vec();
            bytes.splice(at..at, again);
        }
        _ => {
            let other = pick(random);
            let from = random.below(other.len().max(1) as u64) as usize;
            let end = (from + length).min(other.len());
            let until = if random.chance(0.5) { at } else { (at + length).min(bytes.len()) };
            bytes.splice(at..until, other[from..end].iter().copied());
        }
    }
}

/// Puts a number that a length or a count should not be.
fn extreme(random: &mut Random, bytes: &mut [u8], at: usize) {
    let rest = (bytes.len() - at) as u64;
    let value = match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> 1,
        3 => u64::from(u32::MAX >> 1),
        4 => rest,
        5 => rest + 1,
        6 => 1 << random.below(64),
        _ => random.below(300),
    };
    let width = (1 << random.below(4)).min(bytes.len() - at);
    let mut raw = value.to_le_bytes();
    if random.chance(0.1) {
        raw[..width].reverse();
    }
    bytes[at..at + width].copy_from_slice(&raw[..width]);
}

fn random_bytes(random: &mut Random, most: u64) -> Vec<u8> {
    let length = 1 + random.below(most) as usize;
    match random.below(3) {
        0 => vec![0; length],
        1 => vec![0xff; length],
        _ => random.bytes(length),
    }
}

/// Makes the checksums right by which the parser of this name believes bytes at all.
pub fn seal(parser: &str, bytes: &mut [u8]) {
    let put = |bytes: &mut [u8], at: usize, crc: u32| bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    match parser {
        "record_header" | "zone_head" | "superblock" | "log_end_mark" | "log_link" | "log_journal_record"
        | "log_zone_head" | "array_set_head" | "array_trailer"
            if bytes.len() >= 96 =>
        {
            let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
            if let Some(payload) = bytes[96..].get(..length).map(crc32c) {
                put(bytes, 80, payload);
            }
            put(bytes, 92, crc32c(&bytes[..92]));
        }
        "pair" if bytes.len() >= 1536 => {
            for side in [0, bytes.len() - 1536] {
                let count = u16::from_le_bytes([bytes[side + 50], bytes[side + 51]]);
                let size = if bytes[side + 72] == 0 { 12 } else { 20 };
                let names = crc32c(&bytes[side + 96..side + 96 + (usize::from(count) * size).min(1440)]);
                put(bytes, side + 80, names);
                put(bytes, side + 92, crc32c(&bytes[side..side + 92]));
            }
        }
        "object_entry" if bytes.len() >= 56 => {
            let length = u32::from_le_bytes([bytes[40], bytes[41], bytes[42], bytes[43]]) as usize;
            if let Some(head) = bytes[56..].get(..length).map(crc32c) {
                put(bytes, 48, head);
            }
            put(bytes, 52, crc32c(&bytes[..52]));
        }
        "index_backup" if bytes.len() >= 40 => {
            let data = &bytes[40..];
            let (length, crc) = (data.len() as u32, crc32c(data));
            bytes[28..32].copy_from_slice(&length.to_le_bytes());
            put(bytes, 32, crc);
            put(bytes, 36, crc32c(&bytes[..36]));
        }
        "file_device" if bytes.len() >= 64 => put(bytes, 60, crc32c(&bytes[..60])),
        "file_device" if bytes.len() == 16 => {
            let crc = Crc::new().update(&0u32.to_le_bytes()).update(&bytes[..12]).value();
            put(bytes, 12, crc);
        }
        _ => {}
    }
}
