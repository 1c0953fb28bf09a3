//! The experiments, one module each.

mod access_pattern;
mod calibrate;
mod memory;
mod micro_read;
mod micro_write;
mod multistream;
mod peers_replay;
mod placement;
mod recovery;
mod slow_drive;
mod slow_put;
mod slow_put_drives;
mod smore_ingest;
mod smore_read;
mod smore_rebuild;
mod smore_recovery;
mod smore_snapshot;
mod smore_wa;
mod space;
mod zone_utilisation;

use crate::experiment::Experiment;

/// All experiments, in the order of a report.
pub fn all() -> Vec<Experiment> {
    vec![
        calibrate::experiment(),
        micro_write::experiment(),
        micro_read::experiment(),
        access_pattern::experiment(),
        multistream::experiment(),
        zone_utilisation::experiment(),
        placement::experiment(),
        peers_replay::experiment(),
        recovery::experiment(),
        memory::experiment(),
        space::experiment(),
        smore_ingest::experiment(),
        smore_read::experiment(),
        smore_wa::experiment(),
        smore_snapshot::experiment(),
        smore_recovery::experiment(),
        smore_rebuild::experiment(),
        slow_drive::experiment(),
    ]
}

/// The experiment of that name.
pub fn named(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}
