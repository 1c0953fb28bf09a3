//! ZF-REC-2, ZF-REC-3, ZF-READ-1: blocks that cannot be read, for a while or for good, rot, and images with any block changed.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{Medium, Random, Sim, SimDevice, contents, seeds};
use shingle_zone_files::{FileKind, FilesErrorKind, FilesResult, Options, RecoveryReport, ZoneFiles};
use shingle_zoned::ZonedDevice;

use crate::common::{fresh, of};

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
