//! Finding a volume on a drive: all steps but those that write.

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

use super::found::Found;
use super::report::RecoveryReport;
use super::{load, replay, scan, start};

/// Finds a volume. Writes nothing.
pub(crate) async fn find(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> StoreResult<Found> {
    let Identity { store, layout, bad_copies } = identity(&dev).await?;
    let mut report = RecoveryReport::default();
    report.mended.extend(bad_copies.iter().map(|&block| (layout.superzone, block)));
    let (sequence, depth) = (SequenceSource::default(), options.recovery_depth.max(1));
    let opened = MetaLog::open(rt, &dev, log_config(store, &layout, depth), sequence.clone()).await;
    let (log, recovered) = opened.map_err(log_error)?;
    report.mended.extend(recovered.mended.iter().copied());
    let drive = Drive::new(rt, dev, store, layout);
    let mut loaded = load::load(recovered, &drive)?;
    let zones = scan::scan(rt, &drive, &loaded, depth, &mut report).await?;
    report.refuse_unless(options.accept_loss)?;
    let maps = replay::replay(&drive, &mut loaded, &zones, &sequence, &mut report);
    let (table, endings, frontiers) = start::table(&drive, &loaded, &zones, &maps, &mut report);
    let limits = [drive.geometry.open_zones_max, drive.geometry.active_zones_max];
    let open_max = limits.into_iter().flatten().min();
    let mut state = State::new(drive.layout.shape, open_max, table, maps, loaded.sectors);
    for (stream, zone) in frontiers {
        state.frontiers[usize::from(stream)].zone = Some(zone);
    }
    state.saved = loaded.saved;
    report.extents = state.maps.extents();
    let settles = !report.unknown.is_empty() || zones.iter().any(|zone| zone.scarred);
    let engine = Engine::new(rt, options, drive, sequence, log, state);
    Ok(Found { engine, report, endings, settles })
}
