//! ZF-ROOM-1, ZF-ROOM-2: a drive that fills and is emptied again goes on for many times its size, whatever lives where.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, Trigger, contents, seeds};
use shingle_zone_files::{CreateOptions, File, FileKind, FilesErrorKind, WriteLifetime};
use shingle_zoned::Geometry;

use crate::common::{format, geometry, open};

/// Small files of mixed lifetimes until nothing more fits, then some are removed, and so on; all are read at the end.
fn churn(seed: u64) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let device = format(&rt, &geometry).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let capacity = files.stats().capacity_bytes;
        let zone = geometry.zone_capacity.bytes();
        let mut live: Vec<(u64, u64, File)> = Vec::new();
        let (mut number, mut written, mut refused) = (0, 0, 0);
        while written < capacity * 6 {
            number += 1;
            let kinds = [FileKind::Sst, FileKind::Sst, FileKind::Wal, FileKind::Other];
            let lifetimes = [WriteLifetime::Short, WriteLifetime::Medium, WriteLifetime::Long];
            let length = 1 + random.below(zone);
            let options = CreateOptions {
                kind: kinds[random.below(4) as usize],
                lifetime: lifetimes[random.below(3) as usize],
                // Some begin a zone, if one is free.
                expected_bytes: random.below(3) * length,
                ..CreateOptions::default()
            };
            let file = files.create(&format!("f{number}"), options).await.unwrap();
            let appended = file.append(vec![Bytes::from(contents(number, 0, length))]).await;
            let synced = match appended {
                Ok(()) => file.sync().await,
                error => error,
            };
            match synced {
                Ok(()) => {
                    written += length;
                    live.push((number, length, file));
                }
                Err(error) => {
                    assert_eq!(error.kind, FilesErrorKind::NoSpace, "seed {seed}: {error}");
                    let held: u64 = live.iter().map(|(_, length, _)| *length).sum();
                    // Reserves, the ends of a few zones, blocks of which little is used.
                    assert!(held + 10 * zone > capacity / 10 * 9, "seed {seed}: full with {held} of {capacity} bytes");
                    refused += 1;
                    drop(file);
                    files.remove(&format!("f{number}")).await.unwrap();
                    for _ in 0..1 + random.below(6) {
                        let at = random.below(live.len() as u64) as usize;
                        let (gone, _, file) = live.swap_remove(at);
                        drop(file);
                        files.remove(&format!("f{gone}")).await.unwrap();
                    }
                }
            }
        }
        assert!(refused > 5, "seed {seed}: it was never full");
        for (number, length, file) in &live {
            assert!(file.read(0, u64::MAX).await.unwrap() == contents(*number, 0, *length), "seed {seed}: f{number}");
        }
        drop(live);
        let stats = files.stats();
        assert!(stats.counters.freed > 3 * u64::from(stats.zones), "seed {seed}: {stats:?}");
        files.close().await.unwrap();
        let (files, _) = open(&rt, &device).await.unwrap();
        assert_eq!(files.check().await.unwrap(), [], "seed {seed}");
    });
}

/// ZF-ROOM-1, ZF-CLEAN-1.
#[test]
fn a_full_drive_goes_on_once_files_are_removed() {
    seeds(12).for_each(churn);
}

/// One small file a zone lives on, all others are removed: the space comes back by copying.
#[test]
fn scattered_files_do_not_hold_zones() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(64), 40, 6, 6)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let options = CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() };
            let capacity = files.stats().capacity_bytes;
            let mut kept = Vec::new();
            let mut number = 0u64;
            while number * 4096 < capacity * 4 {
                let file = files.create(&format!("f{number}"), options).await.unwrap();
                file.append(vec![Bytes::from(contents(number, 0, 4_000))]).await.unwrap();
                file.sync().await.unwrap_or_else(|error| panic!("seed {seed}, file {number}: {error}"));
                if number.is_multiple_of(40) && kept.len() < 60 {
                    kept.push(number);
                } else {
                    files.remove(&format!("f{number}")).await.unwrap();
                }
                number += 1;
            }
            for number in kept {
                let file = files.open_file(&format!("f{number}")).unwrap();
                assert_eq!(file.read(0, 5_000).await.unwrap(), contents(number, 0, 4_000));
            }
        });
    }
}

