//! Drives, volumes and mixes of the tests.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, SimDevice, Survival};
use shingle_store_api::{BlockStore, Durability, StoreResult};
use shingle_store_testing::blocks::{BlockShadow, Mix};
use shingle_translation::{FormatOptions, Options, RecoveryReport, Volume};
use shingle_zoned::{Geometry, MemoryDevice};

/// A small drive: a disk without a cache, an SSD, or a file.
pub(crate) fn geometry(random: &mut Random) -> Geometry {
    let zones = random.between(22, 40) as u32;
    let blocks = Blocks(random.between(24, 90));
    match random.below(3) {
        0 => Geometry::hm_smr(blocks, zones, random.below(3) as u32, 8),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - random.below(8)), zones, 6, 6),
        _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, zones, 0, 8) },
    }
}

/// A drive with an empty volume, a shadow of it, and the zones that hold its data.
pub(crate) async fn format(
    rt: &Runtime,
    geometry: &Geometry,
    sector_bytes: u64,
) -> (SimDevice, BlockShadow, Range<u32>) {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(std::time::Duration::ZERO);
    let options = FormatOptions { sector_bytes, ..FormatOptions::default() };
    Volume::format(rt, Rc::new(device.clone()), options).await.expect("the drive takes a volume");
    let (volume, _) = open(rt, &device).await.expect("the volume opens");
    let shadow = BlockShadow::new(volume.size_bytes() / sector_bytes, sector_bytes).in_order_of_calls();
    let zones = volume.data_zones();
    volume.close().await.expect("the volume closes");
    (device, shadow, zones)
}

pub(crate) async fn open(rt: &Runtime, device: &SimDevice) -> StoreResult<(Volume, RecoveryReport)> {
    Volume::open(rt, Rc::new(device.clone()), Options::default()).await
}

/// Losses of a power cut that a drive of this shape can have.
pub(crate) fn survival(random: &mut Random, geometry: &Geometry) -> Survival {
    let drawn = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
    drawn.on(geometry)
}

/// A mix of calls that a small volume can take.
pub(crate) fn mix(random: &mut Random) -> Mix {
    let mix = Mix::draw(random);
    Mix { access_bytes_max: mix.access_bytes_max.min(256 << 10), ..mix }
}

/// The largest volume that a drive takes.
pub(crate) async fn largest(rt: &Runtime, geometry: &Geometry) -> (SimDevice, Volume) {
    let (device, _, _) = format(rt, geometry, 4096).await;
    let (volume, _) = open(rt, &device).await.expect("the volume opens");
    let options = FormatOptions { size_bytes: Some(volume.size_max_bytes()), force: true, ..FormatOptions::default() };
    volume.close().await.expect("the volume closes");
    Volume::format(rt, Rc::new(device.clone()), options).await.expect("the drive takes a volume");
    let (volume, _) = open(rt, &device).await.expect("the volume opens");
    (device, volume)
}

/// Writes sectors of 4 KiB that are full of a byte.
pub(crate) async fn put(volume: &Volume, lba: u64, sectors: u64, byte: u8) -> StoreResult<()> {
    let data = Bytes::from(vec![byte; (sectors * 4096) as usize]);
    volume.write(lba * 4096, vec![data], Durability::Cached).await
}
