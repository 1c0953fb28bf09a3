//! BLU-KV-1, BLU-LOG-1, BLU-LOG-2, BLU-LOG-3: random batches against a map, with the power cut at every command.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_store::kv::{Batch, Change, KeyValue, KvErrorKind, LogKv, LogKvOptions, MergeOperator, Order, merged};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_zone_files::{FormatOptions, Options, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

/// Sums of bytes, so that the order of operands does not matter, and their number does.
fn sum(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let of = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (of(value.unwrap_or_default()) + of(operand)).to_le_bytes().to_vec()
}

const OPERATORS: &[MergeOperator] = &[MergeOperator { prefix: b"+", merge: sum }];

pub(crate) type Map = BTreeMap<Bytes, Bytes>;

fn apply(map: &mut Map, batch: &Batch) {
    for change in &batch.changes {
        match change {
            Change::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
            Change::Delete(key) => drop(map.remove(key)),
            Change::DeleteRange(from, to) => map.retain(|key, _| !(from <= key && key < to)),
            Change::Merge(key, operand) => {
                let value = merged(OPERATORS, key, map.get(key).map(AsRef::as_ref), operand);
                map.insert(key.clone(), value.into());
            }
        }
    }
}

fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::default();
    let key = |random: &mut Random| Bytes::from(format!("k{:02}", random.below(40)));
    for _ in 0..1 + random.below(6) {
        match random.below(10) {
            0..=4 => {
                let length = if random.chance(0.1) { 9_000 } else { 60 };
                let length = random.below(length) as usize;
                batch.put(key(random), random.bytes(length));
            }
            5..=6 => batch.delete(key(random)),
            7 => batch.delete_range(key(random), key(random)),
            _ => batch.merge(format!("+{}", random.below(3)), random.below(100).to_le_bytes().to_vec()),
        }
    }
    batch
}

pub(crate) async fn open_with(rt: &Runtime, device: &SimDevice, log_bytes: u64) -> Result<LogKv, String> {
    let dev: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    let (files, _) = ZoneFiles::open(rt, dev, Options::default()).await.map_err(|error| error.to_string())?;
    let log = LogKv::open(rt, files, OPERATORS, LogKvOptions { log_bytes }, false).await;
    log.map_err(|error| error.to_string())
}

async fn open(rt: &Runtime, device: &SimDevice) -> Result<LogKv, String> {
    open_with(rt, device, 20_000).await
}

pub(crate) async fn fresh(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(std::time::Duration::ZERO);
    ZoneFiles::format(rt, Rc::new(device.clone()), FormatOptions::default()).await.expect("the drive takes files");
    device
}

pub(crate) async fn all(kv: &LogKv) -> Map {
    let range = Bytes::from_static(b"\0")..Bytes::from_static(b"\xff");
    let pairs = kv.scan(range, Order::Forward, usize::MAX).await.unwrap();
    pairs.into_iter().collect()
}

/// The states after each batch, and how many of them were acknowledged.
#[derive(Clone, Default)]
struct History {
    states: Vec<Map>,
    acknowledged: usize,
}

/// Runs batches, several of which are under way at once.
async fn run(rt: &Runtime, kv: &LogKv, history: &Rc<RefCell<History>>, random: &mut Random, batches: usize) {
    let mut left = batches;
    while left > 0 {
        let together = (1 + random.below(4) as usize).min(left);
        left -= together;
        let mut writes = Vec::new();
        for _ in 0..together {
            let batch = batch(random);
            let mut history = history.borrow_mut();
            let mut next = history.states.last().cloned().unwrap_or_default();
            apply(&mut next, &batch);
            history.states.push(next);
            let number = history.states.len();
            drop(history);
            writes.push((number, kv.write(batch)));
        }
        for (number, write) in writes {
            write.await.expect("nothing fails");
            let mut history = history.borrow_mut();
            history.acknowledged = history.acknowledged.max(number);
        }
        if random.chance(0.2) {
            rt.yield_now().await;
        }
        let expected = history.borrow().states.last().cloned().unwrap_or_default();
        assert_eq!(all(kv).await, expected);
    }
}

