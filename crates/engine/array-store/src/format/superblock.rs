//! The superblock: the drives, the zone-set table, and where the snapshot lies. (SMORE, section III-B.)
//!
//! Its record has all but the sets, and of those what changed. The sets of large arrays are in pieces before it.

use shingle_base::wire::Fields;
use shingle_base::{StoreId, ZoneId};
use shingle_erasure::Code;

use super::bytes::{put_short, short};
use super::marker::Member;
use super::{VERSION, VERSION_BUFFER, VERSION_CHANGES, VERSION_COPIES, VERSION_LOSS, VERSION_MIN};
use crate::types::{DriveId, SetId, SetState};

/// The array's view of a drive.
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
    /// Another drive had the number before.
    pub(crate) reused: bool,
    pub(crate) zones: u32,
    /// Blocks of a zone.
    pub(crate) zone_capacity: u32,
    /// Its two superblock zones.
    pub(crate) superblock_zones: [ZoneId; 2],
    /// Owner's name of it: a serial number or a path, for messages.
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
    /// Fragments of it are known to be torn, or not there, on drives that are: it is to be looked at. (AS-EXAM-2)
    pub(crate) suspect: bool,
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
    /// A file of it whose head has a lower generation was left behind. (AS-BUF-1)
    pub(crate) generation: u64,
}

/// The state of an array. Little-endian, field after field, in the order of this struct; lists behind their length in
/// four bytes.
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
    /// Every superblock behind it is on so many drives at least; 0: a version before 8 wrote it. (AS-SB-1)
    pub(crate) copies: u8,
    /// Of versions below it some may be missing that nobody deleted; 0: none. (AS-LOSS-1)
    pub(crate) lost_before: u64,
    pub(crate) snapshot: Vec<SnapshotPiece>,
    pub(crate) drives: Vec<DriveEntry>,
    /// By number; a number may be unused. Not in a record as such: see [`Update`].
    pub(crate) sets: Vec<Option<SetEntry>>,
}

/// The sets that a superblock does not name itself: those of pieces, and of superblocks behind these, in the same zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The number that its pieces have.
    pub(crate) id: u64,
    /// The block at which the first of them begins.
    pub(crate) block: u32,
    pub(crate) pieces: u32,
    /// The generation of the superblock before this one; 0 for the first behind the pieces.
    pub(crate) follows: u64,
}

/// Sets that changed, by number; `None`: there is no such set any more.
pub(crate) type Changes = Vec<(SetId, Option<SetEntry>)>;

/// The record of a superblock: all but the sets, and of those what changed since the record that it follows; all of
/// them where it follows none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// Without sets; with all of them where a version before 7 wrote it.
    pub(crate) superblock: Superblock,
    pub(crate) base: Option<Base>,
    pub(crate) changes: Changes,
}

/// Marks the state of a drive whose number was another one's before.
const REUSED: u8 = 16;

/// Marks the state of a set that is to be looked at.
const SUSPECT: u8 = 0x80;

/// Bytes of a set's entry in a superblock.
pub(crate) fn set_bytes(width: usize) -> usize {
    4 + 22 + 5 * width
}

