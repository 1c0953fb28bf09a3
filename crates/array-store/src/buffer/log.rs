//! The bytes of the buffer's files: `docs/formats/array-buffer.md`. Nothing here trusts what it reads.

use bytes::Bytes;
use shingle_base::{Crc, StoreId, crc32c};

use crate::types::{ATTRIBUTES_MAX, Completion, NAME_MAX, Version};

const HEAD_MAGIC: [u8; 8] = *b"SHGABF01";
const AREA_MAGIC: [u8; 8] = *b"SHGABA01";
/// The head of the file, and of an area.
pub(super) const BLOCK: u64 = 4096;
/// No area is longer, with its head.
pub(crate) const AREA_MAX: u32 = 1 << 30;
pub(crate) const AREAS: usize = 2;
/// No file is longer.
pub(super) const FILE_MAX: u64 = BLOCK + AREA_MAX as u64 * AREAS as u64;

/// Fixed bytes of a record.
const RECORD: usize = 4 + 8 + 1 + 8 + 2 + 4 + 4;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Whose file it is. (The paper's NVRAM has no such question.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHead {
    pub(super) array: StoreId,
    pub(super) id: u64,
    /// Rises when one of the two files is left behind: the older one is not believed any more.
    pub(super) generation: u64,
    /// Bytes of an area, with its head.
    pub(super) area: u64,
}

impl FileHead {
    pub(super) fn area_start(&self, area: usize) -> u64 {
        BLOCK + self.area * area as u64
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A version of an object, whole.
    Put { name: Bytes, version: Version, completion: Completion, data: Bytes },
    /// Every version up to this one is deleted.
    Delete { name: Bytes, version: Version },
}

/// An area as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(super) epoch: u64,
    pub(super) entries: Vec<Entry>,
    /// The first byte behind them, from the area's start.
    pub(super) end: u64,
    /// What the next record's checksum goes on from.
    pub(super) chain: u32,
}

impl Area {
    /// An area of that life, with nothing in it.
    pub(super) fn empty(epoch: u64) -> Self {
        Self { epoch, entries: Vec::new(), end: BLOCK, chain: crc32c(&epoch.to_le_bytes()) }
    }
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

