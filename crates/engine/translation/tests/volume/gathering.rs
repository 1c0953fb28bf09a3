//! The map within its limit: extents are joined by copying.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Survival, Trigger, seeds};
use shingle_store_api::{BlockStore, Durability};
use shingle_store_testing::blocks::BlockShadow;
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::put;

/// A map as small as can be asked for.
const SMALL: Options = Options { low_water: 4, recovery_depth: 8, accept_loss: false, map_bytes: Some(0) };

/// Extents that it may have: four for each pair of 256 sectors and 64, and an eighth more.
fn most(sectors: u64) -> u64 {
    (4 * (sectors / 256) + 64) * 9 / 8
}

/// Extents that commands under way may add: eight pairs of names.
const UNDER_WAY: u64 = 8 * 64;

/// A drive of zones of 1,024 blocks, with a volume of half of its size, and that volume.
async fn made(rt: &Runtime, share: f64) -> (SimDevice, Volume) {
    let device = SimDevice::new(rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(1024), 40, 0, 8)));
    device.set_latency(Duration::from_micros(50));
    let shared = Rc::new(device.clone());
    let size = (40.0 * 1024.0 * 4096.0 * share) as u64 / 4096 * 4096;
    let options = FormatOptions { size_bytes: Some(size), ..FormatOptions::default() };
    Volume::format(rt, shared.clone(), options).await.expect("the drive takes a volume");
    let (volume, _) = Volume::open(rt, shared, SMALL).await.expect("the volume opens");
    (device, volume)
}

/// TL-MEM-1.
#[test]
fn random_writes_for_ever_take_a_bounded_map() {
    for seed in seeds(2) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume) = made(&rt, 0.2).await;
            let sectors = volume.size_bytes() / 4096;
            let shadow = BlockShadow::new(sectors, 4096).in_order_of_calls();
            let mut largest = 0;
            for lba in (0..sectors).step_by(64) {
                let end = sectors.min(lba + 64);
                shadow.write(&volume, lba..end, Durability::Cached).await.expect("it is written");
            }
            for _ in 0..sectors {
                let lba = random.below(sectors);
                shadow.write(&volume, lba..lba + 1, Durability::Cached).await.expect("it is written");
                largest = largest.max(volume.stats().extents);
            }
            assert!(largest <= most(sectors) + UNDER_WAY, "seed {seed}: {largest} extents for {sectors} sectors");
            assert!(volume.stats().counters.extents_joined > sectors / 2, "seed {seed}: {:?}", volume.stats());
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            shadow.cut();
            let (volume, _) = Volume::open(&rt, Rc::new(again), SMALL).await.expect("it opens again");
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}, after a cut: {broken}"));
        });
    }
}

/// TL-MEM-2.
#[test]
fn a_full_volume_is_gathered_and_cleaned() {
    for seed in seeds(2) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (_, volume) = made(&rt, 0.6).await;
            let sectors = volume.size_bytes() / 4096;
            for lba in (0..sectors).step_by(64) {
                put(&volume, lba, 64.min(sectors - lba), 1).await.expect("it is written");
            }
            for _ in 0..sectors {
                put(&volume, random.below(sectors), 1, 2).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            let stats = volume.stats();
            assert!(stats.extents <= most(sectors) + UNDER_WAY, "seed {seed}: {stats:?}");
            assert!(stats.counters.cleaned > 5, "seed {seed}: {stats:?}");
            volume.close().await.expect("it closes");
        });
    }
}

/// TL-MEM-3: random writes to an empty volume leave holes, and extents between them cannot be joined.
#[test]
fn a_volume_with_holes_is_written_without_waiting() {
    for seed in seeds(2) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume) = made(&rt, 0.5).await;
            // As a disk.
            device.set_latency(Duration::from_millis(10));
            let sectors = volume.size_bytes() / 4096;
            let mut waited = Duration::ZERO;
            for _ in 0..sectors / 2 {
                let began = rt.now();
                put(&volume, random.below(sectors), 1, 1).await.expect("it is written");
                waited += rt.now().since(began);
                rt.sleep(Duration::from_millis(20)).await;
            }
            // A command takes five in the mean.
            let fair = Duration::from_micros(5500) * (sectors / 2) as u32;
            assert!(waited < fair, "seed {seed}: {waited:?} for {} writes", sectors / 2);
            assert!(volume.stats().extents > most(sectors) + UNDER_WAY, "seed {seed}: the case is not met");
        });
    }
}

/// TL-MEM-3, TL-CTL-3: with no room for copies nothing is gathered, and nobody waits for it.
#[test]
fn a_controller_that_does_nothing_holds_up_no_writer_of_a_large_map() {
    Sim::new(4).run(move |rt| async move {
        let mut random = Random::new(4);
        let (_, volume) = made(&rt, 0.6).await;
        let sectors = volume.size_bytes() / 4096;
        let controller = volume.control();
        let began = rt.now();
        for lba in (0..sectors).step_by(64) {
            put(&volume, lba, 64.min(sectors - lba), 1).await.expect("it is written");
        }
        for _ in 0..sectors {
            put(&volume, random.below(sectors), 1, 2).await.expect("it is written");
        }
        // The volume takes over for a zone at a time.
        let took = rt.now().since(began);
        assert!(took < Duration::from_secs(240), "{took:?} for {sectors} writes: {:?}", volume.stats());
        drop(controller);
    });
}

/// Reads that fail while extents are joined keep no zone from being emptied.
#[test]
fn reads_that_fail_in_gathering_leave_zones_to_cleaning() {
    Sim::new(5).run(move |rt| async move {
        let mut random = Random::new(5);
        let (device, volume) = made(&rt, 0.2).await;
        let sectors = volume.size_bytes() / 4096;
        for lba in (0..sectors).step_by(64) {
            put(&volume, lba, 64.min(sectors - lba), 1).await.expect("it is written");
        }
        let trigger = Trigger::Rate(CommandKind::Read, 1.0);
        device.set_faults(Faults::new([FaultRule { trigger, fault: Fault::ReadError }]));
        for _ in 0..sectors / 8 {
            put(&volume, random.below(sectors), 1, 2).await.expect("it is written");
        }
        let failed = device.faults().injected().len();
        assert!(failed > 20, "the case is not met: {failed} reads failed");
        assert!(volume.control().zones().iter().all(|zone| !zone.stuck), "nothing was to be cleaned");
    });
}

/// Sectors that cannot be read hold up writers for a moment only, each time that gathering is tried.
#[test]
fn a_map_that_cannot_become_smaller_holds_up_nobody_for_long() {
    Sim::new(3).run(move |rt| async move {
        let mut random = Random::new(3);
        let (device, volume) = made(&rt, 0.5).await;
        let sectors = volume.size_bytes() / 4096;
        for lba in (0..sectors).step_by(64) {
            put(&volume, lba, 64.min(sectors - lba), 1).await.expect("it is written");
        }
        let trigger = Trigger::Rate(CommandKind::Read, 1.0);
        device.set_faults(Faults::new([FaultRule { trigger, fault: Fault::ReadError }]));
        let began = rt.now();
        for _ in 0..sectors / 8 {
            put(&volume, random.below(sectors), 1, 2).await.expect("it is written");
        }
        let took = rt.now().since(began);
        assert!(took < Duration::from_secs(60), "{took:?} for {sectors} writes");
        assert!(volume.stats().extents > most(sectors) + UNDER_WAY, "nothing could be read, and so joined");
    });
}
