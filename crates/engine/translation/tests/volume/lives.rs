//! Chains of lives with faults of the drive, kills and power cuts in between.

use std::ops::Range;
use std::rc::Rc;

use shingle_sim::lives::{Harm, Life, wear};
use shingle_sim::{Medium, Random, Sim, seeds};
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Verdict};
use shingle_translation::{Options, Volume};

use crate::common::{format, geometry, mix};

/// Lives of a volume under faults whose effect is `most` at worst.
fn chain(seed: u64, most: Harm) {
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
    let shape = geometry.clone();
    let (mut medium, shadow, data): (Medium, BlockShadow, Range<u32>) = Sim::new(seed).run(move |rt| async move {
        let (device, shadow, zones) = format(&rt, &shape, sector_bytes).await;
        (device.kill(), shadow, zones)
    });
    let mut harm = Harm::None;
    for number in 0..6 {
        let life = Life::draw_up_to(most, &mut random, &data, geometry.zone_count, 600);
        harm = harm.max(life.harm);
        let context = format!("seed {seed}, life {number}, {:?}, {:?}", life.end, life.faults);
        let (given, seen, mut drawn) = (life.clone(), shadow.clone(), Random::new(random.number()));
        medium = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let over = || device.is_gone();
            let judge = |error: &StoreError| match error.kind {
                _ if over() => Verdict::Over,
                StoreErrorKind::Device | StoreErrorKind::Corrupt if harm > Harm::None => Verdict::Explained,
                // Zones that can be written no more are spare that is gone.
                StoreErrorKind::NoSpace => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let map_bytes = drawn.chance(0.5).then_some(0);
            let options = Options { map_bytes, ..Options::default() };
            match Volume::open(&rt, Rc::new(device.clone()), options).await {
                Ok((volume, report)) => {
                    let told = report.damaged.is_empty() && report.unknown.is_empty() && report.sectors_lost == 0;
                    assert!(told || harm > Harm::None, "{context}: {report:?}");
                    let store = Rc::new(volume);
                    seen.verify_but(&*store, judge).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
                    let mix = mix(&mut drawn);
                    let mut driver = BlockDriver { rt, store, shadow: seen, random: drawn, mix };
                    driver.run(300, judge).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
                }
                Err(_) if over() || harm > Harm::None => {}
                Err(error) => panic!("{context}: the volume does not open: {error}"),
            }
            given.end(&device, seed * 31 + number)
        });
        shadow.cut();
        if random.chance(0.3) && most > Harm::None {
            harm = harm.max(wear(&mut random, &medium, &geometry, &data));
        }
    }
}

/// TL-WRITE-2, and TL-READ-1: each read is verified, and its bytes are those of a write.
#[test]
fn faults_that_a_volume_hides() {
    seeds(60).for_each(|seed| chain(seed, Harm::None));
}

#[test]
fn faults_that_pass() {
    seeds(60).for_each(|seed| chain(seed, Harm::Passing));
}

#[test]
fn faults_that_last() {
    seeds(60).for_each(|seed| chain(seed, Harm::Lasting));
}
