//! ZF-LIMIT-1 and ZF-LANE-1: with six zones that may be active, files of all lifetimes grow at once, and no command is refused.

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, Trigger, contents, seeds};
use shingle_zone_files::{CreateOptions, FileKind, FilesErrorKind, WriteLifetime, ZoneFiles};
use shingle_zoned::{Geometry, ZoneInfo, ZoneState, ZonedDevice};

use crate::common::{format, of, open};

#[test]
fn all_lifetimes_share_six_active_zones() {
    for seed in seeds(8) {
        Sim::new(seed).run(move |rt| async move {
            let limit = 5 + seed as u32 % 3;
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), 60, limit, limit)).await;
            device.set_latency(std::time::Duration::from_micros(200));
            let (files, _) = open(&rt, &device).await.unwrap();
            use WriteLifetime::{Extreme, Long, Medium, None, Short};
            let mut writers = Vec::new();
            for (number, lifetime) in [None, Short, Medium, Long, Extreme, Short, Long].into_iter().enumerate() {
                let kind = [FileKind::Sst, FileKind::Wal, FileKind::Other][number % 3];
                let options = CreateOptions { kind, lifetime, expected_bytes: 300_000, exclusive: false };
                let (files, device) = (files.clone(), device.clone());
                writers.push(async move {
                    let file = files.create(&format!("f{number}"), options).await.unwrap();
                    for round in 0..60 {
                        let from = file.size();
                        file.append(vec![Bytes::from(contents(number as u64, from, 3_000))]).await.unwrap();
                        if round % 4 == 0 {
                            file.sync().await.unwrap();
                            let zones = device.report(shingle_base::ZoneId(0), u32::MAX).await.unwrap();
                            let active = zones.iter().filter(|zone| zone.state.is_active()).count();
                            assert!(active <= limit as usize, "seed {seed}: {active} active zones");
                        }
                    }
                    file.sync().await.unwrap();
                    assert!(file.read(0, u64::MAX).await.unwrap() == contents(number as u64, 0, 180_000));
                });
            }
            join_all(writers).await;
            let broken = device.report(shingle_base::ZoneId(0), u32::MAX).await.unwrap();
            assert!(broken.iter().all(|zone| zone.state != ZoneState::ReadOnly));
            assert_eq!(files.stats().zones_broken, 0, "seed {seed}: no zone was given up");
            files.close().await.unwrap();
        });
    }
}

/// A file about as large as a zone has zones of its own, so that its removal frees them with nothing to copy.
#[test]
fn a_large_table_has_its_zones_for_itself() {
    Sim::new(3).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 60, 0, 12)).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let size = 64 * 4096 / 10 * 9;
        let options =
            |expected_bytes| CreateOptions { kind: FileKind::Sst, expected_bytes, ..CreateOptions::default() };
        let (large, small) =
            (files.create("l", options(size)).await.unwrap(), files.create("s", options(0)).await.unwrap());
        for at in (0..size).step_by(3_900) {
            large.append(vec![Bytes::from(contents(1, at, 3_900.min(size - at)))]).await.unwrap();
            small.append(vec![Bytes::from(contents(2, at / 4, 1_000))]).await.unwrap();
            large.flush().await.unwrap();
            small.flush().await.unwrap();
        }
        large.sync().await.unwrap();
        let shared = files.dump().into_iter().filter(|zone| zone.files.len() > 1).count();
        assert_eq!(shared, 0, "{:?}", files.dump());
        drop((large, small));
        // Its zone is for others once it is closed.
        let next = files.create("n", options(0)).await.unwrap();
        next.append(vec![Bytes::from(contents(3, 0, 200_000))]).await.unwrap();
        next.sync().await.unwrap();
        files.close().await.unwrap();
    });
}

/// ZF-SPARE-2: where few zones may be active, or none is free, large tables are in two zones, and nothing is refused that has room.
#[test]
fn tables_share_zones_where_few_are_free_or_may_be_open() {
    for limit in [5, 6, 8, 14] {
        Sim::new(u64::from(limit)).run(move |rt| async move {
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(64), 60, limit, limit)).await;
            device.set_latency(std::time::Duration::from_micros(200));
            let (files, _) = open(&rt, &device).await.unwrap();
            let (capacity, zone) = (files.stats().capacity_bytes, 64 * 4096);
            let size = zone / 10 * 9;
            let mut number = 0;
            for _ in 0..4 {
                let mut names = Vec::new();
                loop {
                    number += 1;
                    let name = format!("{number:06}.sst");
                    let options =
                        CreateOptions { kind: FileKind::Sst, expected_bytes: size, ..CreateOptions::default() };
                    let file = files.create(&name, options).await.unwrap();
                    let written = match file.append(vec![Bytes::from(contents(number, 0, size))]).await {
                        Ok(()) => file.sync().await,
                        error => error,
                    };
                    let Err(error) = written else {
                        names.push((name, number));
                        continue;
                    };
                    assert_eq!(error.kind, FilesErrorKind::NoSpace, "limit {limit}: {error}");
                    files.remove(&name).await.unwrap();
                    break;
                }
                let held = names.len() as u64 * size;
                assert!(held + 6 * zone > capacity, "limit {limit}: full with {held} of {capacity} bytes");
                for (name, number) in names {
                    let read = files.open_file(&name).unwrap().read(0, u64::MAX).await.unwrap();
                    assert!(read == contents(number, 0, size), "limit {limit}: {name}");
                    files.remove(&name).await.unwrap();
                }
            }
            assert_eq!(files.stats().zones_broken, 0, "limit {limit}");
            files.close().await.unwrap();
        });
    }
}

