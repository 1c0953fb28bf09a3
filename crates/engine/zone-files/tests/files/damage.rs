//! ZF-REC-2, ZF-REC-3, ZF-READ-1, ZF-SYNC-3, ZF-LOG-2, ZF-CLOSE-2: zones that fail with their cache, blocks that cannot be read, for a while or for good, rot, and images with any block changed.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{
    CommandKind, Fault, FaultRule, Faults, Medium, Random, Sim, SimDevice, Survival, Trigger, contents, seeds,
};
use shingle_zone_files::{File, FileKind, FilesErrorKind, FilesResult, Options, RecoveryReport, ZoneFiles};
use shingle_zoned::{Geometry, ZoneState, ZonedDevice};

use crate::common::{format, fresh, of, open};

async fn opened(
    rt: &Runtime,
    medium: Medium,
    accept_loss: bool,
) -> (SimDevice, FilesResult<(ZoneFiles, RecoveryReport)>) {
    let device = SimDevice::resume(rt, medium);
    let options = Options { accept_loss, ..Options::default() };
    let opened = ZoneFiles::open(rt, Rc::new(device.clone()), options).await;
    (device, opened)
}

/// Bytes of a record of the log.
const RECORD: u64 = 10_000;

/// A drive with three records of a log behind the last checkpoint, of 3 blocks each. Returns the address of their zone.
async fn drive(rt: &Runtime) -> (Medium, Lba) {
    let (device, files) = fresh(rt).await;
    let file = files.create("log", of(FileKind::Wal)).await.unwrap();
    for number in 0..3 {
        file.append(vec![Bytes::from(contents(1, number * RECORD, RECORD))]).await.unwrap();
        file.sync().await.unwrap();
    }
    let zone = files.dump().into_iter().find(|zone| zone.use_of == "logs").expect("logs have a zone").zone;
    (device.kill(), device.geometry().start_of(zone))
}

fn run(test: impl AsyncFnOnce(Runtime, Medium, Lba) + 'static) {
    Sim::new(1).run(move |rt| async move {
        let (medium, zone) = drive(&rt).await;
        test(rt, medium, zone).await;
    });
}

/// Block `block` of record `record`, from 0.
fn block(zone: Lba, record: u64, block: u64) -> Lba {
    zone + Blocks(record * 3 + block)
}

/// Sizes and readable records of the log.
async fn seen(files: &ZoneFiles) -> (u64, Vec<Result<(), FilesErrorKind>>) {
    let file = files.open_file("log").unwrap();
    let mut records = Vec::new();
    for at in (0..file.size()).step_by(RECORD as usize) {
        let read = file.read(at, RECORD).await.map_err(|error| error.kind);
        records.push(read.map(|read| assert!(read == contents(1, at, RECORD), "record at {at}")));
    }
    (file.size(), records)
}

#[test]
fn an_end_that_cannot_be_read_refuses_the_opening_and_nothing_is_lost() {
    run(async |rt, medium, zone| {
        medium.fail_reads(block(zone, 2, 0), Blocks(3), None);
        let (device, refused) = opened(&rt, medium, false).await;
        let error = refused.map(drop).expect_err("the end of the log is not known");
        assert_eq!(error.kind, FilesErrorKind::Unavailable, "{error}");
        assert!(error.message.contains("--accept-loss"), "{error}");
        let medium = device.kill();
        medium.heal();
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("all can be read");
        assert!(report.unknown.is_empty() && report.torn.is_empty(), "{report:?}");
        assert_eq!(seen(&files).await, (30_000, vec![Ok(()); 3]));
    });
}

#[test]
fn an_end_that_cannot_be_read_for_a_while_is_read_again() {
    run(async |rt, medium, zone| {
        medium.fail_reads(block(zone, 2, 1), Blocks(1), Some(2));
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("the third try reads it");
        assert_eq!((report.records, report.torn.len()), (3, 0));
        assert_eq!(seen(&files).await.0, 30_000);
    });
}

