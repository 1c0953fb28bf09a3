//! Files that are no drive, or a damaged one.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use shingle_base::{Blocks, Crc, ZoneId};
use shingle_runtime::{Runtime, real};
use shingle_zoned::{CreateOptions, FileDevice, FileDeviceErrorKind as Kind, ZoneOp, ZoneState, ZonedDevice};

use super::{Directory, blocks, create, geometry, open_error};

#[test]
fn what_is_no_drive_is_refused_with_the_reason() {
    let directory = Directory::new("wrong");
    let path = directory.drive();
    let (kind, text) = open_error(&path);
    assert!(matches!(kind, Kind::NotFound) && text.contains("no such file"), "{text}");
    let (kind, _) = open_error(&directory.0);
    assert!(matches!(kind, Kind::Directory), "{kind:?}");
    for bytes in [&b""[..], b"hello", &[0; 10_000]] {
        fs::write(&path, bytes).unwrap();
        let (kind, text) = open_error(&path);
        assert!(matches!(kind, Kind::NotADrive) && text.contains("not a Shingle drive"), "{text}");
    }
    let taken = FileDevice::create(&path, &geometry(), CreateOptions::default()).unwrap_err();
    assert!(matches!(taken.kind, Kind::Exists), "{taken}");
    let foreign = FileDevice::create(&path, &geometry(), CreateOptions { overwrite: true }).unwrap_err();
    assert!(matches!(foreign.kind, Kind::NotADrive), "{foreign}");
    assert_eq!(fs::read(&path).unwrap(), [0; 10_000], "what is no drive is never overwritten");
    fs::remove_file(&path).unwrap();
    let mut impossible = geometry();
    impossible.zone_capacity = Blocks(65);
    let error = FileDevice::create(&path, &impossible, CreateOptions::default()).unwrap_err();
    assert!(matches!(error.kind, Kind::Geometry(_)) && !path.exists(), "{error}");
}

#[test]
fn a_newer_version_is_refused_and_named() {
    let directory = Directory::new("newer");
    create(&directory.drive(), &geometry());
    let file = OpenOptions::new().write(true).open(directory.drive()).unwrap();
    file.write_all_at(&[7], 8).unwrap();
    let (kind, text) = open_error(&directory.drive());
    assert!(matches!(kind, Kind::NewerVersion(7)), "{kind:?}");
    assert!(text.contains("format version 7") && text.contains("newer Shingle"), "{text}");
    let overwritten = FileDevice::create(&directory.drive(), &geometry(), CreateOptions { overwrite: true });
    overwritten.unwrap();
    assert!(real::run(|runtime| async move { crate::open(&directory.drive(), &runtime).is_ok() }).unwrap());
}

#[test]
fn every_cut_is_noticed() {
    let directory = Directory::new("cut");
    let path = directory.drive();
    create(&path, &geometry());
    fn write(path: PathBuf) -> u64 {
        real::run(|runtime: Runtime| async move {
            let device = crate::open(&path, &runtime).unwrap();
            device.append(ZoneId(4), vec![blocks(1, 60)]).await.unwrap();
            fs::metadata(&path).unwrap().len()
        })
        .unwrap()
    }
    // The file is longer than what it holds: what counts is the slot of the only zone that was written.
    assert!(write(path.clone()) > 8192 + 64 * 4096);
    let whole = 8192 + 64 * 4096;
    let bytes = fs::read(&path).unwrap();
    for length in [1, 7, 8, 11, 12, 63, 64, 4095, 4096, 5000, 8191, 8192, 8193, whole - 4096, whole - 1] {
        fs::write(&path, &bytes[..length as usize]).unwrap();
        let (kind, text) = open_error(&path);
        let right = match kind {
            Kind::Truncated { length: found, needed } => found == length && needed > length,
            Kind::NotADrive => length < 8,
            _ => false,
        };
        assert!(right, "cut at {length}: {text}");
    }
}

#[test]
fn a_damaged_header_or_table_is_noticed_and_located() {
    let directory = Directory::new("damage");
    let path = directory.drive();
    create(&path, &geometry());
    let bytes = fs::read(&path).unwrap();
    for at in 12..64 {
        let mut bad = bytes.clone();
        bad[at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        assert!(matches!(open_error(&path).0, Kind::CorruptHeader), "byte {at}");
    }
    for at in 0..16 * 16 {
        let mut bad = bytes.clone();
        bad[4096 + at] ^= 0x10;
        fs::write(&path, &bad).unwrap();
        let (kind, text) = open_error(&path);
        assert!(matches!(kind, Kind::CorruptTable(zone) if zone.0 as usize == at / 16), "byte {at}: {text}");
    }
}

/// Entries whose checksum is right but which cannot be.
#[test]
fn impossible_zone_states_are_refused() {
    let directory = Directory::new("impossible");
    let path = directory.drive();
    create(&path, &geometry());
    let bytes = fs::read(&path).unwrap();
    let cases: [(u32, u32, u32, u8); 7] = [
        (2, 61, 1, 4), // more than its capacity
        (2, 5, 0, 4),  // bytes without a place
        (2, 5, 99, 4), // a place past the last
        (2, 5, 1, 7),  // a state that does not exist
        (2, 0, 0, 0),  // a sequential zone without a write pointer
        (0, 0, 0, 1),  // a conventional zone with one
        (2, u32::MAX, u32::MAX, 4),
    ];
    for (zone, written, slot, state) in cases {
        let mut bad = bytes.clone();
        set_entry(&mut bad, zone, written, slot, state);
        fs::write(&path, &bad).unwrap();
        let (kind, text) = open_error(&path);
        assert!(matches!(kind, Kind::CorruptTable(found) if found.0 == zone), "{written} {slot} {state}: {text}");
    }
}

/// Commands under way when a process is killed can leave one open zone too many in the table.
#[test]
fn open_zones_past_the_limit_are_closed_when_the_drive_is_opened() {
    let directory = Directory::new("excess");
    let path = directory.drive();
    create(&path, &geometry());
    let mut bytes = fs::read(&path).unwrap();
    for zone in 2..8 {
        set_entry(&mut bytes, zone, 5, zone - 1, ZoneState::ImplicitOpen.code());
    }
    bytes.resize(8192 + 6 * 64 * 4096, 7);
    fs::write(&path, &bytes).unwrap();
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        let states: Vec<ZoneState> = device.report(ZoneId(2), 6).await.unwrap().iter().map(|info| info.state).collect();
        let open = states.iter().filter(|state| **state == ZoneState::ImplicitOpen).count();
        let closed = states.iter().filter(|state| **state == ZoneState::Closed).count();
        assert_eq!((open, closed), (4, 2), "at most 4 may be open");
        device.manage(ZoneId(2), ZoneOp::Open).await.unwrap();
    })
    .unwrap();
}

/// Writes a zone's entry with a checksum that is right.
fn set_entry(file: &mut [u8], zone: u32, written: u32, slot: u32, state: u8) {
    let entry = &mut file[4096 + 16 * zone as usize..][..16];
    entry[..4].copy_from_slice(&written.to_le_bytes());
    entry[4..8].copy_from_slice(&slot.to_le_bytes());
    entry[8] = state;
    let crc = Crc::new().update(&zone.to_le_bytes()).update(&entry[..12]).value();
    entry[12..].copy_from_slice(&crc.to_le_bytes());
}
