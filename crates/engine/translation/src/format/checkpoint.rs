//! Parts of a checkpoint: the zone table, and the extents of the map.

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_base::wire::Fields;
use shingle_runtime::UnixTime;

use super::{push_six, six, snapshot_name};
use crate::map::Extent;
use crate::place::Place;

/// Bytes of a part at most: little memory, and few commands.
const PART_BYTES: usize = 64 << 10;

/// Kinds of parts.
const ZONES: u8 = 1;
const EXTENTS: u8 = 2;
const SAVED: u8 = 3;
const SIZE: u8 = 4;
const SNAPSHOT: u8 = 5;
const KEPT: u8 = 6;

/// Bytes of a zone.
pub(crate) const ZONE_BYTES: usize = 18;

/// Bytes of an extent.
pub(crate) const EXTENT_BYTES: usize = 16;

/// A zone that is in use, as a checkpoint has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ZoneEntry {
    pub(crate) zone: ZoneId,
    pub(crate) epoch: u64,
    pub(crate) stream: u8,
    /// Nothing more is written to it.
    pub(crate) closed: bool,
    /// Pairs before this block are in the map. If the zone is closed, nothing behind it counts.
    pub(crate) covered: u32,
}

/// A snapshot, as a checkpoint has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotEntry {
    /// Its number.
    pub(crate) number: u64,
    /// Size of the volume then.
    pub(crate) sectors: u64,
    pub(crate) taken: UnixTime,
    pub(crate) name: String,
}

/// A part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Zones(Vec<ZoneEntry>),
    Extents(Vec<Extent>),
    /// Bytes of a controller.
    Saved(Bytes),
    /// Sectors of the volume; those that it was made with, if there is no such part.
    Size(u64),
    Snapshot(SnapshotEntry),
    /// Extents of a snapshot's map, by its number.
    Kept(u64, Vec<Extent>),
}

/// Collects entries of one kind into parts.
pub(crate) struct PartWriter {
    front: Vec<u8>,
    entry: usize,
    bytes: Vec<u8>,
}

impl PartWriter {
    pub(crate) fn zones() -> Self {
        Self::new(vec![ZONES], ZONE_BYTES)
    }

    pub(crate) fn extents() -> Self {
        Self::new(vec![EXTENTS], EXTENT_BYTES)
    }

    /// For extents of a snapshot's map.
    pub(crate) fn kept(number: u64) -> Self {
        Self::new([&[KEPT][..], &number.to_le_bytes()].concat(), EXTENT_BYTES)
    }

    fn new(front: Vec<u8>, entry: usize) -> Self {
        Self { bytes: front.clone(), front, entry }
    }

    pub(crate) fn zone(&mut self, entry: &ZoneEntry) {
        self.bytes.extend(entry.zone.0.to_le_bytes());
        self.bytes.extend(entry.epoch.to_le_bytes());
        self.bytes.push(entry.stream);
        self.bytes.push(u8::from(entry.closed));
        self.bytes.extend(entry.covered.to_le_bytes());
    }

    pub(crate) fn extent(&mut self, extent: &Extent) {
        push_six(&mut self.bytes, extent.lba);
        self.bytes.extend(extent.sectors.to_le_bytes());
        push_six(&mut self.bytes, extent.place.bits());
    }

    /// There is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() + self.entry > PART_BYTES
    }

    /// The part, if it has any entries; others then go to the next one.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        let part = std::mem::replace(&mut self.bytes, self.front.clone());
        (part.len() > self.front.len()).then_some(part)
    }
}

impl Part {
    /// A part with bytes of a controller.
    pub(crate) fn saved(bytes: &[u8]) -> Vec<u8> {
        [&[SAVED], bytes].concat()
    }

    /// A part with the volume's size.
    pub(crate) fn size(sectors: u64) -> Vec<u8> {
        [&[SIZE][..], &sectors.to_le_bytes()].concat()
    }

