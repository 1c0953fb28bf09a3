//! Changes since the checkpoint, in their order: writes that were found, and moves of the journal.

use shingle_record::{NameKind, Pair, SequenceSource};
use shingle_store_api::StoreResult;

use super::load::Loaded;
use super::report::RecoveryReport;
use super::scan::FoundZone;
use crate::drive::Drive;
use crate::format::Move;
use crate::map::{Extent, ExtentMap};
use crate::place::Place;

/// A change of the map.
#[derive(Clone, Copy)]
enum Change {
    Written { lba: u64, sectors: u32, place: Option<Place> },
    Moved(Move),
}

/// The map as it was in the end. Raises the numbers above all that were found.
pub(super) fn replay(
    drive: &Drive,
    loaded: &mut Loaded,
    zones: &[FoundZone],
    sequence: &SequenceSource,
    report: &mut RecoveryReport,
) -> StoreResult<ExtentMap> {
    let stride = drive.layout.shape.stride();
    let mut map = std::mem::replace(&mut loaded.map, ExtentMap::new(stride));
    let mut changes: Vec<(u64, Change)> = Vec::new();
    for pair in zones.iter().flat_map(|zone| &zone.pairs) {
        add_writes(drive, pair, &mut changes);
    }
    for (number, moves) in &loaded.moves {
        report.moves += moves.len() as u64;
        changes.extend(moves.iter().map(|&moved| (*number, Change::Moved(moved))));
    }
    // Stable: moves of one entry stay in their order.
    changes.sort_by_key(|&(number, _)| number);
    let last = changes.last().map_or(0, |&(number, _)| number);
    let newest = loaded.zones.values().map(|known| known.epoch).max().unwrap_or(0);
    sequence.raise(last.max(loaded.last).max(newest));
    for (_, change) in changes {
        match change {
            Change::Written { lba, sectors, place } => map.replace(lba..lba + u64::from(sectors), place, |_| {}),
            Change::Moved(moved) => apply_move(&mut map, &moved, drive),
        }
    }
    Ok(map)
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

/// Moves the sectors that lie where they were moved from (TL-WRITE-3).
fn apply_move(map: &mut ExtentMap, moved: &Move, drive: &Drive) {
    let stride = drive.layout.shape.stride();
    let mut there = Vec::new();
    map.within(moved.lba..moved.lba + u64::from(moved.sectors), |extent| {
        let onwards = (extent.lba - moved.lba) as u32;
        if extent.place == moved.from.advance(onwards, stride) {
            there.push(Extent { place: moved.to.advance(onwards, stride), ..extent });
        }
    });
    for extent in there {
        map.replace(extent.lba..extent.end(), Some(extent.place), |_| {});
    }
}
