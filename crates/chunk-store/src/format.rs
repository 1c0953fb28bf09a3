//! What a chunk store puts into records: superblock, journal entries, checkpoint parts. See `docs/formats/chunk-store.md`.
//!
//! All numbers are little-endian. Everything here was framed and checked by crate `record` already; a value that makes
//! no sense all the same is an error, never a panic.

use shingle_base::{ChunkId, ZoneId};
use shingle_record::RecordType;

use crate::index::{IndexGroup, Run};
use crate::mark::Mark;
use crate::table::Chunk;
use crate::types::Stream;
use crate::zones::{Zone, ZoneStatus, ZoneTable};

/// The number by which a superblock says that a chunk store is on the drive.
pub const ENGINE: u32 = 0x4B4E_4843; // "CHNK"

/// The version of everything in this file.
pub(crate) const VERSION: u32 = 6;

/// Types of the records in data zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// A part of a chunk, sliced.
    Data,
}

impl RecordKind {
    pub(crate) const fn record_type(self) -> RecordType {
        match self {
            Self::Data => RecordType(0x0101),
        }
    }
}

/// The kind a zone head carries: which stream its records belong to.
pub(crate) fn zone_kind(stream: Stream) -> u16 {
    0x0100 + stream_number(stream) as u16
}

/// The kind that heads of landing zones carry.
pub(crate) const LANDING_KIND: u16 = 0x0110;

/// Bit of a zone's stream in a checkpoint that says that it is a landing zone.
const LANDING_BIT: u8 = 0x80;

/// The stream of a zone whose head carries `kind`, and whether it is a landing zone.
pub(crate) fn zone_use(kind: u16) -> Option<(Stream, bool)> {
    if kind == LANDING_KIND {
        return Some((LANDING_STREAM, true));
    }
    Some((stream_from((kind.checked_sub(0x0100)?).try_into().ok()?)?, false))
}

/// What records that GC finds in a landing zone count as: they are of all streams.
pub(crate) const LANDING_STREAM: Stream = Stream::Data;

pub(crate) fn stream_number(stream: Stream) -> u8 {
    match stream {
        Stream::Data => 0,
        Stream::Gc => 1,
        Stream::Meta => 2,
    }
}

pub(crate) fn stream_from(number: u8) -> Option<Stream> {
    [Stream::Data, Stream::Gc, Stream::Meta].get(usize::from(number)).copied()
}

/// Reads numbers off a slice; `None` where it is too short.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn chunk(&mut self) -> Option<ChunkId> {
        self.take().map(ChunkId)
    }

    fn done(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The engine's part of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) zone_size: u64,
    pub(crate) zone_count: u32,
    pub(crate) metazones: u32,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16);
        bytes.extend(self.zone_size.to_le_bytes());
        bytes.extend(self.zone_count.to_le_bytes());
        bytes.extend(self.metazones.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let block = Self { zone_size: cursor.u64()?, zone_count: cursor.u32()?, metazones: cursor.u32()? };
        cursor.done()?;
        Some(block)
    }
}

/// One journaled change. Appends are not journaled. (SMRstore, section 5.6.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// A chunk was created; the entry's sequence number is its birth.
    Create {
        /// Its identity.
        id: ChunkId,
        /// Its stream.
        stream: Stream,
    },
    /// A chunk was sealed at a size; records past it are not part of it.
    Seal {
        /// Its identity.
        id: ChunkId,
        /// Its final size.
        size: u32,
    },
    /// A chunk was deleted.
    Delete {
        /// Its identity.
        id: ChunkId,
    },
    /// A zone is about to be reset: its life up to `epoch` is over.
    Reset {
        /// The zone.
        zone: ZoneId,
        /// The epoch of the life that ends.
        epoch: u64,
    },
    /// Records were written: recovery need not scan for them.
    Mark(Mark),
    /// A free zone is opened: its life `epoch` begins. Durable before a record in it is acknowledged.
    Open {
        /// The zone.
        zone: ZoneId,
        /// The epoch of the life that begins.
        epoch: u64,
        /// The stream of its records.
        stream: Stream,
        /// It is a landing zone.
        landing: bool,
    },
    /// A chunk that an earlier opening of the store left open is appended to again, at `size`: older records of it that
    /// end past that are dead, whether they were found or not. Durable before the append is acknowledged.
    Resume {
        /// Its identity.
        id: ChunkId,
        /// Where it goes on.
        size: u32,
    },
}

