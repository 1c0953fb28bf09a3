//! The experiments, one module each, in a folder for each paper or comparison.

mod block_replay;
mod calibrate;
mod dissertation;
mod fstl;
mod peers;
mod skylight;
mod smore;
mod smrstore;

use crate::experiment::Experiment;

/// Experiments that take a block trace of the user's own.
pub const TAKE_TRACES: [&str; 5] =
    [block_replay::NAME, fstl::replay::NAME, fstl::cleaning::NAME, fstl::map_size::NAME, fstl::heat::NAME];

/// Experiments that take a recording of file calls of the user's own.
pub const TAKE_CALLS: [&str; 2] = [dissertation::rocksdb_hmsmr::NAME, dissertation::rocksdb_zns::NAME];

/// All experiments, in the order of a report.
pub fn all() -> Vec<Experiment> {
    vec![
        calibrate::experiment(),
        skylight::experiment(),
        block_replay::experiment(),
        smrstore::micro_write::experiment(),
        smrstore::micro_read::experiment(),
        smrstore::access_pattern::experiment(),
        smrstore::multistream::experiment(),
        smrstore::zone_utilisation::experiment(),
        smrstore::placement::experiment(),
        peers::replay::experiment(),
        smrstore::recovery::experiment(),
        smrstore::memory::experiment(),
        smrstore::space::experiment(),
        smore::ingest::experiment(),
        smore::read::experiment(),
        smore::wa::experiment(),
        smore::snapshot::experiment(),
        smore::recovery::experiment(),
        smore::rebuild::experiment(),
        smore::slow_drive::experiment(),
        fstl::replay::experiment(),
        fstl::cleaning::experiment(),
        fstl::filebench::experiment(),
        fstl::map_size::experiment(),
        fstl::heat::experiment(),
        dissertation::rocksdb_hmsmr::experiment(),
        dissertation::rocksdb_zns::experiment(),
        dissertation::object_create::experiment(),
        dissertation::blue_write::experiment(),
        dissertation::blue_read::experiment(),
    ]
}

/// The experiment of that name.
pub fn named(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}
