//! ZF-REC-1: wherever the power fails, names and bytes are those that were durable, or those after the change that was under way.
//!
//! A cut in a checkpoint tests ZF-JOURNAL-1, one while zones are emptied ZF-RESET-1 and ZF-CLEAN-1, one in a sync ZF-SYNC-1 and ZF-SYNC-2.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_base::Blocks;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_zone_files::FileKind;
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

use crate::common::{bytes, format, geometry, of, open, survival, tight_geometry};
use crate::driver::{Broken, Driver, Verdict};
use crate::world::Worlds;

/// A moment of a history: the command, the drive if the power fails there, and what its files have to be.
type Moment = (u64, MemoryDevice, Worlds);

/// A history.
#[derive(Clone, Copy)]
struct Plan {
    seed: u64,
    /// The power fails at a command with this probability.
    share: f64,
    steps: u64,
    /// The drive is so small that zones are cleaned all the time.
    tight: bool,
}

/// Moments of a history, and the number of zones that were cleaned in it.
fn history(plan: Plan) -> (Vec<Moment>, u64) {
    let Plan { seed, share, steps, tight } = plan;
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = if tight { tight_geometry(&mut random) } else { geometry(&mut random) };
        let device = format(&rt, &geometry).await;
        let worlds = Rc::new(RefCell::new(Worlds::default()));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen, drawn) = (moments.clone(), worlds.clone(), RefCell::new(Random::new(seed ^ 1)));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            if random.chance(share) {
                let image = device.crash_image_with(random.number(), survival(&mut random, device.geometry()));
                kept.borrow_mut().push((command.number, image, seen.borrow().clone()));
            }
        });
        let (files, _) = open(&rt, &device).await.unwrap();
        let mut driver = Driver::new(files.clone(), worlds, random, &never);
        if tight {
            driver.bytes_max = files.stats().capacity_bytes as usize / 2;
        }
        run(&mut driver, steps).await.unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let cleaned = files.stats().counters.cleaned;
        files.close().await.unwrap();
        device.on_command(|_, _| {});
        (moments.take(), cleaned)
    })
}

/// No error is expected but that of a drive that is full.
fn never(error: &shingle_zone_files::FilesError) -> Verdict {
    if error.kind == shingle_zone_files::FilesErrorKind::NoSpace { Verdict::Explained } else { Verdict::Wrong }
}

async fn run(driver: &mut Driver<'_>, steps: u64) -> Result<(), String> {
    match driver.run(steps).await {
        Ok(()) => Ok(()),
        Err(Broken::Over) => Err("the files stopped".to_owned()),
        Err(Broken::Wrong(wrong)) => Err(wrong),
    }
}

/// Returns the number of cuts, and that of zones that were cleaned.
fn cut(plan: Plan) -> (usize, u64) {
    let Plan { seed, tight, .. } = plan;
    let (history, cleaned) = history(plan);
    let cuts = history.len();
    for (command, image, mut worlds) in history {
        let context = format!("seed {seed}, cut at command {command}");
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            device.set_latency(std::time::Duration::ZERO);
            let (files, report) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            let clean = report.damaged.is_empty() && report.lost.is_empty() && report.unknown.is_empty();
            assert!(clean, "{context}: {report:?}");
            worlds.verify(&files, |_| false).await.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
            // They go on from there, and a second opening finds what came after, too.
            let worlds = Rc::new(RefCell::new(worlds));
            let random = Random::new(command);
            let mut driver = Driver::new(files.clone(), worlds.clone(), random, &never);
            if tight {
                driver.bytes_max = files.stats().capacity_bytes as usize / 2;
            }
            run(&mut driver, 25).await.unwrap_or_else(|wrong| panic!("{context}, later: {wrong}"));
            let survival = survival(&mut Random::new(seed), device.geometry());
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, survival));
            let mut worlds = worlds.borrow().clone();
            let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            worlds.verify(&files, |_| false).await.unwrap_or_else(|wrong| panic!("{context}, and again: {wrong}"));
        });
    }
    (cuts, cleaned)
}

/// Cuts of several histories. Returns their number, and that of zones that were cleaned.
fn cut_all(plans: impl Iterator<Item = Plan>) -> (usize, u64) {
    plans.map(cut).fold((0, 0), |(cuts, cleaned), (more, zones)| (cuts + more, cleaned + zones))
}

fn is_whole() -> bool {
    std::env::var_os("SHINGLE_SEED").is_none()
}

/// ZF-REC-1, ZF-JOURNAL-1, ZF-RESET-1, ZF-CLEAN-1, ZF-SYNC-1, ZF-SYNC-2, ZF-LOG-1.
#[test]
fn cut_at_every_command() {
    let (cuts, _) = cut_all(seeds(3).map(|seed| Plan { seed, share: 1.0, steps: 250, tight: false }));
    assert!(cuts > 1000 || !is_whole(), "only {cuts} cuts");
}

/// ZF-CLEAN-1, ZF-RESET-1, ZF-JOURNAL-1: zones are emptied and written again all the time.
#[test]
fn cut_at_every_command_of_a_tight_drive() {
    let (cuts, cleaned) = cut_all(seeds(3).map(|seed| Plan { seed, share: 1.0, steps: 1000, tight: true }));
    assert!((cuts > 2000 && cleaned > 10) || !is_whole(), "only {cuts} cuts, {cleaned} zones were cleaned");
}

