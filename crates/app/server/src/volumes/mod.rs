//! Volumes over NBD: each on a thread of its own with its drive, all of them behind one front end on tokio's threads. A volume can
//! also be a disk of the kernel by ublk, on its owner's thread alone.
//!
//! # Invariants
//! - SV-VOL-1: an orderly end takes no more requests, answers those under way, and then closes each volume, so that its next opening
//!   is short. Nothing that was acknowledged depends on it. (`test_volume.py`)
//! - SV-VOL-2: clients get in only once all volumes are open and all places are listened at; if one of them fails, the others are
//!   closed, and nothing was served.

mod disk;
mod exports;
mod kept;
mod owner;
mod place;
mod serving;
mod snapshots;

use std::path::Path;

use crate::error::Result;
use crate::server::start_log;

pub use disk::AttachVolume;
pub use exports::{Exports, TlsFiles, VolumeExport, export_name};
pub(crate) use exports::{MAP_BYTES, is_snapshot_of};
pub(crate) use kept::{Standing, Volumes};
pub use place::Place;
pub use serving::{Served, Stop};
pub use snapshots::{SnapshotLine, SnapshotWish, ask as ask_for_snapshots};

/// Serves volumes until the future of `ready` completes, which is made once clients can connect: it is to end when a stop is wanted.
/// Signals before that end the start. Standard error gets the log.
///
/// # Errors
/// `Config` for certificates or names that make no sense, `InUse` for a drive or a place of somebody else's, `Drive` if a drive or its volume
/// cannot be opened, `Store` if a volume could not be closed in order, `System`.
pub fn export<F>(exports: Exports, ready: impl FnOnce(Served, Stop) -> F) -> Result<()>
where
    F: Future<Output = ()>,
{
    start_log(&exports.log)?;
    serving::run(exports, ready)
}

/// Serves a volume as a disk of the kernel by ublk, until a signal or until the disk is taken away. `ready` is called with its node.
///
/// # Errors
/// `System` where the kernel has no ublk or refuses; the others as those of [`export`].
pub fn attach(wanted: AttachVolume, ready: impl FnOnce(&Path)) -> Result<()> {
    start_log(&wanted.log)?;
    disk::run(wanted, ready)
}
