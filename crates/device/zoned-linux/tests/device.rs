//! A real zoned block device against the contract, and the hard cases of real drives.
//!
//! Runs on the drive that the environment variable `SHINGLE_ZONED_DEVICE` names, whose data is lost; without it, says
//! so and does nothing. Further variables name commands that make the drive suffer; each is tested only if it is set,
//! and most are shell commands:
//!
//! | variable                | what it does                                                             |
//! |-------------------------|--------------------------------------------------------------------------|
//! | `SHINGLE_ZONED_REMOVE`  | takes the drive away while it is in use                                  |
//! | `SHINGLE_ZONED_RESTORE` | brings it back, empty or not                                             |
//! | `SHINGLE_ZONED_STALL`   | lets the drive answer nothing any more, so that commands run out of time |
//! | `SHINGLE_ZONED_RESUME`  | lets it answer again                                                     |
//! | `SHINGLE_ZONED_BREAK`   | makes a block in a conventional zone unreadable                          |
//! | `SHINGLE_ZONED_MEND`    | makes it readable again                                                  |
//! | `SHINGLE_ZONED_READONLY`| makes the zone that begins at sector `$SECTOR` read-only                 |
//! | `SHINGLE_ZONED_OFFLINE` | takes the zone that begins at sector `$SECTOR` offline                   |
//! | `SHINGLE_ZONED_BAD`     | is the number of that block                                              |

use std::cell::Cell;
use std::fs::OpenOptions as FileOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::{join, join_all, join5, poll_immediate};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::contract_suite::{Backend, check, random};
use shingle_zoned::{DeviceErrorKind, Geometry, ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::{Drive, KernelDevice, OpenErrorKind, OpenOptions, describe};

const FORCE: OpenOptions = OpenOptions { force: true, keep_open: false, alone: false };

struct Kernel {
    runtime: Runtime,
    path: PathBuf,
    shape: Geometry,
    made: Cell<u32>,
}

impl Kernel {
    fn open(&self) -> KernelDevice {
        KernelDevice::open(&self.path, &self.runtime, FORCE).unwrap()
    }

    /// The device, with nothing in it.
    async fn fresh(&self) -> KernelDevice {
        self.made.set(self.made.get() + 1);
        let device = self.open();
        for info in device.report(ZoneId(0), u32::MAX).await.unwrap() {
            match info.state {
                ZoneState::NotWritePointer => clear(&device, info.start, info.capacity).await,
                ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline => {}
                _ => device.manage(info.zone, ZoneOp::Reset).await.unwrap(),
            }
        }
        device
    }
}

/// Makes a conventional zone read as zeros where it does not.
async fn clear(device: &KernelDevice, start: Lba, length: Blocks) {
    let step = Blocks(256.min(length.0));
    for at in (0..length.0).step_by(step.0 as usize).map(|block| start + Blocks(block)) {
        if device.read(at, step).await.unwrap().iter().any(|&byte| byte != 0) {
            device.write(at, vec![AlignedBuf::zeroed(step).freeze()]).await.unwrap();
        }
    }
}

impl Backend for Kernel {
    type Device = KernelDevice;

    fn shape(&self) -> Option<Geometry> {
        Some(self.shape.clone())
    }

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<KernelDevice>> {
        Box::pin(async { if *geometry == self.shape { Some(self.fresh().await) } else { None } })
    }

    fn reopen(&self, device: KernelDevice) -> LocalBoxFuture<'_, Option<KernelDevice>> {
        Box::pin(async move {
            drop(device);
            Some(self.open())
        })
    }
}

fn filled(byte: u8, blocks: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(blocks));
    buffer.fill(byte);
    buffer.freeze()
}

