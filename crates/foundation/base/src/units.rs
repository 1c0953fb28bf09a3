//! Addresses, lengths and sizes. An address plus a length is an address; two addresses do not add.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// Bytes in a block: the unit in which drives are addressed and written.
pub const BLOCK_SIZE: usize = 4096;

/// A block address on a device, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lba(pub u64);

/// A length in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocks(pub u64);

impl Blocks {
    /// No blocks.
    pub const ZERO: Self = Self(0);

    /// The fewest blocks that hold `bytes`.
    pub const fn holding(bytes: u64) -> Self {
        Self(bytes.div_ceil(BLOCK_SIZE as u64))
    }

    /// The length in bytes.
    pub const fn bytes(self) -> u64 {
        self.0 * BLOCK_SIZE as u64
    }

    /// `self - other`, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Lba {
    /// The byte offset of this block on the device.
    pub const fn byte_offset(self) -> u64 {
        self.0 * BLOCK_SIZE as u64
    }
}

impl Add<Blocks> for Lba {
    type Output = Self;
    fn add(self, length: Blocks) -> Self {
        Self(self.0 + length.0)
    }
}

impl Sub for Lba {
    type Output = Blocks;
    /// The distance between two addresses. Panics (in tests) if `earlier` lies after `self`.
    fn sub(self, earlier: Self) -> Blocks {
        Blocks(self.0 - earlier.0)
    }
}

impl Add for Blocks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Blocks {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Blocks {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Blocks {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl std::iter::Sum for Blocks {
    fn sum<I: Iterator<Item = Self>>(lengths: I) -> Self {
        lengths.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Lba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks", self.0)
    }
}

/// A number of bytes as people write it: `4096`, `64KiB`, `256MiB`, `20TB`.
///
/// `K`, `M`, `G`, `T`, `P` and their `iB` forms are powers of 1,024; `KB`, `MB`, `GB`, `TB`, `PB` are powers
/// of 1,000, as drive makers use them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A size that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseSizeError(String);

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a size: write a number and a unit, such as 256MiB or 20TB", self.0)
    }
}

impl std::error::Error for ParseSizeError {}

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let bad = || ParseSizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "p" | "pib" => 1 << 50,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "pb" => 1_000_000_000_000_000,
            _ => return Err(bad()),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(bad);
        }
        let value = number.parse::<f64>().map_err(|_| bad())? * factor as f64;
        if value.is_finite() && value < 2f64.powi(63) { Ok(Self(value.round() as u64)) } else { Err(bad()) }
    }
}

impl fmt::Display for ByteSize {
    /// In the largest binary unit that keeps at least one digit before the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut unit = 0;
        let mut value = self.0 as f64;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = usize::from(unit > 0 && value.fract() > 0.0);
        write!(f, "{value:.decimals$} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65_536),
            ("256 MiB", 268_435_456),
            ("20TB", 20_000_000_000_000),
            ("1.5g", 1_610_612_736),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "-1", "1.2.3", "12 parsecs", "99999999PB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_binary_units() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (268_435_456, "256 MiB")]
        {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn blocks_round_up() {
        assert_eq!(Blocks::holding(0), Blocks(0));
        assert_eq!(Blocks::holding(1), Blocks(1));
        assert_eq!(Blocks::holding(4096), Blocks(1));
        assert_eq!(Blocks::holding(4097), Blocks(2));
    }
}
