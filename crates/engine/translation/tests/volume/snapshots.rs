//! Snapshots and sizes: a snapshot stays as the volume was, through writes, cleaning, kills and power cuts at any command.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_record::{Superblock, read_superblock, write_superblock};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::{BlockStore, Durability, StoreErrorKind};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

use crate::common::{geometry, mix, open, survival};

/// A fresh volume of half of its drive, so that snapshots have room.
async fn half(rt: &Runtime, geometry: &Geometry, sector_bytes: u64) -> (SimDevice, Volume) {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(Duration::ZERO);
    let data =
        geometry.zone_capacity.bytes() * u64::from(geometry.zone_count.saturating_sub(geometry.conventional_zones));
    let size_bytes = Some(data / 4);
    let options = FormatOptions { sector_bytes, size_bytes, ..FormatOptions::default() };
    Volume::format(rt, Rc::new(device.clone()), options).await.expect("the drive takes a volume");
    let (volume, _) = open(rt, &device).await.expect("the volume opens");
    (device, volume)
}

async fn bytes_of(store: &dyn BlockStore) -> Bytes {
    store.read(0, store.size_bytes()).await.expect("all of it can be read")
}

/// Snapshots by name, with their bytes.
type Taken = BTreeMap<String, Bytes>;

async fn verify(volume: &Volume, taken: &Taken, context: &str) {
    let names: Vec<_> = volume.snapshots().into_iter().map(|snapshot| snapshot.name).collect();
    for (name, bytes) in taken {
        assert!(names.contains(name), "{context}: {name} is gone");
        let view = volume.at_snapshot(name).expect("it is there");
        assert!(bytes_of(&view).await == *bytes, "{context}: {name} has changed");
    }
}

/// TL-SNAP-2: lives of writes, trims, cleaning, snapshots, removals, sizes, kills and closings.
#[test]
fn snapshots_stay_as_they_were() {
    for seed in seeds(8) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let geometry = geometry(&mut random);
            let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
            let (mut device, mut volume) = half(&rt, &geometry, sector_bytes).await;
            let (mut taken, mut number) = (Taken::new(), 0);
            for life in 0..5 {
                for _ in 0..4 {
                    let shadow = BlockShadow::new(volume.size_bytes() / sector_bytes, sector_bytes).in_order_of_calls();
                    shadow.write_zeros(&volume, 0..shadow.sectors(), Durability::Cached).await.expect("there is room");
                    let (store, mix) = (Rc::new(volume.clone()), mix(&mut random));
                    let drawn = Random::new(random.number());
                    let mut driver = BlockDriver { rt: rt.clone(), store, shadow: shadow.clone(), random: drawn, mix };
                    let full = |error: &shingle_store_api::StoreError| match error.kind {
                        StoreErrorKind::NoSpace => shingle_store_testing::blocks::Verdict::Explained,
                        _ => shingle_store_testing::blocks::Verdict::Wrong,
                    };
                    driver.run(60, full).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
                    shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
                    if taken.len() >= 3 || (!taken.is_empty() && random.chance(0.2)) {
                        let at = random.below(taken.len() as u64) as usize;
                        let name = taken.keys().nth(at).cloned().unwrap_or_default();
                        volume.remove_snapshot(&name).await.expect("it is removed");
                        taken.remove(&name);
                    }
                    if random.chance(0.2) {
                        let size = volume.size_bytes().min(volume.size_max_bytes() / 2);
                        let size = size * random.between(50, 120) / 100 / sector_bytes * sector_bytes;
                        volume.resize(size).await.expect("there is room");
                        assert_eq!(volume.size_bytes(), size);
                    }
                    if random.chance(0.6) {
                        number += 1;
                        let name = format!("s{number}");
                        let before = bytes_of(&volume).await;
                        match volume.take_snapshot(&name).await {
                            Err(error) if error.kind == StoreErrorKind::NoSpace => {}
                            done => {
                                done.expect("it is taken");
                                taken.insert(name, before);
                            }
                        }
                    }
                    verify(&volume, &taken, &format!("seed {seed}, life {life}")).await;
                }
                let size = volume.size_bytes();
                if random.chance(0.5) {
                    volume.close().await.expect("it closes");
                } else {
                    device = SimDevice::resume(&rt, device.kill());
                    device.set_latency(Duration::ZERO);
                }
                volume = open(&rt, &device).await.unwrap_or_else(|error| panic!("seed {seed}: {error}")).0;
                assert_eq!(volume.size_bytes(), size, "seed {seed}");
                verify(&volume, &taken, &format!("seed {seed}, after life {life}")).await;
            }
            let (stats, kept) =
                (volume.stats(), volume.snapshots().iter().map(|snapshot| snapshot.kept_bytes).sum::<u64>());
            assert_eq!(stats.sectors_kept * sector_bytes, kept, "seed {seed}");
            for name in taken.keys() {
                volume.remove_snapshot(name).await.expect("it is removed");
            }
            assert_eq!(volume.stats().sectors_kept, 0, "seed {seed}");
            volume.close().await.expect("it closes");
        });
    }
}

