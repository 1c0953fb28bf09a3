//! Little-endian fields in byte strings, as all on-disk formats store them.
//!
//! **Knows nothing of** the fields' meaning. Reading never panics: a field that is missing is `None` ([`Fields`]), or
//! [`Malformed`] by its name ([`Input`]).

use std::collections::BTreeMap;
use std::fmt;

use bytes::BufMut;

/// Bytes that break their format; names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// No number that is counted up, by ones or with the clock, comes this far; no sum of two below it overflows.
pub const COUNTER_END: u64 = 1 << 62;

/// Reads fields off the front of a byte string; `None` once it ends too early.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads from the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// A byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes: a number that is counted up. `None` from [`COUNTER_END`] on, so that counting on never overflows.
    pub fn counter(&mut self) -> Option<u64> {
        self.u64().filter(|number| *number < COUNTER_END)
    }

    /// All that has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// `None` if bytes are left.
    pub fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Reads fields off the front of a byte string, and names the one that is missing.
pub struct Input<'a>(Fields<'a>);

impl<'a> Input<'a> {
    /// Reads from the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Fields::new(bytes))
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// [`Malformed`] if there are fewer; so for every field.
    pub fn take(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        self.0.bytes(length).ok_or(Malformed(what))
    }

    /// A byte.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.0.u8().ok_or(Malformed(what))
    }

    /// Two bytes.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.0.u16().ok_or(Malformed(what))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.0.u32().ok_or(Malformed(what))
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.0.u64().ok_or(Malformed(what))
    }

    /// A `u32` length and that many bytes of UTF-8.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn text(&mut self, what: &'static str) -> Result<String, Malformed> {
        let length = self.u32(what)? as usize;
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed(what))
    }

    /// A `u32` count and that many pairs of texts, by name, each name once.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn pairs(&mut self, what: &'static str) -> Result<BTreeMap<String, String>, Malformed> {
        let count = self.u32(what)?;
        let mut pairs = BTreeMap::new();
        for _ in 0..count {
            let name = self.text(what)?;
            if pairs.insert(name, self.text(what)?).is_some() {
                return Err(Malformed(what));
            }
        }
        Ok(pairs)
    }

    /// All that has not been read yet.
    pub fn rest(self) -> &'a [u8] {
        self.0.rest()
    }

    /// Fails if bytes are left.
    ///
    /// # Errors
    /// As [`Input::take`].
    pub fn end(self, what: &'static str) -> Result<(), Malformed> {
        self.0.end().ok_or(Malformed(what))
    }
}

/// Writes what [`Input::text`] reads.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_u32_le(text.len() as u32);
    out.put_slice(text.as_bytes());
}

/// Writes what [`Input::pairs`] reads.
pub fn put_pairs(out: &mut Vec<u8>, pairs: &BTreeMap<String, String>) {
    out.put_u32_le(pairs.len() as u32);
    for (name, value) in pairs {
        put_text(out, name);
        put_text(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_cut_short_are_malformed() {
        let mut bytes = Vec::new();
        put_text(&mut bytes, "schlüssel");
        put_pairs(&mut bytes, &BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        let read = |bytes: &[u8]| {
            let mut input = Input::new(bytes);
            let text = input.text("text")?;
            let pairs = input.pairs("pairs")?;
            input.end("end")?;
            Ok((text, pairs.len()))
        };
        assert_eq!(read(&bytes), Ok(("schlüssel".to_owned(), 1)));
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        bytes.push(0);
        assert_eq!(read(&bytes), Err(Malformed("end")));
        let huge = [0xff; 8];
        assert_eq!(Input::new(&huge).text("text"), Err(Malformed("text")));
        assert_eq!(Input::new(&huge).pairs("pairs"), Err(Malformed("pairs")));
    }
}
