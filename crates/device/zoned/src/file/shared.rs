//! State of an open drive in a file, and the ways to its bytes and its table.
//!
//! **Owns** the file, the state machine and the lanes. **Knows nothing of** the order in which a command uses them (`turn`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::{Runtime, Task};

use crate::error::{DeviceError, DeviceErrorKind, DeviceResult};
use crate::file::ahead::Ahead;
use crate::file::format::{ENTRY_SIZE, Entry, TABLE_AT};
use crate::file::host::{self, Claimed};
use crate::file::io::HostIo;
use crate::file::slots::Slots;
use crate::flushes::Flushes;
use crate::geometry::Geometry;
use crate::lanes::{Lanes, Settled};
use crate::machine::Machine;

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) geometry: Geometry,
    /// I/O on the bytes; closed before the file.
    pub(super) io: Box<dyn HostIo>,
    pub(super) file: Arc<Claimed>,
    /// Byte at which slot 0 begins.
    pub(super) data_at: u64,
    pub(super) state: RefCell<State>,
    /// The number of the flush that begins next; opening the drive was number 0.
    pub(super) flush: Cell<u64>,
    pub(super) flushes: Flushes,
    pub(super) ahead: Ahead,
    /// Writes of zones' bytes that are under way.
    pub(super) writes: Cell<u32>,
    /// Set when the table or a flush failed: the file's contents can no longer be trusted.
    pub(super) gone: Cell<bool>,
}

pub(super) struct State {
    /// State of the zones after all commands that have started.
    pub(super) machine: Machine,
    pub(super) slots: Slots,
    pub(super) lanes: Lanes,
    /// Zones that this process has not written on yet, and that may hold what another left behind their write pointers. (ZD-FD-5)
    pub(super) uncleared: BTreeSet<ZoneId>,
    /// The length of the file, in slots.
    pub(super) length: u32,
    /// Slots of it that survive a failure of the machine.
    pub(super) durable_length: u32,
}

impl Shared {
    /// State of an existing zone after the commands that have started.
    pub(super) fn settled(&self, zone: ZoneId) -> Settled {
        self.state.borrow().machine.info(zone).into()
    }

    pub(super) fn error(&self, kind: DeviceErrorKind, at: Lba) -> DeviceError {
        DeviceError::new(kind, at, self.geometry.zone_of(at))
    }

    /// Error of a failed read, write or sync of the file.
    pub(super) fn failed(&self, error: std::io::Error, writing: bool, at: Lba) -> DeviceError {
        if error.kind() == std::io::ErrorKind::NotConnected {
            self.gone.set(true);
            return self.error(DeviceErrorKind::Gone, at);
        }
        self.error(host::device_error(error, writing), at)
    }

    pub(super) fn begin(&self, at: Lba) -> DeviceResult<()> {
        if self.gone.get() { Err(self.error(DeviceErrorKind::Gone, at)) } else { Ok(()) }
    }

    /// Byte of the file at which the block at `at` lies, in this slot.
    pub(super) fn offset(&self, slot: u32, at: Lba) -> u64 {
        let block = at.0 % self.geometry.zone_size.0;
        self.slot_at(slot) + Blocks(block).bytes()
    }

    pub(super) fn slot_at(&self, slot: u32) -> u64 {
        self.data_at + u64::from(slot) * self.geometry.zone_size.bytes()
    }

    /// Place of the zone's entry in the file, and its new bytes.
    pub(super) fn entry(&self, zone: ZoneId, settled: Settled) -> (u64, [u8; ENTRY_SIZE]) {
        let slot = self.state.borrow().slots.get(zone);
        let entry = Entry { state: settled.state, written: settled.written, slot }.to_bytes(zone);
        (TABLE_AT + u64::from(zone.0) * ENTRY_SIZE as u64, entry)
    }

    /// Error of a failed write of the table: it can no longer be trusted.
    pub(super) fn table_failed(&self, error: std::io::Error, zone: ZoneId) -> DeviceError {
        self.gone.set(true);
        let kind = match error.kind() {
            std::io::ErrorKind::NotConnected => DeviceErrorKind::Gone,
            _ => DeviceErrorKind::System(error),
        };
        self.error(kind, self.geometry.start_of(zone))
    }

    /// Writes the zone's entry in the table: into the page cache, where it outlives the process, so it is not worth a
    /// thread.
    pub(super) fn persist(&self, zone: ZoneId, settled: Settled) -> DeviceResult<()> {
        let (at, entry) = self.entry(zone, settled);
        self.file.write_all_at(&entry, at).map_err(|error| self.table_failed(error, zone))
    }

    /// As [`persist`](Self::persist), behind a write's bytes. While other writes are under way they hold the file's lock:
    /// the entry then waits for it as they do, and not on the owner's thread.
    pub(super) async fn persist_behind(&self, zone: ZoneId, settled: Settled) -> DeviceResult<()> {
        if self.writes.get() == 0 {
            return self.persist(zone, settled);
        }
        let (at, entry) = self.entry(zone, settled);
        let written = self.io.write(at, vec![Bytes::copy_from_slice(&entry)]).await;
        written.map_err(|error| self.table_failed(error, zone))
    }

    /// Makes the file durable, with its length and its holes.
    pub(super) async fn sync(&self) -> std::io::Result<()> {
        self.flushes.call(async || self.sync_alone().await).await
    }

    async fn sync_alone(&self) -> std::io::Result<()> {
        if self.gone.get() {
            return Err(std::io::ErrorKind::NotConnected.into());
        }
        let flush = self.flush.replace(self.flush.get() + 1);
        let length = self.state.borrow().length;
        if let Err(error) = self.io.sync().await {
            // The operating system may have dropped unwritten pages: a second try would prove nothing.
            self.gone.set(true);
            // It may also keep them, and take them for written: the next opening is to read what is on the medium.
            let _ = rustix::fs::fadvise(&**self.file, 0, None, rustix::fs::Advice::DontNeed);
            return Err(error);
        }
        let state = &mut *self.state.borrow_mut();
        state.durable_length = state.durable_length.max(length);
        state.slots.flushed(flush);
        Ok(())
    }

    /// Waits for a command's task.
    pub(super) async fn end<T>(&self, at: Lba, task: Task<DeviceResult<T>>) -> DeviceResult<T> {
        task.await.unwrap_or_else(|_| Err(self.error(DeviceErrorKind::Gone, at)))
    }
}