impl Superblock {
    fn encode_fields(&self, out: &mut Vec<u8>) {
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
        out.push(self.copies);
        out.extend_from_slice(&self.lost_before.to_le_bytes());
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
            let state = match drive.state {
                DriveState::Present => 0,
                DriveState::Failed => 1,
                DriveState::Removed => 2,
            };
            out.push(state | if drive.reused { REUSED } else { 0 });
            out.extend_from_slice(&drive.zones.to_le_bytes());
            out.extend_from_slice(&drive.zone_capacity.to_le_bytes());
            drive.superblock_zones.iter().for_each(|zone| out.extend_from_slice(&zone.0.to_le_bytes()));
            put_short(out, drive.name.as_bytes());
        }
    }

    /// Its record's payload; its own sets are left out, `changes` are in.
    pub(crate) fn encode(&self, base: Option<Base>, changes: &[(SetId, Option<SetEntry>)]) -> Vec<u8> {
        let mut out = Vec::with_capacity(4096 + changes.len() * set_bytes(self.code.width()));
        self.encode_fields(&mut out);
        let base = base.unwrap_or(Base { id: 0, block: 0, pieces: 0, follows: 0 });
        out.extend_from_slice(&base.id.to_le_bytes());
        out.extend_from_slice(&base.block.to_le_bytes());
        out.extend_from_slice(&base.pieces.to_le_bytes());
        out.extend_from_slice(&base.follows.to_le_bytes());
        out.extend_from_slice(&(changes.len() as u32).to_le_bytes());
        for (id, set) in changes {
            out.extend_from_slice(&id.0.to_le_bytes());
            put_set(&mut out, set.as_ref());
        }
        out
    }

    fn fields(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        let (array, generation) = (StoreId(fields.u64()?), fields.counter()?);
        let code = Code::new(fields.u8()?, fields.u8()?).ok()?;
        let (segment_length, last_stamp) = (fields.u32()?, fields.counter()?);
        let (is_clean, clean) = (fields.u8()? == 1, fields.counter()?);
        let (tombstone_floor, opened, id) = (fields.counter()?, fields.counter()?, fields.u64()?);
        let buffer = BufferName { id, generation: if version >= VERSION_BUFFER { fields.counter()? } else { 0 } };
        let copies = if version >= VERSION_COPIES { fields.u8()? } else { 0 };
        let lost_before = if version >= VERSION_LOSS { fields.counter()? } else { 0 };
        let snapshot = (0..list(fields, 20)?)
            .map(|_| {
                let (set, block) = (SetId(fields.u32()?), fields.u32()?);
                Some(SnapshotPiece { set, block, stamp: fields.u64()?, length: fields.u32()? })
            })
            .collect::<Option<_>>()?;
        let drives = (0..list(fields, 27)?).map(|_| drive(fields)).collect::<Option<Vec<_>>>()?;
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
            copies,
            lost_before,
            snapshot,
            drives,
            sets: Vec::new(),
        })
    }
}

/// The length of a list, each entry of which has so many bytes at least.
fn list(fields: &mut Fields<'_>, least: usize) -> Option<usize> {
    let count = fields.u32()? as usize;
    (count <= fields.rest().len() / least).then_some(count)
}

impl Update {
    /// Reads the payload of a superblock's record. `Err` with a version that this code does not read.
    pub(crate) fn decode(payload: &[u8]) -> Result<Option<Self>, u32> {
        let mut fields = Fields::new(payload);
        match fields.u32() {
            Some(version @ VERSION_CHANGES..=VERSION) => Ok(Self::rest(&mut fields, version)),
            Some(version @ VERSION_MIN..VERSION_CHANGES) => Ok(Self::whole(&mut fields, version)),
            Some(version) => Err(version),
            None => Ok(None),
        }
    }

    /// Versions before 7: all sets, in order.
    fn whole(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        let superblock = Superblock::fields(fields, version)?;
        let sets = (0..list(fields, 1)?).map(|_| set(fields)).collect::<Option<_>>()?;
        fields.end()?;
        Some(Self { superblock: Superblock { sets, ..superblock }, base: None, changes: Changes::new() })
    }

    fn rest(fields: &mut Fields<'_>, version: u32) -> Option<Self> {
        let superblock = Superblock::fields(fields, version)?;
        let base = Base { id: fields.u64()?, block: fields.u32()?, pieces: fields.u32()?, follows: fields.u64()? };
        let changes = (0..list(fields, 5)?).map(|_| Some((SetId(fields.u32()?), set(fields)?)));
        let changes = changes.collect::<Option<_>>()?;
        fields.end()?;
        Some(Self { superblock, base: (base.id != 0).then_some(base), changes })
    }
}

/// The payload of a piece: sets in order, from number `first` on.
pub(crate) fn encode_piece(first: SetId, sets: &[Option<SetEntry>], width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(12 + sets.len() * set_bytes(width));
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&first.0.to_le_bytes());
    out.extend_from_slice(&(sets.len() as u32).to_le_bytes());
    sets.iter().for_each(|set| put_set(&mut out, set.as_ref()));
    out
}

/// Puts a state together of what a zone has, in the order in which that was written. A record that is missing, or not
/// the next one, is noticed: what has a gap is no state. (AS-SB-3)
pub(crate) struct Assembly {
    base: Option<Base>,
    pieces: u32,
    sets: Vec<Option<SetEntry>>,
    last: Option<Superblock>,
}

