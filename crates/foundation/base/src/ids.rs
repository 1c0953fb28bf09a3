//! Identifiers of zones, stores and chunks.

use std::fmt;
use std::str::FromStr;

/// A zone's number on its device, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneId(pub u32);

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.0)
    }
}

/// A store's identity, drawn at random when it is formatted; every record carries it, so that bytes of
/// another store are recognised as such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// An identifier that is not written as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseIdError {
    text: String,
    digits: &'static str,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not an identifier: it has to be {} hexadecimal digits", self.text, self.digits)
    }
}

impl std::error::Error for ParseIdError {}

impl FromStr for StoreId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = || ParseIdError { text: text.to_owned(), digits: "16" };
        if text.len() != 16 {
            return Err(bad());
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| bad())
    }
}

/// A chunk's identity: 24 bytes chosen by its creator (SMRstore, section 2.1).
///
/// Written as 48 hexadecimal digits; a shorter string of digits is filled with zeros on the left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 24]);

impl ChunkId {
    /// Bytes in an identifier.
    pub const SIZE: usize = 24;

    /// The identifier whose last eight bytes are `number`, big-endian, and whose others are zero.
    pub const fn from_u64(number: u64) -> Self {
        let mut bytes = [0; 24];
        let tail = number.to_be_bytes();
        let mut at = 0;
        while at < 8 {
            bytes[16 + at] = tail[at];
            at += 1;
        }
        Self(bytes)
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

impl FromStr for ChunkId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let bad = || ParseIdError { text: text.to_owned(), digits: "up to 48" };
        if text.is_empty() || text.len() > 48 || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let padded = format!("{text:0>48}");
        let mut bytes = [0; 24];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&padded[2 * at..2 * at + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_ids_survive_being_written_and_read() {
        let id = ChunkId(std::array::from_fn(|at| at as u8 * 7));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("2a".parse(), Ok(ChunkId::from_u64(42)));
        for text in ["", "xyz", &"0".repeat(49), "+1", "é"] {
            assert!(text.parse::<ChunkId>().is_err(), "{text}");
        }
    }
}
