//! Flushes of a drive's volatile cache, shared by all who wait for one.
//!
//! **Owns** the drive's flushes, as far as callers go through it. **Knows nothing of** the writes that they cover.
//!
//! # Invariants
//! - ZK-FLUSH-1: a caller's flush begins after its call, so its completed writes are durable when it returns.
//! - ZK-FLUSH-2: everybody who shares a flush that failed gets its error.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_base::Lba;
use shingle_zoned::{DeviceError, DeviceResult, ZonedDevice};

use crate::join::Joint;

/// Makes completed writes to a drive durable; callers that come while a flush is under way share the next. A cheap handle.
#[derive(Clone)]
pub struct Flusher(Rc<Shared>);

struct Shared {
    dev: Rc<dyn ZonedDevice>,
    flushes: Joint<Result<(), Arc<DeviceError>>>,
}

impl Flusher {
    /// The flushes of `dev`.
    pub fn new(dev: Rc<dyn ZonedDevice>) -> Self {
        let flushed = dev.clone();
        let flushes = Joint::new(move || {
            let dev = flushed.clone();
            async move { dev.flush().await.map_err(Arc::new) }.boxed_local()
        });
        Self(Rc::new(Shared { dev, flushes }))
    }

    /// Writes `data` at `at`, and makes it durable.
    ///
    /// # Errors
    /// The device's, of the write or of the flush. The data may be there all the same.
    pub async fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceResult<()> {
        self.0.dev.write(at, data).await?;
        self.flush().await
    }

    /// Makes every completed command durable (ZK-FLUSH-1); at once if the drive has no volatile cache.
    ///
    /// # Errors
    /// The device's (ZK-FLUSH-2).
    pub async fn flush(&self) -> DeviceResult<()> {
        if !self.0.dev.geometry().volatile_cache {
            return Ok(());
        }
        let flushed = self.0.flushes.call().await;
        flushed.map_err(|error| Arc::try_unwrap(error).unwrap_or_else(|error| error.duplicate()))
    }
}

/// Makes every completed command of `dev` durable, for a caller with whom nobody shares; at once if it has no volatile cache.
///
/// # Errors
/// The device's.
pub async fn flush(dev: &dyn ZonedDevice) -> DeviceResult<()> {
    if dev.geometry().volatile_cache { dev.flush().await } else { Ok(()) }
}
