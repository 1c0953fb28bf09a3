//! Openings at which no zone can be relied upon, superblocks and metadata log among them: "not readable" is never "not there".

use std::cell::RefCell;
use std::rc::Rc;

use shingle_sim::lives::BlindOpening;
use shingle_sim::{Medium, Random, Sim, seeds};
use shingle_zone_files::{FilesError, FilesErrorKind};

use crate::common::{format, geometry, open};
use crate::driver::{Broken, Driver, Verdict};
use crate::world::Worlds;

/// Lives whose openings cannot read all, and that go on without faults. The last one reads all, and must find all. Returns how many of those
/// openings went well, and how many did not.
fn chain(seed: u64) -> (u64, u64) {
    const LIVES: u64 = 7;
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let shape = geometry.clone();
    let mut medium: Medium = Sim::new(seed).run(move |rt| async move { format(&rt, &shape).await.kill() });
    let mut worlds = Worlds::default();
    let (mut opened, mut refused) = (0, 0);
    for number in 0..LIVES {
        let life = BlindOpening::draw(&mut random, geometry.zone_count, 500, number + 1 == LIVES);
        let harmless = life.sees_all();
        let context = format!("seed {seed}, life {number}, {life:?}");
        let (given, mut seen, drawn) = (life.clone(), worlds.clone(), Random::new(random.number()));
        let found;
        (medium, worlds, found) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let found = open(&rt, &device).await;
            given.opened(&device);
            let over = || device.is_gone();
            let judge = |error: &FilesError| match error.kind {
                _ if over() => Verdict::Over,
                FilesErrorKind::NoSpace => Verdict::Explained,
                FilesErrorKind::Device | FilesErrorKind::Corrupt if !harmless => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let found = match found {
                Ok((files, report)) => {
                    let told = report.damaged.is_empty() && report.unknown.is_empty() && report.lost.is_empty();
                    assert!(told || !harmless, "{context}: {report:?}");
                    let verified = seen.verify(&files, |error| judge(error) != Verdict::Wrong).await;
                    if over() {
                        return (given.end(&device, seed * 31 + number), seen, None);
                    }
                    verified.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                    let shared = Rc::new(RefCell::new(seen));
                    if let Err(Broken::Wrong(wrong)) = Driver::new(files, shared.clone(), drawn, &judge).run(150).await
                        && !over()
                    {
                        panic!("{context}: {wrong}");
                    }
                    seen = shared.borrow().clone();
                    Some(true)
                }
                Err(_) if over() => None,
                Err(error) => {
                    assert!(!harmless, "{context}: the files do not open: {error}");
                    Some(false)
                }
            };
            (given.end(&device, seed * 31 + number), seen, found)
        });
        opened += u64::from(found == Some(true) && !harmless);
        refused += u64::from(found == Some(false));
    }
    (opened, refused)
}

#[test]
fn an_opening_that_cannot_read_all_forgets_nothing() {
    let (opened, refused) =
        seeds(60).map(chain).fold((0, 0), |(opened, refused), (more, others)| (opened + more, refused + others));
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(
        one || opened >= 20 && refused >= 10,
        "{opened} openings went well with reads that failed, {refused} did not"
    );
}
