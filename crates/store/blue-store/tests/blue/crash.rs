//! After a power cut anywhere, each collection is as a beginning of its transactions has made it, and those that completed are in it:
//! BLU-COMMIT-1, BLU-COUNT-1, BLU-G-1, BLU-WRITE-1, BLU-RESET-1, BLU-CLEAN-1, BLU-DEFER-1, BLU-THIN-1, BLU-OPEN-1.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_blue_store::{BlueError, CollectionInfo, Options, Store};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{MemoryDevice, ZonedDevice};

use crate::common::{collection, format, geometry, open, options, survival};
use crate::driver::{Broken, Driver, Line, Lines, Verdict, verify};
use crate::world::World;

/// A moment of a history: the command, the drive if the power fails there, and what its objects have to be.
type Moment = (u64, MemoryDevice, Lines);

/// A history.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    /// The power fails at a command with this probability.
    share: f64,
    rounds: u64,
}

pub(crate) fn infos() -> Vec<CollectionInfo> {
    vec![collection(0, 1), collection(1, 2), collection(3, 2)]
}

pub(crate) fn lines() -> Lines {
    infos().iter().map(|_| Line { states: vec![World::default()], durable: 0 }).collect()
}

/// No error is expected.
fn never(_: &BlueError) -> Verdict {
    Verdict::Wrong
}

async fn run(driver: &mut Driver<'_>, rounds: u64) -> Result<(), String> {
    match driver.run(rounds).await {
        Ok(()) => Ok(()),
        Err(Broken::Over) => Err("the store stopped".to_owned()),
        Err(Broken::Wrong(wrong)) => Err(wrong),
    }
}

/// Work of the store's own in histories.
#[derive(Clone, Copy, Debug, Default)]
struct Upkeep {
    /// Zones that were cleaned.
    cleaned: u64,
    /// Compressed blobs of which what was shown was written anew.
    rewritten: u64,
}

/// Moments of a history, and the store's own work in it.
fn history(plan: Plan) -> (Vec<Moment>, Upkeep) {
    let Plan { seed, share, rounds } = plan;
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let device = format(&rt, &geometry(&mut random)).await;
        let (store, _) = open(&rt, &device).await.unwrap();
        for info in infos() {
            store.create_collection(info).await.unwrap();
        }
        let lines = Rc::new(RefCell::new(lines()));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen, drawn) = (moments.clone(), lines.clone(), RefCell::new(Random::new(seed ^ 1)));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            if random.chance(share) {
                let image = device.crash_image_with(random.number(), survival(&mut random, device.geometry()));
                let mut lines = seen.borrow().clone();
                for line in &mut lines {
                    line.states.drain(..line.durable);
                    line.durable = 0;
                }
                kept.borrow_mut().push((command.number, image, lines));
            }
        });
        let mut driver = Driver::new(store.clone(), &infos(), lines, seed, &never);
        driver.squeeze();
        run(&mut driver, rounds).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let counters = store.stats().counters;
        let upkeep = Upkeep { cleaned: counters.cleaned, rewritten: counters.thin_rewritten };
        assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
        store.close().await.unwrap();
        device.on_command(|_, _| {});
        let (store, report) = open(&rt, &device).await.unwrap();
        assert_eq!((report.deferred, store.check(true).await.unwrap()), (0, vec![]), "seed {seed}, closed and opened");
        (moments.take(), upkeep)
    })
}

/// Returns the number of cuts, and the store's own work.
fn cut(plan: Plan) -> (usize, Upkeep) {
    let seed = plan.seed;
    let (history, upkeep) = history(plan);
    let cuts = history.len();
    for (command, image, mut lines) in history {
        let context = format!("seed {seed}, cut at command {command}");
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            device.set_latency(std::time::Duration::ZERO);
            let (store, report) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(report.short, [], "{context}");
            verify(&store, &infos(), &mut lines, |_| false).await.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
            assert_eq!(store.check(false).await.unwrap(), [], "{context}");
            // It goes on from there, and a second opening finds what came after, too.
            let lines = Rc::new(RefCell::new(lines));
            let mut driver = Driver::new(store, &infos(), lines.clone(), command, &never);
            driver.squeeze();
            run(&mut driver, 6).await.unwrap_or_else(|wrong| panic!("{context}, later: {wrong}"));
            let survival = survival(&mut Random::new(seed), device.geometry());
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, survival));
            again.set_latency(std::time::Duration::ZERO);
            let (store, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            let mut lines = lines.borrow().clone();
            let verified = verify(&store, &infos(), &mut lines, |_| false).await;
            verified.unwrap_or_else(|wrong| panic!("{context}, and again: {wrong}"));
            assert_eq!(store.check(false).await.unwrap(), [], "{context}, and again");
        });
    }
    (cuts, upkeep)
}

fn cut_all(plans: impl Iterator<Item = Plan>) -> (usize, Upkeep) {
    plans.map(cut).fold((0, Upkeep::default()), |(cuts, sum), (more, one)| {
        let (cleaned, rewritten) = (sum.cleaned + one.cleaned, sum.rewritten + one.rewritten);
        (cuts + more, Upkeep { cleaned, rewritten })
    })
}

fn is_whole() -> bool {
    std::env::var_os("SHINGLE_SEED").is_none()
}

#[test]
fn cut_at_every_command() {
    let (cuts, upkeep) = cut_all(seeds(2).map(|seed| Plan { seed, share: 1.0, rounds: 40 }));
    assert!((cuts > 800 && upkeep.cleaned > 3 && upkeep.rewritten > 0) || !is_whole(), "only {cuts} cuts, {upkeep:?}");
}

#[test]
fn cut_at_some_commands_of_many_histories() {
    let (cuts, upkeep) = cut_all(seeds(20).map(|seed| Plan { seed, share: 0.03, rounds: 150 }));
    assert!(
        (cuts > 500 && upkeep.cleaned > 100 && upkeep.rewritten > 20) || !is_whole(),
        "only {cuts} cuts, {upkeep:?}"
    );
}

/// BLU-LOAD-1: objects leave memory as soon as nobody has them, and are loaded again while others change.
#[test]
fn objects_are_loaded_while_others_change() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let mut geometry = geometry(&mut random);
            // Nothing is in memory, so all that is under way holds its zones.
            geometry.zone_count += 2;
            let device = format(&rt, &geometry).await;
            device.set_latency(std::time::Duration::from_micros(50));
            let options = Options { cache_bytes: 0, ..options() };
            let (store, _) = Store::open(&rt, Rc::new(device), options).await.unwrap();
            for info in infos() {
                store.create_collection(info).await.unwrap();
            }
            let (reader, sleeper, ended) = (store.clone(), rt.clone(), Rc::new(Cell::new(false)));
            let stop = ended.clone();
            rt.spawn_detached(async move {
                while !stop.get() {
                    for info in infos() {
                        for id in reader.list(info.id, None, 100).await.expect("it is listed") {
                            // It may have gone meanwhile.
                            let _ = reader.read(&id, 0, u64::MAX).await;
                        }
                    }
                    sleeper.sleep(std::time::Duration::from_micros(10)).await;
                }
            });
            let lines = Rc::new(RefCell::new(lines()));
            let mut driver = Driver::new(store.clone(), &infos(), lines, seed, &never);
            run(&mut driver, 100).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
            ended.set(true);
            assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
        });
    }
}