impl JournalEntry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        match self {
            Self::Create { id, stream } => {
                bytes.push(1);
                bytes.extend(id.0);
                bytes.push(stream_number(*stream));
            }
            Self::Seal { id, size } => {
                bytes.push(2);
                bytes.extend(id.0);
                bytes.extend(size.to_le_bytes());
            }
            Self::Delete { id } => {
                bytes.push(3);
                bytes.extend(id.0);
            }
            Self::Reset { zone, epoch } => {
                bytes.push(4);
                bytes.extend(zone.0.to_le_bytes());
                bytes.extend(epoch.to_le_bytes());
            }
            Self::Mark(mark) => {
                bytes.push(5);
                mark.encode(&mut bytes);
            }
            Self::Open { zone, epoch, stream, landing } => {
                bytes.push(6);
                bytes.extend(zone.0.to_le_bytes());
                bytes.extend(epoch.to_le_bytes());
                bytes.push(stream_number(*stream) | if *landing { LANDING_BIT } else { 0 });
            }
            Self::Resume { id, size } => {
                bytes.push(7);
                bytes.extend(id.0);
                bytes.extend(size.to_le_bytes());
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let entry = match cursor.u8()? {
            1 => Self::Create { id: cursor.chunk()?, stream: stream_from(cursor.u8()?)? },
            2 => Self::Seal { id: cursor.chunk()?, size: cursor.u32()? },
            3 => Self::Delete { id: cursor.chunk()? },
            4 => Self::Reset { zone: ZoneId(cursor.u32()?), epoch: cursor.u64()? },
            5 => Self::Mark(Mark::decode(&mut cursor)?),
            6 => {
                let (zone, epoch, flags) = (ZoneId(cursor.u32()?), cursor.u64()?, cursor.u8()?);
                Self::Open {
                    zone,
                    epoch,
                    stream: stream_from(flags & !LANDING_BIT)?,
                    landing: flags & LANDING_BIT != 0,
                }
            }
            7 => Self::Resume { id: cursor.chunk()?, size: cursor.u32()? },
            _ => return None,
        };
        cursor.done()?;
        Some(entry)
    }
}

/// A zone as a checkpoint holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneEntry {
    pub(crate) zone: ZoneId,
    pub(crate) status: ZoneStatus,
    pub(crate) stream: Stream,
    pub(crate) landing: bool,
    pub(crate) epoch: u64,
    pub(crate) written: u32,
    pub(crate) indexed_to: u32,
}

impl ZoneEntry {
    /// Whether nothing is written to the zone in this life any more, and the index has all that was acknowledged (ZONE-5).
    pub(crate) fn is_whole(&self) -> bool {
        self.status.is_ended() && self.indexed_to >= self.written
    }
}

/// A part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointPart {
    Zones(Vec<ZoneEntry>),
    Chunks(Vec<ChunkEntry>),
}

/// A chunk as a checkpoint holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) id: ChunkId,
    pub(crate) stream: Stream,
    pub(crate) sealed: bool,
    pub(crate) birth: u64,
    pub(crate) size: u32,
    /// Of older builds alone: when it was last gone on with after an opening, so that older records that end past `size` are
    /// dead. Zero: never.
    pub(crate) since: u64,
    /// Its runs of records in chunk order, each with the epoch of its zone.
    pub(crate) runs: Vec<(Run, u64)>,
}

/// Bytes of the zone table of `zones` zones at most.
pub(crate) fn zone_table_bytes(zones: usize) -> u64 {
    5 + zones as u64 * 22
}

/// The zone table as one part. (SMRstore, section 5.6: "can be stored in one record"; here in as many as it takes.)
pub(crate) fn encode_zones(zones: &ZoneTable) -> Vec<u8> {
    let used: Vec<_> = zones.iter().filter(|(_, zone)| zone.epoch != 0 || zone.status != ZoneStatus::Free).collect();
    let mut bytes = Vec::with_capacity(5 + used.len() * 22);
    bytes.push(1);
    bytes.extend((used.len() as u32).to_le_bytes());
    for (id, zone) in used {
        encode_zone(&mut bytes, id, zone);
    }
    bytes
}

