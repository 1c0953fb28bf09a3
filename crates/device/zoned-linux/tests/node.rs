//! An ordinary block device as an emulated zoned drive.
//!
//! Runs on the device that the environment variable `SHINGLE_BLOCK_DEVICE` names (64 MiB or more), whose data is lost; says so
//! and does nothing where there is none.

use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use shingle_base::{Blocks, ByteSize, Lba, ZoneId};
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::contract_suite::{Backend, check, random};
use shingle_zoned::{CreateOptions, FileDevice, FileDeviceErrorKind, Geometry, GeometrySpec};
use shingle_zoned_linux::{CreateDrive, MarkPlace, OpenErrorKind, OpenOptions, create_drive, describe, open_drive};

struct Nodes {
    runtime: Runtime,
    path: PathBuf,
}

impl Nodes {
    fn open(&self) -> FileDevice {
        FileDevice::open(&self.path, &self.runtime).unwrap()
    }
}

impl Backend for Nodes {
    type Device = FileDevice;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<FileDevice>> {
        Box::pin(async {
            FileDevice::create_on_node(&self.path, geometry, CreateOptions { overwrite: true }).unwrap();
            Some(self.open())
        })
    }

    fn reopen(&self, device: FileDevice) -> LocalBoxFuture<'_, Option<FileDevice>> {
        Box::pin(async move {
            drop(device);
            Some(self.open())
        })
    }

    fn reopens_exactly(&self) -> bool {
        true
    }

    fn degrade(&self, device: &FileDevice, zone: ZoneId, state: shingle_zoned::ZoneState) -> bool {
        device.set_state(zone, state).is_ok()
    }
}

#[test]
fn an_ordinary_block_device_keeps_the_contract() {
    let Some(path) = std::env::var_os("SHINGLE_BLOCK_DEVICE").map(PathBuf::from) else {
        println!("skipped: SHINGLE_BLOCK_DEVICE names no ordinary block device to test on");
        return;
    };
    real::run(|runtime| async move {
        let plain = || FileOptions::new().read(true).write(true).open(&path).unwrap();
        let size = describe(&path).unwrap().size_bytes;
        // Nothing that was there before may ever show.
        let junk = vec![0xee; 1 << 20];
        for at in (0..size.min(64 << 20)).step_by(junk.len()) {
            plain().write_all_at(&junk, at).unwrap();
        }
        others_are_refused(&runtime, &path, &plain);
        all_of_a_device_is_used(&runtime, &path, size).await;
        let nodes = Nodes { runtime: runtime.clone(), path: path.clone() };
        assert_eq!(check(&nodes).await, 52);
        for seed in 1..=4 {
            random(&nodes, seed, 400).await;
        }
        one_process_has_it(&nodes);
    })
    .unwrap();
}

fn spec(size: Option<u64>) -> GeometrySpec {
    let zone_size = ByteSize(1 << 20);
    GeometrySpec { zone_size, conventional_zones: 2, ..GeometrySpec::hm_smr(ByteSize(size.unwrap_or(0))) }
}

fn others_are_refused(runtime: &Runtime, path: &std::path::Path, plain: &dyn Fn() -> std::fs::File) {
    let options = OpenOptions::default();
    let Err(error) = open_drive(path, runtime, options) else { panic!("opened what is no drive") };
    assert!(matches!(error.kind, OpenErrorKind::NotCreated), "{error}");
    plain().write_all_at(b"LUKS\xba\xbe", 0).unwrap();
    let Err(error) = open_drive(path, runtime, options) else { panic!("opened a foreign volume") };
    assert!(
        matches!(error.kind, OpenErrorKind::Foreign { what: "a LUKS volume", place: MarkPlace::Ordinary }),
        "{error}"
    );
    let error = create_drive(path, spec, CreateDrive::default()).unwrap_err();
    assert!(
        matches!(error.kind, OpenErrorKind::Foreign { what: "a LUKS volume", place: MarkPlace::Ordinary }),
        "{error}"
    );
    create_drive(path, spec, CreateDrive { force: true, overwrite: false }).unwrap();
    let error = create_drive(path, spec, CreateDrive::default()).unwrap_err();
    let OpenErrorKind::Emulated(inner) = &error.kind else { panic!("{error}") };
    assert!(matches!(inner.kind, FileDeviceErrorKind::Exists), "{error}");
    drop(open_drive(path, runtime, options).unwrap());
}

async fn all_of_a_device_is_used(runtime: &Runtime, path: &std::path::Path, size: u64) {
    let made = create_drive(path, spec, CreateDrive { force: false, overwrite: true }).unwrap();
    assert!(made.blocks().bytes() <= size && made.blocks().bytes() + (2 << 20) > size, "{made:?}");
    let device = open_drive(path, runtime, OpenOptions::default()).unwrap();
    let last = ZoneId(made.zone_count - 1);
    let bytes = shingle_base::AlignedBuf::zeroed(Blocks(256)).freeze();
    // Every zone takes a slot, the last one at the end of the device.
    for zone in (2..made.zone_count).map(ZoneId) {
        let length = if zone == last { 256 } else { 1 };
        device.append(zone, vec![bytes.slice(..length * 4096)]).await.unwrap();
    }
    device.flush().await.unwrap();
    drop(device);
    let device = open_drive(path, runtime, OpenOptions::default()).unwrap();
    assert_eq!(device.report(last, 1).await.unwrap()[0].written, Blocks(256));
    assert!(device.read(made.start_of(last), Blocks(256)).await.unwrap() == bytes);
    assert!(
        device.read(Lba(7), Blocks(1)).await.unwrap().iter().all(|&byte| byte == 0),
        "a conventional zone is zeros"
    );
    let too_large = Geometry { zone_count: made.zone_count + 1, ..made };
    drop(device);
    let error = FileDevice::create_on_node(path, &too_large, CreateOptions { overwrite: true }).unwrap_err();
    assert!(matches!(error.kind, FileDeviceErrorKind::TooSmall { .. }), "{error}");
}

fn one_process_has_it(nodes: &Nodes) {
    let device = nodes.open();
    let Err(error) = FileDevice::open(&nodes.path, &nodes.runtime) else { panic!("opened twice") };
    assert!(matches!(error.kind, FileDeviceErrorKind::InUse), "{error}");
    drop(device);
    drop(nodes.open());
}