fn geometry(random: &mut Random) -> Geometry {
    let blocks = Blocks(random.between(24, 60));
    match random.below(3) {
        0 => Geometry::hm_smr(blocks, 30, 0, 8),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - 4), 30, 6, 6),
        _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, 30, 0, 8) },
    }
}

#[test]
fn keys_are_scanned_in_both_orders() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(64), 30, 0, 8)).await;
        let kv = open(&rt, &device).await.unwrap();
        let mut batch = Batch::default();
        for key in ["a", "b", "c", "d"] {
            batch.put(key, key);
        }
        kv.write(batch).await.unwrap();
        let names = async |from: &'static str, to: &'static str, order, limit| {
            let pairs = kv.scan(from.into()..to.into(), order, limit).await.unwrap();
            pairs.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect::<String>()
        };
        assert_eq!(names("b", "d", Order::Forward, 9).await, "bc");
        assert_eq!(names("a", "z", Order::Backward, 3).await, "dcb");
        assert_eq!(names("a", "z", Order::Forward, 2).await, "ab");
        assert_eq!(names("z", "a", Order::Forward, 2).await, "");
        assert_eq!(kv.get(b"b").await.unwrap().as_deref(), Some(&b"b"[..]));
        kv.close().await.unwrap();
        assert_eq!(kv.get(b"b").await.unwrap_err().kind, KvErrorKind::Unavailable);
    });
}

/// BLU-KV-1, BLU-LOG-1, BLU-LOG-2.
#[test]
fn cut_at_every_command() {
    let mut cuts = 0;
    for seed in seeds(8) {
        cuts += Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let geometry = geometry(&mut random);
            let device = fresh(&rt, &geometry).await;
            let history = Rc::new(RefCell::new(History::default()));
            let moments = Rc::new(RefCell::new(Vec::new()));
            let (kept, seen, drawn) = (moments.clone(), history.clone(), RefCell::new(Random::new(seed ^ 1)));
            device.on_command(move |_, device| {
                let mut random = drawn.borrow_mut();
                let survival = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
                let survival = survival.on(device.geometry());
                kept.borrow_mut().push((device.crash_image_with(random.number(), survival), seen.borrow().clone()));
            });
            let kv = open(&rt, &device).await.unwrap();
            run(&rt, &kv, &history, &mut random, 120).await;
            kv.close().await.unwrap();
            device.on_command(|_, _| {});
            let moments = moments.take();
            let count = moments.len();
            for (number, (image, mut before)) in moments.into_iter().enumerate() {
                let context = format!("seed {seed}, cut {number}");
                let again = SimDevice::new(&rt, &image);
                again.set_latency(std::time::Duration::ZERO);
                let kv = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let found = all(&kv).await;
                let from = before.acknowledged.saturating_sub(1);
                let expected = before.states.iter().skip(from).position(|state| *state == found);
                assert!(expected.is_some() || before.acknowledged == 0 && found.is_empty(), "{context}: other keys");
                before.states.truncate(expected.map_or(0, |at| from + at + 1));
                before.acknowledged = before.states.len();
                // It goes on from there, and a second opening finds that, too.
                let history = Rc::new(RefCell::new(before));
                run(&rt, &kv, &history, &mut Random::new(seed ^ number as u64), 10).await;
                let image = again.crash_image_with(seed, Survival::Prefix.on(again.geometry()));
                let kv =
                    open(&rt, &SimDevice::new(&rt, &image)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(Some(&all(&kv).await), history.borrow().states.last(), "{context}, again");
            }
            count
        });
    }
    assert!(cuts > 1000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// BLU-LOG-1: a batch that is in the log before last is acknowledged when that is synced, too.
#[test]
fn writers_that_do_not_wait_for_each_other_lose_nothing_while_logs_change() {
    const WRITERS: usize = 6;
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(40), 30, 0, 8)).await;
        device.set_latency(std::time::Duration::from_micros(100));
        let kv = Rc::new(open(&rt, &device).await.unwrap());
        let acknowledged = Rc::new(RefCell::new([0u64; WRITERS]));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen) = (moments.clone(), acknowledged.clone());
        device.on_command(move |_, device| {
            kept.borrow_mut().push((device.crash_image_with(1, Survival::Prefix), *seen.borrow()));
        });
        let writers = (0..WRITERS).map(|writer| {
            let (rt, kv, acknowledged) = (rt.clone(), kv.clone(), acknowledged.clone());
            rt.clone().spawn(async move {
                let mut random = Random::new(writer as u64);
                for number in 1..60u64 {
                    let mut batch = Batch::default();
                    batch.put(format!("w{writer}"), number.to_le_bytes().to_vec());
                    batch.put(format!("long {writer}"), random.bytes(500));
                    kv.write(batch).await.unwrap();
                    acknowledged.borrow_mut()[writer] = number;
                    rt.sleep(std::time::Duration::from_micros(random.below(150))).await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await.unwrap();
        }
        device.on_command(|_, _| {});
        let moments = moments.take();
        assert!(moments.len() > 100, "only {} cuts", moments.len());
        for (cut, (image, acknowledged)) in moments.into_iter().enumerate() {
            let again = SimDevice::new(&rt, &image);
            again.set_latency(std::time::Duration::ZERO);
            let kv = open(&rt, &again).await.unwrap_or_else(|error| panic!("cut {cut}: {error}"));
            for (writer, least) in acknowledged.into_iter().enumerate() {
                let value = kv.get(format!("w{writer}").as_bytes()).await.unwrap();
                let found = value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()));
                assert!(found >= least, "cut {cut}, writer {writer}: {found}, acknowledged {least}");
            }
        }
    });
}

