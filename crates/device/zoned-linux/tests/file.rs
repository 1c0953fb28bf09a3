//! Drives in files through a ring: what the file device keeps on blocking threads, the contract among it.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use shingle_base::ZoneId;
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::contract_suite::{Backend, check, random};
use shingle_zoned::{CreateOptions, FileDevice, FileDeviceError, Geometry, ZoneState};
use shingle_zoned_linux::open_file;

#[path = "../../zoned/tests/file/cases/mod.rs"]
mod cases;

/// Opens a drive as the cases do.
fn open(path: &Path, runtime: &Runtime) -> Result<FileDevice, FileDeviceError> {
    open_file(path, runtime, true)
}

/// A file in a directory of its own, which goes with it.
struct Files {
    runtime: Runtime,
    directory: cases::Directory,
    made: Cell<u32>,
}

impl Files {
    fn new(runtime: &Runtime, name: &str) -> Self {
        Self { runtime: runtime.clone(), directory: cases::Directory::new(name), made: Cell::new(0) }
    }

    fn path(&self) -> PathBuf {
        self.directory.0.join(format!("drive-{}", self.made.get()))
    }
}

impl Backend for Files {
    type Device = FileDevice;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<FileDevice>> {
        Box::pin(async {
            self.made.set(self.made.get() + 1);
            FileDevice::create(&self.path(), geometry, CreateOptions::default()).unwrap();
            Some(open_file(&self.path(), &self.runtime, self.made.get().is_multiple_of(2)).unwrap())
        })
    }

    fn reopen(&self, device: FileDevice) -> LocalBoxFuture<'_, Option<FileDevice>> {
        Box::pin(async move {
            drop(device);
            Some(open_file(&self.path(), &self.runtime, self.made.get().is_multiple_of(2)).unwrap())
        })
    }

    fn reopens_exactly(&self) -> bool {
        true
    }

    fn degrade(&self, device: &FileDevice, zone: ZoneId, state: ZoneState) -> bool {
        device.set_state(zone, state).is_ok()
    }
}

#[test]
fn a_file_through_a_ring_keeps_the_contract() {
    real::run(|runtime| async move {
        assert!(check(&Files::new(&runtime, "contract")).await > 0);
        for seed in 1..=3 {
            random(&Files::new(&runtime, "random"), seed, 400).await;
        }
    })
    .unwrap();
}
