//! Looking at a device without taking it.
//!
//! **Owns** nothing: the device stays with its owner, and nothing is written.
//!
//! # Invariants
//! - ZD-PEEK-1: zones are as they were when it was made. Later writes of their owner are not seen; reads of a zone that
//!   their owner resets return other bytes, which fail the checksums of records.
//!   (`a_peek_sees_what_is_there_and_changes_nothing`)

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;

use crate::device::{DeviceFuture, ZonedDevice};
use crate::error::{DeviceError, DeviceErrorKind, DeviceResult};
use crate::geometry::Geometry;
use crate::machine::Machine;
use crate::zone::ZoneOp;

/// A device as it was at a moment, to be read beside its owner.
pub struct PeekDevice {
    runtime: Runtime,
    file: Arc<File>,
    machine: Machine,
    /// The byte of the file where each zone begins; `None` for one that nothing was ever written to.
    places: Vec<Option<u64>>,
}

impl PeekDevice {
    /// `machine` has the zones' states, `place` the byte of `file` at which each begins (`None`: it reads as zeros).
    pub fn new(runtime: &Runtime, file: File, machine: Machine, place: impl Fn(ZoneId) -> Option<u64>) -> Self {
        let places = (0..machine.geometry().zone_count).map(|zone| place(ZoneId(zone))).collect();
        Self { runtime: runtime.clone(), file: Arc::new(file), machine, places }
    }

    /// Keeps others from taking the device as long as this lives. `false` if it has an owner already: then its bytes
    /// may change at any time.
    pub fn hold(&self) -> bool {
        self.file.try_lock().is_ok()
    }

    fn refuse<T>(&self, at: Lba) -> DeviceResult<T> {
        let why = io::Error::new(io::ErrorKind::PermissionDenied, "the drive was opened only to look at it");
        Err(DeviceError::new(DeviceErrorKind::System(why), at, self.machine.geometry().zone_of(at)))
    }
}

impl Drop for PeekDevice {
    fn drop(&mut self) {
        // Closing the file would not do: a read that is under way still has it.
        let _ = self.file.unlock();
    }
}

impl ZonedDevice for PeekDevice {
    fn geometry(&self) -> &Geometry {
        self.machine.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<crate::ZoneInfo>> {
        Box::pin(async move { Ok(self.machine.report(first, count)) })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            let zone = self.machine.read(at, length)?;
            let mut buffer = AlignedBuf::zeroed(length);
            let place = self.places.get(zone.0 as usize).copied().flatten();
            let Some(place) = place else { return Ok(buffer.freeze()) };
            let offset = place + (at - self.geometry().start_of(zone)).bytes();
            let file = self.file.clone();
            let work = move || file.read_exact_at(&mut buffer, offset).map(|()| buffer.freeze());
            let read = self.runtime.blocking(work).await.unwrap_or_else(|lost| Err(io::Error::other(lost)));
            read.map_err(|_| DeviceError::new(DeviceErrorKind::ReadFailed, at, Some(zone)))
        })
    }

    fn write(&self, at: Lba, _: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.refuse(at) })
    }

    fn append(&self, zone: ZoneId, _: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move { self.refuse(self.geometry().start_of(zone)) })
    }

    fn manage(&self, zone: ZoneId, _: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.refuse(self.geometry().start_of(zone)) })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
