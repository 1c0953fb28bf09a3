//! The state that a volume begins with, and the steps before it may be used.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::try_join_all;
use shingle_base::ZoneId;
use shingle_store_api::StoreResult;
use shingle_zone_kit::Reset;
use shingle_zoned::ZoneState;

use super::found::{Ending, Found};
use super::load::Loaded;
use super::report::RecoveryReport;
use super::scan::FoundZone;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::format::Entry;
use crate::map::Extent;
use crate::place::Place;
use crate::snapshot::Maps;
use crate::state::State;
use crate::write::{Route, is_copy};
use crate::zones::{Own, Status, Zone, ZoneTable, add_kept};

/// Zones that streams go on in, by stream.
type Frontiers = BTreeMap<u8, ZoneId>;

/// The zone table.
pub(super) fn table(
    drive: &Drive,
    loaded: &Loaded,
    zones: &[FoundZone],
    maps: &Maps,
    report: &mut RecoveryReport,
) -> (ZoneTable, Vec<Ending>, Frontiers) {
    let mut table = ZoneTable::new(&drive.layout.data_zones);
    let mut endings = Vec::new();
    let frontiers = frontiers(drive, loaded, zones);
    for FoundZone { info, end, .. } in zones {
        let (zone, broken) = (info.zone, matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline));
        let Some(known) = loaded.zones.get(&zone) else {
            if broken {
                table.bury(zone);
            } else {
                table.add_free(zone, info.written.0 > 0);
                endings.extend(info.state.is_active().then_some(Ending::Reset(zone)));
            }
            continue;
        };
        let is_frontier = frontiers.get(&known.stream) == Some(&zone);
        let status = if is_frontier { Status::Open } else { Status::Closed };
        let (stream, epoch, own) = (known.stream, known.epoch, Own { covered: known.whole, kept: 0 });
        table.restore(zone, Zone { status, stream, epoch, next: *end, durable: *end, broken, own, ..Zone::default() });
        if !is_frontier {
            endings.extend(known.end.is_none().then_some(Ending::Close { zone, epoch, end: *end }));
            endings.extend(info.state.is_active().then_some(Ending::Release { zone, epoch }));
        }
    }
    count(drive, maps, &mut table, report);
    (table, endings, frontiers)
}

/// Of each stream the newest zone that can be written on. Streams that no route of this life uses yet have none: nobody might ever end it.
fn frontiers(drive: &Drive, loaded: &Loaded, zones: &[FoundZone]) -> Frontiers {
    let mut newest = BTreeMap::<u8, (u64, ZoneId)>::new();
    for FoundZone { info, end, clean, .. } in zones {
        let Some(known) = loaded.zones.get(&info.zone) else { continue };
        if !is_copy(known.stream) && !Route::default().uses(known.stream) {
            continue;
        }
        let shut = matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Full);
        let room = drive.layout.shape.zone_blocks.saturating_sub((*end).max(1)) >= 2;
        if *clean && !shut && room && u64::from(*end) == info.written.0 {
            let entry = newest.entry(known.stream).or_insert((known.epoch, info.zone));
            *entry = (*entry).max((known.epoch, info.zone));
        }
    }
    newest.into_iter().map(|(stream, (_, zone))| (stream, zone)).collect()
}

/// Counts the sectors in zones (TL-ZONE-1), and those whose zone holds nothing.
fn count(drive: &Drive, maps: &Maps, table: &mut ZoneTable, report: &mut RecoveryReport) {
    for (at, map) in maps.all().enumerate() {
        map.within(0..u64::MAX, |Extent { sectors, place, .. }| {
            let (zone, sectors) = (drive.layout.shape.zone_of(place), u64::from(sectors));
            if table.get(zone).is_some_and(Zone::is_used) {
                table.add_live(zone, sectors);
                add_kept(table, zone, if at > 0 { sectors } else { 0 });
            } else if place != Place::HOLE {
                report.sectors_lost += sectors;
            }
        });
    }
}

impl Found {
    /// The volume for reading alone: nothing is written, and nothing that its drive still needs is done.
    pub(crate) fn examined(self) -> (Rc<Engine>, RecoveryReport) {
        let Self { engine, report, .. } = self;
        engine.lose_what_is_nowhere(report.sectors_lost);
        engine.closing.set(true);
        (engine, report)
    }

    /// Makes durable what was found, and starts the keeper (TL-REC-4, TL-REC-5).
    pub(crate) async fn start(self) -> StoreResult<(Rc<Engine>, RecoveryReport)> {
        let Self { engine, report, endings, settles } = self;
        engine.lose_what_is_nowhere(report.sectors_lost);
        engine.flush().await?;
        if settles {
            // Blocks that do not count lie before some that do. The map settles it, before they pass for damage.
            engine.checkpoint().await?;
        }
        engine.journal_room().await?;
        let closed = endings.iter().filter_map(|ending| match *ending {
            Ending::Close { zone, epoch, end } => {
                Some(engine.journal(&Entry::Closed { zone, epoch, end }, engine.sequence.next()))
            }
            Ending::Release { .. } | Ending::Reset(_) => None,
        });
        try_join_all(closed.collect::<Vec<_>>()).await?;
        for ending in endings {
            match ending {
                Ending::Close { .. } => {}
                Ending::Release { zone, epoch } => engine.release(zone, epoch).await,
                Ending::Reset(zone) => {
                    let clean = engine.reset(zone).await? == Reset::Done;
                    engine.state.borrow_mut().zones.set_dirty(zone, !clean);
                }
            }
        }
        engine.state.borrow().zones.note_emptied();
        engine.keeper.begin();
        engine.rt.spawn_detached(engine.clone().keep());
        Ok((engine, report))
    }
}

impl Engine {
    /// Sectors whose zone holds nothing are lost, and say so when they are read.
    fn lose_what_is_nowhere(&self, lost: u64) {
        if lost == 0 {
            return;
        }
        let mut state = self.state.borrow_mut();
        let State { maps, zones, .. } = &mut *state;
        let shape = self.drive.layout.shape;
        for map in maps.all_mut() {
            let mut nowhere = Vec::new();
            map.within(0..u64::MAX, |extent| {
                let held = zones.get(shape.zone_of(extent.place)).is_some_and(Zone::is_used);
                if !held && extent.place.is_stored() {
                    nowhere.push(extent);
                }
            });
            for extent in nowhere {
                // Places behind the last one are lost, so one extent is enough, however long.
                map.replace(extent.lba..extent.end(), Some(Place::LOST), |_| {});
            }
        }
    }
}
