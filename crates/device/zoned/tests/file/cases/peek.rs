//! Looking at a drive beside whoever has it open.

use std::fs;

use shingle_base::{Blocks, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{FileDevice, FileDeviceErrorKind, Violation, ZoneOp, ZoneState, ZonedDevice};

use super::{Directory, blocks, create, geometry};

#[test]
fn a_peek_sees_what_is_there_and_changes_nothing() {
    let directory = Directory::new("peek");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let owner = crate::open(&path, &runtime).unwrap();
        let (zone, other) = (ZoneId(5), ZoneId(6));
        owner.append(zone, vec![blocks(1, 8)]).await.unwrap();
        owner.flush().await.unwrap();
        let before = fs::read(&path).unwrap();

        let peek = FileDevice::peek(&path, &runtime).unwrap();
        assert!(!peek.hold(), "its owner has it");
        assert_eq!(peek.geometry(), owner.geometry());
        assert_eq!(peek.report(ZoneId(0), 16).await.unwrap(), owner.report(ZoneId(0), 16).await.unwrap());
        let start = peek.geometry().start_of(zone);
        assert_eq!(peek.read(start, Blocks(8)).await.unwrap(), blocks(1, 8));
        let past = peek.read(start, Blocks(9)).await.unwrap_err();
        assert!(matches!(past.violation(), Some(Violation::PastWritePointer { .. })), "{past}");
        assert!(peek.write(start + Blocks(8), vec![blocks(2, 1)]).await.is_err());
        assert!(peek.append(other, vec![blocks(2, 1)]).await.is_err());
        assert!(peek.manage(zone, ZoneOp::Reset).await.is_err());
        peek.flush().await.unwrap();
        assert!(fs::read(&path).unwrap() == before, "the file was changed");

        // Later writes of its owner are not seen (ZD-PEEK-1).
        owner.append(other, vec![blocks(3, 1)]).await.unwrap();
        assert_eq!(peek.report(other, 1).await.unwrap()[0].state, ZoneState::Empty);
        drop(owner);
        let alone = FileDevice::peek(&path, &runtime).unwrap();
        assert!(alone.hold());
        assert!(crate::open(&path, &runtime).is_err(), "it is held");
        drop((peek, alone));
        assert!(crate::open(&path, &runtime).is_ok());
    })
    .unwrap();
}

#[test]
fn a_peek_at_a_file_that_ends_in_its_table_says_so() {
    let directory = Directory::new("peek-cut");
    let path = directory.drive();
    create(&path, &geometry());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    real::run(|runtime| async move {
        let Err(error) = FileDevice::peek(&path, &runtime) else { panic!("there is no table to look at") };
        assert!(matches!(error.kind, FileDeviceErrorKind::Truncated { length: 4096, .. }), "{error}");
    })
    .unwrap();
}
