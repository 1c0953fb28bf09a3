//! Checkpoint and journal: the map and the zones as they were, and what is known of them since.

use std::collections::BTreeMap;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::Recovered;
use shingle_runtime::UnixTime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::drive::Drive;
use crate::format::{Entry, Move, Part, SnapshotEntry, ZoneEntry};
use crate::map::{Extent, ExtentMap};
use crate::place::Place;
use crate::snapshot::{Maps, Snapshot};
use crate::write::STREAMS;

/// A zone in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) epoch: u64,
    pub(super) stream: u8,
    /// Pairs before this block are in the checkpoint's map.
    pub(super) covered: u32,
    /// Nothing behind this block counts, and all before it was durable.
    pub(super) end: Option<u32>,
    /// The checkpoint has all of it.
    pub(super) whole: bool,
}

/// Contents of checkpoint and journal.
pub(super) struct Loaded {
    pub(super) maps: Maps,
    /// Size of the volume.
    pub(super) sectors: u64,
    /// Bytes of a controller.
    pub(super) saved: Bytes,
    /// Zones in use.
    pub(super) zones: BTreeMap<ZoneId, Known>,
    /// Moves since the checkpoint's start, with their numbers.
    pub(super) moves: Vec<(u64, Vec<Move>)>,
    /// Changes of the volume as a whole since then, with their numbers.
    pub(super) wholes: Vec<(u64, Whole)>,
    /// The highest number that they name.
    pub(super) last: u64,
}

/// A change of the volume as a whole.
#[derive(Clone, Debug)]
pub(super) enum Whole {
    Taken { name: String, taken: UnixTime },
    Removed { snapshot: u64 },
    Sized { sectors: u64 },
}

fn senseless(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("a {what} in the metadata log makes no sense"))
}

/// Takes checkpoint and journal apart.
pub(super) fn load(recovered: Recovered, drive: &Drive) -> StoreResult<Loaded> {
    let Parts { zones, extents, saved, size, snapshots } = parts(recovered.parts, drive)?;
    let stride = drive.layout.shape.stride();
    let load = |extents| ExtentMap::load(stride, extents).map_err(|_| senseless("checkpoint part"));
    let mut maps = Maps::new(stride);
    maps.live = load(extents)?;
    for (entry, extents) in snapshots.into_values() {
        let SnapshotEntry { number, sectors, taken, name } = entry;
        maps.snapshots.push(Snapshot { number, name: Some(name), taken, sectors, map: load(extents)? });
    }
    let (sectors, last) = (size.unwrap_or(drive.layout.sectors), recovered.sequence);
    let mut loaded = Loaded { maps, sectors, saved, zones, moves: Vec::new(), wholes: Vec::new(), last };
    for entry in recovered.journal {
        let decoded = Entry::decode(&entry.bytes).filter(|entry| makes_sense(entry, drive));
        loaded.replay(decoded.ok_or_else(|| senseless("journal entry"))?, entry.sequence);
    }
    Ok(loaded)
}

/// Contents of a checkpoint.
#[derive(Default)]
struct Parts {
    zones: BTreeMap<ZoneId, Known>,
    extents: Vec<Extent>,
    saved: Bytes,
    size: Option<u64>,
    snapshots: BTreeMap<u64, (SnapshotEntry, Vec<Extent>)>,
}

