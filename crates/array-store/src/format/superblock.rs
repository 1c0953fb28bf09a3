//! The superblock: the drives, the zone-set table, and where the snapshot lies. (SMORE, section III-B.)

use shingle_base::{StoreId, ZoneId};
use shingle_erasure::Code;

use super::bytes::{Reader, put_short};
use super::marker::Member;
use super::{VERSION, VERSION_BUFFER, VERSION_MIN};
use crate::types::{DriveId, SetId, SetState};

/// What the array thinks of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriveState {
    /// In use.
    Present,
    /// It failed, or was away while the array was written to: what it holds is not believed until it was rebuilt.
    Failed,
    /// It was taken out for good.
    Removed,
}

/// A drive of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriveEntry {
    /// Drawn at random when the drive joined.
    pub(crate) id: u64,
    pub(crate) state: DriveState,
    pub(crate) zones: u32,
    /// Blocks of a zone.
    pub(crate) zone_capacity: u32,
    /// Its two superblock zones.
    pub(crate) superblock_zones: [ZoneId; 2],
    /// What its owner calls it: a serial number or a path, for messages.
    pub(crate) name: String,
}

/// A zone set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetEntry {
    pub(crate) state: SetState,
    pub(crate) members: Vec<Member>,
    /// Bytes of live parts.
    pub(crate) live: u64,
    /// Items below this block are in the snapshot.
    pub(crate) covered: u32,
    /// The block behind the last item that counts; all ones where that is not known.
    pub(crate) end: u32,
    /// Blocks that are used of its zones, where that is less than its shortest zone has.
    pub(crate) length: u32,
}

/// A piece of the index's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotPiece {
    pub(crate) set: SetId,
    pub(crate) block: u32,
    pub(crate) stamp: u64,
    pub(crate) length: u32,
}

/// The buffer of small objects without which the array must not be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferName {
    /// 0: there is none.
    pub(crate) id: u64,
    /// A file of it whose head has a lower generation was left behind. (BUF-1)
    pub(crate) generation: u64,
}

/// What is on three drives at least. Little-endian, field after field, in the order of this struct; lists behind
/// their length in four bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// As it was read; it is always written as the newest.
    pub(crate) version: u32,
    pub(crate) array: StoreId,
    /// Rises with every superblock; the newest counts.
    pub(crate) generation: u64,
    pub(crate) code: Code,
    /// Bytes of data in a full segment.
    pub(crate) segment_length: u32,
    /// No stamp or version above it was given out when this was written.
    pub(crate) last_stamp: u64,
    /// The generation of an index that was closed with this superblock, if one was.
    pub(crate) clean: Option<u64>,
    /// Tombstones of versions below it are not needed: the snapshot has none of what they delete.
    pub(crate) tombstone_floor: u64,
    /// The last stamp when the array was opened last: versions up to it that are not complete were counted then.
    pub(crate) opened: u64,
    pub(crate) buffer: BufferName,
    pub(crate) snapshot: Vec<SnapshotPiece>,
    pub(crate) drives: Vec<DriveEntry>,
    /// By number; a number may be unused.
    pub(crate) sets: Vec<Option<SetEntry>>,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.sets.len() * (10 + self.code.width() * 5));
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.array.0.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&[self.code.data() as u8, self.code.parity() as u8]);
        out.extend_from_slice(&self.segment_length.to_le_bytes());
        out.extend_from_slice(&self.last_stamp.to_le_bytes());
        out.push(u8::from(self.clean.is_some()));
        out.extend_from_slice(&self.clean.unwrap_or(0).to_le_bytes());
        for number in [self.tombstone_floor, self.opened, self.buffer.id, self.buffer.generation] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.snapshot.len() as u32).to_le_bytes());
        for piece in &self.snapshot {
            out.extend_from_slice(&piece.set.0.to_le_bytes());
            out.extend_from_slice(&piece.block.to_le_bytes());
            out.extend_from_slice(&piece.stamp.to_le_bytes());
            out.extend_from_slice(&piece.length.to_le_bytes());
        }
        out.extend_from_slice(&(self.drives.len() as u32).to_le_bytes());
        for drive in &self.drives {
            out.extend_from_slice(&drive.id.to_le_bytes());
            out.push(match drive.state {
                DriveState::Present => 0,
                DriveState::Failed => 1,
                DriveState::Removed => 2,
            });
            out.extend_from_slice(&drive.zones.to_le_bytes());
            out.extend_from_slice(&drive.zone_capacity.to_le_bytes());
            drive.superblock_zones.iter().for_each(|zone| out.extend_from_slice(&zone.0.to_le_bytes()));
            put_short(&mut out, drive.name.as_bytes());
        }
        out.extend_from_slice(&(self.sets.len() as u32).to_le_bytes());
        for set in &self.sets {
            let Some(set) = set else {
                out.push(0);
                continue;
            };
            out.push(set.state.number());
            out.push(set.members.len() as u8);
            out.extend_from_slice(&set.live.to_le_bytes());
            out.extend_from_slice(&set.covered.to_le_bytes());
            out.extend_from_slice(&set.end.to_le_bytes());
            out.extend_from_slice(&set.length.to_le_bytes());
            for member in &set.members {
                out.push(member.drive.0);
                out.extend_from_slice(&member.zone.0.to_le_bytes());
            }
        }
        out
    }

    /// `Err` with a version that this code does not read.
    pub(crate) fn decode(payload: &[u8]) -> Result<Option<Self>, u32> {
        let mut reader = Reader(payload);
        match reader.u32() {
            Some(version @ VERSION_MIN..=VERSION) => Ok(Self::fields(&mut reader, version)),
            Some(version) => Err(version),
            None => Ok(None),
        }
    }

    fn fields(reader: &mut Reader<'_>, version: u32) -> Option<Self> {
        let (array, generation) = (StoreId(reader.u64()?), reader.u64()?);
        let code = Code::new(reader.u8()?, reader.u8()?).ok()?;
        let (segment_length, last_stamp) = (reader.u32()?, reader.u64()?);
        let (is_clean, clean) = (reader.u8()? == 1, reader.u64()?);
        let (tombstone_floor, opened, id) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let buffer = BufferName { id, generation: if version >= VERSION_BUFFER { reader.u64()? } else { 0 } };
        let list = |reader: &mut Reader<'_>, least: usize| {
            let count = reader.u32()? as usize;
            (count <= reader.0.len() / least).then_some(count)
        };
        let snapshot = (0..list(reader, 20)?)
            .map(|_| {
                let (set, block) = (SetId(reader.u32()?), reader.u32()?);
                Some(SnapshotPiece { set, block, stamp: reader.u64()?, length: reader.u32()? })
            })
            .collect::<Option<_>>()?;
        let drives = (0..list(reader, 27)?).map(|_| drive(reader)).collect::<Option<Vec<_>>>()?;
        let sets = (0..list(reader, 1)?).map(|_| set(reader, drives.len())).collect::<Option<_>>()?;
        reader.end()?;
        Some(Self {
            version,
            array,
            generation,
            code,
            segment_length,
            last_stamp,
            clean: is_clean.then_some(clean),
            tombstone_floor,
            opened,
            buffer,
            snapshot,
            drives,
            sets,
        })
    }
}

