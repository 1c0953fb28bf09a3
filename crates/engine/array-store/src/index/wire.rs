//! The bytes of a snapshot's chunks: `docs/formats/array-snapshot.md`. Nothing here trusts what it reads.

use super::error::{IndexError, IndexResult};
use crate::types::{ATTRIBUTES_MAX, NAME_MAX, PartPlace, SetId, Version};

/// Begins every chunk; the digits are the format version.
pub(super) const MAGIC: [u8; 8] = *b"SHGAIS01";

pub(super) const PARTS_CHUNK: u8 = 1;
pub(super) const OBJECTS_CHUNK: u8 = 2;
pub(super) const END_CHUNK: u8 = 3;

const SAME_NAME: u8 = 1;
const SAME_VERSION: u8 = 2;
const LAST: u8 = 4;

/// The entry before, of the same chunk: what the next one leaves out.
#[derive(Default)]
pub(super) struct Previous {
    pub(super) name: Vec<u8>,
    pub(super) version: u64,
    end: u64,
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A difference that is mostly small, of either sign.
fn put_difference(out: &mut Vec<u8>, number: u64, from: u64) {
    let difference = number.wrapping_sub(from).cast_signed();
    put_varint(out, (difference << 1 ^ difference >> 63).cast_unsigned());
}

fn put_name(out: &mut Vec<u8>, name: &[u8], previous: &mut Previous) {
    let shared = name.iter().zip(&previous.name).take_while(|(a, b)| a == b).count();
    let rest = &name[shared..];
    put_varint(out, shared as u64);
    put_varint(out, rest.len() as u64);
    out.extend_from_slice(rest);
    previous.name.truncate(shared);
    previous.name.extend_from_slice(rest);
}

pub(super) fn begin(kind: u8, number: u64) -> Vec<u8> {
    let mut chunk = MAGIC.to_vec();
    chunk.push(kind);
    put_varint(&mut chunk, number);
    chunk
}

pub(super) fn put_part(
    out: &mut Vec<u8>,
    (name, version, offset): (&[u8], u64, u64),
    place: &PartPlace,
    previous: &mut Previous,
) {
    // No name is empty, so the first entry of a chunk always has its own.
    let same_name = previous.name == name;
    let same_version = same_name && previous.version == version;
    let flag = |set, bit| if set { bit } else { 0 };
    out.push(flag(same_name, SAME_NAME) | flag(same_version, SAME_VERSION) | flag(place.last, LAST));
    if !same_name {
        put_name(out, name, previous);
    }
    if !same_version {
        out.extend_from_slice(&version.to_le_bytes());
    }
    put_difference(out, offset, if same_version { previous.end } else { 0 });
    put_varint(out, u64::from(place.set.0));
    put_varint(out, u64::from(place.block));
    put_difference(out, place.stamp, version);
    put_varint(out, u64::from(place.segment_length));
    put_varint(out, u64::from(place.at));
    put_varint(out, u64::from(place.length));
    (previous.version, previous.end) = (version, offset.wrapping_add(u64::from(place.length)));
}

pub(super) fn put_object(
    out: &mut Vec<u8>,
    (name, version): (&[u8], Version),
    size: u64,
    attributes: &[u8],
    previous: &mut Previous,
) {
    put_name(out, name, previous);
    out.extend_from_slice(&version.0.to_le_bytes());
    put_varint(out, size);
    put_varint(out, attributes.len() as u64);
    out.extend_from_slice(attributes);
}

/// Takes a chunk apart.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: usize) -> IndexResult<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(IndexError::Malformed("a chunk ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> IndexResult<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(IndexError::Malformed("a chunk ends early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn varint(&mut self) -> IndexResult<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit; one way only to write a number.
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return Err(IndexError::Malformed("a number is written too long"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(IndexError::Malformed("a number is written too long"))
    }

    fn number(&mut self) -> IndexResult<u32> {
        u32::try_from(self.varint()?).map_err(|_| IndexError::Malformed("a number is too large"))
    }

    fn difference(&mut self, from: u64) -> IndexResult<u64> {
        let coded = self.varint()?;
        Ok(from.wrapping_add(coded >> 1 ^ (coded & 1).wrapping_neg()))
    }

    fn length(&mut self, limit: usize, what: &'static str) -> IndexResult<usize> {
        let length = usize::try_from(self.varint()?).ok().filter(|&length| length <= limit);
        length.ok_or(IndexError::Malformed(what))
    }

    fn name(&mut self, previous: &mut Previous) -> IndexResult<()> {
        let shared = self.length(previous.name.len(), "a name shares more than there is")?;
        let rest = self.length(NAME_MAX - shared, "a name is too long")?;
        if rest == 0 && shared == 0 {
            return Err(IndexError::Malformed("a name is empty"));
        }
        previous.name.truncate(shared);
        previous.name.extend_from_slice(self.take(rest)?);
        Ok(())
    }

    /// The chunk's kind and number.
    pub(super) fn begin(&mut self) -> IndexResult<(u8, u64)> {
        if self.array().is_ok_and(|magic: [u8; 8]| magic == MAGIC) {
            let [kind] = self.array()?;
            return Ok((kind, self.varint()?));
        }
        Err(IndexError::Malformed("it is no chunk of a snapshot, or of another version"))
    }

    /// A part's offset and place; its name and version are left in `previous`.
    pub(super) fn part(&mut self, previous: &mut Previous) -> IndexResult<(u64, PartPlace)> {
        let [flags] = self.array()?;
        let has = |bit| flags & bit != 0;
        let knows_name = previous.name.is_empty() && has(SAME_NAME);
        if flags & !(SAME_NAME | SAME_VERSION | LAST) != 0 || knows_name || (has(SAME_VERSION) && !has(SAME_NAME)) {
            return Err(IndexError::Malformed("a part has unknown flags"));
        }
        if !has(SAME_NAME) {
            self.name(previous)?;
        }
        if !has(SAME_VERSION) {
            (previous.version, previous.end) = (u64::from_le_bytes(self.array()?), 0);
        }
        let offset = self.difference(previous.end)?;
        let place = PartPlace {
            set: SetId(self.number()?),
            block: self.number()?,
            stamp: self.difference(previous.version)?,
            segment_length: self.number()?,
            at: self.number()?,
            length: self.number()?,
            last: has(LAST),
        };
        previous.end = offset.wrapping_add(u64::from(place.length));
        Ok((offset, place))
    }

    /// A complete version's size and attributes; its name and version are left in `previous`.
    pub(super) fn object(&mut self, previous: &mut Previous) -> IndexResult<(u64, &'a [u8])> {
        self.name(previous)?;
        previous.version = u64::from_le_bytes(self.array()?);
        let size = self.varint()?;
        let length = self.length(ATTRIBUTES_MAX, "an object has too many attributes")?;
        Ok((size, self.take(length)?))
    }
}
