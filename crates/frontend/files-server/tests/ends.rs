//! The end of an owner: of a drive that fails, of one that is full, and while others come.

#![expect(clippy::disallowed_methods, reason = "threads and time are real here")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Drive, NONE, contents, pattern};
use shingle_files_server::Files;
use shingle_zone_files::{FileKind, FilesErrorKind};

/// FS-END-2: a drive whose flush fails stops its files; whoever opens them next has them, also while the old handles live, and whoever made the
/// calls: one in the owner's process, or one that reaches it by the socket.
#[test]
fn a_drive_whose_files_have_stopped_can_be_opened_again() {
    for elsewhere in [false, true] {
        let drive = Drive::new();
        let owner = drive.open();
        let old = if elsewhere { drive.open() } else { owner.clone() };
        let log = old.create("/000001.log", FileKind::Wal, NONE).unwrap();
        log.append(b"synced").unwrap();
        log.sync().unwrap();
        drive.fails.store(true, Ordering::Relaxed);
        log.append(b"lost").unwrap();
        assert!(log.sync().is_err());
        drive.fails.store(false, Ordering::Relaxed);
        assert!(old.room().is_err(), "a stopped owner does not pass for one that works");
        let again = drive.open();
        again.create("/000002.log", FileKind::Wal, NONE).unwrap();
        assert!(contents(&again, "/000001.log").starts_with(b"synced"));
        assert!(old.create("/000003.log", FileKind::Wal, NONE).is_err());
    }
}

/// Fills a drive, and commits to a log until it is told that there is no room. Returns what was acknowledged.
fn fill(files: &Files, pause: Duration) -> Vec<u8> {
    let table = files.create("/000002.sst", FileKind::Sst, NONE).unwrap();
    let log = files.create("/000001.log", FileKind::Wal, NONE).unwrap();
    let megabyte = pattern(1 << 20, 3);
    while table.append(&megabyte).and_then(|()| table.sync()).is_ok() {}
    let mut acknowledged = Vec::new();
    for number in 0..2_000_u32 {
        let commit = pattern(5_000, number as u8);
        match log.append(&commit).and_then(|()| log.flush()) {
            Ok(()) => acknowledged.extend(commit),
            Err(error) => {
                assert_eq!(error.kind, FilesErrorKind::NoSpace);
                break;
            }
        }
        std::thread::sleep(pause);
    }
    assert!(log.sync().is_err(), "the log had room");
    acknowledged
}

/// FS-TAIL-1: a database that ends in order, and could not write what it had acknowledged, finds it again.
#[test]
fn commits_that_had_no_room_are_there_once_there_is_some() {
    let drive = Drive::new();
    let files = drive.open();
    let acknowledged = fill(&files, Duration::ZERO);
    // Nothing is written any more, and the drive is closed in order.
    drop(files);
    // Readers of a full drive see all.
    let files = drive.open();
    assert!(contents(&files, "/000001.log").starts_with(&acknowledged), "the end cannot be read on a full drive");
    drop(files);
    drive.remove("/000002.sst");
    let files = drive.open();
    let found = contents(&files, "/000001.log");
    assert!(found.len() >= acknowledged.len(), "{} of {} bytes are there", found.len(), acknowledged.len());
    assert!(found.starts_with(&acknowledged), "other bytes than were acknowledged");
}

/// FS-ANSWER-1, FS-ROOM-1: whoever opens the log next finds all that was acknowledged, also while the owner lives, and whether or not there is room by then.
#[test]
fn commits_that_had_no_room_are_there_for_those_who_open_the_log_next() {
    let drive = Drive::new();
    let owner = drive.open();
    for files in [drive.open(), owner] {
        // Answers come before the tail is full.
        let acknowledged = fill(&files, Duration::from_micros(50));
        let sees_all = |when: &str| {
            let found = contents(&files, "/000001.log");
            assert!(found.starts_with(&acknowledged), "{when}: {} of {} bytes", found.len(), acknowledged.len());
        };
        sees_all("on a full drive");
        files.remove("/000002.sst").unwrap();
        sees_all("with room");
        files.append_to("/000001.log").unwrap().sync().unwrap();
        files.remove("/000001.log").unwrap();
    }
}

/// FS-END-2: who comes while the last handle goes waits until the drive is free.
#[test]
fn one_who_opens_while_another_closes_gets_files_that_work() {
    let drive = Arc::new(Drive::new());
    drive.delay.store(3, Ordering::Relaxed);
    for round in 0..10 {
        let files = drive.open();
        let log = files.create("/000001.log", FileKind::Wal, NONE).unwrap();
        log.append(&pattern(100_000, 1)).unwrap();
        log.flush().unwrap();
        drop(log);
        let opening = drive.clone();
        let next = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(Duration::from_millis(round));
            let files = opening.open();
            files.create("/000002.log", FileKind::Wal, NONE).unwrap();
            contents(&files, "/000001.log")
        });
        drop(files);
        assert!(next.unwrap().join().unwrap() == pattern(100_000, 1), "round {round}");
    }
}

/// An orderly end leaves nothing in shared memory, also right behind a flush.
#[test]
fn an_orderly_end_leaves_no_tails() {
    let drive = Drive::new();
    let files = drive.open();
    let log = files.create("/000001.log", FileKind::Wal, NONE).unwrap();
    log.append(b"flushed").unwrap();
    log.flush().unwrap();
    assert!(drive.tails().is_some_and(|tails| tails > 1), "the flush left no tail: the case is not met");
    drop(log);
    let began = Instant::now();
    drop(files);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(drive.tails(), None);
    assert_eq!(contents(&drive.open(), "/000001.log"), b"flushed");
}
