//! The way to the drive, which a store shuts when it is done with it.
//!
//! **Owns** whether it is shut, and the count of commands that are under way. **Knows nothing of** who commands: log, appends, GC and
//! keeper all pass here.
//!
//! # Invariants
//! - CS-CLOSE-1: once the gate is shut nothing changes the drive: no command begins, and none that began is under way. So whoever
//!   opens the drive next is alone with it. `a_store_that_was_closed_is_done_with_its_drive`.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceFuture, DeviceResult, Geometry, ZoneInfo, ZoneOp, ZonedDevice,
};
use tokio::sync::Notify;

/// A drive behind a gate.
pub(crate) struct Gate {
    dev: Rc<dyn ZonedDevice>,
    is_shut: Cell<bool>,
    /// Commands that change the drive and have begun.
    under_way: Cell<u32>,
    quiet: Notify,
}

/// A command under way.
struct Command<'a>(&'a Gate);

impl Drop for Command<'_> {
    fn drop(&mut self) {
        let left = self.0.under_way.get() - 1;
        self.0.under_way.set(left);
        if left == 0 {
            self.0.quiet.notify_waiters();
        }
    }
}

impl Gate {
    pub(crate) fn new(dev: Rc<dyn ZonedDevice>) -> Self {
        Self { dev, is_shut: Cell::new(false), under_way: Cell::new(0), quiet: Notify::new() }
    }

    /// Shuts it, and waits for what is under way (CS-CLOSE-1).
    pub(crate) async fn shut(&self) {
        self.is_shut.set(true);
        loop {
            let quiet = self.quiet.notified();
            if self.under_way.get() == 0 {
                return;
            }
            quiet.await;
        }
    }

    /// Lets a command pass that changes the drive.
    async fn pass<T>(&self, at: Lba, command: impl Future<Output = DeviceResult<T>>) -> DeviceResult<T> {
        if self.is_shut.get() {
            return Err(DeviceError::new(DeviceErrorKind::Gone, at, None));
        }
        self.under_way.set(self.under_way.get() + 1);
        let _under_way = Command(self);
        command.await
    }
}

impl ZonedDevice for Gate {
    fn geometry(&self) -> &Geometry {
        self.dev.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.dev.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.dev.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(self.pass(at, self.dev.write(at, data)))
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(self.pass(self.geometry().start_of(zone), self.dev.append(zone, data)))
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(self.pass(self.geometry().start_of(zone), self.dev.manage(zone, op)))
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(self.pass(Lba(0), self.dev.flush()))
    }
}
