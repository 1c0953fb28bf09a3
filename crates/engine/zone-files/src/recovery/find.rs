//! Finding files on a drive: all steps but those that write.

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use shingle_zoned::{ZoneInfo, ZonedDevice, report_patiently};

use super::load::load;
use super::replay::replay;
use super::report::RecoveryReport;
use super::scan::scan;
use super::start::{Found, table};
use crate::config::Options;
use crate::drive::{Drive, log_config};
use crate::engine::Engine;
use crate::error::FilesResult;
use crate::identity::{Identity, identity};
use crate::state::State;

/// Finds the files on a drive. Writes nothing.
pub(crate) async fn find(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> FilesResult<Found> {
    let Identity { store, layout, superblocks } = identity(&dev).await?;
    let mut report = RecoveryReport::default();
    report.mended.extend(superblocks.bad());
    let sequence = SequenceSource::default();
    let config = log_config(store, &layout, options.recovery_depth.max(1));
    let (log, recovered) = MetaLog::open(rt, &dev, config, sequence.clone()).await?;
    report.mended.extend(recovered.mended.iter().copied());
    let drive = Drive::new(rt, dev, store, layout);
    let mut loaded = load(recovered, &drive)?;
    let infos = reports(&drive).await?;
    let (records, logs) = scan(&drive, &loaded, &infos, &mut report).await?;
    report.refuse_unless(options.accept_loss)?;
    let tree = replay(&mut loaded, &records, &mut report)?;
    sequence.raise(loaded.last);
    let mut state = State::new(tree, crate::zones::ZoneTable::new(&drive.layout.data_zones), &drive.layout);
    let endings = table(&drive, &loaded, &infos, &logs, &mut state, &mut report);
    let settles = !report.unknown.is_empty();
    let engine = Engine::new(rt, options, drive, sequence, log, state);
    Ok(Found { engine, report, endings, settles, superblocks })
}

/// All zones up to the last data zone.
async fn reports(drive: &Drive) -> FilesResult<Vec<ZoneInfo>> {
    let (first, end) = (drive.layout.superzones.start, drive.layout.data_zones.end);
    Ok(report_patiently(&drive.dev, ZoneId(first), end - first).await?)
}
