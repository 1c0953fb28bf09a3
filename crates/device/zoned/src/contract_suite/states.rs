//! The eight states, and every command in each of them.

use shingle_base::{Blocks, Lba, ZoneId};

use super::rig::{Backend, Places, blocks, broke, read, state, zone_failed};
use crate::device::ZonedDevice;
use crate::error::Violation as V;
use crate::geometry::Geometry;
use crate::zone::{ZoneOp, ZoneState};

/// Blocks in the zone when it is neither empty nor fresh.
const HELD: u64 = 3;

/// Effect of a command on a zone.
enum Outcome {
    Becomes(ZoneState, u64),
    Refused,
}

pub(super) async fn check<B: Backend>(backend: &B, shape: &Geometry) -> usize {
    let capacity = shape.zone_capacity.0;
    use Outcome::{Becomes, Refused};
    use ZoneState::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen};
    let table = [
        (Empty, ZoneOp::Open, Becomes(ExplicitOpen, 0)),
        (Empty, ZoneOp::Close, Becomes(Empty, 0)),
        (Empty, ZoneOp::Finish, Becomes(Full, capacity)),
        (Empty, ZoneOp::Reset, Becomes(Empty, 0)),
        (ImplicitOpen, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (ImplicitOpen, ZoneOp::Close, Becomes(Closed, HELD)),
        (ImplicitOpen, ZoneOp::Finish, Becomes(Full, capacity)),
        (ImplicitOpen, ZoneOp::Reset, Becomes(Empty, 0)),
        (ExplicitOpen, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (ExplicitOpen, ZoneOp::Close, Becomes(Closed, HELD)),
        (ExplicitOpen, ZoneOp::Finish, Becomes(Full, capacity)),
        (ExplicitOpen, ZoneOp::Reset, Becomes(Empty, 0)),
        (Closed, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (Closed, ZoneOp::Close, Becomes(Closed, HELD)),
        (Closed, ZoneOp::Finish, Becomes(Full, capacity)),
        (Closed, ZoneOp::Reset, Becomes(Empty, 0)),
        (Full, ZoneOp::Open, Refused),
        (Full, ZoneOp::Close, Becomes(Full, capacity)),
        (Full, ZoneOp::Finish, Becomes(Full, capacity)),
        (Full, ZoneOp::Reset, Becomes(Empty, 0)),
    ];
    let mut cases = 0;
    for (from, op, outcome) in table {
        let Some(device) = backend.make(shape).await else { continue };
        let zone = Places::of(&device).zone;
        bring(&device, from).await;
        let held = state(&device, zone).await;
        match outcome {
            Becomes(to, written) => {
                device.manage(zone, op).await.unwrap_or_else(|error| panic!("{op:?} of {from:?}: {error}"));
                assert_eq!(state(&device, zone).await, (to, written), "{op:?} of {from:?}");
                after(&device, from, to, written).await;
            }
            Refused => {
                broke(device.manage(zone, op).await, V::WrongState { op, state: from });
                assert_eq!(state(&device, zone).await, held, "{op:?} of {from:?}");
            }
        }
        cases += 1;
    }
    for (from, to) in
        [(Empty, ImplicitOpen), (ImplicitOpen, ImplicitOpen), (ExplicitOpen, ExplicitOpen), (Closed, ImplicitOpen)]
    {
        let Some(device) = backend.make(shape).await else { continue };
        let Places { zone, start, .. } = Places::of(&device);
        bring(&device, from).await;
        let written = state(&device, zone).await.1;
        device.write(start + Blocks(written), vec![blocks(20, 1)]).await.unwrap();
        assert_eq!(state(&device, zone).await, (to, written + 1), "write to {from:?}");
        device.write(start + Blocks(written + 1), vec![blocks(21, capacity - 1 - written)]).await.unwrap();
        assert_eq!(state(&device, zone).await, (Full, capacity), "write to the end of {from:?}");
        cases += 1;
    }
    if let Some(device) = backend.make(shape).await {
        an_explicitly_opened_empty_zone_is_empty_when_closed(&device).await;
        cases += 1;
    }
    for from in [Empty, ImplicitOpen, ExplicitOpen, Closed, Full] {
        for dead in [ZoneState::ReadOnly, ZoneState::Offline] {
            let Some(device) = backend.make(shape).await else { continue };
            bring(&device, from).await;
            cases += usize::from(failed_zones_refuse(backend, &device, from, dead).await);
        }
    }
    cases
}

/// Brings the zone into a state, with [`HELD`] blocks in it unless it is to be empty.
async fn bring(device: &impl ZonedDevice, to: ZoneState) {
    let Places { zone, start, .. } = Places::of(device);
    if to != ZoneState::Empty {
        device.write(start, vec![blocks(1, HELD)]).await.unwrap();
    }
    match to {
        ZoneState::ExplicitOpen => device.manage(zone, ZoneOp::Open).await.unwrap(),
        ZoneState::Closed => device.manage(zone, ZoneOp::Close).await.unwrap(),
        ZoneState::Full => device.manage(zone, ZoneOp::Finish).await.unwrap(),
        _ => {}
    }
    assert_eq!(state(device, zone).await.0, to);
}

/// Checks the contents of the zone, and writes to it, after a command.
async fn after(device: &impl ZonedDevice, from: ZoneState, to: ZoneState, written: u64) {
    let Places { start, capacity, .. } = Places::of(device);
    if from != ZoneState::Empty && to != ZoneState::Empty {
        assert!(read(device, start, HELD).await.unwrap() == blocks(1, HELD), "{from:?} became {to:?}");
    }
    if to == ZoneState::Full {
        broke(device.write(start + Blocks(HELD), vec![blocks(1, 1)]).await, V::ZoneFull);
        // A drive reads any bytes from unwritten blocks, but the read must succeed.
        read(device, start, capacity).await.unwrap();
        return;
    }
    let write_pointer = start + Blocks(written);
    broke(read(device, write_pointer, 1).await, V::PastWritePointer { end: write_pointer + Blocks(1), write_pointer });
    device.write(write_pointer, vec![blocks(60, 2)]).await.unwrap();
    assert!(read(device, write_pointer, 2).await.unwrap() == blocks(60, 2), "{from:?} became {to:?}");
}

async fn an_explicitly_opened_empty_zone_is_empty_when_closed(device: &impl ZonedDevice) {
    let zone = Places::of(device).zone;
    device.manage(zone, ZoneOp::Open).await.unwrap();
    assert_eq!(state(device, zone).await, (ZoneState::ExplicitOpen, 0));
    device.manage(zone, ZoneOp::Close).await.unwrap();
    assert_eq!(state(device, zone).await, (ZoneState::Empty, 0));
}

/// Returns whether the backend could let the zone fail.
async fn failed_zones_refuse<B: Backend>(backend: &B, device: &B::Device, from: ZoneState, dead: ZoneState) -> bool {
    let places @ Places { zone, start, capacity, .. } = Places::of(device);
    if !backend.degrade(device, zone, dead) {
        return false;
    }
    let written = match (dead, from) {
        (ZoneState::Offline, _) | (_, ZoneState::Empty) => 0,
        (_, ZoneState::Full) => capacity,
        _ => HELD,
    };
    assert_eq!(state(device, zone).await, (dead, written), "{from:?}");
    zone_failed(device.write(start + Blocks(written), vec![blocks(1, 1)]).await, dead);
    zone_failed(device.append(zone, vec![blocks(1, 1)]).await, dead);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        zone_failed(device.manage(zone, op).await, dead);
    }
    if dead == ZoneState::Offline {
        zone_failed(read(device, start, 1).await, dead);
    } else if written > 0 {
        assert!(read(device, start, HELD).await.unwrap() == blocks(1, HELD));
    } else {
        broke(read(device, start, 1).await, V::PastWritePointer { end: start + Blocks(1), write_pointer: start });
    }
    assert_eq!(state(device, zone).await, (dead, written), "{from:?}");
    // It holds no resource: as many zones as ever can be opened.
    for number in 1..4 {
        device.manage(places.nth(number), ZoneOp::Open).await.unwrap();
    }
    if places.conventional().is_some() && backend.degrade(device, ZoneId(0), dead) {
        zone_failed(device.write(Lba(1), vec![blocks(1, 1)]).await, dead);
        let read = read(device, Lba(1), 1).await;
        if dead == ZoneState::Offline { zone_failed(read, dead) } else { drop(read.unwrap()) }
    }
    true
}
