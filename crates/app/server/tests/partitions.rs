//! SV-PART-1, SV-PART-2: partitions of one drive, each with an owner on a thread of its own.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_partitions::{PartitionTable, Wanted};
use shingle_runtime::real;
use shingle_server::{ErrorKind, open_drive};
use shingle_zoned::{CreateOptions, FileDevice, Geometry, ZoneOp, ZonedDevice};
use shingle_zoned_linux::OpenOptions;

const ZONE: Blocks = Blocks(256);

/// A drive with the partitions `a` and `b`; gone when the test ends.
struct Divided(PathBuf);

impl Divided {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shingle-partitions-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(ZONE, 40, 2, 20) };
        FileDevice::create(&path, &geometry, CreateOptions::default()).unwrap();
        let made = Self(path.clone());
        real::run(|rt| async move {
            let device = open_drive(&path, &rt, OpenOptions::default()).unwrap();
            PartitionTable::format(&rt, &device, false).await.unwrap();
            let wanted = |name: &str| Wanted { name: name.to_owned(), zones: Some(10), ..Wanted::default() };
            let mut table = PartitionTable::open(&rt, &device).await.unwrap();
            table.add(&rt, &[wanted("a"), wanted("b")]).await.unwrap();
        })
        .unwrap();
        made
    }

    fn part(&self, name: &str) -> PathBuf {
        shingle_server::drive_path::joined(&self.0, name)
    }
}

impl Drop for Divided {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn block(byte: u8) -> Vec<Bytes> {
    let mut block = AlignedBuf::zeroed(Blocks(1));
    block.fill(byte);
    vec![block.freeze()]
}

/// Fills zones of a partition, each block by a task of its own; they are started in order, and nobody waits in between.
fn fill(path: &Path, byte: u8) {
    let path = path.to_owned();
    real::run(|rt| async move {
        let device: Rc<dyn ZonedDevice> = open_drive(&path, &rt, OpenOptions::default()).unwrap();
        assert_eq!((device.geometry().zone_count, device.geometry().conventional_zones), (10, 0));
        for zone in 0..4 {
            let start = device.geometry().start_of(ZoneId(zone));
            let tasks: Vec<_> = (0..ZONE.0)
                .map(|at| {
                    let device = device.clone();
                    rt.spawn(async move { device.write(start + Blocks(at), block(byte)).await })
                })
                .collect();
            for (at, task) in tasks.into_iter().enumerate() {
                task.await.unwrap().unwrap_or_else(|error| panic!("block {at} of zone {zone}: {error}"));
            }
        }
        device.flush().await.unwrap();
    })
    .unwrap();
}

/// SV-PART-2.
#[test]
fn owners_on_several_threads_write_side_by_side() {
    let drive = Divided::new("side");
    let parts = [("a", 1), ("b", 2)].map(|(name, byte)| (drive.part(name), byte));
    std::thread::scope(|scope| parts.iter().for_each(|(path, byte)| drop(scope.spawn(|| fill(path, *byte)))));
    for (path, byte) in parts {
        real::run(|rt| async move {
            let device = open_drive(&path, &rt, OpenOptions::default()).unwrap();
            for zone in 0..4 {
                let read = device.read(device.geometry().start_of(ZoneId(zone)), ZONE).await.unwrap();
                assert!(read.iter().all(|&found| found == byte));
            }
            let outside = device.read(Lba(10 * ZONE.0), Blocks(1)).await.unwrap_err();
            assert!(outside.violation().is_some(), "{outside}");
        })
        .unwrap();
    }
}

/// SV-PART-1.
#[test]
fn a_partition_has_one_owner_and_a_drive_one_process() {
    let drive = Divided::new("one");
    let (path, whole) = (drive.part("a"), drive.0.clone());
    let missing = drive.part("c");
    real::run(|rt| async move {
        let open = |path: &Path| open_drive(path, &rt, OpenOptions::default());
        let refused = |path: &Path| open(path).map(drop).unwrap_err();
        let first = open(&path).unwrap();
        assert_eq!(refused(&path).kind, ErrorKind::InUse);
        assert_eq!(refused(&whole).kind, ErrorKind::InUse);
        assert!(refused(&missing).message.contains("no partition `c`: it has a, b"));
        first.write(Lba(0), block(1)).await.unwrap();
        // One that is under way when its owner goes is done all the same, and before the next owner looks.
        let mut late = Box::pin(first.write(Lba(1), block(2)));
        assert!(futures_util::poll!(&mut late).is_pending());
        drop(late);
        drop(first);
        let second = open(&path).unwrap();
        assert_eq!(second.report(ZoneId(0), 1).await.unwrap()[0].written, Blocks(2));
        second.manage(ZoneId(0), ZoneOp::Reset).await.unwrap();
        drop(second);
        let device = open(&whole).unwrap();
        assert!(device.geometry().zone_count == 40, "the drive is free again");
    })
    .unwrap();
}
