//! Zone heads, layout markers and tombstones. (SMORE, sections III-B and III-F.)

use bytes::Bytes;
use shingle_base::wire::Fields;
use shingle_base::{ChunkId, ZoneId};
use shingle_record::{INFO_SIZE, record_blocks};

use super::bytes::{put_short, short};
use crate::segment::Shape;
use crate::types::{ATTRIBUTES_MAX, Completion, DriveId, NAME_MAX, Part, SetId, Version};

/// The first record of a zone in a set: which member of which set it is. Its `info`:
///
/// | at | size | field    |
/// |---:|-----:|----------|
/// |  0 |    4 | `set`    |
/// |  4 |    1 | `member` |
/// |  5 |    1 | `drive`  |
/// |  6 |    2 | zero     |
/// |  8 |    8 | `opened` |
/// | 16 |    8 | `drive_id`; before version 8 of the array zero |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetHead {
    pub(crate) set: SetId,
    pub(crate) member: u8,
    pub(crate) drive: DriveId,
    /// Nanoseconds since 1970, for people.
    pub(crate) opened: u64,
    /// The drive's own id: its number may become another one's. 0 where an older version wrote the head.
    pub(crate) drive_id: u64,
}

impl SetHead {
    pub(crate) fn encode(&self) -> [u8; INFO_SIZE] {
        let mut info = [0; INFO_SIZE];
        info[..4].copy_from_slice(&self.set.0.to_le_bytes());
        info[4] = self.member;
        info[5] = self.drive.0;
        info[8..16].copy_from_slice(&self.opened.to_le_bytes());
        info[16..24].copy_from_slice(&self.drive_id.to_le_bytes());
        info
    }

    pub(crate) fn decode(info: &[u8; INFO_SIZE]) -> Option<Self> {
        let mut fields = Fields::new(info);
        let (set, member, drive) = (SetId(fields.u32()?), fields.u8()?, DriveId(fields.u8()?));
        fields.u16()?;
        Some(Self { set, member, drive, opened: fields.u64()?, drive_id: fields.u64()? })
    }
}

/// Identity that a fragment's slices are bound to: so that a fragment of another segment, set or number never passes
/// for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentId {
    pub(crate) stamp: u64,
    pub(crate) set: SetId,
    pub(crate) fragment: u8,
}

impl FragmentId {
    pub(crate) fn chunk(self) -> ChunkId {
        let mut id = [0; 24];
        id[..8].copy_from_slice(&self.stamp.to_le_bytes());
        id[8..12].copy_from_slice(&self.set.0.to_le_bytes());
        id[12] = self.fragment;
        ChunkId(id)
    }
}

/// Contents of a segment: a layout marker block, without the number of its fragment. Its record's `info`:
///
/// | at | size | field             |                                        |
/// |---:|-----:|-------------------|----------------------------------------|
/// |  0 |    8 | `stamp`           | when it was written; unique            |
/// |  8 |    4 | `segment_length`  | bytes of data                          |
/// | 12 |    4 | `fragment_length` | bytes of a fragment                    |
/// | 16 |    4 | `parts`           | number of parts in the payload         |
/// | 20 |    1 | `fragment`        | the number of the fragment that follows |
/// | 21 |    1 | `data`            | data fragments                         |
/// | 22 |    1 | `parity`          | parity fragments                       |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) stamp: u64,
    pub(crate) shape: Shape,
    pub(crate) parts: Vec<Part>,
}

impl Marker {
    pub(crate) fn info(&self, fragment: u8) -> [u8; INFO_SIZE] {
        let mut info = [0; INFO_SIZE];
        info[..8].copy_from_slice(&self.stamp.to_le_bytes());
        info[8..12].copy_from_slice(&self.shape.length().to_le_bytes());
        info[12..16].copy_from_slice(&self.shape.fragment_length().to_le_bytes());
        info[16..20].copy_from_slice(&(self.parts.len() as u32).to_le_bytes());
        info[20] = fragment;
        info[21] = self.shape.code().data() as u8;
        info[22] = self.shape.code().parity() as u8;
        info
    }

    /// First block of the fragments behind a marker at `block`.
    pub(crate) fn fragments_at(&self, block: u32) -> u32 {
        block.saturating_add(record_blocks(self.payload().len() as u64).0 as u32)
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_parts(&self.parts, &mut out);
        out
    }