#[test]
fn an_accepted_loss_is_for_good() {
    run(async |rt, medium, zone| {
        medium.fail_reads(block(zone, 2, 0), Blocks(3), None);
        let (device, accepted) = opened(&rt, medium, true).await;
        let (files, report) = accepted.expect("the loss was accepted");
        assert_eq!(report.unknown.len(), 1);
        assert_eq!(seen(&files).await, (20_000, vec![Ok(()); 2]));
        let file = files.open_file("log").unwrap();
        file.append(vec![Bytes::from(contents(1, 20_000, 5_000))]).await.unwrap();
        file.sync().await.unwrap();
        let medium = device.kill();
        medium.heal();
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("it was settled");
        assert!(report.unknown.is_empty(), "{report:?}");
        let read = files.open_file("log").unwrap().read(20_000, 9_999).await.unwrap();
        assert!(read == contents(1, 20_000, 5_000));
    });
}

#[test]
fn rot_in_a_record_that_was_durable_costs_that_record() {
    run(async |rt, medium, zone| {
        medium.rot(block(zone, 1, 1), 7);
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("its header tells its place");
        assert_eq!((report.damaged.len(), report.torn.len()), (1, 0), "{report:?}");
        assert_eq!(seen(&files).await, (30_000, vec![Ok(()), Err(FilesErrorKind::Corrupt), Ok(())]));
        let damage = files.check().await.unwrap();
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(damage[0].bytes.start >= 10_000 && damage[0].bytes.end <= 20_480, "{damage:?}");
        assert!(damage[0].to_string().contains("log"), "{}", damage[0]);
    });
}

#[test]
fn rot_of_a_header_that_was_durable_refuses_the_opening() {
    run(async |rt, medium, zone| {
        for seed in 0..300 {
            medium.rot(block(zone, 1, 0), seed);
        }
        let (device, refused) = opened(&rt, medium, false).await;
        let error = refused.map(drop).expect_err("bytes of nobody knows whom");
        assert_eq!(error.kind, FilesErrorKind::Corrupt, "{error}");
        let (_, accepted) = opened(&rt, device.kill(), true).await;
        let (files, report) = accepted.expect("the loss was accepted");
        assert_eq!(report.lost.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>(), [RECORD]);
        assert_eq!(seen(&files).await, (30_000, vec![Ok(()), Err(FilesErrorKind::Corrupt), Ok(())]));
    });
}

/// The fault model says so: nothing tells it from a torn write.
#[test]
fn rot_of_the_very_last_record_passes_for_a_tear() {
    run(async |rt, medium, zone| {
        medium.rot(block(zone, 2, 1), 7);
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("it opens");
        assert_eq!((report.damaged.len(), report.torn.len()), (0, 1), "{report:?}");
        assert_eq!(seen(&files).await, (20_000, vec![Ok(()); 2]));
    });
}

/// ZF-REC-2: two records of one command, the first of which rots: the second says that it was durable.
#[test]
fn rot_before_another_record_is_no_tear() {
    Sim::new(1).run(|rt| async move {
        let (device, files) = fresh(&rt).await;
        let (first, second) = (
            files.create("first", of(FileKind::Wal)).await.unwrap(),
            files.create("log", of(FileKind::Wal)).await.unwrap(),
        );
        for file in [&first, &second] {
            file.append(vec![Bytes::from(contents(1, 0, RECORD))]).await.unwrap();
        }
        let (synced, other) = join(first.sync(), second.sync()).await;
        synced.and(other).unwrap();
        let zone = files.dump().into_iter().find(|zone| zone.use_of == "logs").expect("logs have a zone").zone;
        let medium = device.kill();
        medium.rot(device.geometry().start_of(zone) + Blocks(1), 7);
        let (_, opened) = opened(&rt, medium, false).await;
        let (files, report) = opened.expect("it opens");
        assert_eq!((report.damaged.len(), report.torn.len()), (1, 0), "{report:?}");
        assert_eq!(seen(&files).await, (RECORD, vec![Ok(())]));
    });
}

