//! BLU-LOG-5: metadata in a log on drives that are full, or have no room for a table.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Crc};
use shingle_blue_store::kv::{Batch, KeyValue, KvErrorKind, LogKv, LogKvOptions};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_zone_files::{CreateOptions, FileKind, Options, ZoneFiles};
use shingle_zoned::{Geometry, ZonedDevice};

use crate::kv::{all, fresh, open_with};

const LOG_BYTES: u64 = 20_000;

fn key(number: u64) -> Bytes {
    format!("key {number:08}").into()
}

/// Writes batches of 100 keys until there is little room. Returns the number of keys.
async fn fill(kv: &LogKv, room: u64) -> u64 {
    let mut count = 0;
    while kv.room() > room {
        let mut batch = Batch::default();
        (count..count + 100).for_each(|number| batch.put(key(number), vec![number as u8; 120]));
        kv.write(batch).await.unwrap_or_else(|error| panic!("after {count}: {error}"));
        count += 100;
    }
    count
}

async fn reopened(rt: &Runtime, device: &SimDevice) -> (SimDevice, LogKv) {
    let again = SimDevice::new(rt, &device.crash_image_with(1, Survival::Prefix));
    again.set_latency(std::time::Duration::ZERO);
    let kv = open_with(rt, &again, LOG_BYTES).await.unwrap_or_else(|error| panic!("an opening: {error}"));
    (again, kv)
}

/// BLU-LOG-5: each removal is a block of the log, and takes little from the table that is written next.
#[test]
fn a_full_store_takes_removals_one_by_one() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (blocks, zones) = (Blocks(random.between(24, 60)), random.between(60, 160) as u32);
            let geometry = match seed % 3 {
                0 => Geometry::zns(blocks, Blocks(blocks.0 - 4), zones, 6, 6),
                1 => Geometry::hm_smr(blocks, zones, 0, 8),
                _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, zones, 0, 8) },
            };
            let device = fresh(&rt, &geometry).await;
            let mut kv = open_with(&rt, &device, LOG_BYTES).await.unwrap();
            let mut device = device;
            let count = fill(&kv, 80_000).await;
            assert!(count > 5_000, "only {count}");
            for gone in 0..3_000.min(count) {
                let mut batch = Batch::default();
                batch.delete(key(gone));
                kv.write(batch).await.unwrap_or_else(|error| panic!("seed {seed}, removal {gone}: {error}"));
                if gone % 500 == 499 {
                    (device, kv) = reopened(&rt, &device).await;
                    assert_eq!(kv.keys() as u64, count - gone - 1, "seed {seed}");
                }
            }
        });
    }
}

/// BLU-LOG-5: values that are written again take nothing from the room of the table.
#[test]
fn a_full_store_takes_the_same_keys_again() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(24), 120, 0, 8)).await;
        let kv = open_with(&rt, &device, LOG_BYTES).await.unwrap();
        let count = fill(&kv, 80_000).await;
        for number in 0..4_000 {
            let mut batch = Batch::default();
            batch.put(key(number % count), vec![number as u8; 120]);
            kv.write(batch).await.unwrap_or_else(|error| panic!("write {number}: {error}"));
        }
        let (_, again) = reopened(&rt, &device).await;
        assert!(all(&again).await == all(&kv).await);
    });
}