fn encode_zone(bytes: &mut Vec<u8>, id: ZoneId, zone: &Zone) {
    bytes.extend(id.0.to_le_bytes());
    bytes.push(zone.status as u8);
    bytes.push(stream_number(zone.stream) | if zone.landing { LANDING_BIT } else { 0 });
    bytes.extend(zone.epoch.to_le_bytes());
    bytes.extend(zone.needed_to().to_le_bytes());
    bytes.extend(zone.indexed_to.to_le_bytes());
}

/// Collects chunks into a part.
pub(crate) struct ChunkPage {
    bytes: Vec<u8>,
    count: u32,
}

impl ChunkPage {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![2, 0, 0, 0, 0], count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a chunk of which `size` bytes are in the index, or lost.
    pub(crate) fn add(&mut self, chunk: &Chunk, size: u32, zones: &ZoneTable) {
        self.count += 1;
        let bytes = &mut self.bytes;
        bytes.extend(chunk.id.0);
        bytes.push(stream_number(chunk.stream) | u8::from(chunk.sealed) << 7);
        bytes.extend(chunk.birth.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((chunk.groups.len() as u32).to_le_bytes());
        for group in chunk.groups.iter() {
            encode_group(bytes, group, zones.get(group.zone).epoch);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes[1..5].copy_from_slice(&self.count.to_le_bytes());
        self.bytes
    }
}

fn encode_group(bytes: &mut Vec<u8>, group: &IndexGroup, epoch: u64) {
    bytes.extend(group.zone.0.to_le_bytes());
    bytes.extend(epoch.to_le_bytes());
    bytes.extend((group.runs().count() as u32).to_le_bytes());
    bytes.extend(group.end.to_le_bytes());
    for run in group.runs() {
        let several = if run.stride == 0 { 0 } else { SEVERAL };
        bytes.extend(run.offset.to_le_bytes());
        bytes.extend((run.block | several).to_le_bytes());
        if run.stride != 0 {
            bytes.extend(run.length.to_le_bytes());
            bytes.extend(run.stride.to_le_bytes());
        }
    }
}

/// Set in a run's block if it has more than one record.
const SEVERAL: u32 = 1 << 31;

/// Bytes a chunk takes in a checkpoint, beside its groups.
pub(crate) const CHUNK_BYTES: u64 = 41;

/// Bytes that a place where a chunk was gone on with takes in the journal of a checkpoint.
pub(crate) const PLACE_BYTES: u64 = 41;

/// Bytes a group takes in a checkpoint, beside its records.
pub(crate) const GROUP_BYTES: u64 = 20;

/// Bytes a record takes in a checkpoint at most: a run of two or more takes twice as many.
pub(crate) const RECORD_BYTES: u64 = 8;

impl CheckpointPart {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(bytes);
        let kind = cursor.u8()?;
        let count = cursor.u32()?;
        let part = match kind {
            1 => Self::Zones((0..count).map(|_| decode_zone(&mut cursor)).collect::<Option<_>>()?),
            2 => Self::Chunks((0..count).map(|_| decode_chunk(&mut cursor)).collect::<Option<_>>()?),
            _ => return None,
        };
        cursor.done()?;
        Some(part)
    }
}

fn decode_zone(cursor: &mut Cursor<'_>) -> Option<ZoneEntry> {
    let (zone, status, number) = (ZoneId(cursor.u32()?), cursor.u8()?, cursor.u8()?);
    Some(ZoneEntry {
        zone,
        status: *ZoneStatus::ALL.get(usize::from(status))?,
        stream: stream_from(number & !LANDING_BIT)?,
        landing: number & LANDING_BIT != 0,
        epoch: cursor.u64()?,
        written: cursor.u32()?,
        indexed_to: cursor.u32()?,
    })
}

fn decode_chunk(cursor: &mut Cursor<'_>) -> Option<ChunkEntry> {
    let id = cursor.chunk()?;
    let flags = cursor.u8()?;
    let (stream, sealed) = (stream_from(flags & 0x3F)?, flags & 0x80 != 0);
    let (birth, size) = (cursor.u64()?, cursor.u32()?);
    let since = if flags & 0x40 == 0 { 0 } else { Some(cursor.u64()?).filter(|&since| since != 0)? };
    let groups = cursor.u32()?;
    let mut runs: Vec<(Run, u64)> = Vec::new();
    for _ in 0..groups {
        let zone = ZoneId(cursor.u32()?);
        let epoch = cursor.u64()?;
        let (count, group_end) = (cursor.u32()?, cursor.u32()?);
        let first = runs.len();
        for _ in 0..count {
            let (offset, block) = (cursor.u32()?, cursor.u32()?);
            if let Some((before, _)) = runs.get_mut(first..)?.last_mut() {
                finish_run(before, offset)?;
            }
            let (length, stride) =
                if block & SEVERAL == 0 { (0, 0) } else { (cursor.u32()?, Some(cursor.u32()?).filter(|&s| s != 0)?) };
            let run = Run { zone, block: block & !SEVERAL, offset, end: offset, length, stride };
            runs.push((run, epoch));
        }
        let (last, _) = runs.get_mut(first..)?.last_mut()?;
        finish_run(last, group_end)?;
    }
    Some(ChunkEntry { id, stream, sealed, birth, size, since, runs })
}

/// Sets where a run ends, and says whether it makes sense.
fn finish_run(run: &mut Run, end: u32) -> Option<()> {
    run.end = end;
    if run.stride == 0 {
        run.length = end.checked_sub(run.offset)?;
    }
    run.is_sound().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Groups, Located};

