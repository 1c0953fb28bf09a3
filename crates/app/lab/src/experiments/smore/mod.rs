//! SMORE's experiments, and those of slow drives: arrays.

pub(super) mod ingest;
pub(super) mod read;
pub(super) mod rebuild;
pub(super) mod recovery;
pub(super) mod slow_drive;
pub(super) mod snapshot;
pub(super) mod wa;
