//! ZF-CLEAN-3 and ZF-CLEAN-4: zones are emptied around what cannot be read, and again when it can be read.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{
    CommandKind, Fault, FaultRule, Faults, Medium, Random, Sim, SimDevice, Survival, Trigger, contents, seeds,
};
use shingle_zone_files::{FileKind, FilesErrorKind, ZoneDump, ZoneFiles};
use shingle_zoned::{Geometry, ZoneState, ZonedDevice};

use crate::common::{format, of, open};

/// Bytes of a file of the tests, and of an append to it.
const SIZE: u64 = 150_000;
const APPEND: u64 = 10_000;

/// Blocks of a record of the tests' drives at most: 8 of 64.
const RECORD: u64 = 8 * 4096;

/// A drive with two files in one zone, of kind `kind`; the files are closed. The zone is not written to any more.
async fn drive(rt: &Runtime, kind: FileKind) -> (Medium, Geometry, ZoneId) {
    let device = format(rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
    let (files, _) = open(rt, &device).await.unwrap();
    let (mut zone, mut number) = (None, 0);
    let is_open = |zone| files.dump().iter().any(|dump| Some(dump.zone) == zone && dump.open);
    while zone.is_none() || is_open(zone) {
        let file = files.create(&format!("f{number}"), of(kind)).await.unwrap();
        for at in (0..SIZE).step_by(APPEND as usize) {
            file.append(vec![Bytes::from(contents(number, at, APPEND))]).await.unwrap();
            file.sync().await.unwrap();
        }
        zone = zone.or_else(|| files.dump().iter().find(|dump| !dump.files.is_empty()).map(|dump| dump.zone));
        number += 1;
    }
    files.close().await.unwrap();
    (device.kill(), device.geometry().clone(), zone.unwrap())
}

/// Bytes of all files that cannot be read, 4 KiB and less at a time; the others are right.
async fn unreadable(files: &ZoneFiles) -> Vec<(String, Range<u64>)> {
    let mut bad = Vec::new();
    for (path, info) in files.walk() {
        let (file, number) = (files.open_file(&path).unwrap(), path[1..].parse().unwrap());
        assert_eq!(info.size, SIZE);
        for at in (0..SIZE).step_by(4096) {
            let end = SIZE.min(at + 4096);
            match file.read(at, end - at).await {
                Ok(read) => assert!(read == contents(number, at, end - at), "{path} at {at}"),
                Err(_) => bad.push((path.clone(), at..end)),
            }
        }
    }
    bad
}

fn live_in(files: &ZoneFiles, zone: ZoneId) -> u64 {
    files.dump().into_iter().find(|dump| dump.zone == zone).map_or(0, |dump| dump.live_bytes)
}

const KINDS: [FileKind; 3] = [FileKind::Wal, FileKind::Sst, FileKind::Other];

/// ZF-CLEAN-3: of a zone that turns read-only, with some blocks that cannot be read, and goes offline later, only the records of those blocks
/// are lost; if the blocks come back before, nothing is.
#[test]
fn a_zone_that_fails_costs_only_what_cannot_be_read() {
    for seed in seeds(12) {
        for kind in KINDS {
            Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, {kind:?}");
                let (medium, geometry, zone) = drive(&rt, kind).await;
                let mut random = Random::new(seed);
                let count = 1 + random.below(3);
                for _ in 0..count {
                    let at = geometry.start_of(zone) + Blocks(random.below(60));
                    if seed % 3 == 0 { medium.rot(at, seed) } else { medium.fail_reads(at, Blocks(1), None) }
                }
                medium.set_state(zone, ZoneState::ReadOnly);
                let device = SimDevice::resume(&rt, medium);
                let (files, _) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                let bad = unreadable(&files).await;
                rt.sleep(Duration::from_secs(60)).await;
                let live = live_in(&files, zone);
                assert!(live <= count * RECORD, "{context}: {live} bytes stay");
                assert_eq!(unreadable(&files).await, bad, "{context}: copies");
                if seed % 3 == 1 {
                    device.medium().heal();
                    assert_eq!(unreadable(&files).await, [], "{context}: what stays in its place can be read there");
                    rt.sleep(Duration::from_secs(1200)).await;
                    assert_eq!(live_in(&files, zone), 0, "{context}");
                }
                device.medium().set_state(zone, ZoneState::Offline);
                let lost = unreadable(&files).await;
                let bytes: u64 = lost.iter().map(|(_, range)| range.end - range.start).sum();
                assert!(bytes <= count * 2 * RECORD, "{context}: {bytes} bytes are lost with the zone: {lost:?}");
                assert!(seed % 3 != 1 || lost.is_empty(), "{context}: {lost:?}");
                files.close().await.unwrap();
                let (files, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
                assert_eq!(unreadable(&files).await, lost, "{context}: later");
            });
        }
    }
}