/// Any one block of the drive is changed: the files open and show no wrong byte, or they do not open.
#[test]
fn no_changed_block_shows_wrong_bytes() {
    let mut opened_well = 0;
    for seed in seeds(60) {
        opened_well += Sim::new(seed).run(move |rt| async move {
            let (device, files) = fresh(&rt).await;
            let mut random = Random::new(seed);
            let kinds = [FileKind::Wal, FileKind::Sst, FileKind::Manifest];
            for number in 0..12u64 {
                let file = files.create(&format!("f{number}"), of(kinds[number as usize % 3])).await.unwrap();
                for _ in 0..3 {
                    let length = 1 + random.below(20_000);
                    file.append(vec![Bytes::from(contents(number, file.size(), length))]).await.unwrap();
                    file.sync().await.unwrap();
                }
                if random.chance(0.1) {
                    files.checkpoint().await.unwrap();
                }
            }
            let medium = device.kill();
            for _ in 0..1 + random.below(4) {
                let zone = ZoneId(random.below(u64::from(device.geometry().zone_count)) as u32);
                let written = medium.image().zone(zone).written;
                if written > Blocks::ZERO {
                    medium.rot(device.geometry().start_of(zone) + Blocks(random.below(written.0)), random.number());
                }
            }
            let (_, opened) = opened(&rt, medium, random.chance(0.5)).await;
            let Ok((files, _)) = opened else { return 0 };
            for (path, info) in files.walk() {
                let number: u64 = path[1..].parse().expect("names have numbers");
                let file = files.open_file(&path).unwrap();
                for at in (0..info.size).step_by(4096) {
                    if let Ok(read) = file.read(at, 4096).await {
                        assert!(read == contents(number, at, read.len() as u64), "seed {seed}: {path} at {at}");
                    }
                }
            }
            // It can be written, and what is damaged can be removed.
            for (path, _) in files.walk() {
                files.remove(&path).await.unwrap();
            }
            files.close().await.unwrap();
            1
        });
    }
    assert!(opened_well > 30 || std::env::var_os("SHINGLE_SEED").is_some(), "only {opened_well} opened");
}

/// The next write to the drive meets a fault.
fn fail_next_write(device: &SimDevice, fault: Fault) {
    device.set_faults(Faults::new([FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault }]));
}

/// A drive with a cache, and files on it.
async fn with_cache(rt: &Runtime) -> (SimDevice, ZoneFiles) {
    let shape = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
    let device = format(rt, &shape).await;
    let (files, _) = open(rt, &device).await.unwrap();
    (device, files)
}

/// ZF-SYNC-3: a zone takes along bytes that were written and not flushed. The next sync of their file says so, and no other's; all that was
/// synced is there, and what can be read after it stays.
#[test]
fn a_sync_tells_of_bytes_that_were_lost_with_their_zone() {
    for seed in seeds(12) {
        for kind in [FileKind::Wal, FileKind::Sst] {
            Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, {kind:?}");
                let (device, files) = with_cache(&rt).await;
                let (file, other) =
                    (files.create("log", of(kind)).await.unwrap(), files.create("other", of(kind)).await.unwrap());
                let next =
                    async |file: &File| file.append(vec![Bytes::from(contents(1, file.size(), RECORD))]).await.unwrap();
                next(&other).await;
                other.sync().await.unwrap();
                next(&file).await;
                file.sync().await.unwrap();
                for _ in 0..1 + seed % 3 {
                    next(&file).await;
                    file.flush().await.unwrap();
                }
                fail_next_write(&device, Fault::ZoneLosesCache);
                next(&file).await;
                file.flush().await.unwrap();
                device.set_faults(Faults::default());
                other.sync().await.unwrap_or_else(|error| panic!("{context}: of the other: {error}"));
                let lost = seen(&files).await.1.iter().any(Result::is_err);
                let told = file.sync().await.map_err(|error| error.kind);
                assert_eq!(told, if lost { Err(FilesErrorKind::Device) } else { Ok(()) }, "{context}");
                file.sync().await.unwrap_or_else(|error| panic!("{context}: it is told once: {error}"));
                let before = seen(&files).await;
                assert_eq!(before.1.first(), Some(&Ok(())), "{context}: it was synced");
                let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
                let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(seen(&files).await, before, "{context}");
            });
        }
    }
}

/// Appends a record, and has it written.
async fn write(file: &File) {
    file.append(vec![Bytes::from(contents(1, file.size(), RECORD))]).await.unwrap();
    file.flush().await.unwrap();
}

/// The loss of a record of the log, if there is one, as a sync tells of it.
async fn loss(files: &ZoneFiles) -> Result<(), FilesErrorKind> {
    let lost = seen(files).await.1.iter().any(Result::is_err);
    if lost { Err(FilesErrorKind::Device) } else { Ok(()) }
}

