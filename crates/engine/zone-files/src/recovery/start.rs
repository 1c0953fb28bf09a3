//! The state that the files begin with, and the steps before they may be used.

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_record::SuperblockCopies;
use shingle_zone_kit::Reset;
use shingle_zoned::{ZoneInfo, ZoneState};

use super::load::{Known, Loaded};
use super::report::RecoveryReport;
use super::scan::LogZone;
use crate::drive::Drive;
use crate::engine::{After, Engine};
use crate::error::FilesResult;
use crate::extent::Extent;
use crate::format::Op;
use crate::state::State;
use crate::write::{COPIES, LOGS, OWN};
use crate::zones::{Status, Zone};

/// Something that a zone needs before the files may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A zone of logs is not written on: the journal is to say where it ends.
    Close { zone: ZoneId, epoch: u64, block: u32 },
    /// It is not written on, and the drive has it active.
    Release { zone: ZoneId, epoch: u64 },
    /// It is free, and the drive has it active.
    Reset(ZoneId),
}

/// Files that were found, and what is left to be done before they can be used.
pub(crate) struct Found {
    pub(super) engine: Rc<Engine>,
    pub(super) report: RecoveryReport,
    pub(super) endings: Vec<Ending>,
    /// A checkpoint comes first.
    pub(super) settles: bool,
    pub(super) superblocks: SuperblockCopies,
}

/// Fills the zone table, and says what has to be done to zones. Extents in zones that hold nothing are lost.
pub(super) fn table(
    drive: &Drive,
    loaded: &Loaded,
    infos: &[ZoneInfo],
    logs: &[LogZone],
    state: &mut State,
    report: &mut RecoveryReport,
) -> Vec<Ending> {
    let mut endings = Vec::new();
    let goes_on = frontiers(drive, loaded, infos, logs);
    for info in infos.iter().filter(|info| drive.layout.is_data(info.zone)) {
        let (zone, broken) = (info.zone, matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline));
        let Some(known) = loaded.zones.get(&zone) else {
            if broken {
                state.zones.bury(zone);
            } else {
                state.zones.add_free(zone, info.written.0 > 0);
                endings.extend(info.state.is_active().then_some(Ending::Reset(zone)));
            }
            continue;
        };
        let Known { epoch, stream, end, .. } = *known;
        let log = logs.iter().find(|log| log.zone == zone);
        let next = log.map_or(info.written.0 as u32, |log| log.end);
        let lane = goes_on.get(&zone).copied();
        let status = if lane.is_some() { Status::Open } else { Status::Closed };
        state.zones.restore(zone, Zone { status, stream, epoch, next, durable: next, broken, ..Zone::default() });
        match lane {
            Some(Some(lane)) => state.lanes.all[lane].zone = Some(zone),
            Some(None) => state.lanes.spare.push(zone),
            None => {
                if known.is_of_logs() && end.is_none() {
                    endings.push(Ending::Close { zone, epoch, block: next });
                }
                if info.state.is_active() {
                    endings.push(Ending::Release { zone, epoch });
                }
            }
        }
    }
    count(state, report);
    state.zones.note_emptied();
    endings
}

/// Zones that go on to be written: one of logs, one of copies, and as many others as may be open; with their lanes, if they have one.
fn frontiers(drive: &Drive, loaded: &Loaded, infos: &[ZoneInfo], logs: &[LogZone]) -> BTreeMap<ZoneId, Option<usize>> {
    let mut newest: Vec<(u64, usize, ZoneId)> = Vec::new();
    for info in infos {
        let Some(known) = loaded.zones.get(&info.zone) else { continue };
        let shut = matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline | ZoneState::Full);
        let log = logs.iter().find(|log| log.zone == info.zone);
        let clean = log.is_none_or(|log| log.clean && u64::from(log.end) == info.written.0);
        let room = info.written.0 < u64::from(drive.layout.zone_blocks);
        if !shut && clean && room && known.end.is_none() {
            newest.push((known.epoch, usize::from(known.stream), info.zone));
        }
    }
    newest.sort_unstable_by(|a, b| b.cmp(a));
    let mut lanes = BTreeMap::<ZoneId, Option<usize>>::new();
    let mut others = 0;
    for (_, stream, zone) in newest {
        let taken = lanes.values().any(|lane| *lane == Some(stream));
        if stream == LOGS || stream == COPIES {
            if !taken {
                lanes.insert(zone, Some(stream));
            }
        } else if others + 2 < drive.layout.open_max || others == 0 {
            others += 1;
            lanes.insert(zone, if taken || stream == OWN { None } else { Some(stream) });
        }
    }
    lanes
}

/// Counts the blocks in zones (ZF-ZONE-1).
fn count(state: &mut State, report: &mut RecoveryReport) {
    let State { tree, zones, .. } = state;
    let mut lost: Vec<(u64, Extent)> = Vec::new();
    for (serial, node) in tree.files() {
        for extent in node.extents.iter().filter(|extent| !extent.is_lost()) {
            let zone = zones.get(extent.zone).filter(|zone| zone.is_used());
            if zone.is_none_or(|zone| extent.end_block() > u64::from(zone.next)) {
                lost.push((serial, *extent));
            }
            if zone.is_some() {
                zones.add_live(extent.zone, extent.blocks());
            }
        }
    }
    for (serial, extent) in lost {
        report.lost.push((serial, extent.length));
        let kept = zones.get(extent.zone).is_some_and(Zone::is_used);
        if !kept && let Some(node) = tree.file_mut(serial) {
            node.extents.replace(&extent, &[Extent::lost(extent.offset, extent.length)]);
        }
    }
}

impl Found {
    /// The files for reading alone: nothing is written, and nothing that their drive still needs is done.
    pub(crate) fn examined(self) -> (Rc<Engine>, RecoveryReport) {
        let Self { engine, report, .. } = self;
        engine.read_only.set(true);
        (engine, report)
    }

    /// Makes durable what was found, and starts the keeper (ZF-REC-4).
    pub(crate) async fn start(self) -> FilesResult<(Rc<Engine>, RecoveryReport)> {
        let Self { engine, report, endings, settles, superblocks } = self;
        engine.flush().await?;
        superblocks.settle(&engine.drive.dev).await?;
        engine.journal_room().await?;
        let mut last = 0;
        for ending in &endings {
            if let Ending::Close { zone, epoch, block } = *ending {
                last = engine.journal(&[Op::Closed { zone, epoch, block }], After::default());
            }
        }
        engine.journaled(last).await?;
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
        // All that was found is durable, and zones that nobody writes are given back: a zone of superblocks may be open for a moment.
        superblocks.mend(&engine.drive.dev).await;
        if settles {
            // The loss is for good: the checkpoint covers the blocks that were in question.
            engine.checkpoint().await?;
        }
        engine.keeper.begin();
        engine.rt.spawn_detached(engine.clone().keep());
        Ok((engine, report))
    }
}
