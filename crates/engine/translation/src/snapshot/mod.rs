//! Snapshots of a volume, and changes of its size: what concerns all of its sectors at once.
//!
//! # Invariants
//! - TL-SNAP-3: such a change has a number in the sequence of writes. Writes are held before they are numbered, and those that are numbered
//!   have ended, in the map or in a zone that was left, when it takes its own: so the journal's order is that in which all took effect. No checkpoint is being written meanwhile,
//!   so that one holds either all of the change or nothing.
//! - TL-SNAP-4: all that was written before a snapshot is durable before the snapshot is; if some was lost with a zone, no snapshot is taken
//!   until a flush has told so. (`a_snapshot_waits_for_what_a_failed_zone_holds`)
//! - TL-SNAP-5: a snapshot is refused beside which the writes that wait may have no room; and a write that needs more room than all zones have for sectors of volume and snapshots, or than the metazones have for
//!   their maps, fails before anything of it is written.
//! - TL-SIZE-3: no write enters the map behind the volume's end: those that wait when it becomes smaller fail.
//!   (`nothing_that_lay_behind_the_end_comes_back`)

mod change;
mod maps;
mod view;

use shingle_runtime::UnixTime;

pub(crate) use maps::{Fate, Maps, Snapshot};
pub use view::SnapshotView;

/// A snapshot of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// When it was taken.
    pub taken: UnixTime,
    /// Size of the volume then.
    pub size_bytes: u64,
    /// Bytes that were changed since, up to the next snapshot, and that it keeps.
    pub kept_bytes: u64,
}
