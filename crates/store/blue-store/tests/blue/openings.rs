//! Openings at which no zone can be relied upon, superblocks and metadata among them: "not readable" is never "not there".

use std::cell::RefCell;
use std::rc::Rc;

use shingle_blue_store::{BlueError, BlueErrorKind};
use shingle_sim::lives::BlindOpening;
use shingle_sim::{Medium, Random, Sim, seeds};

use crate::common::{format, geometry, open};
use crate::crash::{infos, lines};
use crate::driver::{Broken, Driver, Lines, Verdict, takes_one_more, verify};

/// Lives whose openings cannot read all, and that go on without faults. The last one reads all, and must find all. Returns how many of those
/// openings went well, and how many did not.
fn chain(seed: u64) -> (u64, u64) {
    const LIVES: u64 = 6;
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let shape = geometry.clone();
    let mut medium: Medium = Sim::new(seed).run(move |rt| async move {
        let device = format(&rt, &shape).await;
        let (store, _) = open(&rt, &device).await.unwrap();
        for info in infos() {
            store.create_collection(info).await.unwrap();
        }
        store.close().await.unwrap();
        device.kill()
    });
    let mut all = lines();
    let (mut opened, mut refused) = (0, 0);
    for number in 0..LIVES {
        let life = BlindOpening::draw(&mut random, geometry.zone_count, 1000, number + 1 == LIVES);
        let harmless = life.sees_all();
        let context = format!("seed {seed}, life {number}, {life:?}");
        let (given, mut seen, drawn) = (life.clone(), all.clone(), random.number());
        let found;
        (medium, all, found) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let found = open(&rt, &device).await;
            given.opened(&device);
            let over = || device.is_gone();
            let judge = |error: &BlueError| match error.kind {
                _ if over() => Verdict::Over,
                BlueErrorKind::NoSpace => Verdict::Explained,
                BlueErrorKind::Device | BlueErrorKind::Corrupt if !harmless => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let found = match found {
                Ok((store, report)) => {
                    let before = seen.clone();
                    assert!(report.short.is_empty() || !harmless, "{context}: {report:?}");
                    let verified = verify(&store, &infos(), &mut seen, |error| judge(error) != Verdict::Wrong).await;
                    if over() {
                        return (given.end(&device, seed * 31 + number), before, None);
                    }
                    if !verified.unwrap_or_else(|wrong| panic!("{context}: {wrong}")) {
                        return (given.end(&device, seed * 31 + number), Lines::new(), None);
                    }
                    let shared = Rc::new(RefCell::new(seen));
                    let mut driver = Driver::new(store.clone(), &infos(), shared.clone(), drawn, &judge);
                    if let Err(Broken::Wrong(wrong)) = driver.run(40).await
                        && !over()
                    {
                        panic!("{context}: {wrong}");
                    }
                    if !over() && harmless {
                        let found = store.check(false).await;
                        let explained = found.as_ref().is_err_and(|error| judge(error) == Verdict::Over);
                        assert!(explained || found == Ok(vec![]), "{context}: {found:?}");
                    }
                    seen = shared.borrow().clone();
                    Some(true)
                }
                Err(_) if over() => None,
                Err(error) => {
                    assert!(!harmless, "{context}: the store does not open: {error}");
                    Some(false)
                }
            };
            (given.end(&device, seed * 31 + number), seen, found)
        });
        if all.is_empty() {
            // Nobody can tell which of two states it is in.
            break;
        }
        opened += u64::from(found == Some(true) && !harmless);
        refused += u64::from(found == Some(false));
    }
    takes_one_more(seed, medium, infos()[0]);
    (opened, refused)
}

#[test]
fn an_opening_that_cannot_read_all_forgets_nothing() {
    let (opened, refused) =
        seeds(16).map(chain).fold((0, 0), |(opened, refused), (more, others)| (opened + more, refused + others));
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(
        one || opened >= 4 && refused >= 8,
        "{opened} openings went well with reads that failed, {refused} did not"
    );
}
