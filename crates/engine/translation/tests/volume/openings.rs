//! Openings at which no zone can be relied upon, superblocks and metadata log among them: "not readable" is never "not there".

use std::rc::Rc;

use shingle_sim::lives::BlindOpening;
use shingle_sim::{Medium, Random, Sim, seeds};
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Verdict};

use crate::common::{format, geometry, mix, open};

/// Lives whose openings cannot read all, and that go on without faults. The last one reads all, and must find all. Returns how many of those
/// openings went well, and how many did not.
fn chain(seed: u64) -> (u64, u64) {
    const LIVES: u64 = 7;
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
    let shape = geometry.clone();
    let (mut medium, shadow): (Medium, BlockShadow) = Sim::new(seed).run(move |rt| async move {
        let (device, shadow, _) = format(&rt, &shape, sector_bytes).await;
        (device.kill(), shadow)
    });
    let (mut opened, mut refused) = (0, 0);
    for number in 0..LIVES {
        let life = BlindOpening::draw(&mut random, geometry.zone_count, 500, number + 1 == LIVES);
        let harmless = life.sees_all();
        let context = format!("seed {seed}, life {number}, {life:?}");
        let (given, seen, mut drawn) = (life.clone(), shadow.clone(), Random::new(random.number()));
        let found;
        (medium, found) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let found = open(&rt, &device).await;
            given.opened(&device);
            let over = || device.is_gone();
            let judge = |error: &StoreError| match error.kind {
                _ if over() => Verdict::Over,
                StoreErrorKind::NoSpace => Verdict::Explained,
                StoreErrorKind::Device | StoreErrorKind::Corrupt if !harmless => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let found = match found {
                Ok((volume, report)) => {
                    let told = report.damaged.is_empty() && report.unknown.is_empty() && report.sectors_lost == 0;
                    assert!(told || !harmless, "{context}: {report:?}");
                    let store = Rc::new(volume);
                    seen.verify_but(&*store, judge).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
                    let mix = mix(&mut drawn);
                    let mut driver = BlockDriver { rt, store, shadow: seen, random: drawn, mix };
                    driver.run(150, judge).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
                    Some(true)
                }
                Err(_) if over() => None,
                Err(error) => {
                    assert!(!harmless, "{context}: the volume does not open: {error}");
                    Some(false)
                }
            };
            (given.end(&device, seed * 31 + number), found)
        });
        shadow.cut();
        opened += u64::from(found == Some(true) && !harmless);
        refused += u64::from(found == Some(false));
    }
    (opened, refused)
}

/// In 218 a torn pair of which a block could not be read passed for durable for good.
#[test]
fn an_opening_that_cannot_read_all_forgets_nothing() {
    let (opened, refused) = seeds(60)
        .chain([218])
        .map(chain)
        .fold((0, 0), |(opened, refused), (more, others)| (opened + more, refused + others));
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(
        one || opened >= 20 && refused >= 20,
        "{opened} openings went well with reads that failed, {refused} did not"
    );
}