/// BLU-LOG-3.
#[test]
fn damage_refuses_an_opening_and_shows_no_wrong_value() {
    let (mut refused, mut opened) = (0, 0);
    for seed in seeds(60) {
        let well = Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let device = fresh(&rt, &Geometry::hm_smr(Blocks(40), 30, 0, 8)).await;
            let kv = open_with(&rt, &device, 8_000).await.unwrap();
            let history = Rc::new(RefCell::new(History::default()));
            run(&rt, &kv, &history, &mut random, 60).await;
            let medium = device.kill();
            for _ in 0..4 + random.below(12) {
                let zone = shingle_base::ZoneId(random.below(30) as u32);
                let written = medium.image().zone(zone).written;
                if written > Blocks::ZERO {
                    let at = device.geometry().start_of(zone) + Blocks(random.below(written.0));
                    medium.rot(at, random.number());
                }
            }
            let again = SimDevice::resume(&rt, medium);
            match open(&rt, &again).await {
                Ok(kv) => {
                    let found = all(&kv).await;
                    assert!(history.borrow().states.contains(&found), "seed {seed}: other keys");
                    true
                }
                Err(_) => false,
            }
        });
        if well { opened += 1 } else { refused += 1 }
    }
    assert!(
        opened > 5 && refused > 5 || std::env::var_os("SHINGLE_SEED").is_some(),
        "{opened} opened, {refused} refused"
    );
}

#[test]
fn a_full_drive_refuses_batches_before_they_are_lost() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(24), 26, 0, 8)).await;
        let kv = open(&rt, &device).await.unwrap();
        let mut written = 0;
        while kv.room() > 40_000 {
            let mut batch = Batch::default();
            batch.put(format!("key {written:05}"), vec![written as u8; 9_000]);
            kv.write(batch).await.unwrap_or_else(|error| panic!("after {written}: {error}"));
            written += 1;
        }
        assert!(written > 10, "only {written}");
        for number in (0..written).step_by(2) {
            let mut batch = Batch::default();
            batch.delete(format!("key {number:05}"));
            kv.write(batch).await.unwrap();
        }
        kv.compact().await.unwrap();
        assert!(kv.room() > 40_000);
        let again = SimDevice::new(&rt, &device.crash_image_with(1, Survival::Prefix));
        let kv = open(&rt, &again).await.unwrap();
        assert_eq!(kv.keys(), written / 2);
    });
}