/// ZF-CLEAN-3, ZF-CLEAN-1: the power fails at every command while a zone is emptied around blocks that cannot be read.
#[test]
fn a_cut_while_a_zone_is_emptied_around_holes_loses_nothing() {
    let mut cuts = 0;
    for seed in seeds(3) {
        for kind in KINDS {
            cuts += Sim::new(seed).run(move |rt| async move {
                let (medium, geometry, zone) = drive(&rt, kind).await;
                let mut random = Random::new(seed);
                for _ in 0..2 {
                    medium.fail_reads(geometry.start_of(zone) + Blocks(random.below(60)), Blocks(1), None);
                }
                medium.set_state(zone, ZoneState::ReadOnly);
                let device = SimDevice::resume(&rt, medium);
                let cuts = device.cut_at_every_command(seed, Survival::Prefix);
                let (files, _) = open(&rt, &device).await.unwrap();
                rt.sleep(Duration::from_secs(60)).await;
                let bad = unreadable(&files).await;
                assert!(!bad.is_empty() && live_in(&files, zone) <= 2 * RECORD);
                let images = cuts.take();
                let count = images.len();
                for (command, image) in images {
                    let context = format!("seed {seed}, {kind:?}, cut at {command:?}");
                    let again = SimDevice::new(&rt, &image);
                    let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert_eq!(unreadable(&files).await, bad, "{context}");
                    again.medium().heal();
                    assert_eq!(unreadable(&files).await, [], "{context}, healed");
                }
                count
            });
        }
    }
    assert!(cuts > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// ZF-CLEAN-4: a drive that is full, with garbage that cannot be won because of blocks that cannot be read, has room as soon as they can be read.
#[test]
fn a_block_that_is_readable_again_lets_its_zone_go() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let mut number = 0;
            loop {
                let file = files.create(&format!("f{number}"), of(FileKind::Sst)).await.unwrap();
                file.append(vec![Bytes::from(contents(number, 0, 100_000))]).await.unwrap();
                if file.sync().await.is_err() {
                    break;
                }
                number += 1;
            }
            files.remove(&format!("f{number}")).await.unwrap();
            let geometry = device.geometry().clone();
            for zone in files.data_zones().map(ZoneId) {
                // Of each file there is one block at least, whichever zone it begins in.
                (0..64).step_by(8).for_each(|block| {
                    device.medium().fail_reads(geometry.start_of(zone) + Blocks(block), Blocks(1), None);
                });
            }
            for gone in (0..number).filter(|gone| gone % 3 > 0) {
                files.remove(&format!("f{gone}")).await.unwrap();
            }
            let file = files.create("new", of(FileKind::Sst)).await.unwrap();
            let mut refused = None;
            while refused.is_none() && file.size() < 1 << 20 {
                file.append(vec![Bytes::from(contents(7, file.size(), 50_000))]).await.unwrap();
                refused = file.sync().await.err();
                rt.sleep(Duration::from_secs(1)).await;
            }
            let error = refused.unwrap_or_else(|| panic!("seed {seed}: {:?}", files.stats()));
            assert_eq!(error.kind, FilesErrorKind::NoSpace, "seed {seed}");
            let before = device.counts().commands;
            rt.sleep(Duration::from_secs(60)).await;
            let tries = device.counts().commands - before;
            assert_eq!(file.sync().await.map_err(|error| error.kind), Err(FilesErrorKind::NoSpace), "seed {seed}");
            assert!(tries < 20_000, "seed {seed}: {tries} commands in a minute");
            device.medium().heal();
            rt.sleep(Duration::from_secs(60)).await;
            file.sync().await.unwrap_or_else(|error| panic!("seed {seed}: {error}, {:?}", files.stats()));
            for kept in (0..number).filter(|gone| gone % 3 == 0) {
                let read = files.open_file(&format!("f{kept}")).unwrap().read(0, 1 << 20).await.unwrap();
                assert!(read == contents(kept, 0, 100_000), "seed {seed}: f{kept}");
            }
        });
    }
}

