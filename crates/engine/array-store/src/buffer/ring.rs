//! The bytes of the buffer's files: `docs/formats/array-buffer.md`. Nothing here trusts what it reads.
//!
//! # Invariants
//! - AS-RING-1: a record counts only in the buffer that wrote it, at its turn, and behind the record that it was
//!   written behind: it names the buffer's id, its sequence, and the checksum of the record before; its own checksum
//!   covers all of them.
//! - AS-RING-2: a record that cannot be read ends the log only if nothing proves that it was durable. A record that a
//!   later write proves and that is unreadable in both files is lost, which is told, and costs no other record.
//! - AS-RING-3: what counts begins where the newer of two heads says; no bytes behind that are written over before it
//!   is durable.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use shingle_base::wire::COUNTER_END;
use shingle_base::{StoreId, crc32c};

use crate::types::{ATTRIBUTES_MAX, Completion, NAME_MAX, Version};

/// The digits are the format version.
const MAGIC: [u8; 8] = *b"SHGABF02";
/// Of two halves instead of a ring: a record of a former buffer in the same file could count there.
const MAGIC_BEFORE: [u8; 8] = *b"SHGABF01";
pub(super) const BLOCK: u64 = 4096;
/// A head is written over the older of two.
const HEADS: u64 = 2;
/// First byte of the ring.
pub(super) const RING: u64 = BLOCK * HEADS;
/// No ring is longer.
pub(crate) const RING_MAX: u32 = 1 << 31;
/// No ring is shorter.
pub(crate) const RING_MIN: u32 = 1 << 15;

/// Fixed bytes of a record.
const RECORD: usize = 4 + 4 + 8 + 8 + 8 + 1 + 8 + 2 + 4 + 4;
/// A deletion is no longer: so much may be left over at the end of the ring where the next one does not fit.
pub(super) const DELETE_MAX: u64 = (RECORD + NAME_MAX) as u64;
const PUT: u8 = 1;
const DELETE: u8 = 2;

// The fixed part of a record.
const CRC: usize = 0;
const PREVIOUS: usize = 4;
const ID: usize = 8;
const SEQUENCE: usize = 16;
const BATCH: usize = 24;
const KIND: usize = 32;
const VERSION: usize = 33;
const NAME_LENGTH: usize = 41;
const ATTRIBUTES_LENGTH: usize = 43;
const DATA_LENGTH: usize = 47;
const _: () = assert!(DATA_LENGTH + 4 == RECORD);

/// Place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Bytes from the start of the ring, as if it never came round.
    pub(super) position: u64,
    /// The record's number in the life of the buffer, from 1.
    pub(super) sequence: u64,
    /// The checksum of the record before; 0 for the first.
    pub(super) previous: u32,
}

impl Cursor {
    /// Of a new buffer.
    pub(super) const START: Self = Self { position: 0, sequence: 1, previous: 0 };

    /// The same, at the start of the ring.
    pub(super) fn at_the_start(self, ring: u64) -> Self {
        Self { position: self.position.next_multiple_of(ring), ..self }
    }

    /// The same, where a record of that length fits: none goes across the ring's end.
    pub(super) fn fitting(self, length: u64, ring: u64) -> Self {
        if self.position % ring + length <= ring { self } else { self.at_the_start(ring) }
    }
}

/// Owner of the file, and the first record that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(super) array: StoreId,
    pub(super) id: u64,
    /// Rises when one of the two files is left behind: the older one is not believed any more.
    pub(super) generation: u64,
    /// Rises with each head: of the two in a file the higher counts.
    pub(super) number: u64,
    /// Bytes of the ring.
    pub(super) ring: u64,
    /// The first record that counts.
    pub(super) first: Cursor,
}

impl FileHead {
    /// Offset of a position in the file.
    pub(super) fn offset(&self, position: u64) -> u64 {
        RING + position % self.ring
    }

    /// Offset of this head in the file, and its bytes.
    pub(super) fn encode(&self) -> (u64, Bytes) {
        let mut out = MAGIC.to_vec();
        let Self { array, id, generation, number, ring, first } = *self;
        let Cursor { position, sequence, previous } = first;
        for number in [array.0, id, generation, number, ring, position, sequence, u64::from(previous)] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out.resize(BLOCK as usize, 0);
        (number % HEADS * BLOCK, out.into())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let [array, id, generation, number, ring, position, sequence, previous] = numbers(bytes, MAGIC)?;
        let first = Cursor { position, sequence, previous: u32::try_from(previous).ok()? };
        let can_be = (u64::from(RING_MIN)..=u64::from(RING_MAX)).contains(&ring)
            && sequence > 0
            && [position, sequence, number, generation].iter().all(|number| *number < COUNTER_END);
        can_be.then_some(Self { array: StoreId(array), id, generation, number, ring, first })
    }
}

/// Contents of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A version of an object, whole.
    Put { name: Bytes, version: Version, completion: Completion, data: Bytes },
    /// Every version up to this one is deleted.
    Delete { name: Bytes, version: Version },
}

