//! Progress of GC, as collectors and the writers that wait for them see it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use tokio::sync::Notify;

/// State of GC beside the files.
#[derive(Default)]
pub(crate) struct GcState {
    /// Passes over each drive that have ended.
    pub(super) rounds: RefCell<BTreeMap<usize, u64>>,
    /// Bytes of files deleted.
    pub(super) freed: Cell<u64>,
    /// Files deleted: graves may have become needless each time it rises.
    pub(super) dropped: Cell<u64>,
    /// Writers wait for space.
    pub(super) waiting: Cell<u32>,
    pub(super) wanted: Notify,
    /// Collectors beside those of the drives, so far.
    pub(super) collectors: Cell<u64>,
}