#[test]
fn a_real_drive_keeps_the_contract() {
    let Some(path) = std::env::var_os("SHINGLE_ZONED_DEVICE").map(PathBuf::from) else {
        println!("skipped: SHINGLE_ZONED_DEVICE names no zoned block device to test on");
        return;
    };
    real::run(|runtime| async move {
        let drive = describe(&path).unwrap();
        let shape = KernelDevice::look(&path).unwrap().1;
        println!("{}: {shape:?}", path.display());
        let kernel = Kernel { runtime, path, shape, made: Cell::new(0) };
        torn_write_pointers_are_put_right(&kernel, &drive).await;
        one_process_has_the_drive(&kernel).await;
        foreign_marks_are_refused(&kernel).await;
        what_has_started_outlives_its_future_and_its_device(&kernel).await;
        reads_at_depth_are_right(&kernel).await;
        long_and_scattered_writes_are_whole(&kernel).await;
        a_zone_changed_behind_our_back_is_an_error_and_then_right(&kernel).await;
        places_are_not_taken_before_they_are_free(&kernel).await;
        a_zone_whose_write_failed_gives_up_its_place(&kernel).await;
        a_block_that_cannot_be_read_is_an_error(&kernel).await;
        println!("{} cases of the contract", check(&kernel).await);
        for seed in 1..=3 {
            random(&kernel, seed, 250).await;
        }
        println!("3 random histories; the device was opened afresh {} times", kernel.made.get());
        a_drive_that_does_not_answer_is_an_error(&kernel).await;
        zones_that_die_are_what_they_are(&kernel).await;
        a_drive_that_vanishes_is_gone(&kernel).await;
    })
    .unwrap();
}

/// A plain descriptor of the node, as another program would have it.
fn another(path: &Path) -> std::fs::File {
    FileOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
}

async fn torn_write_pointers_are_put_right(kernel: &Kernel, drive: &Drive) {
    if drive.logical_block_bytes as usize == BLOCK_SIZE {
        return;
    }
    drop(kernel.fresh().await);
    let zone = ZoneId(kernel.shape.conventional_zones);
    let start = kernel.shape.start_of(zone);
    let torn = filled(7, 2);
    another(&kernel.path).write_all_at(&torn[..BLOCK_SIZE + 1024], start.byte_offset()).unwrap();
    let (_, _, zones) = KernelDevice::look(&kernel.path).unwrap();
    assert_eq!(zones[zone.0 as usize].written, Blocks(1), "rounded down for one who looks");
    let device = kernel.open();
    let info = device.report(zone, 1).await.unwrap()[0];
    assert_eq!((info.state, info.written), (ZoneState::Closed, Blocks(2)), "filled up");
    let bytes = device.read(start, Blocks(2)).await.unwrap();
    assert_eq!(bytes[..BLOCK_SIZE + 1024], torn[..BLOCK_SIZE + 1024]);
    assert!(bytes[BLOCK_SIZE + 1024..].iter().all(|&byte| byte == 0));
    device.write(start + Blocks(2), vec![filled(8, 1)]).await.unwrap();
    println!("a write pointer within a block is put right");
}

async fn one_process_has_the_drive(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let Err(error) = KernelDevice::open(&kernel.path, &kernel.runtime, FORCE) else { panic!("opened twice") };
    assert!(matches!(error.kind, OpenErrorKind::InUse), "{error}");
    // Looking is allowed.
    let (_, shape, zones) = KernelDevice::look(&kernel.path).unwrap();
    assert_eq!((&shape, zones.len()), (device.geometry(), shape.zone_count as usize));
    drop(device);
    for _ in 0..20 {
        drop(kernel.open());
    }
}

async fn foreign_marks_are_refused(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let mut head = AlignedBuf::zeroed(Blocks(1));
    head[..4].copy_from_slice(b"XFSB");
    let head = head.freeze();
    device.write(Lba(0), vec![head]).await.unwrap();
    drop(device);
    let Err(error) = KernelDevice::open(&kernel.path, &kernel.runtime, OpenOptions::default()) else {
        panic!("took a file system for nothing")
    };
    assert!(matches!(error.kind, OpenErrorKind::Foreign { what: "an XFS file system", .. }), "{error}");
    drop(kernel.fresh().await);
    drop(KernelDevice::open(&kernel.path, &kernel.runtime, OpenOptions::default()).unwrap());
}

/// ZL-KD-3.
async fn what_has_started_outlives_its_future_and_its_device(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let zone = ZoneId(kernel.shape.conventional_zones);
    let start = kernel.shape.start_of(zone);
    // Buffers are dropped with the futures as far as this side is concerned.
    for round in 0..8 {
        let _ = poll_immediate(device.append(zone, vec![filled(round, 4)])).await;
    }
    let _ = poll_immediate(device.read(start, Blocks(1))).await;
    kernel.runtime.yield_now().await;
    drop(device);
    let device = kernel.open();
    let written = device.report(zone, 1).await.unwrap()[0].written;
    assert!(written.0.is_multiple_of(4) && written.0 <= 32, "a prefix of what was started: {written}");
    for round in 0..written.0 / 4 {
        assert!(device.read(start + Blocks(4 * round), Blocks(4)).await.unwrap() == filled(round as u8, 4));
    }
}

