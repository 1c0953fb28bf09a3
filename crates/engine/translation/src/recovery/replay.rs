//! Changes since the checkpoint, in their order: writes that were found, and moves of the journal.

use shingle_record::{NameKind, Pair, SequenceSource};

use super::load::{Loaded, Whole};
use super::report::RecoveryReport;
use super::scan::FoundZone;
use crate::drive::Drive;
use crate::format::Move;
use crate::map::ExtentMap;
use crate::place::{Place, Stride};
use crate::snapshot::{Maps, Snapshot};

/// A change of the map.
enum Change {
    Written { lba: u64, sectors: u32, place: Option<Place> },
    Moved(Move),
    Whole(u64, Whole),
}

/// The maps as they were in the end. Raises the numbers above all that were found.
pub(super) fn replay(
    drive: &Drive,
    loaded: &mut Loaded,
    zones: &[FoundZone],
    sequence: &SequenceSource,
    report: &mut RecoveryReport,
) -> Maps {
    let stride = drive.layout.shape.stride();
    let mut maps = std::mem::replace(&mut loaded.maps, Maps::new(stride));
    let mut changes: Vec<(u64, Change)> = Vec::new();
    for pair in zones.iter().flat_map(|zone| &zone.pairs) {
        add_writes(drive, pair, &mut changes);
    }
    for (number, moves) in &loaded.moves {
        report.moves += moves.len() as u64;
        changes.extend(moves.iter().map(|&moved| (*number, Change::Moved(moved))));
    }
    let wholes = std::mem::take(&mut loaded.wholes).into_iter();
    changes.extend(wholes.map(|(number, whole)| (number, Change::Whole(number, whole))));
    // Stable: moves of one entry stay in their order.
    changes.sort_by_key(|(number, _)| *number);
    let last = changes.last().map_or(0, |(number, _)| *number);
    let newest = loaded.zones.values().map(|known| known.epoch).max().unwrap_or(0);
    sequence.raise(last.max(loaded.last).max(newest));
    for (_, change) in changes {
        match change {
            Change::Written { lba, sectors, place } => maps.write(lba..lba + u64::from(sectors), place, |_, _| {}),
            Change::Moved(moved) => {
                maps.relocate(&moved);
            }
            Change::Whole(number, whole) => apply_whole(&mut maps, &mut loaded.sectors, number, whole, stride),
        }
    }
    maps
}

/// A change of the volume as a whole (TL-SNAP-3).
fn apply_whole(maps: &mut Maps, size: &mut u64, number: u64, whole: Whole, stride: Stride) {
    match whole {
        Whole::Taken { name, taken } => {
            // Numbers are in order, each once.
            if maps.snapshots.last().is_none_or(|last| last.number < number) {
                let (name, map) = (Some(name), ExtentMap::new(stride));
                maps.snapshots.push(Snapshot { number, name, taken, sectors: *size, map });
            }
        }
        Whole::Removed { snapshot } => while !maps.dissolve(snapshot, usize::MAX, |_| {}) {},
        Whole::Sized { sectors } => {
            if sectors < *size {
                maps.write(sectors..*size, None, |_, _| {});
            }
            *size = sectors;
        }
    }
}

fn add_writes(drive: &Drive, pair: &Pair, changes: &mut Vec<(u64, Change)>) {
    let record = drive.block(pair.place.zone, pair.place.block);
    let mut sector = 0;
    for name in &pair.names {
        let place = match name.kind {
            NameKind::Data => {
                sector += name.sectors;
                Place::new(record, sector - name.sectors)
            }
            NameKind::Zeros | NameKind::Discarded => None,
        };
        changes.push((name.number, Change::Written { lba: name.lba, sectors: name.sectors, place }));
    }
}
