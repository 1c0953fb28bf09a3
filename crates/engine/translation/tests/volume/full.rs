//! TL-SIZE-1, TL-SIZE-2: a volume of which every sector is written, in the worst order, takes writes for ever.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::Blocks;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::{BlockStore, Durability};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Mix};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice};

/// The largest volume on a drive: all sectors one by one, then random ones, with `together` writes under way.
fn fill(seed: u64, sector_bytes: u64, together: usize) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = Geometry::hm_smr(Blocks(random.between(24, 70)), random.between(24, 40) as u32, 0, 8);
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
        device.set_latency(std::time::Duration::ZERO);
        let shared = Rc::new(device.clone());
        let taken = async |size: u64| {
            let options =
                FormatOptions { sector_bytes, size_bytes: Some(size), force: true, ..FormatOptions::default() };
            Volume::format(&rt, shared.clone(), options).await.is_ok()
        };
        // The largest size that is taken, bit by bit.
        let mut size = 0;
        for bit in (12..40).rev() {
            if taken(size | 1 << bit).await {
                size |= 1 << bit;
            }
        }
        assert!(taken(size).await, "the drive takes a volume");
        let (volume, _) = Volume::open(&rt, shared.clone(), Options::default()).await.expect("the volume opens");
        let sectors = size / sector_bytes;
        let mut places: Vec<u64> = (0..sectors).collect();
        for at in (1..places.len()).rev() {
            places.swap(at, random.below(at as u64 + 1) as usize);
        }
        places.extend((0..sectors).map(|_| random.below(sectors)));
        for some in places.chunks(together) {
            let write = |&lba: &u64| {
                let data = Bytes::from(vec![lba as u8; sector_bytes as usize]);
                volume.write(lba * sector_bytes, vec![data], Durability::Cached)
            };
            for written in join_all(some.iter().map(write)).await {
                written.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        // The map is as scattered as it can be, and fits a checkpoint.
        volume.checkpoint().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        volume.close().await.unwrap();
        let (volume, _) = Volume::open(&rt, shared, Options::default()).await.expect("it opens again");
        let all = volume.read(0, size).await.unwrap();
        let bytes = sector_bytes as usize;
        assert!((0..sectors as usize).all(|lba| all[lba * bytes] == lba as u8), "seed {seed}");
    });
}

/// TL-SIZE-1, TL-SIZE-2.
#[test]
fn the_largest_volume_takes_writes_for_ever() {
    for seed in seeds(6) {
        fill(seed, 4096, [1, 7, 130][seed as usize % 3]);
        fill(seed, 512, [130, 1, 400][seed as usize % 3]);
    }
}

/// TL-READ-2: reads that are under way while zones are emptied and written again show the bytes of their sectors.
#[test]
fn reads_go_on_while_zones_are_emptied() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(40), 30, 0, 8)));
            let shared = Rc::new(device.clone());
            Volume::format(&rt, shared.clone(), FormatOptions::default()).await.expect("the drive takes a volume");
            let (volume, _) = Volume::open(&rt, shared, Options::default()).await.expect("the volume opens");
            let sectors = volume.size_bytes() / 4096;
            let shadow = BlockShadow::new(sectors, 4096).in_order_of_calls();
            for lba in 0..sectors {
                shadow.write(&volume, lba..lba + 1, Durability::Cached).await.expect("it is written");
            }
            let mix = Mix { in_flight_max: 32, access_bytes_max: 16 << 10, dropped: 0.0, ..Mix::draw(&mut random) };
            let store = Rc::new(volume.clone());
            let mut driver = BlockDriver { rt, store, shadow, random, mix };
            driver.run_well(1500).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            assert!(volume.stats().counters.cleaned > 20, "seed {seed}: {:?}", volume.stats());
        });
    }
}
