//! Opening a volume: superblock, checkpoint, journal, and the pairs that were written since. (FSTL, section III-A.)
//!
//! All that happened since the checkpoint's start is gone through again by number: writes, found as pairs in the zones that were
//! open, and moves, found in the journal.
//!
//! # Invariants
//! - TL-REC-1: every write that was durable is in the map, and of two to one sector the later one. Others are there in part or not.
//! - TL-REC-2: a pair that is not whole is torn only if all its blocks can be read, and nothing says that it was durable: no pair
//!   behind it in its zone, and no end of the zone in the journal. A torn one never was.
//! - TL-REC-3: a pair that is not whole and not torn counts as written: header or trailer tell its names, and its sectors fail when
//!   they are read and cannot be verified. If neither tells them, the opening is refused.
//! - TL-REC-4: a torn pair with others behind it, of a drive with a volatile cache, stays torn: a checkpoint says so before anything
//!   says that those are durable.
//! - TL-REC-5: what was found is durable, and the ends of zones are in the journal, before anybody is answered.

mod load;
mod replay;
mod report;
mod scan;
mod start;
mod verdict;

pub use report::{RecoveryReport, Unknown};

use std::rc::Rc;

use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;
use shingle_zoned::ZonedDevice;

use crate::config::Options;
use crate::drive::Drive;
use crate::engine::Engine;
use crate::identity::{Identity, identity, log_config, log_error};
use crate::state::State;
use start::Ending;

/// A volume that was found, and what is left to be done before it can be used.
pub(crate) struct Found {
    pub(crate) engine: Rc<Engine>,
    pub(crate) report: RecoveryReport,
    endings: Vec<Ending>,
    /// A checkpoint comes first.
    settles: bool,
}

/// Finds a volume. Writes nothing.
pub(crate) async fn find(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> StoreResult<Found> {
    let Identity { store, layout, bad_copies } = identity(&dev).await?;
    let mut report = RecoveryReport::default();
    report.mended.extend(bad_copies.iter().map(|&block| (layout.superzone, block)));
    let (sequence, depth) = (SequenceSource::default(), options.recovery_depth.max(1));
    let opened = MetaLog::open(rt, &dev, log_config(store, &layout, depth), sequence.clone()).await;
    let (log, recovered) = opened.map_err(log_error)?;
    report.mended.extend(recovered.mended.iter().copied());
    let drive = Drive::new(dev, store, layout);
    let mut loaded = load::load(recovered, &drive)?;
    let zones = scan::scan(rt, &drive, &loaded, depth, &mut report).await?;
    report.refuse_unless(options.accept_loss)?;
    let map = replay::replay(&drive, &mut loaded, &zones, &sequence, &mut report)?;
    let (table, endings, frontiers) = start::table(&drive, &loaded, &zones, &map, &mut report);
    let limits = [drive.geometry.open_zones_max, drive.geometry.active_zones_max];
    let open_max = limits.into_iter().flatten().min();
    let mut state = State::new(drive.layout.shape, open_max, table, map);
    for (stream, zone) in frontiers {
        state.frontiers[usize::from(stream)].zone = Some(zone);
    }
    state.saved = loaded.saved;
    report.extents = state.map.len();
    let settles = !report.unknown.is_empty() || zones.iter().any(|zone| zone.scarred);
    let engine = Engine::new(rt, options, drive, sequence, log, state);
    Ok(Found { engine, report, endings, settles })
}