fn parts(parts: Vec<Bytes>, drive: &Drive) -> StoreResult<Parts> {
    let mut found = Parts::default();
    for part in parts {
        match Part::decode(&part).ok_or_else(|| senseless("checkpoint part"))? {
            Part::Zones(entries) => {
                if !entries.iter().all(|entry| zone_makes_sense(entry, drive)) {
                    return Err(senseless("zone of a checkpoint"));
                }
                let known = |entry: ZoneEntry| Known {
                    epoch: entry.epoch,
                    stream: entry.stream,
                    covered: entry.covered,
                    end: entry.closed.then_some(entry.covered),
                    whole: entry.closed,
                };
                found.zones.extend(entries.into_iter().map(|entry| (entry.zone, known(entry))));
            }
            Part::Extents(more) => {
                if !more.iter().all(|extent| extent_makes_sense(extent, drive)) {
                    return Err(senseless("extent of a checkpoint"));
                }
                found.extents.extend(more);
            }
            Part::Saved(bytes) => found.saved = bytes,
            Part::Size(sectors) => {
                if sectors == 0 || sectors > drive.layout.sectors_max {
                    return Err(senseless("size in a checkpoint"));
                }
                found.size = Some(sectors);
            }
            Part::Snapshot(entry) => {
                found.snapshots.insert(entry.number, (entry, Vec::new()));
            }
            Part::Kept(number, more) => {
                let sense = |extent: &Extent| match extent.place {
                    Place::HOLE => extent_makes_sense(&Extent { place: Place::LOST, ..*extent }, drive),
                    _ => extent_makes_sense(extent, drive),
                };
                let of = found.snapshots.get_mut(&number).filter(|_| more.iter().all(sense));
                of.ok_or_else(|| senseless("extent of a snapshot"))?.1.extend(more);
            }
        }
    }
    Ok(found)
}

fn zone_makes_sense(entry: &ZoneEntry, drive: &Drive) -> bool {
    drive.layout.is_data(entry.zone) && entry.stream < STREAMS && entry.covered <= drive.layout.shape.zone_blocks
}

fn extent_makes_sense(extent: &Extent, drive: &Drive) -> bool {
    let last = extent.place.advance(extent.sectors.saturating_sub(1), drive.layout.shape.stride());
    extent.sectors > 0
        && extent.lba.checked_add(u64::from(extent.sectors)).is_some_and(|end| end <= drive.layout.sectors_max)
        && (extent.place == Place::LOST || (is_place(extent.place, drive) && is_place(last, drive)))
}

/// A place in a data zone.
fn is_place(place: Place, drive: &Drive) -> bool {
    let shape = drive.layout.shape;
    let (zone, block) = shape.home(place.record());
    let end = u64::from(block) + u64::from(shape.pair_blocks(place.sector() + 1));
    place.is_stored()
        && drive.layout.is_data(zone)
        && place.sector() < shape.pair_sectors()
        && end <= u64::from(shape.zone_blocks)
}

fn makes_sense(entry: &Entry, drive: &Drive) -> bool {
    match entry {
        Entry::Open { zone, stream, .. } => drive.layout.is_data(*zone) && *stream < STREAMS,
        Entry::Closed { zone, end, .. } => drive.layout.is_data(*zone) && *end <= drive.layout.shape.zone_blocks,
        Entry::Reset { zone, .. } => drive.layout.is_data(*zone),
        Entry::Moved(moves) => moves.iter().all(|moved| {
            let end = moved.lba.checked_add(u64::from(moved.sectors));
            end.is_some_and(|end| end <= drive.layout.sectors_max)
                && is_place(moved.from, drive)
                && is_place(moved.to, drive)
        }),
        Entry::Taken { .. } | Entry::Removed { .. } => true,
        Entry::Sized { sectors } => (1..=drive.layout.sectors_max).contains(sectors),
    }
}

impl Loaded {
    /// Goes on by one entry of the journal.
    fn replay(&mut self, entry: Entry, number: u64) {
        self.last = self.last.max(number);
        match entry {
            Entry::Open { zone, epoch, stream } => {
                self.last = self.last.max(epoch);
                let opened = Known { epoch, stream, covered: 0, end: None, whole: false };
                let known = self.zones.entry(zone).or_insert(opened);
                if known.epoch < epoch {
                    *known = opened;
                }
            }
            Entry::Closed { zone, epoch, end } => {
                if let Some(known) = self.zones.get_mut(&zone).filter(|known| known.epoch == epoch) {
                    known.end = Some(end);
                }
            }
            Entry::Reset { zone, epoch } => {
                if self.zones.get(&zone).is_some_and(|known| known.epoch <= epoch) {
                    self.zones.remove(&zone);
                }
            }
            Entry::Moved(moves) => self.moves.push((number, moves)),
            Entry::Taken { name, taken } => self.wholes.push((number, Whole::Taken { name, taken })),
            Entry::Removed { snapshot } => self.wholes.push((number, Whole::Removed { snapshot })),
            Entry::Sized { sectors } => self.wholes.push((number, Whole::Sized { sectors })),
        }
    }
}
