//! ZF-LOG-1, ZF-LANE-1: logs and files of all lifetimes are written while others wait for room, and commands take time.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Random, Sim, SimDevice, Survival, contents, seeds};
use shingle_zone_files::{CreateOptions, File, FileKind, FilesErrorKind, WriteLifetime, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState};

use crate::common::{format, of, open};

/// The log that is written, and as much of it as was acknowledged.
#[derive(Default)]
struct Acknowledged {
    log: Cell<u64>,
    bytes: Cell<u64>,
}

fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// Commits at intervals, with a new log now and then.
async fn commit(rt: &Runtime, files: &ZoneFiles, acknowledged: &Acknowledged, seed: u64) {
    let mut random = Random::new(seed);
    for number in 1..=6 {
        let log = files.create(&log_name(number), of(FileKind::Wal)).await.expect("a log is made");
        acknowledged.log.set(number);
        acknowledged.bytes.set(0);
        for _ in 0..random.between(5, 40) {
            rt.sleep(Duration::from_micros(random.below(3_000))).await;
            let (from, length) = (log.size(), random.between(1, 9_000));
            // The drive may be full until a table is removed.
            while let Err(error) = log.append(vec![Bytes::from(contents(number, from, length))]).await {
                assert_eq!(error.kind, FilesErrorKind::NoSpace, "seed {seed}: {error}");
                rt.sleep(Duration::from_millis(5)).await;
            }
            while let Err(error) = log.sync().await {
                assert_eq!(error.kind, FilesErrorKind::NoSpace, "seed {seed}: {error}");
                rt.sleep(Duration::from_millis(5)).await;
            }
            acknowledged.bytes.set(log.size());
        }
        // Garbage, in the zone that the next log goes to.
        drop(log);
        if number < 6 {
            acknowledged.bytes.set(0);
            files.remove(&log_name(number)).await.expect("a log is removed");
        }
    }
}

/// Fills the drive with tables until `ends`, and removes some of them whenever it is full.
async fn fill(rt: &Runtime, files: &ZoneFiles, ends: &Cell<bool>, seed: u64) {
    let (mut random, mut live, mut number) = (Random::new(seed ^ 77), Vec::new(), 1_000);
    while !ends.get() {
        number += 1;
        let name = format!("{number}.sst");
        let table = files.create(&name, of(FileKind::Sst)).await.expect("a table is made");
        let length = random.between(1, 120_000);
        let written = async {
            table.append(vec![Bytes::from(contents(number, 0, length))]).await?;
            table.sync().await
        };
        match written.await {
            Ok(()) => live.push(name),
            Err(error) => {
                assert_eq!(error.kind, FilesErrorKind::NoSpace, "seed {seed}: {error}");
                drop(table);
                files.remove(&name).await.expect("a table is removed");
                rt.sleep(Duration::from_millis(random.below(20))).await;
                for _ in 0..random.between(1, 4) {
                    let gone = live.swap_remove(random.below(live.len() as u64) as usize);
                    files.remove(&gone).await.expect("a table is removed");
                }
            }
        }
    }
}

/// The log of that moment has all that was acknowledged.
async fn holds(rt: &Runtime, image: &MemoryDevice, (log, acknowledged): (u64, u64), what: &str) {
    let device = SimDevice::new(rt, image);
    device.set_latency(Duration::ZERO);
    let (files, _) = open(rt, &device).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let file = files.open_file(&log_name(log)).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(file.size() >= acknowledged, "{what}: log {log} has {} of {acknowledged} bytes", file.size());
    let found = file.read(0, acknowledged).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found == contents(log, 0, acknowledged), "{what}: other bytes in log {log}");
}

