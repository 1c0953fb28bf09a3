//! TL-REC-1: wherever the power fails, all that was durable is there, and nothing that never was.
//!
//! A cut in a checkpoint tests TL-CKPT-1 and TL-CKPT-2, one while zones are emptied TL-RESET-1 and TL-WRITE-3.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_base::Blocks;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::Durability;
use shingle_store_testing::blocks::{BlockDriver, BlockShadow};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

use crate::common::{format, geometry, mix, open, survival};

/// A moment of a history: the command, the drive if the power fails there, and what is known of the volume by then.
type Moment = (u64, MemoryDevice, BlockShadow);

/// A history, with a cut at each command or at each of a share of them.
fn history(seed: u64, share: f64) -> Vec<Moment> {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
        let (device, shadow, _) = format(&rt, &geometry, sector_bytes).await;
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen, drawn) = (moments.clone(), shadow.clone(), RefCell::new(Random::new(seed ^ 1)));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            if random.chance(share) {
                let image = device.crash_image_with(random.number(), survival(&mut random, device.geometry()));
                kept.borrow_mut().push((command.number, image, seen.fork()));
            }
        });
        let (volume, _) = open(&rt, &device).await.unwrap();
        let (store, mix) = (Rc::new(volume.clone()), mix(&mut random));
        let mut driver = BlockDriver { rt, store, shadow, random, mix };
        driver.run_well(400).await.unwrap();
        volume.close().await.unwrap();
        device.on_command(|_, _| {});
        moments.take()
    })
}

/// Returns the number of cuts.
fn cut(seed: u64, share: f64) -> usize {
    let history = history(seed, share);
    let cuts = history.len();
    for (command, image, shadow) in history {
        let context = format!("seed {seed}, cut at command {command}");
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            device.set_latency(std::time::Duration::ZERO);
            shadow.cut();
            let (volume, report) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(report.damaged.is_empty() && report.sectors_lost == 0, "{context}: {report:?}");
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
            // It goes on from there, and a second opening finds what came after, too.
            let mut random = Random::new(command);
            let mix = mix(&mut random);
            let store = Rc::new(volume);
            let mut driver = BlockDriver { rt: rt.clone(), store, shadow: shadow.clone(), random, mix };
            driver.run_well(30).await.unwrap_or_else(|broken| panic!("{context}, later: {broken}"));
            let mut random = Random::new(seed);
            let survival = survival(&mut random, device.geometry());
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, survival));
            shadow.cut();
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("{context}, and again: {broken}"));
        });
    }
    cuts
}

/// TL-REC-1, TL-CKPT-1, TL-CKPT-2, TL-RESET-1, TL-WRITE-3.
#[test]
fn cut_at_every_command() {
    let cuts: usize = seeds(4).map(|seed| cut(seed, 1.0)).sum();
    assert!(cuts > 1000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// TL-REC-5: a process is killed before it flushed, the next one reads what it wrote, and then the power fails.
#[test]
fn what_an_opening_found_survives_a_power_cut() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry::zns(Blocks(64), Blocks(60), 40, 6, 6);
            let (device, shadow, _) = format(&rt, &geometry, 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            for lba in 0..8 {
                shadow.write(&volume, lba..lba + 1, Durability::Cached).await.unwrap();
            }
            let next = SimDevice::resume(&rt, device.kill());
            shadow.cut();
            let (volume, _) = open(&rt, &next).await.unwrap();
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            let last = SimDevice::new(&rt, &next.crash_image_with(seed, Survival::AnySubset));
            shadow.cut();
            let (volume, _) = open(&rt, &last).await.unwrap();
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}, at last: {broken}"));
        });
    }
}

#[test]
fn cut_at_some_commands_of_many_histories() {
    let cuts: usize = seeds(40).map(|seed| cut(seed, 0.05)).sum();
    assert!(cuts > 500 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}
