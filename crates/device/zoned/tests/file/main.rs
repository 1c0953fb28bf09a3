//! The file device on blocking threads, beyond the contract.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::{DeviceErrorKind, FileDevice, FileDeviceError, Held, HostFile, HostIo, ZonedDevice};

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

/// A host that may be full: then half of a write lands.
struct Filling {
    file: HostFile,
    full: Rc<Cell<bool>>,
    syncs: Rc<Cell<u32>>,
}

impl HostIo for Filling {
    fn read(&self, _: u64, _: Blocks, _: Held) -> LocalBoxFuture<'static, io::Result<Bytes>> {
        Box::pin(lost())
    }
    fn write(&self, at: u64, data: Vec<Bytes>) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let bytes = Bytes::from(data.concat());
            if !self.full.get() {
                return self.file.write_all_at(at, &[bytes]);
            }
            self.file.write_all_at(at, &[bytes.slice(..bytes.len() / 2)])?;
            Err(io::ErrorKind::StorageFull.into())
        })
    }
    fn sync(&self) -> LocalBoxFuture<'_, io::Result<()>> {
        self.syncs.set(self.syncs.get() + 1);
        Box::pin(async { self.file.sync() })
    }
}

/// ZD-FD-6: the zone goes on where it was, and a later write that the machine loses must not show what the failed one left there.
#[test]
fn a_write_that_found_the_host_full_leaves_nothing_behind_the_write_pointer() {
    let directory = cases::Directory::new("refused");
    let path = directory.drive();
    cases::create(&path, &cases::geometry());
    real::run(|runtime| async move {
        let (full, syncs) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let (held, counted) = (full.clone(), syncs.clone());
        let io = |file: &HostFile| -> Option<Box<dyn HostIo>> {
            Some(Box::new(Filling { file: file.clone(), full: held, syncs: counted }))
        };
        let device = FileDevice::open_with(&path, &runtime, io).unwrap();
        device.append(ZoneId(2), vec![cases::blocks(1, 4)]).await.unwrap();
        let before = syncs.get();
        full.set(true);
        for zone in [ZoneId(2), ZoneId(3)] {
            let error = device.append(zone, vec![cases::blocks(50, 8)]).await.unwrap_err();
            assert!(error.kind.is_host_full(), "{error}");
        }
        full.set(false);
        let synced = syncs.get() - before;
        for (zone, written) in [(ZoneId(2), 4), (ZoneId(3), 0)] {
            assert_eq!(device.report(zone, 1).await.unwrap()[0].written, Blocks(written));
            let slot = 8192 + u64::from(zone.0 - 2) * 64 * 4096;
            let mut behind = vec![1; 8 * 4096];
            let file = File::open(&path).unwrap();
            file.read_exact_at(&mut behind, slot + written * 4096).unwrap();
            assert!(behind.iter().all(|byte| *byte == 0), "{zone} keeps what failed");
            device.append(zone, vec![cases::blocks(9, 8)]).await.unwrap();
        }
        assert!(synced >= 2, "zeros that are not durable may be lost before what they take the place of");
        drop(device);
        let bytes = fs::read(&path).unwrap();
        assert!(
            bytes[8192..][..4 * 4096] == cases::blocks(1, 4)
                && bytes[8192 + 4 * 4096..][..8 * 4096] == cases::blocks(9, 8)
        );
    })
    .unwrap();
}
