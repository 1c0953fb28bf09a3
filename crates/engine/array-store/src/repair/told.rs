//! How a rebuild, a scrub or a change of members is told to go about it, and what it tells.

use std::cell::Cell;

use shingle_runtime::Instant;
use tokio::sync::{Mutex, Notify, mpsc};

/// How a rebuild or a scrub goes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildOptions {
    /// At most so many bytes a second are written to new members; `None`: as many as can be.
    pub bytes_per_second: Option<u64>,
}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Zones of sets that are lost.
    pub members: usize,
    /// Those that were replaced.
    pub done: usize,
    /// Those that could not be: too little is left of their set, or no free zone fits.
    pub failed: usize,
    /// Bytes written.
    pub bytes: u64,
}

/// Who is told how far a rebuild is; closed where nobody waits for it any more.
pub(crate) type Told<P> = mpsc::UnboundedSender<P>;

/// Changes of an array's drives.
#[derive(Default)]
pub(crate) struct Membership {
    /// One rebuild, addition or removal of drives, or repair at a time.
    pub(crate) turn: Mutex<()>,
    /// A drive was lost or added.
    pub(crate) changed: Notify,
    /// How far the rebuild is that goes on by itself, and when it began.
    pub(crate) rebuilding: Cell<Option<(RebuildProgress, Instant)>>,
}
