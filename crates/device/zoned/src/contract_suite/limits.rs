//! Limits on open and active zones.

use shingle_base::{Blocks, ZoneId};

use super::rig::{Backend, Places, blocks, broke, read, state};
use crate::device::ZonedDevice;
use crate::error::Violation as V;
use crate::geometry::Geometry;
use crate::zone::{ZoneOp, ZoneState};

/// The limits of a device: on open zones, and on active ones. Without a limit on active zones there are two more than open
/// ones, so that some must be closed.
#[derive(Clone, Copy)]
struct Limits {
    open: u32,
    active: u32,
    /// The drive enforces the limit on active zones.
    held: bool,
}

impl Limits {
    fn of(shape: &Geometry) -> Option<Self> {
        let open = shape.open_zones_max?;
        Some(Self { open, active: shape.active_zones_max.unwrap_or(open + 2), held: shape.active_zones_max.is_some() })
    }
}

pub(super) async fn check<B: Backend>(backend: &B, shape: &Geometry) -> usize {
    let mut cases = 0;
    if let Some(limits) = Limits::of(shape) {
        macro_rules! run {
            ($($case:ident),*) => {$(
                if let Some(device) = backend.make(shape).await {
                    $case(&device, limits).await;
                    cases += 1;
                }
            )*};
        }
        let room = limits.active > limits.open + 1;
        if room {
            run!(the_device_closes_implicitly_open_zones, explicitly_open_zones_stay_open);
        }
        if limits.held {
            run!(active_zones_are_limited);
        }
        run!(what_ends_a_zone_frees_its_resources);
    }
    let unlimited = Geometry { open_zones_max: None, active_zones_max: None, ..shape.clone() };
    if let Some(device) = backend.make(&unlimited).await {
        without_limits_every_zone_can_be_open(&device).await;
        cases += 1;
    }
    cases
}

async fn states(device: &impl ZonedDevice, wanted: ZoneState) -> usize {
    let zones = device.report(ZoneId(0), u32::MAX).await.unwrap();
    zones.iter().filter(|info| info.state == wanted).count()
}

async fn the_device_closes_implicitly_open_zones(device: &impl ZonedDevice, limits: Limits) {
    let places = Places::of(device);
    let open = limits.open as usize;
    for number in 0..limits.active {
        device.write(places.start_of(number), vec![blocks(1, 1)]).await.unwrap();
        assert_eq!(state(device, places.nth(number)).await, (ZoneState::ImplicitOpen, 1), "just written");
        assert!(states(device, ZoneState::ImplicitOpen).await <= open);
    }
    let closed = (limits.active - limits.open) as usize;
    assert_eq!(states(device, ZoneState::Closed).await, closed);
    // The device chooses which one it closes; all take writes as before.
    for number in 0..limits.active {
        device.append(places.nth(number), vec![blocks(2, 1)]).await.unwrap();
        assert!(read(device, places.start_of(number), 2).await.unwrap() == blocks(1, 2), "sequential zone {number}");
    }
    let found = (states(device, ZoneState::ImplicitOpen).await, states(device, ZoneState::Closed).await);
    assert_eq!(found, (open, closed));
}

