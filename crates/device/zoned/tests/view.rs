//! Views beyond the contract: two of them on one drive.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{
    DeviceErrorKind, Geometry, MemoryDevice, Share, Violation, ZoneOp, ZoneRange, ZoneRangeError, ZoneState,
    ZonedDevice,
};

/// 12 zones of 16 blocks, the first 2 conventional; at most 5 open and 8 active.
fn drive() -> Rc<MemoryDevice> {
    Rc::new(MemoryDevice::new(Geometry { conventional_zones: 2, ..Geometry::zns(Blocks(16), Blocks(12), 12, 5, 8) }))
}

fn share(open: u32, active: u32) -> Share {
    Share { open_zones_max: Some(open), active_zones_max: Some(active) }
}

fn blocks(byte: u8, count: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(count));
    buffer.fill(byte);
    buffer.freeze()
}

/// ZD-VW-1.
#[test]
fn two_views_share_a_drive_and_never_touch_each_other() {
    real::run(|_| async {
        let drive = drive();
        let left = ZoneRange::new(drive.clone(), ZoneId(0), 6, share(2, 3)).await.unwrap();
        let right = ZoneRange::new(drive.clone(), ZoneId(6), 6, share(3, 5)).await.unwrap();
        assert_eq!((left.geometry().conventional_zones, right.geometry().conventional_zones), (2, 0));
        for zone in [2, 3, 4] {
            left.append(ZoneId(zone), vec![blocks(1, 1)]).await.unwrap();
        }
        for zone in 0..5 {
            right.append(ZoneId(zone), vec![blocks(2, 2)]).await.unwrap();
        }
        // Each closed its own to make room, though the drive still had some.
        let state = |zone| drive.zone(ZoneId(zone)).state;
        let states: Vec<ZoneState> = (2..11).map(state).collect();
        use ZoneState::{Closed, Empty, ImplicitOpen};
        assert_eq!(
            states,
            [Closed, ImplicitOpen, ImplicitOpen, Empty, Closed, Closed, ImplicitOpen, ImplicitOpen, ImplicitOpen]
        );
        let refused = right.append(ZoneId(5), vec![blocks(2, 1)]).await.unwrap_err();
        assert_eq!(refused.violation(), Some(Violation::TooManyActive { limit: 5 }));
        assert!(right.read(Lba(0), Blocks(2)).await.unwrap() == blocks(2, 2));
        assert!(drive.read(Lba(96), Blocks(2)).await.unwrap() == blocks(2, 2));
    })
    .unwrap();
}

/// ZD-VW-2.
#[test]
fn errors_and_addresses_are_the_views_own() {
    real::run(|_| async {
        let drive = drive();
        let view = ZoneRange::new(drive.clone(), ZoneId(4), 3, Share::default()).await.unwrap();
        assert_eq!(view.append(ZoneId(1), vec![blocks(1, 3)]).await.unwrap(), Lba(16));
        let wrong = view.write(Lba(20), vec![blocks(1, 1)]).await.unwrap_err();
        let rule = Violation::NotAtWritePointer { at: Lba(20), write_pointer: Lba(19) };
        assert_eq!((wrong.violation(), wrong.at, wrong.zone), (Some(rule), Lba(20), Some(ZoneId(1))));
        let past = view.read(Lba(47), Blocks(2)).await.unwrap_err();
        assert_eq!(past.violation(), Some(Violation::OutOfRange { end: Lba(49), device_end: Lba(48) }));
        let other = view.manage(ZoneId(3), ZoneOp::Reset).await.unwrap_err();
        assert_eq!(other.violation(), Some(Violation::OutOfRange { end: Lba(64), device_end: Lba(48) }));
        let info = view.report(ZoneId(1), 9).await.unwrap();
        assert_eq!((info.len(), info[0].zone, info[0].start, info[0].written), (2, ZoneId(1), Lba(16), Blocks(3)));
        drive.set_state(ZoneId(5), ZoneState::ReadOnly);
        let failed = view.write(Lba(19), vec![blocks(1, 1)]).await.unwrap_err();
        assert!(matches!(failed.kind, DeviceErrorKind::ZoneReadOnly) && failed.zone == Some(ZoneId(1)));
    })
    .unwrap();
}

/// A zone that fails under a view gives its resources back to the share.
#[test]
fn a_zone_that_failed_no_longer_counts() {
    real::run(|_| async {
        let drive = drive();
        let view = ZoneRange::new(drive.clone(), ZoneId(4), 8, share(2, 2)).await.unwrap();
        view.manage(ZoneId(0), ZoneOp::Open).await.unwrap();
        view.manage(ZoneId(1), ZoneOp::Open).await.unwrap();
        assert!(view.manage(ZoneId(2), ZoneOp::Open).await.is_err());
        drive.set_state(ZoneId(4), ZoneState::Offline);
        let failed = view.append(ZoneId(0), vec![blocks(1, 1)]).await.unwrap_err();
        assert!(matches!(failed.kind, DeviceErrorKind::ZoneOffline));
        view.manage(ZoneId(2), ZoneOp::Open).await.unwrap();
    })
    .unwrap();
}

/// As above, but nobody wrote to it: the view finds out when it closes it to make room.
#[test]
fn a_zone_that_failed_unnoticed_no_longer_counts_once_it_is_closed() {
    real::run(|_| async {
        let drive = drive();
        let view = ZoneRange::new(drive.clone(), ZoneId(4), 8, share(1, 2)).await.unwrap();
        view.append(ZoneId(0), vec![blocks(1, 1)]).await.unwrap();
        drive.set_state(ZoneId(4), ZoneState::ReadOnly);
        view.append(ZoneId(1), vec![blocks(1, 1)]).await.unwrap();
        view.append(ZoneId(2), vec![blocks(1, 1)]).await.unwrap();
        assert!(view.append(ZoneId(3), vec![blocks(1, 1)]).await.is_err());
    })
    .unwrap();
}

#[test]
fn a_view_takes_over_open_zones_and_closes_those_past_its_share() {
    real::run(|_| async {
        let drive = drive();
        for zone in [4, 5, 6, 7] {
            drive.append(ZoneId(zone), vec![blocks(1, 1)]).await.unwrap();
        }
        let view = ZoneRange::new(drive.clone(), ZoneId(4), 8, share(2, 5)).await.unwrap();
        let open = (4..8).filter(|&zone| drive.zone(ZoneId(zone)).state == ZoneState::ImplicitOpen).count();
        assert_eq!(open, 2);
        view.append(ZoneId(4), vec![blocks(1, 1)]).await.unwrap();
        let refused = view.append(ZoneId(5), vec![blocks(1, 1)]).await.unwrap_err();
        assert_eq!(refused.violation(), Some(Violation::TooManyActive { limit: 5 }), "what was active counts");
    })
    .unwrap();
}

#[test]
fn what_a_drive_does_not_have_cannot_be_shared() {
    real::run(|_| async {
        let refused: [(u32, u32, Share, &str); 5] = [
            (0, 0, Share::default(), "out of range"),
            (10, 3, Share::default(), "out of range"),
            (u32::MAX, 2, Share::default(), "out of range"),
            (0, 12, share(6, 8), "exceeds the drive's limit of 5"),
            (0, 12, share(0, 8), "limit of zero"),
        ];
        for (first, count, share, reason) in refused {
            let error = ZoneRange::new(drive(), ZoneId(first), count, share).await.map(drop).unwrap_err();
            assert!(matches!(&error, ZoneRangeError::Geometry(error) if error.0.contains(reason)), "{error}");
        }
    })
    .unwrap();
}