/// A moment: the command, the drive if the power fails there, the snapshots that are sure, and the one that may be there or not.
struct Moment {
    command: u64,
    image: MemoryDevice,
    sure: Taken,
    maybe: Option<String>,
}

/// Writes of a driver, while snapshots are taken and removed.
fn history(seed: u64, share: f64) -> Vec<Moment> {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
        let (device, volume) = half(&rt, &geometry, sector_bytes).await;
        device.set_latency(Duration::from_micros(20));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (sure, maybe) = (Rc::new(RefCell::new(Taken::new())), Rc::new(RefCell::new(None)));
        let (kept, known, unsure) = (moments.clone(), sure.clone(), maybe.clone());
        let drawn = RefCell::new(Random::new(seed ^ 1));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            if random.chance(share) {
                let image = device.crash_image_with(random.number(), survival(&mut random, device.geometry()));
                let (sure, maybe) = (known.borrow().clone(), unsure.borrow().clone());
                kept.borrow_mut().push(Moment { command: command.number, image, sure, maybe });
            }
        });
        let shadow = BlockShadow::new(volume.size_bytes() / sector_bytes, sector_bytes).in_order_of_calls();
        let (store, mix, over) = (Rc::new(volume.clone()), mix(&mut random), Rc::new(Cell::new(false)));
        let drawn = Random::new(random.number());
        let mut driver = BlockDriver { rt: rt.clone(), store, shadow, random: drawn, mix };
        let (other, ended) = (volume.clone(), over.clone());
        let pause = rt.clone();
        let snapshots = rt.spawn(async move {
            let mut number = 0;
            while !ended.get() {
                pause.sleep(Duration::from_micros(random.between(1, 3000))).await;
                let oldest_or_newest = if random.chance(0.5) { 0 } else { sure.borrow().len().saturating_sub(1) };
                let victim = sure.borrow().keys().nth(oldest_or_newest).cloned();
                if let Some(name) = victim.filter(|_| sure.borrow().len() >= 3 || random.chance(0.3)) {
                    sure.borrow_mut().remove(&name);
                    *maybe.borrow_mut() = Some(name.clone());
                    other.remove_snapshot(&name).await.expect("it is removed");
                } else {
                    number += 1;
                    let name = format!("s{number:03}");
                    *maybe.borrow_mut() = Some(name.clone());
                    match other.take_snapshot(&name).await {
                        // Too much waits.
                        Err(error) if error.kind == StoreErrorKind::NoSpace => continue,
                        taken => taken.expect("it is taken"),
                    }
                    let bytes = bytes_of(&other.at_snapshot(&name).expect("it is there")).await;
                    sure.borrow_mut().insert(name, bytes);
                }
                *maybe.borrow_mut() = None;
            }
        });
        let full = |error: &shingle_store_api::StoreError| match error.kind {
            StoreErrorKind::NoSpace => shingle_store_testing::blocks::Verdict::Explained,
            _ => shingle_store_testing::blocks::Verdict::Wrong,
        };
        driver.run(300, full).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        over.set(true);
        snapshots.await.expect("it ends");
        volume.close().await.expect("it closes");
        device.on_command(|_, _| {});
        moments.take()
    })
}

