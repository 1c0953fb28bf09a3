//! Disks of the kernel that this process serves, by the kernel's ublk driver: `/dev/ublkbN`, plain or zoned.
//!
//! A disk is [added](UblkDisk::add), which gives its requests to the thread that called; it gets its node when it is
//! [started](UblkDisk::start), while its requests are served already, since the kernel reads from it then. [Stopped](UblkDisk::stop), its
//! node is gone and its requests end.
//!
//! **Owns** the disk in the kernel. **Knows nothing of** its data.

mod abi;
mod command;
#[allow(unsafe_code)]
mod control;
mod error;
#[allow(unsafe_code)]
mod queue;
mod shape;

use std::path::{Path, PathBuf};

use shingle_runtime::Runtime;

use self::control::{Control, Id};

pub use self::command::UblkCommand;
pub use self::error::{UblkError, UblkErrorKind};
pub use self::queue::{UblkRequest, UblkRequests};
pub use self::shape::{UBLK_TRANSFER_MAX, UBLK_ZONE_BYTES, UblkShape, UblkZones, ublk_zone};

/// Checks that this kernel and user can have such disks, or zoned ones.
///
/// # Errors
/// `NoDriver`, `TooOld`, `Permission`, `NoRing`, `System`.
pub fn ublk_check(zoned: bool) -> Result<(), UblkError> {
    Control::open()?.check(zoned)
}

/// Takes away the disk at `node`, which another process of ours serves. That process hears of it, and ends.
///
/// # Errors
/// `NotOurs`, `NoDriver`, `Permission`, `System`.
pub fn ublk_stop(node: &Path) -> Result<(), UblkError> {
    let not_ours = || UblkError::new(UblkErrorKind::NotOurs);
    let id = Id::of_node(node).ok_or_else(not_ours)?;
    let control = Control::open()?;
    control.info(id)?.ok_or_else(not_ours)?;
    control.stop(id)
}

/// A disk that this process serves.
pub struct UblkDisk {
    id: Id,
}

impl UblkDisk {
    /// Adds a disk of this shape, which has no node yet. The requests are this thread's from now on. Disks that killed processes
    /// of ours left are deleted.
    ///
    /// # Errors
    /// As [`ublk_check`]; `Shape`.
    ///
    /// # Panics
    /// Outside of [`shingle_runtime::real`], whose executor watches the queue.
    pub async fn add(rt: &Runtime, shape: UblkShape) -> Result<(Self, UblkRequests), UblkError> {
        let id = blocking(rt, move || {
            let control = Control::open()?;
            control.check(shape.zones.is_some())?;
            control.sweep();
            let id = control.add(shape.zones.is_some())?;
            if let Err(error) = control.describe(id, &shape) {
                // The error says more than that of the deletion would.
                let _ = control.delete(id);
                return Err(error);
            }
            Ok(id)
        })
        .await?;
        let disk = Self { id };
        match UblkRequests::begin(id) {
            Ok(requests) => Ok((disk, requests)),
            Err(error) => {
                let _ = disk.delete(rt).await;
                Err(error)
            }
        }
    }

    /// The disk's node, once it is started.
    pub fn node(&self) -> PathBuf {
        self.id.node()
    }

    /// Makes the disk's node. Its requests must be served meanwhile.
    ///
    /// # Errors
    /// `System`.
    pub async fn start(&self, rt: &Runtime) -> Result<(), UblkError> {
        let id = self.id;
        blocking(rt, move || Control::open()?.start(id)).await
    }

    /// Takes the disk's node away, and ends its requests: they must be served up to then, since the kernel writes what it holds
    /// in memory.
    ///
    /// # Errors
    /// `System`.
    pub async fn stop(&self, rt: &Runtime) -> Result<(), UblkError> {
        let id = self.id;
        blocking(rt, move || Control::open()?.stop(id)).await
    }

    /// Deletes the disk. Its requests must have been dropped before.
    ///
    /// # Errors
    /// `System`.
    pub async fn delete(self, rt: &Runtime) -> Result<(), UblkError> {
        let id = self.id;
        blocking(rt, move || Control::open()?.delete(id)).await
    }
}

async fn blocking<T: Send + 'static>(
    rt: &Runtime,
    work: impl FnOnce() -> Result<T, UblkError> + Send + 'static,
) -> Result<T, UblkError> {
    let lost = |error| UblkError::new(UblkErrorKind::System("a command", std::io::Error::other(error)));
    rt.blocking(work).await.map_err(lost)?
}
