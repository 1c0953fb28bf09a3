//! Drives and stores of the tests.

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{BlueResult, CollectionId, CollectionInfo, FormatOptions, OpenReport, Options, Store};
use shingle_runtime::Runtime;
use shingle_sim::{Random, SimDevice, Survival};
use shingle_zoned::{Geometry, MemoryDevice};

/// A turn of a disk that tells its speed.
pub(crate) const TURN: std::time::Duration = std::time::Duration::from_micros(8333);

/// A drive with few data zones, which are cleaned all the time: a disk, an SSD, or a file.
pub(crate) fn geometry(random: &mut Random) -> Geometry {
    let zones = 23 + random.between(8, 14) as u32;
    let blocks = Blocks(random.between(32, 90));
    match random.below(3) {
        0 => Geometry::hm_smr(blocks, zones, random.below(3) as u32, 12),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - random.below(8)), zones, 9, 9),
        _ => Geometry { volatile_cache: true, revolution: Some(TURN), ..Geometry::hm_smr(blocks, zones, 0, 12) },
    }
}

/// A drive whose commands take no time.
pub(crate) fn device(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(std::time::Duration::ZERO);
    device
}

/// A drive with an empty store, on which writes of less than 8 KiB are deferred.
pub(crate) async fn format(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = device(rt, geometry);
    let options = FormatOptions { small_bytes: Some(8 << 10), ..FormatOptions::default() };
    Store::format(rt, Rc::new(device.clone()), options).await.expect("the drive takes a store");
    device
}

/// Small limits, so that all of them are met.
pub(crate) fn options() -> Options {
    Options {
        cache_bytes: 300_000,
        deferred_bytes: 40_000,
        waiting_bytes: 400_000,
        log: Rc::new(LogKvOptions { log_bytes: 60_000 }),
        ..Options::default()
    }
}

pub(crate) async fn open(rt: &Runtime, device: &SimDevice) -> BlueResult<(Store, OpenReport)> {
    Store::open(rt, Rc::new(device.clone()), options()).await
}

/// A collection of pool 1.
pub(crate) fn collection(seed: u32, bits: u8) -> CollectionInfo {
    CollectionInfo { id: CollectionId { pool: 1, seed }, bits }
}

/// An empty store with a collection of all of pool 1, on a common drive.
pub(crate) async fn fresh(rt: &Runtime) -> (SimDevice, Store, CollectionId) {
    let device = format(rt, &Geometry::hm_smr(Blocks(128), 60, 0, 16)).await;
    let (store, report) = open(rt, &device).await.expect("the store opens");
    assert_eq!(report, OpenReport::default());
    let info = collection(0, 0);
    store.create_collection(info).await.expect("a collection is made");
    (device, store, info.id)
}

/// Losses of a power cut that a drive of this shape can have.
pub(crate) fn survival(random: &mut Random, geometry: &Geometry) -> Survival {
    let drawn = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
    drawn.on(geometry)
}