/// Returns the number of snapshots that were compared.
fn cut(seed: u64, share: f64) -> usize {
    let mut compared = 0;
    for Moment { command, image, sure, maybe } in history(seed, share) {
        let context = format!("seed {seed}, cut at command {command}");
        compared += sure.len();
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            device.set_latency(Duration::ZERO);
            let (volume, report) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(report.damaged.is_empty() && report.sectors_lost == 0, "{context}: {report:?}");
            verify(&volume, &sure, &context).await;
            for snapshot in volume.snapshots() {
                let known = sure.contains_key(&snapshot.name) || maybe.as_ref() == Some(&snapshot.name);
                assert!(known, "{context}: {} was removed, or never taken", snapshot.name);
            }
            // All that can be written is written anew, and the power fails once more.
            let bytes = Bytes::from(vec![0xAA; 64 << 10]);
            for at in (0..volume.size_bytes() / bytes.len() as u64).map(|at| at * bytes.len() as u64) {
                match volume.write(at, vec![bytes.clone()], Durability::Cached).await {
                    Err(error) if error.kind == StoreErrorKind::NoSpace => break,
                    written => written.unwrap_or_else(|error| panic!("{context}, later: {error}")),
                }
            }
            verify(&volume, &sure, &format!("{context}, later")).await;
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            let (volume, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            verify(&volume, &sure, &format!("{context}, again")).await;
            volume.close().await.expect("it closes");
        });
    }
    compared
}

/// TL-SNAP-3, TL-SNAP-4, TL-CKPT-3: the snapshot that recovery makes is that which was read when it was taken, with writes under way.
#[test]
fn a_snapshot_survives_a_power_cut_at_any_command() {
    // Writes that waited when a snapshot was taken needed more room than there was, and cleaning went on for ever.
    cut(247, 0.2);
    let compared: usize = seeds(2).map(|seed| cut(seed, 0.2)).sum();
    assert!(compared > 200 || std::env::var_os("SHINGLE_SEED").is_some(), "only {compared} snapshots");
    let compared: usize = seeds(12).map(|seed| cut(seed, 0.02)).sum();
    assert!(compared > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "only {compared} snapshots");
}

/// TL-SNAP-5: snapshots use up the room, writes fail and change nothing, and go on when one is removed.
#[test]
fn writes_end_when_snapshots_have_used_up_the_room() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let (device, volume) = half(&rt, &Geometry::hm_smr(Blocks(60), 40, 0, 8), 4096).await;
            let sectors = volume.size_bytes() / 4096;
            let shadow = BlockShadow::new(sectors, 4096).in_order_of_calls();
            let (mut refused, mut taken) = (0, Taken::new());
            for number in 0..8 {
                for _ in 0..sectors {
                    let lba = random.below(sectors);
                    let data = vec![Bytes::from(vec![random.below(200) as u8 + 1; 4096])];
                    let before = volume.read(lba * 4096, 4096).await.expect("it is read");
                    match volume.write(lba * 4096, data.clone(), Durability::Cached).await {
                        Ok(()) => {}
                        Err(error) => {
                            assert_eq!(error.kind, StoreErrorKind::NoSpace, "seed {seed}: {error}");
                            assert_eq!(volume.read(lba * 4096, 4096).await.expect("it is read"), before, "seed {seed}");
                            refused += 1;
                        }
                    }
                }
                let name = format!("s{number}");
                if let Err(error) = volume.take_snapshot(&name).await {
                    assert_eq!(error.kind, StoreErrorKind::NoSpace, "seed {seed}: {error}");
                    continue;
                }
                taken.insert(name.clone(), bytes_of(&volume.at_snapshot(&name).expect("it is there")).await);
            }
            assert!(refused > 0, "seed {seed}: the room was never used up");
            verify(&volume, &taken, &format!("seed {seed}")).await;
            volume.close().await.expect("a full volume closes");
            let (volume, _) = open(&rt, &device).await.expect("a full volume opens");
            verify(&volume, &taken, &format!("seed {seed}, opened again")).await;
            for name in taken.keys() {
                volume.remove_snapshot(name).await.expect("it is removed");
            }
            shadow.write(&volume, 0..sectors, Durability::Durable).await.expect("there is room again");
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        });
    }
}

