//! Options of a rebuild, a scrub or a change of members, and their progress.

use std::cell::Cell;

use shingle_runtime::Instant;
use tokio::sync::{Mutex, Notify, mpsc};

/// Options of a rebuild or a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildOptions {
    /// Rebuild rate limit in bytes/s, for writes to new members; `None` = unlimited.
    pub bytes_per_second: Option<u64>,
}

/// Progress of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Zones of sets that are lost.
    pub members: usize,
    /// Members that were replaced.
    pub done: usize,
    /// Members that could not be replaced: too little is left of their set, or no free zone fits.
    pub failed: usize,
    /// Bytes written.
    pub bytes: u64,
}

/// Receiver of a rebuild's progress; closed if the caller has gone.
pub(crate) type Told<P> = mpsc::UnboundedSender<P>;

/// Changes of an array's drives.
#[derive(Default)]
pub(crate) struct Membership {
    /// One rebuild, addition or removal of drives, or repair at a time.
    pub(crate) turn: Mutex<()>,
    /// A drive was lost or added.
    pub(crate) changed: Notify,
    /// Progress and start of a rebuild in the background.
    pub(crate) rebuilding: Cell<Option<(RebuildProgress, Instant)>>,
}
