//! Progress of GC, as collectors and the writers that wait for them see it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use shingle_runtime::Instant;
use tokio::sync::Notify;

/// State of GC beside the files.
#[derive(Default)]
pub(crate) struct GcState {
    /// Passes over each drive that have ended.
    pub(super) rounds: RefCell<BTreeMap<usize, u64>>,
    /// When the pass over each drive last went on.
    pub(super) went_on: RefCell<BTreeMap<usize, Instant>>,
    /// Bytes of files deleted.
    pub(super) freed: Cell<u64>,
    /// The same less bytes of copies: what writers gained.
    pub(super) gained: Cell<i64>,
    /// Files that could not be read wholly, and when.
    pub(super) unread: RefCell<BTreeMap<u64, Instant>>,
    /// When graves on a drive were last let be looked at again.
    pub(super) looked_again: RefCell<BTreeMap<usize, Instant>>,
    /// Files deleted: graves may have become needless each time it rises.
    pub(super) dropped: Cell<u64>,
    /// Writers wait for space.
    pub(super) waiting: Cell<u32>,
    pub(super) wanted: Notify,
    /// Collectors beside those of the drives, so far.
    pub(super) collectors: Cell<u64>,
}