/// Names, sizes and calls that are refused, and change nothing.
#[test]
fn senseless_requests_are_refused() {
    Sim::new(1).run(|rt| async move {
        let (device, volume) = half(&rt, &Geometry::hm_smr(Blocks(60), 40, 0, 8), 4096).await;
        for name in ["", "-a", "a b", "a/b", &"a".repeat(65), "ä"] {
            let error = volume.take_snapshot(name).await.expect_err("it is no name");
            assert_eq!(error.kind, StoreErrorKind::Invalid, "{name}");
        }
        volume.take_snapshot("a").await.expect("it is taken");
        assert_eq!(volume.take_snapshot("a").await.expect_err("it is there").kind, StoreErrorKind::Invalid);
        assert_eq!(volume.remove_snapshot("b").await.expect_err("it is not there").kind, StoreErrorKind::Invalid);
        let view = volume.at_snapshot("a").expect("it is there");
        let data = vec![Bytes::from(vec![1; 4096])];
        assert_eq!(
            view.write(0, data, Durability::Cached).await.expect_err("it is fixed").kind,
            StoreErrorKind::Invalid
        );
        assert_eq!(view.trim(0, 4096).await.expect_err("it is fixed").kind, StoreErrorKind::Invalid);
        volume.remove_snapshot("a").await.expect("it is removed");
        assert_eq!(view.read(0, 4096).await.expect_err("it is gone").kind, StoreErrorKind::Unavailable);
        for size in [0, 4095, volume.size_max_bytes() + 4096, u64::MAX] {
            assert_eq!(volume.resize(size).await.expect_err("no such size").kind, StoreErrorKind::Invalid, "{size}");
        }
        volume.resize(volume.size_max_bytes()).await.expect("the drive has room");
        volume.write(volume.size_bytes() - 4096, vec![Bytes::from(vec![7; 4096])], Durability::Durable).await.unwrap();
        let (size, options) = (volume.size_bytes(), Options::default());
        let again = SimDevice::resume(&rt, device.kill());
        let (volume, _) = Volume::open(&rt, Rc::new(again), options).await.expect("it opens");
        assert_eq!(volume.size_bytes(), size);
        assert_eq!(volume.read(size - 4096, 4096).await.unwrap()[..], [7; 4096]);
        volume.resize(4096).await.expect("it shrinks");
        volume.resize(size).await.expect("it grows");
        assert_eq!(volume.read(size - 4096, 4096).await.unwrap()[..], [0; 4096], "what lay behind the end is gone");
    });
}

/// TL-SNAP-5, TL-SIZE-2: snapshots of holes take no room in zones, but for their maps: these fit a checkpoint all the same.
#[test]
fn maps_of_many_snapshots_fit_a_checkpoint() {
    Sim::new(1).run(|rt| async move {
        let (device, volume) = half(&rt, &Geometry::hm_smr(Blocks(60), 40, 0, 8), 4096).await;
        let (sectors, data) = (volume.size_bytes() / 4096, Bytes::from(vec![1; 4096]));
        let mut refused = 0;
        for round in 0..40 {
            if let Err(error) = volume.take_snapshot(&format!("s{round}")).await {
                assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
                refused += 1;
            }
            // Written one by one, and trimmed so or all at once.
            let (step, length) = if round % 4 == 3 { (sectors, sectors) } else { (2, 1) };
            for lba in (0..sectors).step_by(step as usize) {
                let changed = if round % 2 == 0 {
                    volume.write(lba * 4096, vec![data.clone()], Durability::Cached).await
                } else {
                    volume.trim(lba * 4096, length * 4096).await
                };
                if let Err(error) = changed {
                    assert_eq!(error.kind, StoreErrorKind::NoSpace, "{error}");
                    refused += 1;
                }
            }
            volume.checkpoint().await.expect("the maps fit a checkpoint");
        }
        assert!(refused > 0, "the room for maps was never used up");
        volume.close().await.expect("it closes");
        let (volume, _) = open(&rt, &device).await.expect("it opens");
        assert!(volume.snapshots().len() > 5);
    });
}

/// A volume of an earlier build is read as it is, one of a later build is refused.
#[test]
fn volumes_of_version_1_are_read() {
    Sim::new(1).run(|rt| async move {
        let (device, volume) = half(&rt, &Geometry::hm_smr(Blocks(60), 40, 0, 8), 4096).await;
        let (size, data) = (volume.size_bytes(), Bytes::from(vec![7; 4096]));
        volume.write(4096, vec![data.clone()], Durability::Durable).await.expect("it is written");
        let device = SimDevice::resume(&rt, device.kill());
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let superblock = read_superblock(&shared, ZoneId(0)).await.expect("it is there");
        for (version, read) in [(1, true), (3, false), (0, false)] {
            let other = Superblock { version, ..superblock.clone() };
            write_superblock(&shared, ZoneId(0), &other).await.expect("it is written");
            match open(&rt, &device).await {
                Ok((volume, _)) => {
                    assert!(read, "version {version}");
                    assert_eq!(
                        (volume.size_bytes(), volume.read(4096, 4096).await.expect("it is read")),
                        (size, data.clone())
                    );
                    volume.take_snapshot("a").await.expect("it is taken");
                    volume.close().await.expect("it closes");
                }
                Err(error) => assert!(!read && error.kind == StoreErrorKind::Invalid, "version {version}: {error}"),
            }
        }
    });
}