    /// Appends it: checksum (4), epoch of the area (8), kind (1), version (8), lengths of name (2), attributes (4) and
    /// data (4), then those. The checksum is the CRC-32C of that of the record before and all that follows it: so what a
    /// torn write left behind the end of the log never becomes a part of it. Returns it.
    pub(super) fn encode(&self, chain: u32, epoch: u64, out: &mut Vec<u8>) -> u32 {
        let (kind, name, version, attributes, data): (_, _, _, &[u8], &[u8]) = match self {
            Self::Put { name, version, completion, data } => (PUT, name, version, &completion.attributes, data),
            Self::Delete { name, version } => (DELETE, name, version, &[], &[]),
        };
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&epoch.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&version.0.to_le_bytes());
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(&(attributes.len() as u32).to_le_bytes());
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(attributes);
        out.extend_from_slice(data);
        out[start..start + 4].copy_from_slice(&chain.to_le_bytes());
        let crc = crc32c(&out[start..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        crc
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The record at the front of `bytes`, if there is a good one of that epoch, and its checksum.
fn decode(bytes: &[u8], chain: u32, epoch: u64) -> Option<(Entry, u32)> {
    let own = u64::from_le_bytes(number(bytes, 4)?) == epoch;
    let record = bytes.get(..lengths(bytes).filter(|_| own)?.end()?)?;
    let crc = Crc::new().update(&chain.to_le_bytes()).update(record.get(4..)?).value();
    if crc != u32::from_le_bytes(number(bytes, 0)?) {
        return None;
    }
    Some((entry(record)?, crc))
}

/// Lengths that a record says it has.
struct Lengths {
    name: usize,
    attributes: usize,
    data: usize,
}

impl Lengths {
    fn end(&self) -> Option<usize> {
        (RECORD + self.name + self.attributes).checked_add(self.data)
    }
}

fn lengths(bytes: &[u8]) -> Option<Lengths> {
    let name = usize::from(u16::from_le_bytes(number(bytes, 21)?));
    let attributes = u32::from_le_bytes(number(bytes, 23)?) as usize;
    let data = u32::from_le_bytes(number(bytes, 27)?) as usize;
    let can_be = name > 0 && name <= NAME_MAX && attributes <= ATTRIBUTES_MAX;
    can_be.then_some(Lengths { name, attributes, data })
}

/// What the record at the front of `bytes` says, whatever its checksum.
pub(crate) fn entry(bytes: &[u8]) -> Option<Entry> {
    let lengths = lengths(bytes)?;
    let mut rest = bytes.get(RECORD..lengths.end()?)?;
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at_checked(length)?;
        rest = left;
        Some(Bytes::copy_from_slice(taken))
    };
    let (name, attributes, data) = (take(lengths.name)?, take(lengths.attributes)?, take(lengths.data)?);
    let version = Version(u64::from_le_bytes(number(bytes, 13)?));
    match *bytes.get(12)? {
        PUT => Some(Entry::Put { name, version, completion: Completion { size: data.len() as u64, attributes }, data }),
        DELETE if attributes.is_empty() && data.is_empty() => Some(Entry::Delete { name, version }),
        _ => None,
    }
}

fn block(magic: [u8; 8], numbers: &[u64]) -> Bytes {
    let mut out = magic.to_vec();
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out.extend_from_slice(&crc32c(&out).to_le_bytes());
    out.resize(BLOCK as usize, 0);
    out.into()
}

fn unblock<const N: usize>(bytes: &[u8], magic: [u8; 8]) -> Option<[u64; N]> {
    let end = 8 + 8 * N;
    let good = bytes.get(..8)? == magic && crc32c(bytes.get(..end)?) == u32::from_le_bytes(number(bytes, end)?);
    let mut numbers = [0; N];
    for (at, value) in numbers.iter_mut().enumerate() {
        *value = u64::from_le_bytes(number(bytes, 8 + 8 * at)?);
    }
    good.then_some(numbers)
}

/// The first block of a file: magic (8), array (8), id (8), generation (8), bytes of an area (8), CRC-32C of those (4).
pub(super) fn file_head(head: &FileHead) -> Bytes {
    block(HEAD_MAGIC, &[head.array.0, head.id, head.generation, head.area])
}

/// The first block of an area: magic (8), epoch (8), CRC-32C of those (4).
pub(super) fn area_head(epoch: u64) -> Bytes {
    block(AREA_MAGIC, &[epoch])
}

/// A file as it was read: its head and areas. An area without a good head, as a power cut may leave it, is empty: its head
/// is written only when nothing in it counts.
pub(crate) fn parse(file: &Bytes) -> Option<(FileHead, [Area; AREAS])> {
    let [array, id, generation, length] = unblock(file, HEAD_MAGIC)?;
    let head = FileHead { array: StoreId(array), id, generation, area: length };
    (BLOCK..=u64::from(AREA_MAX)).contains(&length).then_some(())?;
    let area = |number: usize| {
        let Some(bytes) = file.get(head.area_start(number) as usize..) else { return Area::empty(0) };
        let bytes = &bytes[..bytes.len().min(length as usize)];
        let Some([epoch]) = unblock(bytes, AREA_MAGIC) else { return Area::empty(0) };
        let mut area = Area::empty(epoch);
        while let Some(rest) = bytes.get(area.end as usize..)
            && let Some((entry, chain)) = decode(rest, area.chain, epoch)
        {
            area.end += entry.length();
            area.chain = chain;
            area.entries.push(entry);
        }
        area
    };
    Some((head, [area(0), area(1)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> [Entry; 3] {
        let name = |name: &'static str| Bytes::from_static(name.as_bytes());
        let completion = Completion { size: 4, attributes: name("at") };
        [
            Entry::Put { name: name("a"), version: Version(7), completion, data: name("data") },
            Entry::Delete { name: name("a"), version: Version(9) },
            Entry::Put {
                name: name("empty"),
                version: Version(8),
                completion: Completion { size: 0, attributes: Bytes::new() },
                data: Bytes::new(),
            },
        ]
    }

    fn file() -> Vec<u8> {
        let head = FileHead { array: StoreId(3), id: 4, generation: 5, area: 1 << 20 };
        let mut out = file_head(&head).to_vec();
        out.extend_from_slice(&area_head(11));
        let chain = Area::empty(11).chain;
        entries().iter().fold(chain, |chain, entry| entry.encode(chain, 11, &mut out));
        out
    }

    #[test]
    fn a_file_comes_back() {
        let (head, [first, second]) = parse(&file().into()).unwrap();
        assert_eq!(head, FileHead { array: StoreId(3), id: 4, generation: 5, area: 1 << 20 });
        assert_eq!((first.epoch, &first.entries[..]), (11, &entries()[..]));
        assert_eq!(first.end, BLOCK + entries().iter().map(Entry::length).sum::<u64>());
        assert_eq!(second, Area::empty(0));
    }

    #[test]
    fn a_torn_end_or_a_flipped_bit_ends_the_log_there() {
        let whole = file();
        let start = 2 * BLOCK as usize;
        for length in start..whole.len() {
            let (_, [area, _]) = parse(&Bytes::copy_from_slice(&whole[..length])).unwrap();
            assert!(area.entries.len() < 3 && entries().starts_with(&area.entries));
        }
        for bit in start * 8..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (_, [area, _]) = parse(&bytes.into()).unwrap();
            assert!(area.entries.len() < 3 && entries().starts_with(&area.entries), "bit {bit}");
        }
    }

    /// A torn write left a whole record behind a gap; a record of the gap's length is written into it.
    #[test]
    fn what_lies_behind_a_gap_never_counts() {
        let mut bytes = file();
        let gap = 2 * BLOCK as usize + entries()[0].length() as usize;
        let other = Entry::Delete { name: Bytes::from_static(b"b"), version: Version(10) };
        let chain = parse(&Bytes::copy_from_slice(&bytes[..gap])).unwrap().1[0].chain;
        let mut record = Vec::new();
        other.encode(chain, 11, &mut record);
        bytes[gap..gap + record.len()].copy_from_slice(&record);
        assert_eq!(parse(&bytes.into()).unwrap().1[0].entries, [entries()[0].clone(), other]);
    }

    #[test]
    fn records_of_an_earlier_life_do_not_count() {
        let mut bytes = file();
        bytes[BLOCK as usize..2 * BLOCK as usize].copy_from_slice(&area_head(12));
        assert!(parse(&bytes.into()).unwrap().1[0].entries.is_empty());
    }
}
