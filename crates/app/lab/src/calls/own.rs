//! The project's own recording: RocksDB under random inserts (`make record-rocksdb`; crates/app/lab/traces/README.md).

use super::read::unpack;
use super::record::Recording;
use crate::error::LabError;

/// Its name in figures.
pub const NAME: &str = "rocksdb-fillrandom";

const PACKED: &[u8] = include_bytes!("../../traces/rocksdb-fillrandom.calls.gz");

/// The recording.
///
/// # Errors
/// It does not parse, which a test rules out.
pub fn recording() -> Result<Recording, LabError> {
    unpack(PACKED)
}
