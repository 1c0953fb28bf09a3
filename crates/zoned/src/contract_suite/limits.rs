//! Limits on open and active zones: at most 3 and 5 in [`small`].

use shingle_base::{Blocks, Lba, ZoneId};

use super::{Backend, blocks, broke, read, small, state};
use crate::device::{ZoneOp, ZoneState, ZonedDevice};
use crate::error::Violation as V;
use crate::geometry::Geometry;

pub(super) async fn check<B: Backend>(backend: &B) -> usize {
    let mut cases = 0;
    macro_rules! run {
        ($geometry:expr => $($case:ident),*) => {$(
            if let Some(device) = backend.make(&$geometry).await {
                $case(&device).await;
                cases += 1;
            }
        )*};
    }
    run!(small() => the_device_closes_implicitly_open_zones, explicitly_open_zones_stay_open);
    run!(small() => active_zones_are_limited, what_ends_a_zone_frees_its_resources);
    let unlimited = Geometry { open_zones_max: None, active_zones_max: None, ..small() };
    run!(unlimited => without_limits_every_zone_can_be_open);
    cases
}

fn start(zone: u32) -> Lba {
    Lba(u64::from(zone) * 16)
}

async fn states(device: &impl ZonedDevice, wanted: ZoneState) -> usize {
    let zones = device.report(ZoneId(0), u32::MAX).await.unwrap();
    zones.iter().filter(|info| info.state == wanted).count()
}

async fn the_device_closes_implicitly_open_zones(device: &impl ZonedDevice) {
    for zone in 2..7 {
        device.write(start(zone), vec![blocks(1, 1)]).await.unwrap();
        assert_eq!(state(device, ZoneId(zone)).await, (ZoneState::ImplicitOpen, 1), "just written");
        assert!(states(device, ZoneState::ImplicitOpen).await <= 3);
    }
    assert_eq!(states(device, ZoneState::Closed).await, 2);
    // Which one the device closes is its own choice; all take writes as before.
    for zone in 2..7 {
        device.append(ZoneId(zone), vec![blocks(2, 1)]).await.unwrap();
        assert!(read(device, start(zone), 2).await.unwrap() == blocks(1, 2), "zone {zone}");
    }
    assert_eq!((states(device, ZoneState::ImplicitOpen).await, states(device, ZoneState::Closed).await), (3, 2));
}

async fn explicitly_open_zones_stay_open(device: &impl ZonedDevice) {
    for zone in [2, 3] {
        device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
    }
    device.write(start(4), vec![blocks(1, 1)]).await.unwrap();
    device.write(start(5), vec![blocks(1, 1)]).await.unwrap();
    assert_eq!(state(device, ZoneId(4)).await, (ZoneState::Closed, 1), "the only one the device may close");
    device.manage(ZoneId(4), ZoneOp::Open).await.unwrap();
    assert_eq!(state(device, ZoneId(5)).await, (ZoneState::Closed, 1));
    let too_many = V::TooManyOpen { limit: 3 };
    broke(device.manage(ZoneId(5), ZoneOp::Open).await, too_many);
    broke(device.write(start(5) + Blocks(1), vec![blocks(2, 1)]).await, too_many);
    broke(device.append(ZoneId(6), vec![blocks(2, 1)]).await, too_many);
    assert_eq!(state(device, ZoneId(5)).await, (ZoneState::Closed, 1), "a refused write changes nothing");
    assert_eq!(state(device, ZoneId(6)).await, (ZoneState::Empty, 0));
    for zone in [2, 3, 4] {
        assert_eq!(state(device, ZoneId(zone)).await.0, ZoneState::ExplicitOpen);
        device.append(ZoneId(zone), vec![blocks(3, 1)]).await.unwrap();
    }
    device.manage(ZoneId(2), ZoneOp::Close).await.unwrap();
    device.append(ZoneId(5), vec![blocks(2, 1)]).await.unwrap();
    assert!(read(device, start(5), 2).await.unwrap() == blocks(1, 2));
}

async fn active_zones_are_limited(device: &impl ZonedDevice) {
    for zone in 2..7 {
        device.write(start(zone), vec![blocks(1, 1)]).await.unwrap();
    }
    let too_many = V::TooManyActive { limit: 5 };
    for closed in [false, true] {
        broke(device.write(start(7), vec![blocks(1, 1)]).await, too_many);
        broke(device.append(ZoneId(7), vec![blocks(1, 1)]).await, too_many);
        broke(device.manage(ZoneId(7), ZoneOp::Open).await, too_many);
        assert_eq!(state(device, ZoneId(7)).await, (ZoneState::Empty, 0));
        if !closed {
            // A closed zone is still active.
            for zone in 2..7 {
                device.manage(ZoneId(zone), ZoneOp::Close).await.unwrap();
            }
            assert_eq!(states(device, ZoneState::Closed).await, 5);
        }
    }
    device.write(start(0), vec![blocks(1, 1)]).await.unwrap();
}

async fn what_ends_a_zone_frees_its_resources(device: &impl ZonedDevice) {
    for round in 0..3 {
        for zone in 2..7 {
            device.append(ZoneId(zone), vec![blocks(1, 1)]).await.unwrap();
        }
        for zone in 2..7 {
            match round {
                0 => device.manage(ZoneId(zone), ZoneOp::Finish).await.unwrap(),
                1 => device.write(start(zone) + Blocks(1), vec![blocks(2, 11)]).await.unwrap(),
                _ => device.manage(ZoneId(zone), ZoneOp::Reset).await.unwrap(),
            }
        }
        for zone in 7..10 {
            device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
        }
        broke(
            device.manage(ZoneId(1), ZoneOp::Open).await,
            V::WrongState { op: ZoneOp::Open, state: ZoneState::NotWritePointer },
        );
        for zone in 2..10 {
            device.manage(ZoneId(zone), ZoneOp::Reset).await.unwrap();
        }
        assert_eq!(states(device, ZoneState::Empty).await, 8);
    }
}

async fn without_limits_every_zone_can_be_open(device: &impl ZonedDevice) {
    for zone in 2..10 {
        device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
        device.write(start(zone), vec![blocks(1, 1)]).await.unwrap();
    }
    assert_eq!(states(device, ZoneState::ExplicitOpen).await, 8);
}