/// BLU-KV-1 and BLU-LOG-5 on a full drive, wherever the power is cut.
#[test]
fn cuts_on_a_full_drive_lose_nothing_and_refuse_no_opening() {
    let (mut cuts, mut tables) = (0, 0);
    for seed in seeds(3) {
        let (some, last) = Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let geometry = Geometry::hm_smr(Blocks(24), random.between(40, 60) as u32, 0, 8);
            let geometry = Geometry { volatile_cache: random.chance(0.5), ..geometry };
            let device = fresh(&rt, &geometry).await;
            let files = files(&rt, &device).await;
            let kv = LogKv::open(&rt, files.clone(), &[], LogKvOptions { log_bytes: LOG_BYTES }, false).await.unwrap();
            fill(&kv, 80_000).await;
            let (begun, mut cuts) = (last_log(&files), 0);
            let moments = Rc::new(RefCell::new(Vec::new()));
            let (kept, step) = (moments.clone(), Cell::new(seed));
            device.on_command(move |_, device| {
                step.set(step.get() + 1);
                if step.get().is_multiple_of(19) {
                    let survival = Survival::AnySubset.on(device.geometry());
                    kept.borrow_mut().push(device.crash_image_with(step.get(), survival));
                }
            });
            let mut map = all(&kv).await;
            for number in 1..=900u64 {
                let (key, mut batch) = (key(random.below(3_000)), Batch::default());
                let old = match random.chance(0.6) {
                    true => {
                        batch.delete(key.clone());
                        map.remove(&key)
                    }
                    false => {
                        batch.put(key.clone(), number.to_le_bytes().to_vec());
                        map.insert(key.clone(), number.to_le_bytes().to_vec().into())
                    }
                };
                kv.write(batch).await.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}"));
                for image in moments.take() {
                    let (again, context) = (SimDevice::new(&rt, &image), format!("seed {seed}, write {number}"));
                    again.set_latency(std::time::Duration::ZERO);
                    let opened = open_with(&rt, &again, LOG_BYTES).await;
                    let mut found = all(&opened.unwrap_or_else(|error| panic!("{context}: {error}"))).await;
                    if found != map {
                        // This write is not there yet, and all before it are.
                        assert_eq!(found.get(&key), old.as_ref(), "{context}");
                        match map.get(&key) {
                            Some(value) => drop(found.insert(key.clone(), value.clone())),
                            None => drop(found.remove(&key)),
                        }
                        assert!(found == map, "{context}: other keys");
                    }
                    cuts += 1;
                }
            }
            (cuts, last_log(&files) - begun)
        });
        (cuts, tables) = (cuts + some, tables + last);
    }
    assert!(cuts > 150 && tables > 8 || std::env::var_os("SHINGLE_SEED").is_some(), "{cuts} cuts, {tables} tables");
}

/// BLU-LOG-5: writers that are faster than the table leave it its room.
#[test]
fn writers_give_way_to_a_table_that_needs_the_room() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(24), 120, 0, 8)).await;
        let kv = Rc::new(open_with(&rt, &device, LOG_BYTES).await.unwrap());
        let count = fill(&kv, 80_000).await;
        device.set_latency(std::time::Duration::from_micros(100));
        let writers = (0..8).map(|writer| {
            let kv = kv.clone();
            rt.spawn(async move {
                for round in 0..60 {
                    let mut batch = Batch::default();
                    let from = (writer * 1000 + round * 10) % (count - 200);
                    (from..from + 200).for_each(|number| batch.put(key(number), vec![round as u8; 120]));
                    kv.write(batch).await.unwrap_or_else(|error| panic!("writer {writer}, round {round}: {error}"));
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let (_, again) = reopened(&rt, &device).await;
        assert!(all(&again).await == all(&kv).await);
    });
}

/// A store's drive, most of which a file of another one takes: no table of its keys has room. Returns its keys.
async fn without_room_for_a_table(rt: &Runtime) -> (SimDevice, u64) {
    let device = fresh(rt, &Geometry::hm_smr(Blocks(24), 120, 0, 8)).await;
    let kv = open_with(rt, &device, LOG_BYTES).await.unwrap();
    let count = fill(&kv, 1 << 20).await;
    kv.close().await.unwrap();
    drop(kv);
    let files = files(rt, &device).await;
    let filler = files.create("filler", CreateOptions::default()).await.unwrap();
    while files.free_bytes() > 300_000 {
        filler.append(vec![vec![7; 50_000].into()]).await.unwrap();
        filler.sync().await.unwrap();
    }
    drop(filler);
    files.close().await.unwrap();
    (device, count)
}

/// BLU-LOG-5: a table that finds no room gives back what it took, and the logs go on.
#[test]
fn a_table_that_finds_no_room_leaves_nothing_behind() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(24), 120, 0, 8)).await;
        let files = files(&rt, &device).await;
        let kv = LogKv::open(&rt, files.clone(), &[], LogKvOptions { log_bytes: LOG_BYTES }, false).await.unwrap();
        let count = fill(&kv, 1 << 20).await;
        device.set_latency(std::time::Duration::from_micros(100));
        let filler = files.create("filler", CreateOptions::default()).await.unwrap();
        let ended = Cell::new(false);
        let fills = async {
            while !ended.get() {
                // The files refuse it once they are full, and take it again later.
                let _ = filler.append(vec![vec![7; 200_000].into()]).await;
                let _ = filler.flush().await;
                rt.sleep(std::time::Duration::from_micros(50)).await;
            }
        };
        let compacts = async {
            let refused = kv.compact().await.unwrap_err();
            ended.set(true);
            refused.kind
        };
        let (kind, ()) = futures_util::future::join(compacts, fills).await;
        assert_eq!(kind, KvErrorKind::NoSpace);
        let tables = files.list("kv").unwrap().iter().filter(|entry| entry.name.starts_with("table")).count();
        assert_eq!(tables, 1, "a part of a table is left");
        // The log is written by itself, and finds room yet.
        for number in 0..20 {
            let mut batch = Batch::default();
            batch.put(format!("new {number}"), "value");
            kv.write(batch).await.unwrap_or_else(|error| panic!("batch {number}: {error}"));
        }
        let (_, kv) = reopened(&rt, &device).await;
        assert_eq!(kv.keys() as u64, count + 20);
    });
}