    /// A part with a snapshot.
    pub(crate) fn snapshot(entry: &SnapshotEntry) -> Vec<u8> {
        let numbers = [entry.number, entry.sectors, entry.taken.nanos];
        let numbers = numbers.into_iter().flat_map(u64::to_le_bytes);
        std::iter::once(SNAPSHOT).chain(numbers).chain(entry.name.bytes()).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let kind = fields.u8()?;
        let rest = bytes.len() - 1;
        let part = match kind {
            ZONES => Self::Zones((0..rest / ZONE_BYTES).map(|_| zone(&mut fields)).collect::<Option<_>>()?),
            EXTENTS => Self::Extents((0..rest / EXTENT_BYTES).map(|_| extent(&mut fields)).collect::<Option<_>>()?),
            SAVED => return Some(Self::Saved(Bytes::copy_from_slice(fields.rest()))),
            SIZE => Self::Size(fields.counter()?),
            SNAPSHOT => {
                let (number, sectors, taken) =
                    (fields.counter()?, fields.counter()?, UnixTime { nanos: fields.u64()? });
                let name = snapshot_name(fields.rest())?;
                return Some(Self::Snapshot(SnapshotEntry { number, sectors, taken, name }));
            }
            KEPT => {
                let number = fields.counter()?;
                let extents = (0..rest.checked_sub(8)? / EXTENT_BYTES).map(|_| extent(&mut fields));
                Self::Kept(number, extents.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        fields.end()?;
        Some(part)
    }
}

fn zone(fields: &mut Fields<'_>) -> Option<ZoneEntry> {
    let (zone, epoch, stream) = (ZoneId(fields.u32()?), fields.counter()?, fields.u8()?);
    let closed = match fields.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    Some(ZoneEntry { zone, epoch, stream, closed, covered: fields.u32()? })
}

fn extent(fields: &mut Fields<'_>) -> Option<Extent> {
    let (lba, sectors) = (six(fields)?, fields.u32()?);
    Some(Extent { lba, sectors, place: Place::from_bits(six(fields)?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_cut_ones_are_refused() {
        let entries: Vec<_> = (0..5)
            .map(|at| ZoneEntry { zone: ZoneId(at), epoch: 9, stream: 1, closed: at == 3, covered: 1 << at })
            .collect();
        let mut writer = PartWriter::zones();
        entries.iter().for_each(|entry| writer.zone(entry));
        let bytes = writer.take().unwrap();
        assert_eq!(Part::decode(&bytes), Some(Part::Zones(entries)));
        assert_eq!(writer.take(), None);
        let extents: Vec<_> = (0..5u32)
            .map(|at| Extent {
                lba: (1 << 47) + u64::from(at) * 9,
                sectors: at + 1,
                place: Place::from_bits(77 << at).unwrap(),
            })
            .collect();
        let mut writer = PartWriter::extents();
        extents.iter().for_each(|extent| writer.extent(extent));
        let other = writer.take().unwrap();
        assert_eq!(Part::decode(&other), Some(Part::Extents(extents.clone())));
        let mut writer = PartWriter::kept(7);
        assert_eq!(writer.take(), None);
        extents.iter().for_each(|extent| writer.extent(extent));
        let kept = writer.take().unwrap();
        assert_eq!(Part::decode(&kept), Some(Part::Kept(7, extents)));
        assert_eq!(Part::decode(&kept[..kept.len() - 1]), None);
        let taken = UnixTime { nanos: 3 };
        let snapshot = SnapshotEntry { number: 1, sectors: 2, taken, name: "before-upgrade".to_owned() };
        assert_eq!(Part::decode(&Part::snapshot(&snapshot)), Some(Part::Snapshot(snapshot)));
        assert_eq!(Part::decode(&Part::size(99)), Some(Part::Size(99)));
        assert_eq!(Part::decode(&Part::size(99)[..8]), None);
        for (bytes, size) in [(bytes, ZONE_BYTES), (other, EXTENT_BYTES)] {
            for cut in (0..bytes.len()).filter(|cut| cut % size != 1) {
                assert_eq!(Part::decode(&bytes[..cut]), None, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_part_is_full_before_it_is_too_long() {
        let mut writer = PartWriter::extents();
        let extent = Extent { lba: 1, sectors: 1, place: Place::LOST };
        while !writer.is_full() {
            writer.extent(&extent);
        }
        assert!(writer.take().unwrap().len() <= PART_BYTES);
    }
}
