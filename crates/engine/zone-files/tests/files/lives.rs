//! Chains of lives with faults of the drive, kills and power cuts in between.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_sim::lives::{Harm, Life, wear};
use shingle_sim::{Medium, Random, Sim, seeds};
use shingle_zone_files::{FilesError, FilesErrorKind};

use crate::common::{format, geometry, open, tight_geometry};
use crate::driver::{Broken, Driver, Verdict};
use crate::superblocks;
use crate::world::Worlds;

/// Lives of files under faults whose effect is `most` at worst.
fn chain(seed: u64, most: Harm) {
    let mut random = Random::new(seed);
    // On every other drive zones are cleaned all the time.
    let tight = random.chance(0.5);
    let geometry = if tight { tight_geometry(&mut random) } else { geometry(&mut random) };
    let shape = geometry.clone();
    let (mut medium, data): (Medium, Range<u32>) = Sim::new(seed).run(move |rt| async move {
        let device = format(&rt, &shape).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let zones = files.data_zones();
        files.close().await.unwrap();
        (device.kill(), zones)
    });
    let mut worlds = Worlds::default();
    let mut harm = Harm::None;
    // One of the zones of superblocks fails in every way, and nobody notices (ZF-SB-1).
    let mut fate = Random::new(seed ^ 0x5B);
    let weak = ZoneId(geometry.conventional_zones + fate.below(2) as u32);
    for number in 0..6 {
        let life = Life::draw_up_to(most, &mut random, &data, geometry.zone_count, if tight { 3000 } else { 600 });
        harm = harm.max(life.harm);
        let context = format!("seed {seed}, life {number}, {:?}, {:?}", life.end, life.faults);
        let (given, seen, drawn) = (life.clone(), worlds.clone(), Random::new(random.number()));
        (medium, worlds) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let over = || device.is_gone();
            let judge = |error: &FilesError| match error.kind {
                _ if over() => Verdict::Over,
                FilesErrorKind::Device | FilesErrorKind::Corrupt if harm > Harm::None => Verdict::Explained,
                // Zones that can be written no more are spare that is gone.
                FilesErrorKind::NoSpace => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let mut seen = seen;
            match open(&rt, &device).await {
                Ok((files, report)) => {
                    let told = report.damaged.is_empty() && report.unknown.is_empty() && report.lost.is_empty();
                    assert!(told || harm > Harm::None, "{context}: {report:?}");
                    if harm == Harm::Silent && !report.torn.is_empty() {
                        // Nothing tells a last record that has rotted from one that a power cut tore.
                        seen.unsync_logs();
                    }
                    let verified = seen.verify(&files, |error| judge(error) != Verdict::Wrong).await;
                    if over() {
                        return (given.end(&device, seed * 31 + number), seen);
                    }
                    verified.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                    let shared = Rc::new(RefCell::new(seen));
                    let half = files.stats().capacity_bytes as usize / 2;
                    let mut driver = Driver::new(files, shared.clone(), drawn, &judge);
                    if tight {
                        driver.bytes_max = half;
                    }
                    if let Err(Broken::Wrong(wrong)) = driver.run(if tight { 1000 } else { 300 }).await
                        && !over()
                    {
                        panic!("{context}: {wrong}");
                    }
                    seen = shared.borrow().clone();
                }
                Err(_) if over() || harm > Harm::None => {}
                Err(error) => panic!("{context}: the files do not open: {error}"),
            }
            (given.end(&device, seed * 31 + number), seen)
        });
        if random.chance(0.3) && most > Harm::None {
            harm = harm.max(wear(&mut random, &medium, &geometry, &data));
        }
        if fate.chance(0.3) {
            superblocks::harm(&medium, &geometry, weak, superblocks::drawn(&mut fate));
        }
    }
}

/// ZF-WRITE-1, ZF-WRITE-2, and ZF-READ-1: each read is verified, and its bytes are those of an append.
#[test]
fn faults_that_files_hide() {
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

/// In 173 writers waited for ever: a zone had become free, and the keeper took it that they knew. In 422 the cleaner did: a part of what it
/// copied was on its way when the next could not be read. In 1066 the last record of a log rots, as the tests did not
/// expect.
#[test]
fn chains_that_once_failed() {
    [173, 422, 1066].into_iter().for_each(|seed| chain(seed, Harm::Lasting));
}