/// ZF-CLOSE-2: the same, and the files are closed before any sync.
#[test]
fn a_close_tells_of_bytes_that_were_lost_with_their_zone() {
    for seed in seeds(12) {
        for kind in [FileKind::Wal, FileKind::Sst] {
            Sim::new(seed).run(move |rt| async move {
                let context = format!("seed {seed}, {kind:?}");
                let (device, files) = with_cache(&rt).await;
                let file = files.create("log", of(kind)).await.unwrap();
                write(&file).await;
                file.sync().await.unwrap();
                for _ in 0..1 + seed % 3 {
                    write(&file).await;
                }
                fail_next_write(&device, Fault::ZoneLosesCache);
                write(&file).await;
                device.set_faults(Faults::default());
                let (before, expected) = (seen(&files).await, loss(&files).await);
                assert_eq!(files.close().await.map_err(|error| error.kind), expected, "{context}");
                let (files, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
                assert_eq!(seen(&files).await, before, "{context}");
            });
        }
    }
}

/// ZF-SYNC-3: whoever opens a log is told of what was appended by a handle that is gone.
#[test]
fn a_sync_tells_of_bytes_that_were_lost_when_nobody_had_the_log_open() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let (device, files) = with_cache(&rt).await;
            device.set_latency(std::time::Duration::from_micros(100));
            let other = files.create("other", of(FileKind::Wal)).await.unwrap();
            let file = files.create("log", of(FileKind::Wal)).await.unwrap();
            for _ in 0..1 + seed % 3 {
                write(&file).await;
            }
            drop(file);
            fail_next_write(&device, Fault::ZoneLosesCache);
            write(&other).await;
            device.set_faults(Faults::default());
            rt.sleep(std::time::Duration::from_secs(1)).await;
            let expected = loss(&files).await;
            let file = files.open_file("log").unwrap();
            assert_eq!(file.sync().await.map_err(|error| error.kind), expected, "seed {seed}");
            file.sync().await.unwrap_or_else(|error| panic!("seed {seed}: it is told once: {error}"));
        });
    }
}

/// ZF-SYNC-3, ZF-LOG-2: no write shows that the zone has failed, but the look at its end does; or the drive tells
/// nothing then.
#[test]
fn a_zone_of_logs_that_fails_at_its_end_is_told_of_and_refuses_no_opening() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let (device, files) = with_cache(&rt).await;
            let file = files.create("log", of(FileKind::Wal)).await.unwrap();
            write(&file).await;
            file.sync().await.unwrap();
            let zone = files.dump().into_iter().find(|zone| zone.use_of == "logs").expect("logs have a zone").zone;
            let failed = Rc::new(Cell::new(false));
            let told = failed.clone();
            device.on_command(move |command, device| {
                if command.kind == CommandKind::Flush && !told.replace(true) {
                    device.medium().set_state(zone, ZoneState::Offline);
                    if seed % 2 == 0 {
                        let silent =
                            FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::ReadError };
                        device.set_faults(Faults::new([silent]));
                    }
                }
            });
            while !failed.get() {
                write(&file).await;
            }
            write(&file).await;
            let told = file.sync().await.map_err(|error| error.kind);
            assert_eq!(told, Err(FilesErrorKind::Device), "seed {seed}");
            file.sync().await.unwrap_or_else(|error| panic!("seed {seed}: it is told once: {error}"));
            let before = seen(&files).await;
            assert!(before.1.last() == Some(&Ok(())) && before.1.contains(&Err(FilesErrorKind::Device)), "seed {seed}");
            let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
            let (files, _) = open(&rt, &again).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(seen(&files).await, before, "seed {seed}");
        });
    }
}

/// ZF-LOG-2: the same without a sync.
#[test]
fn a_zone_of_logs_that_fails_with_its_cache_refuses_no_opening() {
    for seed in seeds(12) {
        Sim::new(seed).run(move |rt| async move {
            let (device, files) = with_cache(&rt).await;
            let file = files.create("log", of(FileKind::Wal)).await.unwrap();
            for number in 0..3 + seed % 3 {
                if number == 2 + seed % 3 {
                    fail_next_write(&device, [Fault::ZoneLosesCache, Fault::ZoneOffline][usize::from(seed % 4 == 3)]);
                }
                file.append(vec![Bytes::from(contents(1, file.size(), RECORD))]).await.unwrap();
                file.flush().await.unwrap();
            }
            rt.sleep(std::time::Duration::from_secs(1)).await;
            let (_, opened) = opened(&rt, device.kill(), false).await;
            opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        });
    }
}
