//! The file device on blocking threads, beyond the contract.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::{DeviceErrorKind, FileDevice, FileDeviceError, Held, HostIo, ZonedDevice};

mod cases;

/// Opens a drive as the cases do.
fn open(path: &Path, runtime: &Runtime) -> Result<FileDevice, FileDeviceError> {
    FileDevice::open(path, runtime)
}

/// A way to the bytes on which nobody answers.
struct Lost;

async fn lost<T>() -> io::Result<T> {
    Err(io::ErrorKind::NotConnected.into())
}

impl HostIo for Lost {
    fn read(&self, _: u64, _: Blocks, _: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        Box::pin(lost())
    }
    fn write(&self, _: u64, _: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(lost())
    }
    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(lost())
    }
}

#[test]
fn a_drive_whose_host_no_longer_answers_is_gone_and_its_table_as_it_was() {
    let directory = cases::Directory::new("lost");
    let path = directory.drive();
    cases::create(&path, &cases::geometry());
    real::run(|runtime| async move {
        let gone = |error: shingle_zoned::DeviceError| matches!(error.kind, DeviceErrorKind::Gone);
        let device = FileDevice::open(&path, &runtime).unwrap();
        device.append(ZoneId(2), vec![cases::blocks(1, 4)]).await.unwrap();
        device.append(ZoneId(3), vec![cases::blocks(1, 4)]).await.unwrap();
        device.flush().await.unwrap();
        drop(device);
        let open = || FileDevice::open_with(&path, &runtime, |_| Some(Box::new(Lost))).unwrap();
        assert!(gone(open().read(Lba(128), Blocks(1)).await.unwrap_err()));
        assert!(gone(open().flush().await.unwrap_err()));
        let device = open();
        assert!(gone(device.append(ZoneId(2), vec![cases::blocks(5, 4)]).await.unwrap_err()));
        assert!(gone(device.report(ZoneId(0), 1).await.unwrap_err()));
        drop(device);
        let device = FileDevice::open(&path, &runtime).unwrap();
        assert_eq!(device.report(ZoneId(2), 1).await.unwrap()[0].written, Blocks(4));
        assert!(device.read(Lba(128), Blocks(4)).await.unwrap() == cases::blocks(1, 4));
    })
    .unwrap();
}

/// A medium that fails.
struct Failing;

async fn failed() -> io::Result<()> {
    Err(io::Error::from_raw_os_error(5))
}

impl HostIo for Failing {
    fn read(&self, _: u64, _: Blocks, _: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        Box::pin(lost())
    }
    fn write(&self, _: u64, _: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(failed())
    }
    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(failed())
    }
}

/// ZD-FD-4: the second flush must not say that all is well.
#[test]
fn after_a_failed_flush_the_drive_is_gone() {
    let directory = cases::Directory::new("flush");
    let path = directory.drive();
    cases::create(&path, &cases::geometry());
    real::run(|runtime| async move {
        let device = FileDevice::open_with(&path, &runtime, |_| Some(Box::new(Failing))).unwrap();
        assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
        assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
        let error = device.append(ZoneId(2), vec![cases::blocks(1, 1)]).await.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::Gone));
        drop(device);
        FileDevice::open(&path, &runtime).unwrap().flush().await.unwrap();
    })
    .unwrap();
}

/// A medium whose first sync fails some time after the second could have begun, which would not: the system tells of a lost write once.
struct FailingOnce(Cell<u32>, Runtime);

impl HostIo for FailingOnce {
    fn read(&self, _: u64, _: Blocks, _: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        Box::pin(lost())
    }
    fn write(&self, _: u64, _: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        let first = self.0.replace(self.0.get() + 1) == 0;
        Box::pin(async move {
            self.1.sleep(Duration::from_millis(if first { 20 } else { 1 })).await;
            if first { failed().await } else { Ok(()) }
        })
    }
}

/// ZD-FD-4: whichever of two flushes side by side the system tells of a lost write, neither succeeds.
#[test]
fn a_flush_beside_one_that_fails_does_not_succeed() {
    let directory = cases::Directory::new("two-flushes");
    let path = directory.drive();
    cases::create(&path, &cases::geometry());
    real::run(|runtime| async move {
        let io = FailingOnce(Cell::new(0), runtime.clone());
        let device = FileDevice::open_with(&path, &runtime, |_| Some(Box::new(io))).unwrap();
        let (one, other) = futures_util::future::join(device.flush(), device.flush()).await;
        assert!(matches!(one.unwrap_err().kind, DeviceErrorKind::Gone));
        assert!(matches!(other.unwrap_err().kind, DeviceErrorKind::Gone));
    })
    .unwrap();
}