/// In 26 the cleaner told the journal of bytes in the middle of their sync, which then found nothing to tell and waited for no entry.
#[test]
fn cuts_that_once_failed() {
    cut(Plan { seed: 26, share: 1.0, steps: 1000, tight: true });
}

#[test]
fn cut_at_some_commands_of_many_histories() {
    let (cuts, _) = cut_all(seeds(30).map(|seed| Plan { seed, share: 0.04, steps: 400, tight: false }));
    assert!(cuts > 500 || !is_whole(), "only {cuts} cuts");
    let (cuts, cleaned) = cut_all(seeds(30).map(|seed| Plan { seed, share: 0.04, steps: 800, tight: true }));
    assert!((cuts > 1000 && cleaned > 200) || !is_whole(), "only {cuts} cuts, {cleaned} zones were cleaned");
}

/// Cuts at every command of an opening after a cut.
#[test]
fn a_cut_inside_an_opening_changes_nothing() {
    let mut cuts = 0;
    for seed in seeds(12) {
        for (command, image, worlds) in history(Plan { seed, share: 0.01, steps: 200, tight: false }).0 {
            cuts += Sim::new(seed ^ command).run(move |rt| async move {
                let device = SimDevice::new(&rt, &image);
                device.set_latency(std::time::Duration::ZERO);
                let drawn = survival(&mut Random::new(command), device.geometry());
                let cuts = device.cut_at_every_command(seed, drawn);
                open(&rt, &device).await.unwrap_or_else(|error| panic!("seed {seed}, command {command}: {error}"));
                device.on_command(|_, _| {});
                let images = cuts.take();
                let count = images.len();
                for (inside, image) in images {
                    let context = format!("seed {seed}, command {command}, cut at {inside:?} of the opening");
                    let again = SimDevice::new(&rt, &image);
                    let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                    let verified = worlds.clone().verify(&files, |_| false).await;
                    verified.unwrap_or_else(|wrong| panic!("{context}: {wrong}"));
                }
                count
            });
        }
    }
    assert!(cuts > 300 || !is_whole(), "only {cuts} cuts");
}

/// ZF-REC-4: a process is killed before it flushed, the next one reads what it wrote, and then the power fails.
#[test]
fn what_an_opening_found_survives_a_power_cut() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), 40, 6, 6)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let file = files.create("log", of(FileKind::Wal)).await.unwrap();
            for _ in 0..8 {
                file.append(bytes("a record of the log")).await.unwrap();
                file.flush().await.unwrap();
            }
            let next = SimDevice::resume(&rt, device.kill());
            let (files, report) = open(&rt, &next).await.unwrap();
            assert_eq!(report.records, 8);
            let found = files.open_file("log").unwrap().read(0, 1000).await.unwrap();
            let last = SimDevice::new(&rt, &next.crash_image_with(seed, Survival::AnySubset));
            let (files, report) = open(&rt, &last).await.unwrap();
            assert!(report.torn.is_empty() && report.damaged.is_empty(), "seed {seed}: {report:?}");
            assert_eq!(files.open_file("log").unwrap().read(0, 1000).await.unwrap(), found, "seed {seed}");
        });
    }
}

/// ZF-SYNC-2: the end of a log that a power cut tore is found, and the log goes on behind it for ever.
#[test]
fn a_log_goes_on_through_many_power_cuts() {
    for seed in seeds(20) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let geometry = geometry(&mut random);
            let mut device = format(&rt, &geometry).await;
            let mut kept = 0;
            for life in 0..30 {
                let (files, report) = open(&rt, &device).await.unwrap();
                assert!(report.damaged.is_empty() && report.lost.is_empty(), "seed {seed}, life {life}: {report:?}");
                let file = match files.open_file("log") {
                    Ok(file) => file,
                    Err(_) => files.create("log", of(FileKind::Wal)).await.unwrap(),
                };
                assert!(file.size() >= kept, "seed {seed}, life {life}: {} bytes of {kept}", file.size());
                kept = file.size();
                let read = file.read(0, kept).await.unwrap();
                assert!(read.iter().enumerate().all(|(at, byte)| *byte == (at / 7) as u8), "seed {seed}, life {life}");
                for append in 0..random.below(10) {
                    let length = random.between(1, 9_000);
                    let data = (kept..kept + length).map(|at| (at / 7) as u8).collect::<Vec<u8>>();
                    file.append(vec![data.into()]).await.unwrap();
                    kept += length;
                    if append % 3 < 2 {
                        file.sync().await.unwrap();
                    } else {
                        let cut = survival(&mut random, device.geometry());
                        let _ = file.flush().await;
                        device = SimDevice::new(&rt, &device.crash_image_with(random.number(), cut));
                        kept -= length;
                        break;
                    }
                }
                if random.chance(0.5) {
                    let cut = survival(&mut random, device.geometry());
                    device = SimDevice::new(&rt, &device.crash_image_with(random.number(), cut));
                } else {
                    device = SimDevice::resume(&rt, device.kill());
                }
            }
        });
    }
}