/// ZF-LOG-1, ZF-LANE-2: the keeper ends the zone of logs for its garbage; a log that is written meanwhile loses nothing.
#[test]
fn a_log_keeps_its_commits_while_tables_wait_for_room() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry { volatile_cache: seed % 4 > 0, ..Geometry::hm_smr(Blocks(30), 30, 0, 8) };
            let device = format(&rt, &geometry).await;
            device.set_latency(Duration::from_micros(300 * (1 + seed % 5)));
            let (files, _) = open(&rt, &device).await.unwrap();
            let (acknowledged, ends) = (Rc::new(Acknowledged::default()), Rc::new(Cell::new(false)));
            let images = Rc::new(RefCell::new(Vec::new()));
            let (taken, told, mut random) = (images.clone(), acknowledged.clone(), Random::new(seed ^ 3));
            device.on_command(move |command, device| {
                if told.bytes.get() > 0 && random.chance(0.05) {
                    let image = device.crash_image_with(seed ^ command.number, Survival::Prefix);
                    taken.borrow_mut().push((command.number, image, (told.log.get(), told.bytes.get())));
                }
            });
            let (filling, stop, sleeper) = (files.clone(), ends.clone(), rt.clone());
            let filled = rt.spawn(async move { fill(&sleeper, &filling, &stop, seed).await });
            commit(&rt, &files, &acknowledged, seed).await;
            ends.set(true);
            filled.await.unwrap();
            device.on_command(|_, _| {});
            let last = (acknowledged.log.get(), acknowledged.bytes.get());
            let image = device.crash_image(seed);
            for (number, image, log) in images.take().into_iter().chain([(u64::MAX, image, last)]) {
                holds(&rt, &image, log, &format!("seed {seed}, cut at command {number}")).await;
            }
            files.close().await.unwrap();
        });
    }
}

/// ZF-LANE-1: files of all lifetimes that begin in one step share the zones that may be active, and no command is refused.
#[test]
fn files_of_all_lifetimes_begin_at_once() {
    for seed in seeds(30) {
        Sim::new(seed).run(move |rt| async move {
            let limit = 5 + seed as u32 % 5;
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), 60, limit, limit)).await;
            device.set_latency(Duration::from_micros(200 * (seed / 5 % 3)));
            let (files, _) = open(&rt, &device).await.unwrap();
            device.on_command(move |command, device| {
                let image = device.image();
                let begins = command.zone.is_some_and(|zone| image.zone(zone).state == ZoneState::Empty);
                if command.kind == CommandKind::Write && begins {
                    let zones = (0..60).map(|zone| image.zone(ZoneId(zone)));
                    let active = zones.filter(|zone| zone.state.is_active()).count();
                    assert!(active < limit as usize, "seed {seed}: one zone more than {limit} is active");
                }
            });
            use WriteLifetime::{Extreme, Long, Medium, None, Short};
            let mut made: Vec<File> = Vec::new();
            for (number, lifetime) in [None, Short, Medium, Long, Extreme, None].into_iter().enumerate() {
                let kind = if number == 5 { FileKind::Wal } else { FileKind::Other };
                let options = CreateOptions { kind, lifetime, ..CreateOptions::default() };
                made.push(files.create(&format!("f{number}"), options).await.unwrap());
            }
            for round in 0..20 {
                let writes = made.iter().enumerate().map(|(number, file)| async move {
                    let from = file.size();
                    file.append(vec![Bytes::from(contents(number as u64, from, 20_000))]).await.unwrap();
                    file.sync().await
                });
                let minute = pin!(rt.sleep(Duration::from_secs(60)));
                let Either::Left((synced, _)) = select(pin!(join_all(writes)), minute).await else {
                    panic!("seed {seed}, limit {limit}: round {round} stands still");
                };
                synced.into_iter().for_each(|synced| synced.unwrap());
            }
            assert_eq!(files.stats().zones_broken, 0, "seed {seed}");
            files.close().await.unwrap();
        });
    }
}

/// A log whose zone has room takes bytes and writes them while tables wait for a zone.
#[test]
fn a_log_with_room_is_not_refused_for_a_table_that_has_none() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 30, 0, 8)).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let log = files.create("000001.log", of(FileKind::Wal)).await.unwrap();
        let table = files.create("000002.sst", of(FileKind::Sst)).await.unwrap();
        log.append(vec![Bytes::from(contents(1, 0, 10_000))]).await.unwrap();
        log.sync().await.unwrap();
        let full = loop {
            let written = async {
                table.append(vec![Bytes::from(contents(2, table.size(), 100_000))]).await?;
                table.sync().await
            };
            if let Err(error) = written.await {
                break error;
            }
        };
        assert_eq!(full.kind, FilesErrorKind::NoSpace);
        for _ in 0..10 {
            log.append(vec![Bytes::from(contents(1, log.size(), 5_000))]).await.unwrap();
        }
        log.sync().await.unwrap();
        assert!(log.read(0, u64::MAX).await.unwrap() == contents(1, 0, 60_000));
    });
}