impl Entry {
    pub(super) fn name(&self) -> &Bytes {
        match self {
            Self::Put { name, .. } | Self::Delete { name, .. } => name,
        }
    }

    /// Bytes that it takes.
    pub(super) fn length(&self) -> u64 {
        let rest = match self {
            Self::Put { name, completion, data, .. } => name.len() + completion.attributes.len() + data.len(),
            Self::Delete { name, .. } => name.len(),
        };
        (RECORD + rest) as u64
    }

    /// Appends its record and returns its checksum. All before `batch`, the sequence of the first record that is written
    /// together with it, is durable.
    pub(super) fn encode(&self, at: &Cursor, id: u64, batch: u64, out: &mut Vec<u8>) -> u32 {
        let (kind, name, version, attributes, data): (_, _, _, &[u8], &[u8]) = match self {
            Self::Put { name, version, completion, data } => (PUT, name, version, &completion.attributes, data),
            Self::Delete { name, version } => (DELETE, name, version, &[], &[]),
        };
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&at.previous.to_le_bytes());
        for number in [id, at.sequence, batch] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(kind);
        out.extend_from_slice(&version.0.to_le_bytes());
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(&(attributes.len() as u32).to_le_bytes());
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(attributes);
        out.extend_from_slice(data);
        let crc = crc32c(&out[start + PREVIOUS..]);
        out[start..start + PREVIOUS].copy_from_slice(&crc.to_le_bytes());
        crc
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn numbers<const N: usize>(bytes: &[u8], magic: [u8; 8]) -> Option<[u64; N]> {
    let end = 8 + 8 * N;
    let good = bytes.get(..8)? == magic && crc32c(bytes.get(..end)?) == word(bytes, end)?;
    let mut numbers = [0; N];
    for (at, value) in numbers.iter_mut().enumerate() {
        *value = long(bytes, 8 + 8 * at)?;
    }
    good.then_some(numbers)
}

/// Lengths that a record says it has.
struct Lengths {
    name: usize,
    attributes: usize,
    data: usize,
}

impl Lengths {
    fn of(bytes: &[u8]) -> Option<Self> {
        let name = usize::from(u16::from_le_bytes(array(bytes, NAME_LENGTH)?));
        let (attributes, data) = (word(bytes, ATTRIBUTES_LENGTH)? as usize, word(bytes, DATA_LENGTH)? as usize);
        (name > 0 && name <= NAME_MAX && attributes <= ATTRIBUTES_MAX).then_some(Self { name, attributes, data })
    }

    fn end(&self) -> Option<usize> {
        (RECORD + self.name + self.attributes).checked_add(self.data)
    }
}

/// Reads the record at the front of `bytes`, whatever its checksum.
pub(crate) fn entry(bytes: &[u8]) -> Option<Entry> {
    let lengths = Lengths::of(bytes)?;
    let mut rest = bytes.get(RECORD..lengths.end()?)?;
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at_checked(length)?;
        rest = left;
        Some(Bytes::copy_from_slice(taken))
    };
    let (name, attributes, data) = (take(lengths.name)?, take(lengths.attributes)?, take(lengths.data)?);
    let version = Version(long(bytes, VERSION).filter(|version| *version < COUNTER_END)?);
    match *bytes.get(KIND)? {
        PUT => Some(Entry::Put { name, version, completion: Completion { size: data.len() as u64, attributes }, data }),
        DELETE if attributes.is_empty() && data.is_empty() => Some(Entry::Delete { name, version }),
        _ => None,
    }
}

/// A record of that buffer that passes its check.
struct Checked<'a> {
    bytes: &'a [u8],
    sequence: u64,
    previous: u32,
    batch: u64,
    crc: u32,
}

impl<'a> Checked<'a> {
    /// The one at the front of `bytes`.
    fn at(bytes: &'a [u8], id: u64) -> Option<Self> {
        let own = long(bytes, ID)? == id;
        let bytes = bytes.get(..Lengths::of(bytes).filter(|_| own)?.end()?)?;
        let crc = word(bytes, CRC)?;
        let (sequence, previous, batch) = (long(bytes, SEQUENCE)?, word(bytes, PREVIOUS)?, long(bytes, BATCH)?);
        let good = sequence < COUNTER_END && crc32c(bytes.get(PREVIOUS..)?) == crc;
        good.then_some(Self { bytes, sequence, previous, batch, crc })
    }
}

/// A record as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(super) entry: Entry,
    pub(super) at: Cursor,
    /// Files that have it.
    pub(super) files: Vec<usize>,
}

/// All that counts in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(super) records: Vec<Logged>,
    /// Place of the next record.
    pub(super) end: Cursor,
    /// Records that were durable, and are readable nowhere. (AS-RING-2)
    pub(super) lost: u64,
}

impl Log {
    /// Of a buffer that nothing was written to yet.
    pub(super) fn empty(head: &FileHead) -> Self {
        Self { records: Vec::new(), end: head.first, lost: 0 }
    }

