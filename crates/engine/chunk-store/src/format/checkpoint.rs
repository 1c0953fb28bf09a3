//! Parts of a checkpoint: the zone table, and chunks with their records.

use shingle_base::{ChunkId, ZoneId};

use crate::format::{LANDING_BIT, stream_from, stream_number};
use crate::index::Chunk;
use crate::index::{IndexGroup, Run};
use crate::types::Stream;
use crate::types::ZoneStatus;
use crate::zones::Zone;
use crate::zones::ZoneTable;
use shingle_base::wire::Fields;

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
    /// True if nothing more is written to this generation of the zone, and the index has all of its acknowledged
    /// records (CS-ZONE-5).
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
    /// Of older builds alone: when it was last gone on with after an opening, so that older records that end past
    /// `size` are dead. Zero: never.
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
        let mut fields = Fields::new(bytes);
        let kind = fields.u8()?;
        let count = fields.u32()?;
        let part = match kind {
            1 => Self::Zones((0..count).map(|_| decode_zone(&mut fields)).collect::<Option<_>>()?),
            2 => Self::Chunks((0..count).map(|_| decode_chunk(&mut fields)).collect::<Option<_>>()?),
            _ => return None,
        };
        fields.end()?;
        Some(part)
    }
}

fn decode_zone(fields: &mut Fields<'_>) -> Option<ZoneEntry> {
    let (zone, status, number) = (ZoneId(fields.u32()?), fields.u8()?, fields.u8()?);
    Some(ZoneEntry {
        zone,
        status: *ZoneStatus::ALL.get(usize::from(status))?,
        stream: stream_from(number & !LANDING_BIT)?,
        landing: number & LANDING_BIT != 0,
        epoch: fields.u64()?,
        written: fields.u32()?,
        indexed_to: fields.u32()?,
    })
}

fn decode_chunk(fields: &mut Fields<'_>) -> Option<ChunkEntry> {
    let id = ChunkId(fields.array()?);
    let flags = fields.u8()?;
    let (stream, sealed) = (stream_from(flags & 0x3F)?, flags & 0x80 != 0);
    let (birth, size) = (fields.u64()?, fields.u32()?);
    let since = if flags & 0x40 == 0 { 0 } else { Some(fields.u64()?).filter(|&since| since != 0)? };
    let groups = fields.u32()?;
    let mut runs: Vec<(Run, u64)> = Vec::new();
    for _ in 0..groups {
        let zone = ZoneId(fields.u32()?);
        let epoch = fields.u64()?;
        let (count, group_end) = (fields.u32()?, fields.u32()?);
        let first = runs.len();
        for _ in 0..count {
            let (offset, block) = (fields.u32()?, fields.u32()?);
            if let Some((before, _)) = runs.get_mut(first..)?.last_mut() {
                finish_run(before, offset)?;
            }
            let (length, stride) =
                if block & SEVERAL == 0 { (0, 0) } else { (fields.u32()?, Some(fields.u32()?).filter(|&s| s != 0)?) };
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
        // CS-ZONE-5: nothing behind the index counts.
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