    fn groups(entry: &ChunkEntry) -> Groups {
        let mut groups = Groups::default();
        for (run, _) in &entry.runs {
            groups.push_run(*run);
        }
        groups
    }

    fn id() -> ChunkId {
        ChunkId(std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn journal_entries_have_their_golden_bytes() {
        let hex = |entry: JournalEntry| entry.encode().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id_hex = id().to_string();
        for (entry, golden) in [
            (JournalEntry::Create { id: id(), stream: Stream::Meta }, format!("01{id_hex}02")),
            (JournalEntry::Seal { id: id(), size: 0x1234 }, format!("02{id_hex}34120000")),
            (JournalEntry::Delete { id: id() }, format!("03{id_hex}")),
            (JournalEntry::Reset { zone: ZoneId(7), epoch: 0x99 }, "04070000009900000000000000".to_owned()),
            (
                JournalEntry::Open { zone: ZoneId(7), epoch: 0x99, stream: Stream::Gc, landing: true },
                "0607000000990000000000000081".to_owned(),
            ),
            (JournalEntry::Resume { id: id(), size: 0x1234 }, format!("07{id_hex}34120000")),
        ] {
            assert_eq!(hex(entry.clone()), golden);
            assert_eq!(JournalEntry::decode(&entry.encode()), Some(entry.clone()));
            for cut in 0..entry.encode().len() {
                assert_eq!(JournalEntry::decode(&entry.encode()[..cut]), None, "{entry:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn checkpoint_parts_come_back_as_they_were() {
        let mut zones = ZoneTable::new(10, 4, 64);
        zones.set_status(ZoneId(11), ZoneStatus::Closed);
        let zone = zones.get_mut(ZoneId(11));
        (zone.epoch, zone.written, zone.indexed_to, zone.stream) = (77, 60, 50, Stream::Gc);
        (zone.landing, zone.landed) = (true, 1);
        let part = CheckpointPart::decode(&encode_zones(&zones));
        let entry = ZoneEntry {
            zone: ZoneId(11),
            status: ZoneStatus::Closed,
            stream: Stream::Gc,
            landing: true,
            epoch: 77,
            written: 60,
            indexed_to: 50,
        };
        assert_eq!(part, Some(CheckpointPart::Zones(vec![entry])));
        // ZONE-5: nothing behind the index counts.
        zones.get_mut(ZoneId(11)).landed = 0;
        let part = CheckpointPart::decode(&encode_zones(&zones));
        assert_eq!(part, Some(CheckpointPart::Zones(vec![ZoneEntry { written: 50, ..entry }])));

        let mut chunk = Chunk::new(id(), Stream::Data, 5);
        chunk.groups.push(Located { zone: ZoneId(11), block: 1, offset: 0, length: 100 });
        chunk.groups.push(Located { zone: ZoneId(11), block: 3, offset: 100, length: 20 });
        chunk.groups.push(Located { zone: ZoneId(12), block: 1, offset: 120, length: 9 });
        (chunk.size, chunk.sealed) = (129, true);
        let mut page = ChunkPage::new();
        page.add(&chunk, chunk.size, &zones);
        let bytes = page.finish();
        match CheckpointPart::decode(&bytes) {
            Some(CheckpointPart::Chunks(entries)) => {
                let [entry] = entries.as_slice() else { panic!("{entries:?}") };
                assert_eq!(groups(entry), chunk.groups);
                assert_eq!(
                    (entry.id, entry.stream, entry.sealed, entry.birth, entry.size),
                    (id(), Stream::Data, true, 5, 129)
                );
                assert_eq!(entry.runs.iter().map(|(_, epoch)| *epoch).collect::<Vec<_>>(), [77, 77, 0]);
            }
            other => panic!("{other:?}"),
        }
        for cut in 0..bytes.len() {
            assert_eq!(CheckpointPart::decode(&bytes[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_part_of_chunks_has_its_golden_bytes() {
        let mut zones = ZoneTable::new(10, 4, 64);
        zones.get_mut(ZoneId(11)).epoch = 0x77;
        let mut chunk = Chunk::new(id(), Stream::Gc, 5);
        // Two equal records and a shorter one, one of another length; one in another zone.
        for (zone, block, offset, length) in [
            (11, 1, 0, 0x1000),
            (11, 9, 0x1000, 0x1000),
            (11, 17, 0x2000, 6),
            (11, 19, 0x2006, 0x20),
            (12, 3, 0x2026, 4),
        ] {
            chunk.groups.push(Located { zone: ZoneId(zone), block, offset, length });
        }
        (chunk.size, chunk.sealed) = (0x202A, true);
        let mut page = ChunkPage::new();
        page.add(&chunk, chunk.size, &zones);
        let bytes = page.finish();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = [
            "0201000000",
            &id().to_string(),
            "8105000000000000002a20000002000000",
            "0b00000077000000000000000200000026200000",
            "00000000010000800010000008000000",
            "0620000013000000",
            "0c0000000000000000000000010000002a200000",
            "2620000003000000",
        ]
        .concat();
        assert_eq!(hex, golden);
        let records: u64 = chunk.groups.iter().map(|group| group.len() as u64).sum();
        let most = 5 + CHUNK_BYTES + chunk.groups.len() as u64 * GROUP_BYTES + records * RECORD_BYTES;
        assert!(bytes.len() as u64 <= most, "{} bytes, {most} at most", bytes.len());
    }

    /// As builds wrote it that did not journal the places again.
    #[test]
    fn a_chunk_that_an_older_build_had_go_on_says_since_when() {
        let id_bytes = id().0;
        let chunk = |flags: u8, since: &[u8]| {
            let mut bytes = vec![2, 1, 0, 0, 0];
            bytes.extend(id_bytes);
            bytes.push(flags);
            bytes.extend([5, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
            bytes.extend(since);
            bytes.extend([0; 4]);
            CheckpointPart::decode(&bytes)
        };
        let Some(CheckpointPart::Chunks(entries)) = chunk(0x42, &[0x99, 0, 0, 0, 0, 0, 0, 0]) else { panic!() };
        assert_eq!((entries[0].since, entries[0].size, entries[0].stream), (0x99, 7, Stream::Meta));
        let Some(CheckpointPart::Chunks(entries)) = chunk(0x82, &[]) else { panic!() };
        assert_eq!((entries[0].since, entries[0].sealed), (0, true));
        assert_eq!(chunk(0x42, &[0; 8]), None);
        assert_eq!(chunk(0x42, &[]), None);
    }

    /// A run that reaches past the largest zone, or has no length, is damage, not memory.
    #[test]
    fn senseless_runs_are_refused() {
        let part = |block: u32, length: u32, stride: u32, end: u32| {
            let mut bytes = vec![2, 1, 0, 0, 0];
            bytes.extend([0; 24 + 1 + 8 + 4]);
            bytes.extend(1u32.to_le_bytes());
            bytes.extend([0; 4 + 8]);
            bytes.extend([1u32, end, 0, block].map(u32::to_le_bytes).concat());
            if block & SEVERAL != 0 {
                bytes.extend([length, stride].map(u32::to_le_bytes).concat());
            }
            CheckpointPart::decode(&bytes)
        };
        assert!(part(1, 0, 0, 100).is_some());
        assert!(part(1 | SEVERAL, 10, 2, 100).is_some());
        assert_eq!(part(1, 0, 0, 0), None);
        assert_eq!(part(1 << 30, 0, 0, 100), None);
        assert_eq!(part(1 | SEVERAL, 0, 2, 100), None);
        assert_eq!(part(1 | SEVERAL, 10, 0, 100), None);
        assert_eq!(part(1 | SEVERAL, 100, 1, 100), None);
        assert_eq!(part(1 | SEVERAL, 1, 1, u32::MAX), None);
    }
}