async fn explicitly_open_zones_stay_open(device: &impl ZonedDevice, limits: Limits) {
    let places = Places::of(device);
    // The last zone that can be open, and two behind it.
    let [last, next, third] = [limits.open - 1, limits.open, limits.open + 1];
    for number in 0..last {
        device.manage(places.nth(number), ZoneOp::Open).await.unwrap();
    }
    device.write(places.start_of(last), vec![blocks(1, 1)]).await.unwrap();
    device.write(places.start_of(next), vec![blocks(1, 1)]).await.unwrap();
    assert_eq!(state(device, places.nth(last)).await, (ZoneState::Closed, 1), "the only one the device may close");
    device.manage(places.nth(last), ZoneOp::Open).await.unwrap();
    assert_eq!(state(device, places.nth(next)).await, (ZoneState::Closed, 1));
    let too_many = V::TooManyOpen { limit: limits.open };
    broke(device.manage(places.nth(next), ZoneOp::Open).await, too_many);
    broke(device.write(places.start_of(next) + Blocks(1), vec![blocks(2, 1)]).await, too_many);
    broke(device.append(places.nth(third), vec![blocks(2, 1)]).await, too_many);
    assert_eq!(state(device, places.nth(next)).await, (ZoneState::Closed, 1), "a refused write changes nothing");
    assert_eq!(state(device, places.nth(third)).await, (ZoneState::Empty, 0));
    for number in 0..limits.open {
        assert_eq!(state(device, places.nth(number)).await.0, ZoneState::ExplicitOpen);
        device.append(places.nth(number), vec![blocks(3, 1)]).await.unwrap();
    }
    device.manage(places.nth(0), ZoneOp::Close).await.unwrap();
    device.append(places.nth(next), vec![blocks(2, 1)]).await.unwrap();
    assert!(read(device, places.start_of(next), 2).await.unwrap() == blocks(1, 2));
}

async fn active_zones_are_limited(device: &impl ZonedDevice, limits: Limits) {
    let places = Places::of(device);
    for number in 0..limits.active {
        device.write(places.start_of(number), vec![blocks(1, 1)]).await.unwrap();
    }
    let (more, at) = (places.nth(limits.active), places.start_of(limits.active));
    let too_many = V::TooManyActive { limit: limits.active };
    for closed in [false, true] {
        broke(device.write(at, vec![blocks(1, 1)]).await, too_many);
        broke(device.append(more, vec![blocks(1, 1)]).await, too_many);
        broke(device.manage(more, ZoneOp::Open).await, too_many);
        assert_eq!(state(device, more).await, (ZoneState::Empty, 0));
        if !closed {
            // A closed zone is still active.
            for number in 0..limits.active {
                device.manage(places.nth(number), ZoneOp::Close).await.unwrap();
            }
            assert_eq!(states(device, ZoneState::Closed).await, limits.active as usize);
        }
    }
    if let Some((_, start)) = places.conventional() {
        device.write(start, vec![blocks(1, 1)]).await.unwrap();
    }
}

async fn what_ends_a_zone_frees_its_resources(device: &impl ZonedDevice, limits: Limits) {
    let places = Places::of(device);
    let geometry = device.geometry();
    for round in 0..3 {
        for number in 0..limits.active {
            device.append(places.nth(number), vec![blocks(1, 1)]).await.unwrap();
        }
        for number in 0..limits.active {
            let (zone, second) = (places.nth(number), places.start_of(number) + Blocks(1));
            match round {
                0 => device.manage(zone, ZoneOp::Finish).await.unwrap(),
                1 => device.write(second, vec![blocks(2, places.capacity - 1)]).await.unwrap(),
                _ => device.manage(zone, ZoneOp::Reset).await.unwrap(),
            }
        }
        for number in 0..limits.open {
            device.manage(places.nth(limits.active + number), ZoneOp::Open).await.unwrap();
        }
        if let Some((zone, _)) = places.conventional() {
            let refused = V::WrongState { op: ZoneOp::Open, state: ZoneState::NotWritePointer };
            broke(device.manage(zone, ZoneOp::Open).await, refused);
        }
        for number in 0..limits.active + limits.open {
            device.manage(places.nth(number), ZoneOp::Reset).await.unwrap();
        }
        let sequential = geometry.zone_count - geometry.conventional_zones;
        assert_eq!(states(device, ZoneState::Empty).await, sequential as usize);
    }
}

async fn without_limits_every_zone_can_be_open(device: &impl ZonedDevice) {
    let places = Places::of(device);
    for number in 0..8 {
        device.manage(places.nth(number), ZoneOp::Open).await.unwrap();
        device.write(places.start_of(number), vec![blocks(1, 1)]).await.unwrap();
    }
    assert_eq!(states(device, ZoneState::ExplicitOpen).await, 8);
}