/// Has a zone of copies fail in which nothing is durable yet: at the second write into it, or, without a fault, at the flush behind them.
/// Returns a place for the zone.
fn fail_copies(files: &ZoneFiles, device: &SimDevice, fault: Option<Fault>) -> Rc<Cell<Option<ZoneId>>> {
    let (files, failed, mut writes) = (files.clone(), Rc::new(Cell::new(None)), BTreeMap::<ZoneId, u32>::new());
    let told = failed.clone();
    device.on_command(move |command, device| {
        let is_fresh = |dump: &ZoneDump| dump.use_of == "copies" && dump.files.is_empty();
        if failed.get().is_some() {
            return;
        }
        match (command.kind, command.zone, fault) {
            (CommandKind::Write, Some(zone), Some(fault)) => {
                let Some(dump) = files.dump().into_iter().find(|dump| dump.zone == zone && is_fresh(dump)) else {
                    return;
                };
                let count = writes.entry(zone).or_default();
                *count = if dump.written == 0 { 1 } else { *count + 1 };
                if *count == 2 {
                    failed.set(Some(zone));
                    device.set_faults(Faults::new([FaultRule { trigger: Trigger::Command(command.number), fault }]));
                }
            }
            (CommandKind::Flush, _, None) => {
                let written = files.dump().into_iter().find(|dump| is_fresh(dump) && dump.live_bytes > 0);
                failed.set(written.map(|dump| dump.zone));
                failed.get().iter().for_each(|zone| device.medium().set_state(*zone, ZoneState::Offline));
            }
            _ => {}
        }
    });
    told
}

/// ZF-CLEAN-1: copies that their zone took along before they were durable are given to no file.
#[test]
fn a_zone_that_fails_with_copies_costs_no_original() {
    for fault in [Some(Fault::ZoneLosesCache), Some(Fault::ZoneOffline), None] {
        for seed in seeds(6) {
            Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, {fault:?}");
                let shape = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
                let device = format(&rt, &shape).await;
                let (files, _) = open(&rt, &device).await.unwrap();
                let mut number = 0;
                loop {
                    let file = files.create(&format!("f{number}"), of(FileKind::Sst)).await.unwrap();
                    file.append(vec![Bytes::from(contents(number, 0, 30_000))]).await.unwrap();
                    if file.sync().await.is_err() {
                        break;
                    }
                    number += 1;
                }
                files.remove(&format!("f{number}")).await.unwrap();
                let failed = fail_copies(&files, &device, fault);
                for gone in (0..number).filter(|gone| gone % 3 == 0) {
                    files.remove(&format!("f{gone}")).await.unwrap();
                }
                let file = files.create("new", of(FileKind::Sst)).await.unwrap();
                file.append(vec![Bytes::from(contents(7, 0, 1 << 20))]).await.unwrap();
                file.sync().await.unwrap_or_else(|error| panic!("{context}: {error}"));
                rt.sleep(Duration::from_secs(60)).await;
                assert!(failed.get().is_some(), "{context}: no zone of copies failed");
                for kept in (0..number).filter(|kept| kept % 3 > 0) {
                    let read = files.open_file(&format!("f{kept}")).unwrap().read(0, 1 << 20).await;
                    let read = read.unwrap_or_else(|error| panic!("{context}: f{kept}: {error}"));
                    assert!(read == contents(kept, 0, 30_000), "{context}: f{kept}");
                }
                device.on_command(|_, _| {});
                files.close().await.unwrap();
            });
        }
    }
}

/// Copies that wait for a slow drive take bounded memory, however large their extent.
#[test]
fn copies_are_read_no_farther_ahead_than_their_writes_need() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(4096), 40, 0, 8)).await;
        let (files, _) = open(&rt, &device).await.unwrap();
        let file = files.create("f0", of(FileKind::Sst)).await.unwrap();
        file.append(vec![Bytes::from(contents(0, 0, 14 << 20))]).await.unwrap();
        file.sync().await.unwrap();
        drop(file);
        let zone = files.dump().into_iter().find(|dump| !dump.files.is_empty()).unwrap().zone;
        let meta = files.data_zones().start;
        files.close().await.unwrap();
        device.medium().set_state(zone, ZoneState::ReadOnly);
        let device = SimDevice::resume(&rt, device.kill());
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]).sparing((0..meta).map(ZoneId)));
        let (files, _) = open(&rt, &device).await.unwrap();
        rt.sleep(Duration::from_secs(60)).await;
        let (_, read) = device.counts().reads;
        assert!(
            device.hung() == 1 && (2048..3000).contains(&read),
            "{read} blocks were read for {} writes",
            device.hung()
        );
        device.set_faults(Faults::default());
        device.release_hung();
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(live_in(&files, zone), 0);
        files.close().await.unwrap();
    });
}