    /// Nothing of it is lost.
    pub(crate) fn is_whole(&self) -> bool {
        self.lost == 0
    }
}

/// A file as its head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It is no file of a buffer, or a power cut came before its first head was whole.
    None,
    /// A buffer of that array, in a format that is not read.
    Before(StoreId),
    /// A buffer.
    Buffer(FileHead),
}

/// Kind of a file: of its two heads the newer counts.
pub(crate) fn parse(file: &[u8]) -> Kind {
    let head = |number: u64| {
        let start = (number * BLOCK) as usize;
        FileHead::decode(file.get(start..start + BLOCK as usize)?)
    };
    if let Some(head) = (0..HEADS).filter_map(head).max_by_key(|head| head.number) {
        return Kind::Buffer(head);
    }
    match numbers(file, MAGIC_BEFORE) {
        Some([array, _id, _generation, _length]) => Kind::Before(StoreId(array)),
        None => Kind::None,
    }
}

/// Reads the log off files that hold the same: each record from any of them. (AS-RING-1, AS-RING-2)
pub(crate) fn walk(head: &FileHead, files: &[Bytes]) -> Log {
    let mut log = Log::empty(head);
    loop {
        let here = [log.end, log.end.at_the_start(head.ring)];
        let found = here.into_iter().find_map(|at| taken(head, files, at));
        let Some((logged, crc)) = found.or_else(|| behind_a_gap(head, files, &log.end)) else { return log };
        log.lost += logged.at.sequence - log.end.sequence;
        log.end = Cursor {
            position: logged.at.position + logged.entry.length(),
            sequence: logged.at.sequence + 1,
            previous: crc,
        };
        log.records.push(logged);
    }
}

/// Bytes from that position to the ring's end, or to where the log began.
fn room(head: &FileHead, position: u64) -> u64 {
    let room = (head.first.position + head.ring).saturating_sub(position);
    room.min(head.ring - position % head.ring)
}

/// The bytes of a file from that position on, as far as there is room.
fn from<'a>(head: &FileHead, file: &'a [u8], position: u64) -> &'a [u8] {
    let start = head.offset(position) as usize;
    let rest = file.get(start..).unwrap_or_default();
    &rest[..rest.len().min(room(head, position) as usize)]
}

/// Bytes of the file that a record at that place has: all of it, where its front is that of the next one; else as many
/// as any has.
pub(super) fn extent(head: &FileHead, file: &[u8], at: &Cursor) -> Range<u64> {
    let bytes = from(head, file, at.position);
    let is_next = long(bytes, ID) == Some(head.id) && long(bytes, SEQUENCE) == Some(at.sequence);
    let length = Lengths::of(bytes).filter(|_| is_next).and_then(|lengths| lengths.end()).unwrap_or(RECORD);
    let start = head.offset(at.position);
    start..start + (length as u64).min(room(head, at.position))
}

/// The record that is the next one there, and its checksum.
fn taken(head: &FileHead, files: &[Bytes], at: Cursor) -> Option<(Logged, u32)> {
    let next = |file: &Bytes| {
        let found = Checked::at(from(head, file, at.position), head.id)?;
        let is_next = found.sequence == at.sequence && found.previous == at.previous;
        Some((entry(found.bytes)?, found.crc)).filter(|_| is_next)
    };
    let found: Vec<_> = files.iter().map(next).collect();
    let (entry, crc) = found.iter().flatten().next()?.clone();
    let same = |other: &Option<(Entry, u32)>| other.as_ref().is_some_and(|other| other.1 == crc);
    let files = found.iter().enumerate().filter(|(_, other)| same(other)).map(|(number, _)| number).collect();
    Some((Logged { entry, at, files }, crc))
}

/// Of the records behind `end` the first that was durable: one that was written when what is missing there was says so,
/// and all that it follows on were durable before it. One that a torn write left behind its gap says no such thing.
fn behind_a_gap(head: &FileHead, files: &[Bytes], end: &Cursor) -> Option<(Logged, u32)> {
    let id = head.id.to_le_bytes();
    // By sequence and checksum, with their batches.
    let mut behind: BTreeMap<(u64, u32), (Cursor, u64)> = BTreeMap::new();
    for file in files {
        for position in [end.position, end.at_the_start(head.ring).position] {
            let bytes = from(head, file, position);
            for (at, _) in bytes.windows(8).enumerate().filter(|(_, window)| *window == id) {
                let Some(start) = at.checked_sub(ID) else { continue };
                let Some(found) = Checked::at(&bytes[start..], head.id) else { continue };
                if found.sequence > end.sequence {
                    let (position, previous) = (position + start as u64, found.previous);
                    let at = Cursor { position, sequence: found.sequence, previous };
                    behind.insert((found.sequence, found.crc), (at, found.batch));
                }
            }
        }
    }
    let (mut first, _) = *behind.values().find(|(_, batch)| *batch > end.sequence)?;
    while let Some((before, _)) = behind.get(&(first.sequence - 1, first.previous)) {
        first = *before;
    }
    taken(head, files, first)
}

#[cfg(test)]
mod tests;