fn drive(reader: &mut Reader<'_>) -> Option<DriveEntry> {
    let id = reader.u64()?;
    let state = match reader.u8()? {
        0 => DriveState::Present,
        1 => DriveState::Failed,
        2 => DriveState::Removed,
        _ => return None,
    };
    let (zones, zone_capacity) = (reader.u32()?, reader.u32()?);
    let superblock_zones = [ZoneId(reader.u32()?), ZoneId(reader.u32()?)];
    let name = String::from_utf8(reader.short(usize::from(u16::MAX))?.to_vec()).ok()?;
    Some(DriveEntry { id, state, zones, zone_capacity, superblock_zones, name })
}

fn set(reader: &mut Reader<'_>, drives: usize) -> Option<Option<SetEntry>> {
    let number = reader.u8()?;
    if number == 0 {
        return Some(None);
    }
    let state = SetState::from_number(number)?;
    let (count, live, covered) = (reader.u8()?, reader.u64()?, reader.u32()?);
    let (end, length) = (reader.u32()?, reader.u32()?);
    let member = |reader: &mut Reader<'_>| {
        let (drive, zone) = (DriveId(reader.u8()?), ZoneId(reader.u32()?));
        (usize::from(drive.0) < drives).then_some(Member { drive, zone })
    };
    let members = (0..count).map(|_| member(reader)).collect::<Option<_>>()?;
    Some(Some(SetEntry { state, members, live, covered, end, length }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_before_is_read_and_others_are_refused() {
        let superblock = Superblock {
            version: VERSION,
            array: StoreId(7),
            generation: 3,
            code: Code::new(2, 1).unwrap(),
            segment_length: 20_000,
            last_stamp: 9,
            clean: None,
            tombstone_floor: 0,
            opened: 0,
            buffer: BufferName { id: 11, generation: 12 },
            snapshot: Vec::new(),
            drives: Vec::new(),
            sets: Vec::new(),
        };
        let of_version = |version: u32| {
            let mut bytes = superblock.encode();
            if version < VERSION_BUFFER {
                assert_eq!(bytes.drain(67..75).collect::<Vec<_>>(), 12_u64.to_le_bytes());
            }
            bytes[..4].copy_from_slice(&version.to_le_bytes());
            Superblock::decode(&bytes)
        };
        assert_eq!(of_version(VERSION), Ok(Some(superblock.clone())));
        for version in VERSION_MIN..VERSION_BUFFER {
            let buffer = BufferName { id: 11, generation: 0 };
            assert_eq!(of_version(version), Ok(Some(Superblock { version, buffer, ..superblock.clone() })));
        }
        assert_eq!((of_version(VERSION_MIN - 1), of_version(VERSION + 1)), (Err(VERSION_MIN - 1), Err(VERSION + 1)));
    }
}
