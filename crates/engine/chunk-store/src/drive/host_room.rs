//! The file system under an emulated drive is full: what the store does until there is room again.
//!
//! **Owns** whether that is so. **Knows nothing of** zones and chunks beyond who waits.
//!
//! # Invariants
//! - CS-HOST-1: a write that failed for want of room, and of which nothing landed, leaves zone, chunk and metadata log as
//!   they were, so that the same succeeds once there is room. `whichever_write_finds_the_host_full_nothing_is_lost`.
//! - CS-HOST-2: meanwhile no caller waits for room but one whose deletion has begun: a change is refused with `HostFull`.
//!   A refused append is nowhere on the drive. Reads go on. `a_full_host_refuses_writes_and_goes_on_by_itself`.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_base::{Blocks, ZoneId};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneState};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::Handle;
use crate::state::StoreState;

/// Pause before a command that failed for want of room is tried again.
pub(crate) const HOST_PAUSE: Duration = Duration::from_millis(500);

/// Message for callers.
pub(crate) const HOST_FULL: &str =
    "the file system that holds the drive is full: make room there, and writing goes on by itself";

pub(crate) fn host_full() -> Error {
    Error::new(ErrorKind::HostFull, HOST_FULL)
}

impl Engine {
    /// Fails if a change would have to wait for the metadata log (CS-HOST-2).
    pub(crate) fn has_host_room(&self) -> Result<()> {
        if self.log.is_stalled() { Err(host_full()) } else { Ok(()) }
    }

    /// Waits for what the metadata log is to do, but not for room on the host: then the work is given back.
    pub(crate) async fn unless_stalled<F: Future + Unpin>(&self, work: F) -> std::result::Result<F::Output, F> {
        match select(work, Box::pin(self.log.stalled())).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((_, work)) => Err(work),
        }
    }

    /// Takes note that a command failed for want of room; told once.
    pub(crate) fn note_host_full(&self, zone: ZoneId, error: &DeviceError) {
        if self.host.note_full() {
            tracing::warn!(zone = zone.0, %error, "{HOST_FULL}; until then writes are refused");
        }
    }

    /// Takes note that a write succeeded.
    pub(crate) fn note_host_room(&self) {
        if !self.log.is_stalled() && self.host.note_room() {
            tracing::info!("the file system that holds the drive has room again");
        }
    }

    /// True if a write at `block` failed for want of room and left the zone as it was (CS-HOST-1).
    pub(crate) async fn left_untouched(&self, zone: ZoneId, block: u32, error: &DeviceError) -> bool {
        if !error.kind.is_host_full() {
            return false;
        }
        self.note_host_full(zone, error);
        let report = self.drive.dev.report(zone, 1).await.ok();
        let info = report.as_deref().and_then(|zones| zones.first());
        info.is_some_and(|info| {
            let writable = !matches!(info.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline);
            writable && info.written == Blocks(u64::from(block))
        })
    }

    /// Refuses the waiting appends of these chunks.
    pub(crate) fn refuse_appends(self: &Rc<Self>, state: &mut StoreState, handles: &[Handle]) {
        handles.iter().for_each(|&handle| self.fail_appends(state, handle, ErrorKind::HostFull, HOST_FULL));
    }

    /// Refuses whoever waits for the metadata log while that waits for room (CS-HOST-2), until the store stops.
    pub(crate) async fn refuse_while_stalled(self: Rc<Self>) {
        loop {
            select(Box::pin(self.log.stalled()), Box::pin(self.wakes.host.notified())).await;
            if self.state.borrow().stopped.is_some() {
                return;
            }
            self.host.note_full();
            self.refuse_waiting();
            self.rt.sleep(HOST_PAUSE).await;
        }
    }

    /// Refuses the appends that wait for a zone, to land, or for the entry that lets their chunk go on.
    pub(crate) fn refuse_waiting(self: &Rc<Self>) {
        let state = &mut *self.state.borrow_mut();
        let handles = state.waiting();
        self.refuse_appends(state, &handles);
    }

    /// The error of a zone that could not be opened for want of room.
    pub(crate) fn host_full_at(&self, zone: ZoneId) -> DeviceError {
        let full = DeviceErrorKind::System(std::io::ErrorKind::StorageFull.into());
        DeviceError::new(full, self.drive.geometry.start_of(zone), Some(zone))
    }

    /// An error of a write, for the caller of a maintenance call.
    pub(crate) fn write_error(&self, error: &Arc<DeviceError>) -> Error {
        let kind = if error.kind.is_host_full() { ErrorKind::HostFull } else { ErrorKind::Device };
        Error::new(kind, error.to_string())
    }
}