impl Assembly {
    /// Of what the last record to come says that it builds on.
    pub(crate) fn of(base: Option<Base>) -> Self {
        Self { base, pieces: 0, sets: Vec::new(), last: None }
    }

    /// True if all pieces are there.
    pub(crate) fn has_pieces(&self) -> bool {
        self.base.is_none_or(|base| self.pieces == base.pieces)
    }

    /// Takes the next piece, whose record says that it is that one of a base.
    pub(crate) fn piece(&mut self, base: u64, number: u32, payload: &[u8]) -> Option<()> {
        if self.base?.id != base || number != self.pieces || self.has_pieces() {
            return None;
        }
        let mut fields = Fields::new(payload);
        let (version, first) = (fields.u32()?, fields.u32()?);
        if !(VERSION_CHANGES..=VERSION).contains(&version) || first as usize != self.sets.len() {
            return None;
        }
        for _ in 0..list(&mut fields, 1)? {
            self.sets.push(set(&mut fields)?);
        }
        fields.end()?;
        self.pieces += 1;
        Some(())
    }

    /// Takes the next superblock.
    pub(crate) fn update(&mut self, Update { mut superblock, base, changes }: Update) -> Option<()> {
        let follows = self.last.as_ref().map_or(0, |last| last.generation);
        let of_it = match (self.base, base) {
            (None, None) => self.last.is_none(),
            (Some(own), Some(base)) => own.id == base.id && own.pieces == base.pieces && base.follows == follows,
            _ => false,
        };
        let rises = self.last.as_ref().is_none_or(|last| {
            last.generation < superblock.generation && (last.array, last.code) == (superblock.array, superblock.code)
        });
        if !of_it || !rises || !self.has_pieces() {
            return None;
        }
        if self.last.is_none() && base.is_none() {
            self.sets = std::mem::take(&mut superblock.sets);
        }
        for (SetId(number), set) in changes {
            // New numbers come one after the other: none makes room for millions.
            if number as usize == self.sets.len() {
                self.sets.push(None);
            }
            *self.sets.get_mut(number as usize)? = set;
        }
        self.last = Some(superblock);
        Some(())
    }

    /// The state that the last one left.
    pub(crate) fn end(self) -> Option<Superblock> {
        let superblock = self.last?;
        let drives = superblock.drives.len();
        let known = |set: &SetEntry| set.members.iter().all(|member| usize::from(member.drive.0) < drives);
        let fits = self.sets.iter().flatten().all(known);
        fits.then_some(Superblock { sets: self.sets, ..superblock })
    }
}

fn put_set(out: &mut Vec<u8>, set: Option<&SetEntry>) {
    let Some(set) = set else {
        out.push(0);
        return;
    };
    out.push(set.state.number() | if set.suspect { SUSPECT } else { 0 });
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

fn drive(fields: &mut Fields<'_>) -> Option<DriveEntry> {
    let id = fields.u64()?;
    let state = fields.u8()?;
    let reused = state & REUSED != 0;
    let state = match state & !REUSED {
        0 => DriveState::Present,
        1 => DriveState::Failed,
        2 => DriveState::Removed,
        _ => return None,
    };
    let (zones, zone_capacity) = (fields.u32()?, fields.u32()?);
    let superblock_zones = [ZoneId(fields.u32()?), ZoneId(fields.u32()?)];
    let name = String::from_utf8(short(fields, usize::from(u16::MAX))?.to_vec()).ok()?;
    Some(DriveEntry { id, state, reused, zones, zone_capacity, superblock_zones, name })
}

fn set(fields: &mut Fields<'_>) -> Option<Option<SetEntry>> {
    let number = fields.u8()?;
    if number == 0 {
        return Some(None);
    }
    let (state, suspect) = (SetState::from_number(number & !SUSPECT)?, number & SUSPECT != 0);
    let (count, live, covered) = (fields.u8()?, fields.u64()?, fields.u32()?);
    let (end, length) = (fields.u32()?, fields.u32()?);
    let member = |fields: &mut Fields<'_>| Some(Member { drive: DriveId(fields.u8()?), zone: ZoneId(fields.u32()?) });
    let members = (0..count).map(|_| member(fields)).collect::<Option<_>>()?;
    Some(Some(SetEntry { state, members, live, covered, end, length, suspect }))
}

#[cfg(test)]
mod tests;