async fn reads_at_depth_are_right(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let zone = ZoneId(kernel.shape.conventional_zones);
    let start = kernel.shape.start_of(zone);
    let count = kernel.shape.zone_capacity.0.min(512);
    for at in 0..count {
        device.append(zone, vec![filled(at as u8, 1)]).await.unwrap();
    }
    // More at a time than the ring takes, and more held than the pool has.
    let many = (0..4 * count).map(|number| {
        let at = number * 7 % count;
        let device = &device;
        async move { (at, device.read(start + Blocks(at), Blocks(1)).await.unwrap()) }
    });
    for (at, bytes) in join_all(many).await {
        assert!(bytes.iter().all(|&byte| byte == at as u8) && bytes.len() == BLOCK_SIZE, "block {at}");
    }
    let whole = device.read(start, Blocks(count)).await.unwrap();
    assert!(whole.chunks(BLOCK_SIZE).zip(0..).all(|(block, at)| block.iter().all(|&byte| byte == at as u8)));
}

async fn long_and_scattered_writes_are_whole(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let zone = ZoneId(kernel.shape.conventional_zones);
    let start = kernel.shape.start_of(zone);
    let capacity = kernel.shape.zone_capacity.0;
    // More pieces than the kernel gathers at once, where the zone holds as many.
    let pieces: Vec<Bytes> = (0..capacity.min(1500)).map(|at| filled(at as u8, 1)).collect();
    let count = pieces.len() as u64;
    device.write(start, pieces).await.unwrap();
    let bytes = device.read(start, Blocks(count)).await.unwrap();
    assert!(bytes.chunks(BLOCK_SIZE).zip(0..).all(|(block, at)| block.iter().all(|&byte| byte == at as u8)));
    // Bytes read into registered memory are written again as they are.
    if count + 2 <= capacity {
        let read = device.read(start + Blocks(5), Blocks(2)).await.unwrap();
        device.append(zone, vec![read]).await.unwrap();
        let again = device.read(start + Blocks(count), Blocks(2)).await.unwrap();
        assert!(again[..BLOCK_SIZE].iter().all(|&byte| byte == 5));
    }
}

/// ZL-KD-2.
async fn a_zone_changed_behind_our_back_is_an_error_and_then_right(kernel: &Kernel) {
    let device = kernel.fresh().await;
    let zone = ZoneId(kernel.shape.conventional_zones + 1);
    let start = kernel.shape.start_of(zone);
    device.append(zone, vec![filled(1, 2)]).await.unwrap();
    another(&kernel.path).write_all_at(&filled(9, 1), (start + Blocks(2)).byte_offset()).unwrap();
    let queued = [2, 3, 4].map(|byte| device.append(zone, vec![filled(byte, 1)]));
    for failed in join_all(queued).await {
        let error = failed.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::WriteFailed), "{error}");
        assert_eq!(error.zone, Some(zone));
    }
    let info = device.report(zone, 1).await.unwrap()[0];
    assert_eq!(info.written, Blocks(3), "as the drive says");
    device.write(start + Blocks(3), vec![filled(5, 1)]).await.unwrap();
    let bytes = device.read(start, Blocks(4)).await.unwrap();
    assert_eq!([0, 1, 2, 3].map(|block| bytes[block * BLOCK_SIZE]), [1, 1, 9, 5]);
    // Another zone was never in doubt.
    device.append(ZoneId(zone.0 + 1), vec![filled(1, 2)]).await.unwrap();
}

/// Commands that give places back and commands that take them, all started at once: the drive must never be asked for
/// more than it has.
async fn places_are_not_taken_before_they_are_free(kernel: &Kernel) {
    let Some(limit) = kernel.shape.active_zones_max.or(kernel.shape.open_zones_max) else { return };
    let device = Rc::new(kernel.fresh().await);
    let nth = |number: u32| ZoneId(kernel.shape.conventional_zones + number);
    for number in 0..limit {
        device.append(nth(number), vec![filled(1, 1)]).await.unwrap();
    }
    for round in 0..6 {
        let ends = (0..limit).map(|number| {
            let op = if (number + round) % 2 == 0 { ZoneOp::Finish } else { ZoneOp::Reset };
            device.manage(nth(number), op)
        });
        let begins = (0..limit).map(|number| device.append(nth(limit + number), vec![filled(2, 3)]));
        let resets = (0..limit).map(|number| device.manage(nth(limit + number), ZoneOp::Reset));
        let refills = (0..limit).map(|number| device.append(nth(number), vec![filled(3, 1)]));
        let frees = (0..limit).map(|number| device.manage(nth(number), ZoneOp::Reset));
        let (ends, begins, resets, frees, refills) =
            join5(join_all(ends), join_all(begins), join_all(resets), join_all(frees), join_all(refills)).await;
        for result in ends.into_iter().chain(resets).chain(frees) {
            result.unwrap();
        }
        for result in begins.into_iter().chain(refills) {
            result.unwrap();
        }
    }
}