/// Writes files of a zone and a half each, at most so many, until the drive is full. Returns how many it took.
async fn fill(files: &ZoneFiles, most: u64) -> u64 {
    for number in 0..most {
        let kind = [FileKind::Sst, FileKind::Wal, FileKind::Other][number as usize % 3];
        let file = files.create(&format!("f{number}"), of(kind)).await.unwrap();
        let written = async {
            file.append(vec![Bytes::from(contents(number, 0, 64 * 4096 * 3 / 2))]).await?;
            file.sync().await
        };
        if let Err(error) = written.await {
            assert_eq!(error.kind, FilesErrorKind::NoSpace, "{error}");
            files.remove(&format!("f{number}")).await.unwrap();
            return number;
        }
    }
    most
}

async fn remove_all(files: &ZoneFiles) {
    for (path, _) in files.walk() {
        files.remove(&path).await.unwrap();
    }
}

/// ZF-ZONE-2: zones of which the drive says nothing when they are left hold what was written, and are used again.
#[test]
fn a_drive_that_tells_nothing_for_a_while_keeps_its_zones() {
    for cache in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let shape = Geometry { volatile_cache: cache, ..Geometry::hm_smr(Blocks(64), 40, 0, 12) };
            let device = format(&rt, &shape).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let room = fill(&files, u64::MAX).await;
            remove_all(&files).await;
            let silent = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::ReadError };
            device.set_faults(Faults::new([silent]));
            assert_eq!(fill(&files, 6).await, 6);
            device.set_faults(Faults::default());
            for number in 0..6 {
                let read = files.open_file(&format!("f{number}")).unwrap().read(0, u64::MAX).await.unwrap();
                assert!(read == contents(number, 0, 64 * 4096 * 3 / 2), "cache {cache}: f{number}");
            }
            remove_all(&files).await;
            assert_eq!(files.stats().zones_broken, 0, "cache {cache}");
            // The last may just not fit.
            let again = fill(&files, u64::MAX).await;
            assert!(again + 1 >= room, "cache {cache}: {again} files, and {room} before");
            files.close().await.unwrap();
        });
    }
}

/// ZF-JOURNAL-2: a drive on which the journal finds no room tells writers the reason, and writes no checkpoints for ever.
#[test]
fn a_journal_without_room_stops_the_files() {
    for seed in seeds(24) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 60, 0, 12)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let (meta, mut random) = (files.data_zones().start, Random::new(seed));
            // Enough for a checkpoint, and some of them for no journal.
            let left = random.between(1, 5) as usize;
            let reports = device.report(ZoneId(0), meta).await.unwrap();
            let blank = |zone: &ZoneInfo| zone.written == Blocks::ZERO;
            let broken: Vec<ZoneId> = reports.iter().filter(|zone| blank(zone)).map(|zone| zone.zone).collect();
            for zone in broken.iter().rev().skip(left) {
                device.medium().set_state(*zone, ZoneState::ReadOnly);
            }
            device.power_off_at(200_000);
            let mut failed = None;
            for number in 0..3000 {
                let written = async {
                    let file = files.create(&format!("f{}", number % 7), Default::default()).await?;
                    file.append(vec![Bytes::from(contents(number, 0, 70_000))]).await?;
                    file.sync().await
                };
                if let Err(error) = written.await {
                    failed = Some(error);
                    break;
                }
            }
            let Some(error) = failed else { return };
            let before = device.counts().commands;
            rt.sleep(std::time::Duration::from_secs(3600)).await;
            let commands = device.counts().commands;
            assert!(commands < before + 100, "seed {seed}: {} commands after {error}", commands - before);
            let refused = files.create("g", Default::default()).await.map(drop).unwrap_err();
            assert_eq!(refused.kind, FilesErrorKind::Unavailable, "seed {seed}: {refused}");
            assert!(refused.message.contains("too few of the zones for metadata"), "seed {seed}: {refused}");
        });
    }
}
