//! A volume beside a map of sectors in memory: reads, writes, trims and zeros of all sizes, cleaning, closing and opening.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::{BlockStore, Durability};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

fn geometries() -> [Geometry; 3] {
    [
        Geometry::hm_smr(Blocks(64), 40, 2, 8),
        Geometry::zns(Blocks(64), Blocks(48), 48, 6, 6),
        Geometry::hm_smr(Blocks(300), 24, 0, 8),
    ]
}

struct Model {
    sector: u64,
    /// Number of the last write of each sector; 0 = zeros.
    sectors: Vec<u64>,
    writes: u64,
}

impl Model {
    fn bytes(&self, lba: u64, count: u64) -> Vec<u8> {
        (lba..lba + count).flat_map(|lba| contents(lba, self.sectors[lba as usize], self.sector)).collect()
    }
}

fn contents(lba: u64, write: u64, sector: u64) -> Vec<u8> {
    if write == 0 {
        return vec![0; sector as usize];
    }
    let word = (lba << 32 | write).to_le_bytes();
    word.iter().copied().cycle().take(sector as usize).collect()
}

async fn step(volume: &Volume, model: &mut Model, random: &mut Random) {
    let size = model.sectors.len() as u64;
    let count = match random.below(4) {
        0 => 1,
        1 => 1 + random.below(4),
        2 => 1 + random.below(40),
        _ => 1 + random.below(300),
    };
    let lba = if random.chance(0.5) { random.below(size) } else { random.below(size.div_ceil(8)) };
    let count = count.min(size - lba);
    let (offset, length) = (lba * model.sector, count * model.sector);
    match random.below(20) {
        0..8 => {
            model.writes += 1;
            (lba..lba + count).for_each(|lba| model.sectors[lba as usize] = model.writes);
            let bytes = Bytes::from(model.bytes(lba, count));
            let cut = random.below(length + 1) as usize;
            let data = vec![bytes.slice(..cut), bytes.slice(cut..)];
            let durability = if random.chance(0.2) { Durability::Durable } else { Durability::Cached };
            volume.write(offset, data, durability).await.unwrap();
        }
        8..17 => {
            let read = volume.read(offset, length).await.unwrap();
            assert!(read == model.bytes(lba, count), "sectors {lba} to {}", lba + count);
        }
        17 => {
            volume.write_zeros(offset, length, Durability::Cached).await.unwrap();
            (lba..lba + count).for_each(|lba| model.sectors[lba as usize] = 0);
        }
        18 => {
            volume.trim(offset, length).await.unwrap();
            (lba..lba + count).for_each(|lba| model.sectors[lba as usize] = 0);
        }
        _ => volume.flush().await.unwrap(),
    }
}

async fn life(rt: Runtime, seed: u64) {
    let mut random = Random::new(seed);
    let geometry = geometries()[random.below(3) as usize].clone();
    let mut sim = SimDevice::new(&rt, &MemoryDevice::new(geometry));
    let mut device: Rc<dyn ZonedDevice> = Rc::new(sim.clone());
    let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
    let options = FormatOptions { sector_bytes, ..FormatOptions::default() };
    Volume::format(&rt, device.clone(), options).await.unwrap();
    let (mut volume, _) = Volume::open(&rt, device.clone(), Options::default()).await.unwrap();
    let size = volume.size_bytes() / sector_bytes;
    let mut model = Model { sector: sector_bytes, sectors: vec![0; size as usize], writes: 0 };
    for _ in 0..4 {
        for _ in 0..200 {
            step(&volume, &mut model, &mut random).await;
        }
        if random.chance(0.5) {
            volume.close().await.unwrap();
        } else {
            sim = SimDevice::resume(&rt, sim.kill());
            device = Rc::new(sim.clone());
        }
        let (again, report) = Volume::open(&rt, device.clone(), Options::default()).await.unwrap();
        assert!(report.unknown.is_empty() && report.damaged.is_empty() && report.sectors_lost == 0, "{report:?}");
        volume = again;
        let all = volume.read(0, volume.size_bytes()).await.unwrap();
        assert!(all == model.bytes(0, size), "after an opening");
    }
}

#[test]
fn a_volume_is_as_its_model() {
    for seed in seeds(10) {
        Sim::new(seed).run(move |rt| life(rt, seed));
    }
}