/// The place was promised to another zone while the write was under way.
async fn a_zone_whose_write_failed_gives_up_its_place(kernel: &Kernel) {
    let Some(limit) = kernel.shape.open_zones_max else { return };
    if kernel.shape.active_zones_max.is_some_and(|active| active <= limit) {
        return;
    }
    let device = kernel.fresh().await;
    let nth = |number: u32| ZoneId(kernel.shape.conventional_zones + number);
    for number in 0..limit {
        device.append(nth(number), vec![filled(1, 1)]).await.unwrap();
    }
    let behind = kernel.shape.start_of(nth(0)) + Blocks(1);
    another(&kernel.path).write_all_at(&filled(9, 1), behind.byte_offset()).unwrap();
    let (failed, other) =
        join(device.append(nth(0), vec![filled(2, 1)]), device.append(nth(limit), vec![filled(3, 1)])).await;
    assert!(matches!(failed.unwrap_err().kind, DeviceErrorKind::WriteFailed));
    other.unwrap();
    let info = device.report(nth(0), 1).await.unwrap()[0];
    assert_eq!((info.state, info.written), (ZoneState::Closed, Blocks(2)));
    println!("a zone whose write failed gives up its place");
}

fn shell(command: String) {
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// The commands that two variables name.
fn commands(begin: &str, end: &str) -> Option<(String, String)> {
    let (Ok(first), Ok(second)) = (std::env::var(begin), std::env::var(end)) else {
        println!("not tested: {begin} and {end} are not both set");
        return None;
    };
    Some((first, second))
}

async fn a_block_that_cannot_be_read_is_an_error(kernel: &Kernel) {
    let Some(bad) = std::env::var("SHINGLE_ZONED_BAD").ok().and_then(|number| number.parse().ok()) else {
        println!("not tested: SHINGLE_ZONED_BAD names no block that can be made unreadable");
        return;
    };
    let Some((spoil, mend)) = commands("SHINGLE_ZONED_BREAK", "SHINGLE_ZONED_MEND") else { return };
    let device = kernel.fresh().await;
    kernel.runtime.blocking(move || shell(spoil)).await.unwrap();
    let error = device.read(Lba(bad), Blocks(1)).await.unwrap_err();
    assert!(matches!(error.kind, DeviceErrorKind::ReadFailed), "{error:?}");
    assert_eq!((error.at, error.zone), (Lba(bad), kernel.shape.zone_of(Lba(bad))));
    // The rest goes on.
    device.append(ZoneId(kernel.shape.conventional_zones), vec![filled(1, 1)]).await.unwrap();
    device.read(Lba(0), Blocks(1)).await.unwrap();
    kernel.runtime.blocking(move || shell(mend)).await.unwrap();
    device.read(Lba(bad), Blocks(1)).await.unwrap();
    println!("a block that cannot be read is an error, of itself alone");
}

async fn zones_that_die_are_what_they_are(kernel: &Kernel) {
    let Some(how) = commands("SHINGLE_ZONED_READONLY", "SHINGLE_ZONED_OFFLINE") else { return };
    let device = kernel.fresh().await;
    let first = kernel.shape.conventional_zones;
    let cases = [(how.0, ZoneState::ReadOnly), (how.1, ZoneState::Offline)];
    for (zone, (command, dead)) in (first..).map(ZoneId).zip(cases.clone()) {
        let start = kernel.shape.start_of(zone);
        device.append(zone, vec![filled(1, 3)]).await.unwrap();
        kernel.runtime.blocking(move || shell(format!("SECTOR={}; {command}", start.0 * 8))).await.unwrap();
        let right = |kind: &DeviceErrorKind| match dead {
            ZoneState::ReadOnly => matches!(kind, DeviceErrorKind::ZoneReadOnly),
            _ => matches!(kind, DeviceErrorKind::ZoneOffline),
        };
        // The first is failed by the drive, those behind it for its sake, later ones by the state machine.
        let queued = join_all([2, 3].map(|byte| device.append(zone, vec![filled(byte, 1)]))).await;
        let kinds: Vec<_> = queued.into_iter().map(|result| result.unwrap_err().kind).collect();
        assert!(right(&kinds[0]) && matches!(kinds[1], DeviceErrorKind::WriteFailed), "{kinds:?}");
        let error = device.append(zone, vec![filled(4, 1)]).await.unwrap_err();
        assert!(right(&error.kind), "{error}");
        assert!(right(&device.manage(zone, ZoneOp::Reset).await.unwrap_err().kind));
        assert_eq!(device.report(zone, 1).await.unwrap()[0].state, dead);
        match device.read(start, Blocks(3)).await {
            Ok(bytes) => assert!(dead == ZoneState::ReadOnly && bytes == filled(1, 3)),
            Err(error) => assert!(dead == ZoneState::Offline && right(&error.kind), "{error}"),
        }
        // Others go on.
        device.append(ZoneId(first + 2), vec![filled(1, 1)]).await.unwrap();
    }
    drop(device);
    let device = kernel.open();
    for (zone, (_, dead)) in (first..).map(ZoneId).zip(cases) {
        assert_eq!(device.report(zone, 1).await.unwrap()[0].state, dead, "after opening again");
    }
    println!("zones that die are read-only or offline, and the others go on");
}

async fn a_drive_that_does_not_answer_is_an_error(kernel: &Kernel) {
    let Some((stall, resume)) = commands("SHINGLE_ZONED_STALL", "SHINGLE_ZONED_RESUME") else { return };
    let device = kernel.fresh().await;
    let zone = ZoneId(kernel.shape.conventional_zones);
    device.append(zone, vec![filled(1, 1)]).await.unwrap();
    kernel.runtime.blocking(move || shell(stall)).await.unwrap();
    let begun = kernel.runtime.now();
    let error = device.append(zone, vec![filled(2, 1)]).await.unwrap_err();
    let took = (kernel.runtime.now() - begun).as_secs();
    let kind = &error.kind;
    assert!(
        matches!(kind, DeviceErrorKind::WriteFailed | DeviceErrorKind::Gone | DeviceErrorKind::System(_)),
        "{error:?}"
    );
    println!("a drive that does not answer: after {took} s, {error}");
    drop(device);
    kernel.runtime.blocking(move || shell(resume)).await.unwrap();
    let device = kernel.open();
    let written = device.report(zone, 1).await.unwrap()[0].written;
    assert!(written == Blocks(1) || written == Blocks(2), "{written}");
    device.append(zone, vec![filled(3, 1)]).await.unwrap();
}

async fn a_drive_that_vanishes_is_gone(kernel: &Kernel) {
    let Some((remove, restore)) = commands("SHINGLE_ZONED_REMOVE", "SHINGLE_ZONED_RESTORE") else { return };
    let device = Rc::new(kernel.fresh().await);
    // Behind those that died.
    let zone = ZoneId(kernel.shape.conventional_zones + 3);
    let writer = {
        let device = device.clone();
        kernel.runtime.spawn(async move {
            let mut failed = 0;
            loop {
                let Err(error) = device.append(zone, vec![filled(1, 16)]).await else { continue };
                let full = error.violation().is_some();
                let error = match device.manage(zone, ZoneOp::Reset).await {
                    Ok(()) if full => continue,
                    Ok(()) => error,
                    Err(error) => error,
                };
                failed += 1;
                // The kernel fails commands a moment before it takes the drive away.
                let dying = matches!(error.kind, DeviceErrorKind::WriteFailed | DeviceErrorKind::System(_));
                if !dying || failed == 10_000 {
                    return error;
                }
            }
        })
    };
    kernel.runtime.blocking(move || shell(remove)).await.unwrap();
    let error = writer.await.unwrap();
    assert!(matches!(error.kind, DeviceErrorKind::Gone), "{error}");
    let read = device.read(Lba(0), Blocks(1)).await.unwrap_err();
    assert!(matches!(read.kind, DeviceErrorKind::Gone), "{read}");
    drop(device);
    kernel.runtime.blocking(move || shell(restore)).await.unwrap();
    let device = kernel.fresh().await;
    device.append(zone, vec![filled(1, 1)]).await.unwrap();
    println!("a drive taken away under load is gone, and can be opened when it is back");
}
