//! Drives and stores of the tests.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, SimDevice, Survival};
use shingle_zone_files::{CreateOptions, FileKind, FilesResult, FormatOptions, Options, RecoveryReport, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice};

/// A small drive: a disk without a cache, an SSD, or a file.
pub(crate) fn geometry(random: &mut Random) -> Geometry {
    let zones = random.between(27, 41) as u32;
    let blocks = Blocks(random.between(24, 90));
    of_some_kind(random, zones, blocks)
}

/// A drive with so few zones that they are cleaned all the time.
pub(crate) fn tight_geometry(random: &mut Random) -> Geometry {
    let zones = random.between(22, 24) as u32;
    let blocks = Blocks(random.between(24, 60));
    of_some_kind(random, zones, blocks)
}

fn of_some_kind(random: &mut Random, zones: u32, blocks: Blocks) -> Geometry {
    match random.below(3) {
        0 => Geometry::hm_smr(blocks, zones, random.below(3) as u32, 8),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - random.below(8)), zones, 6, 6),
        _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, zones, 0, 8) },
    }
}

/// A drive whose commands take no time.
pub(crate) fn device(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(std::time::Duration::ZERO);
    device
}

/// A drive with an empty store of files.
pub(crate) async fn format(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = device(rt, geometry);
    let formatted = ZoneFiles::format(rt, Rc::new(device.clone()), FormatOptions::default()).await;
    formatted.expect("the drive takes files");
    device
}

pub(crate) async fn open(rt: &Runtime, device: &SimDevice) -> FilesResult<(ZoneFiles, RecoveryReport)> {
    ZoneFiles::open(rt, Rc::new(device.clone()), Options::default()).await
}

/// An empty store on a common drive.
pub(crate) async fn fresh(rt: &Runtime) -> (SimDevice, ZoneFiles) {
    let device = format(rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
    let (files, report) = open(rt, &device).await.expect("the files open");
    assert_eq!(report, RecoveryReport::default());
    (device, files)
}

/// Parameters of a new file of a kind.
pub(crate) fn of(kind: FileKind) -> CreateOptions {
    CreateOptions { kind, ..CreateOptions::default() }
}

pub(crate) fn bytes(text: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(text.as_bytes())]
}

/// Losses of a power cut that a drive of this shape can have.
pub(crate) fn survival(random: &mut Random, geometry: &Geometry) -> Survival {
    let drawn = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
    drawn.on(geometry)
}