async fn files(rt: &Runtime, device: &SimDevice) -> ZoneFiles {
    let dev: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    ZoneFiles::open(rt, dev, Options::default()).await.unwrap().0
}

/// The number of the last log.
fn last_log(files: &ZoneFiles) -> u64 {
    let entries = files.list("kv").unwrap();
    let numbers = entries.iter().filter_map(|entry| u64::from_str_radix(entry.name.strip_prefix("log-")?, 16).ok());
    numbers.max().unwrap()
}

/// A record that takes the first key away.
fn record(number: u64) -> Vec<u8> {
    let key = key(0);
    let changes = [&[2, key.len() as u8][..], &key].concat();
    let crc = Crc::new().update(&number.to_le_bytes()).update(&changes).value();
    let head = [&(changes.len() as u32).to_le_bytes()[..], &crc.to_le_bytes(), &number.to_le_bytes(), &changes];
    head.concat()
}

async fn goes_on(rt: &Runtime, device: SimDevice, count: u64, context: &str) {
    let mut device = device;
    for life in 0..4u64 {
        let (again, kv) = reopened(rt, &device).await;
        assert_eq!(kv.keys() as u64, count + 3 * life, "{context}, life {life}");
        for number in 0..3 {
            let mut batch = Batch::default();
            batch.put(format!("new {life} {number}"), "value");
            kv.write(batch).await.unwrap_or_else(|error| panic!("{context}, life {life}: {error}"));
        }
        device = again;
    }
    let files = files(rt, &device).await;
    files.remove("filler").await.unwrap();
    files.close().await.unwrap();
    let (again, kv) = reopened(rt, &device).await;
    kv.compact().await.unwrap();
    assert_eq!(kv.keys() as u64, count + 12, "{context}");
    let (_, kv) = reopened(rt, &again).await;
    assert_eq!(kv.keys() as u64, count + 12, "{context}");
}

/// BLU-LOG-5: no opening needs room for a table, whatever the logs are like.
#[test]
fn an_opening_without_room_for_a_table_goes_on_with_the_logs() {
    for (torn, gap) in [(true, false), (false, true), (true, true)] {
        Sim::new(1).run(move |rt| async move {
            let (device, count) = without_room_for_a_table(&rt).await;
            let files = files(&rt, &device).await;
            let (last, next) = (last_log(&files), count / 100);
            if torn {
                let log = files.open_file(&format!("kv/log-{last:016x}")).unwrap();
                log.append(vec![record(next)[..10].to_vec().into()]).await.unwrap();
                log.sync().await.unwrap();
            }
            if gap {
                // Its batch was never acknowledged, as some before it are missing: as many as the next life writes.
                let wal = CreateOptions { kind: FileKind::Wal, ..CreateOptions::default() };
                let log = files.create(&format!("kv/log-{:016x}", last + 1), wal).await.unwrap();
                log.append(vec![record(next + 3).into()]).await.unwrap();
                log.sync().await.unwrap();
            }
            files.close().await.unwrap();
            goes_on(&rt, device, count, &format!("torn {torn}, gap {gap}")).await;
        });
    }
}