    /// The marker and the number of its fragment.
    pub(crate) fn decode(info: &[u8; INFO_SIZE], payload: &[u8]) -> Option<(Self, u8)> {
        let mut fields = Fields::new(info);
        let (stamp, length, fragment_length, parts) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let (fragment, data, parity) = (fields.u8()?, fields.u8()?, fields.u8()?);
        let shape = Shape::new(shingle_erasure::Code::new(data, parity).ok()?, length);
        if shape.fragment_length() != fragment_length || usize::from(fragment) >= shape.code().width() {
            return None;
        }
        let mut fields = Fields::new(payload);
        let parts = decode_parts(&mut fields, parts, length)?;
        fields.end()?;
        Some((Self { stamp, shape, parts }, fragment))
    }
}

const FLAG_LAST: u8 = 1;

/// Bytes of a part without name and completion.
const PART_FIXED: usize = 2 + 8 + 8 + 4 + 4 + 1;

/// Bytes that a part takes in a marker and in a digest.
pub(crate) fn part_bytes(part: &Part) -> usize {
    PART_FIXED + part.name.len() + part.completion.as_ref().map_or(0, completion_bytes)
}

fn completion_bytes(completion: &Completion) -> usize {
    12 + completion.attributes.len()
}

/// The same of a whole object.
pub(crate) fn object_bytes(name: &[u8], completion: &Completion) -> usize {
    PART_FIXED + name.len() + completion_bytes(completion)
}

/// A part: length of the name (2), name, version (8), offset (8), place in the segment's data (4), length (4), flags
/// (1: bit 0 is the complete bit); with the complete bit: size (8), length of the attributes (4), attributes.
pub(super) fn encode_parts(parts: &[Part], out: &mut Vec<u8>) {
    for part in parts {
        put_short(out, &part.name);
        out.extend_from_slice(&part.version.0.to_le_bytes());
        out.extend_from_slice(&part.offset.to_le_bytes());
        out.extend_from_slice(&part.at.to_le_bytes());
        out.extend_from_slice(&part.length.to_le_bytes());
        out.push(if part.completion.is_some() { FLAG_LAST } else { 0 });
        if let Some(completion) = &part.completion {
            out.extend_from_slice(&completion.size.to_le_bytes());
            out.extend_from_slice(&(completion.attributes.len() as u32).to_le_bytes());
            out.extend_from_slice(&completion.attributes);
        }
    }
}

/// `count` parts, each of which must lie in `segment_length` bytes.
pub(super) fn decode_parts(fields: &mut Fields<'_>, count: u32, segment_length: u32) -> Option<Vec<Part>> {
    // A count cannot make room for more than the bytes that are there.
    if count as usize > fields.rest().len() / PART_FIXED {
        return None;
    }
    (0..count).map(|_| decode_part(fields, segment_length)).collect()
}

fn decode_part(fields: &mut Fields<'_>, segment_length: u32) -> Option<Part> {
    let name = short(fields, NAME_MAX)?;
    let (version, offset, at, length) = (Version(fields.counter()?), fields.u64()?, fields.u32()?, fields.u32()?);
    let completion = match fields.u8()? {
        0 => None,
        FLAG_LAST => {
            let size = fields.u64()?;
            let attributes = fields.u32()? as usize;
            if attributes > ATTRIBUTES_MAX {
                return None;
            }
            Some(Completion { size, attributes: Bytes::copy_from_slice(fields.bytes(attributes)?) })
        }
        _ => return None,
    };
    if name.is_empty() || at.checked_add(length)? > segment_length {
        return None;
    }
    let end = offset.checked_add(u64::from(length))?;
    if completion.as_ref().is_some_and(|completion| completion.size != end) {
        return None;
    }
    Some(Part { name, version, offset, at, length, completion })
}

/// Says that every version of an object up to one is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) name: Bytes,
    /// When the deletion came: versions up to this one are gone.
    pub(crate) version: Version,
}

/// A tombstone: length of the name (2), name, version (8).
pub(crate) fn encode_tombstones(tombstones: &[Tombstone]) -> Vec<u8> {
    let mut out = Vec::new();
    for tombstone in tombstones {
        put_short(&mut out, &tombstone.name);
        out.extend_from_slice(&tombstone.version.0.to_le_bytes());
    }
    out
}

/// As many tombstones as the bytes hold.
pub(crate) fn decode_tombstones(payload: &[u8]) -> Option<Vec<Tombstone>> {
    let mut fields = Fields::new(payload);
    let mut tombstones = Vec::new();
    while fields.end().is_none() {
        tombstones.push(Tombstone { name: short(&mut fields, NAME_MAX)?, version: Version(fields.counter()?) });
    }
    Some(tombstones)
}

/// The zone of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) drive: DriveId,
    pub(crate) zone: ZoneId,
}
