//! The eight states, and every command in each of them.

use shingle_base::{Blocks, Lba, ZoneId};

use super::{Backend, blocks, broke, read, small, state, zone_failed};
use crate::device::{ZoneOp, ZoneState, ZonedDevice};
use crate::error::Violation as V;

const ZONE: ZoneId = ZoneId(2);
const START: Lba = Lba(32);
/// What is in the zone when it is neither empty nor fresh.
const HELD: u64 = 3;

/// What a command does to a zone.
enum Outcome {
    Becomes(ZoneState, u64),
    Refused,
}

pub(super) async fn check<B: Backend>(backend: &B) -> usize {
    use Outcome::{Becomes, Refused};
    use ZoneState::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen};
    let table = [
        (Empty, ZoneOp::Open, Becomes(ExplicitOpen, 0)),
        (Empty, ZoneOp::Close, Becomes(Empty, 0)),
        (Empty, ZoneOp::Finish, Becomes(Full, 12)),
        (Empty, ZoneOp::Reset, Becomes(Empty, 0)),
        (ImplicitOpen, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (ImplicitOpen, ZoneOp::Close, Becomes(Closed, HELD)),
        (ImplicitOpen, ZoneOp::Finish, Becomes(Full, 12)),
        (ImplicitOpen, ZoneOp::Reset, Becomes(Empty, 0)),
        (ExplicitOpen, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (ExplicitOpen, ZoneOp::Close, Becomes(Closed, HELD)),
        (ExplicitOpen, ZoneOp::Finish, Becomes(Full, 12)),
        (ExplicitOpen, ZoneOp::Reset, Becomes(Empty, 0)),
        (Closed, ZoneOp::Open, Becomes(ExplicitOpen, HELD)),
        (Closed, ZoneOp::Close, Becomes(Closed, HELD)),
        (Closed, ZoneOp::Finish, Becomes(Full, 12)),
        (Closed, ZoneOp::Reset, Becomes(Empty, 0)),
        (Full, ZoneOp::Open, Refused),
        (Full, ZoneOp::Close, Becomes(Full, 12)),
        (Full, ZoneOp::Finish, Becomes(Full, 12)),
        (Full, ZoneOp::Reset, Becomes(Empty, 0)),
    ];
    let mut cases = 0;
    for (from, op, outcome) in table {
        let Some(device) = backend.make(&small()).await else { continue };
        bring(&device, from).await;
        let held = state(&device, ZONE).await;
        match outcome {
            Becomes(to, written) => {
                device.manage(ZONE, op).await.unwrap_or_else(|error| panic!("{op:?} of {from:?}: {error}"));
                assert_eq!(state(&device, ZONE).await, (to, written), "{op:?} of {from:?}");
                after(&device, from, to, written).await;
            }
            Refused => {
                broke(device.manage(ZONE, op).await, V::WrongState { op, state: from });
                assert_eq!(state(&device, ZONE).await, held, "{op:?} of {from:?}");
            }
        }
        cases += 1;
    }
    for (from, to) in
        [(Empty, ImplicitOpen), (ImplicitOpen, ImplicitOpen), (ExplicitOpen, ExplicitOpen), (Closed, ImplicitOpen)]
    {
        let Some(device) = backend.make(&small()).await else { continue };
        bring(&device, from).await;
        let written = state(&device, ZONE).await.1;
        device.write(START + Blocks(written), vec![blocks(20, 1)]).await.unwrap();
        assert_eq!(state(&device, ZONE).await, (to, written + 1), "write to {from:?}");
        device.write(START + Blocks(written + 1), vec![blocks(21, 11 - written)]).await.unwrap();
        assert_eq!(state(&device, ZONE).await, (Full, 12), "write to the end of {from:?}");
        cases += 1;
    }
    if let Some(device) = backend.make(&small()).await {
        an_explicitly_opened_empty_zone_is_empty_when_closed(&device).await;
        cases += 1;
    }
    for from in [Empty, ImplicitOpen, ExplicitOpen, Closed, Full] {
        for dead in [ZoneState::ReadOnly, ZoneState::Offline] {
            let Some(device) = backend.make(&small()).await else { continue };
            bring(&device, from).await;
            cases += usize::from(failed_zones_refuse(backend, &device, from, dead).await);
        }
    }
    cases
}

/// Brings the zone into a state, with [`HELD`] blocks in it unless it is to be empty.
async fn bring(device: &impl ZonedDevice, to: ZoneState) {
    if to != ZoneState::Empty {
        device.write(START, vec![blocks(1, HELD)]).await.unwrap();
    }
    match to {
        ZoneState::ExplicitOpen => device.manage(ZONE, ZoneOp::Open).await.unwrap(),
        ZoneState::Closed => device.manage(ZONE, ZoneOp::Close).await.unwrap(),
        ZoneState::Full => device.manage(ZONE, ZoneOp::Finish).await.unwrap(),
        _ => {}
    }
    assert_eq!(state(device, ZONE).await.0, to);
}

/// What the zone holds, and what can be written to it, after a command.
async fn after(device: &impl ZonedDevice, from: ZoneState, to: ZoneState, written: u64) {
    if from != ZoneState::Empty && to != ZoneState::Empty {
        assert!(read(device, START, HELD).await.unwrap() == blocks(1, HELD), "{from:?} became {to:?}");
    }
    if to == ZoneState::Full {
        broke(device.write(START + Blocks(HELD), vec![blocks(1, 1)]).await, V::ZoneFull);
        // What a drive reads where nothing was written is its own affair; that it reads is not.
        read(device, START, 12).await.unwrap();
        return;
    }
    let write_pointer = START + Blocks(written);
    broke(read(device, write_pointer, 1).await, V::PastWritePointer { end: write_pointer + Blocks(1), write_pointer });
    device.write(write_pointer, vec![blocks(60, 2)]).await.unwrap();
    assert!(read(device, write_pointer, 2).await.unwrap() == blocks(60, 2), "{from:?} became {to:?}");
}

async fn an_explicitly_opened_empty_zone_is_empty_when_closed(device: &impl ZonedDevice) {
    device.manage(ZONE, ZoneOp::Open).await.unwrap();
    assert_eq!(state(device, ZONE).await, (ZoneState::ExplicitOpen, 0));
    device.manage(ZONE, ZoneOp::Close).await.unwrap();
    assert_eq!(state(device, ZONE).await, (ZoneState::Empty, 0));
}

/// Returns whether the backend could let the zone fail.
async fn failed_zones_refuse<B: Backend>(backend: &B, device: &B::Device, from: ZoneState, dead: ZoneState) -> bool {
    if !backend.degrade(device, ZONE, dead) {
        return false;
    }
    let written = match (dead, from) {
        (ZoneState::Offline, _) | (_, ZoneState::Empty) => 0,
        (_, ZoneState::Full) => 12,
        _ => HELD,
    };
    assert_eq!(state(device, ZONE).await, (dead, written), "{from:?}");
    zone_failed(device.write(START + Blocks(written), vec![blocks(1, 1)]).await, dead);
    zone_failed(device.append(ZONE, vec![blocks(1, 1)]).await, dead);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        zone_failed(device.manage(ZONE, op).await, dead);
    }
    if dead == ZoneState::Offline {
        zone_failed(read(device, START, 1).await, dead);
    } else if written > 0 {
        assert!(read(device, START, HELD).await.unwrap() == blocks(1, HELD));
    } else {
        broke(read(device, START, 1).await, V::PastWritePointer { end: START + Blocks(1), write_pointer: START });
    }
    assert_eq!(state(device, ZONE).await, (dead, written), "{from:?}");
    // It holds no resource: as many zones as ever can be opened.
    for zone in 3..6 {
        device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
    }
    if backend.degrade(device, ZoneId(0), dead) {
        zone_failed(device.write(Lba(1), vec![blocks(1, 1)]).await, dead);
        let read = read(device, Lba(1), 1).await;
        if dead == ZoneState::Offline { zone_failed(read, dead) } else { drop(read.unwrap()) }
    }
    true
}