/// ZF-READ-2: reads that are under way while zones are emptied and written again return the bytes of their files.
#[test]
fn reads_go_on_while_zones_are_emptied() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(40), 34, 0, 8)).await;
            device.set_latency(std::time::Duration::from_micros(300));
            let (files, _) = open(&rt, &device).await.unwrap();
            let options = CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() };
            let old = files.create("old", options).await.unwrap();
            let mut random = Random::new(seed);
            let (reader, ended) = (std::rc::Rc::new(old), std::rc::Rc::new(std::cell::Cell::new(false)));
            let length = 300_000;
            let (reads, stop, sleeper) = (reader.clone(), ended.clone(), rt.clone());
            let reading = rt.spawn(async move {
                let mut random = Random::new(seed ^ 9);
                let mut count = 0;
                while !stop.get() {
                    // Many commands, the last of which begin when the first have ended.
                    let at = random.below(length / 4);
                    let read = reads.read(at, length).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    assert!(read == contents(5, at, read.len() as u64), "seed {seed}");
                    count += 1;
                    sleeper.sleep(std::time::Duration::from_micros(50)).await;
                }
                count
            });
            for number in 0..600 {
                // Most are short-lived, and some among them are not.
                let name = if number % 5 == 0 { 100 + random.below(30) } else { random.below(4) };
                let file = files.create(&format!("f{name}"), options).await.unwrap();
                let size = 1 + random.below(60_000);
                file.append(vec![Bytes::from(contents(number, 0, size))]).await.unwrap();
                if reader.size() < length {
                    let at = reader.size();
                    reader.append(vec![Bytes::from(contents(5, at, 5_000))]).await.unwrap();
                    reader.sync().await.unwrap();
                }
                file.sync().await.unwrap();
            }
            ended.set(true);
            assert!(reading.await.expect("it ended") > 50);
            assert!(files.stats().counters.cleaned > 3, "seed {seed}: {:?}", files.stats());
        });
    }
}

/// ZF-ROOM-2: the only garbage is in the zone of logs, and that is written when the keeper looks for room.
#[test]
fn garbage_in_a_busy_zone_of_logs_is_won() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let log = CreateOptions { kind: FileKind::Wal, ..CreateOptions::default() };
            let table = CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() };
            let dead = files.create("dead", log).await.unwrap();
            let mut busy = Vec::new();
            for number in 0..3 {
                busy.push(files.create(&format!("busy{number}"), log).await.unwrap());
            }
            dead.append(vec![Bytes::from(contents(1, 0, 150_000))]).await.unwrap();
            dead.sync().await.unwrap();
            for number in 0.. {
                let file = files.create(&format!("f{number}"), table).await.unwrap();
                file.append(vec![Bytes::from(contents(number, 0, 30_000))]).await.unwrap();
                if file.sync().await.is_err() {
                    drop(file);
                    files.remove(&format!("f{number}")).await.unwrap();
                    break;
                }
            }
            // The zone of copies has room for what lives in that of logs.
            for gone in [0, 8, 16, 24] {
                files.remove(&format!("f{gone}")).await.unwrap();
            }
            rt.sleep(std::time::Duration::from_secs(5)).await;
            device.set_latency(std::time::Duration::from_millis(20));
            let writing = rt.spawn(join_all(busy.into_iter().map(async |log: File| {
                for number in 0..7 {
                    log.append(vec![Bytes::from(contents(2, number * 3_000, 3_000))]).await.unwrap();
                    log.sync().await.unwrap();
                }
            })));
            drop(dead);
            files.remove("dead").await.unwrap();
            writing.await.unwrap();
            rt.sleep(std::time::Duration::from_secs(5)).await;
            let late = files.create("late", table).await.unwrap();
            late.append(vec![Bytes::from(contents(3, 0, 30_000))]).await.unwrap();
            late.sync().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            files.close().await.unwrap();
        });
    }
}

/// ZF-ROOM-2: the drive is full, and files are removed while another waits for room: entries that take names away are on their way.
#[test]
fn a_sync_waits_for_room_that_a_removal_makes() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let table = CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() };
        let late = files.create("late", table).await.unwrap();
        for number in 0.. {
            let file = files.create(&format!("f{number}"), table).await.unwrap();
            file.append(vec![Bytes::from(contents(number, 0, 30_000))]).await.unwrap();
            if file.sync().await.is_err() {
                drop(file);
                files.remove(&format!("f{number}")).await.unwrap();
                break;
            }
        }
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]).sparing(files.data_zones().map(ZoneId)));
        let removing = files.clone();
        let remove = move |number: u64| {
            let files = removing.clone();
            async move { files.remove(&format!("f{number}")).await }
        };
        let removed = rt.spawn(join_all((0..20).map(remove)));
        rt.sleep(Duration::from_secs(1)).await;
        late.append(vec![Bytes::from(contents(3, 0, 200_000))]).await.unwrap();
        let waits =
            matches!(select(pin!(late.sync()), pin!(rt.sleep(Duration::from_secs(60)))).await, Either::Right(_));
        assert!(waits, "{:?}", files.stats());
        device.set_faults(Faults::default());
        device.release_hung();
        late.sync().await.unwrap();
        removed.await.unwrap().into_iter().for_each(|removed| removed.unwrap());
        files.close().await.unwrap();
    });
}
