//! Addresses, lengths, data: what a command may ask for, and what it does.

use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};

use bytes::Bytes;
use futures_util::future::{join_all, poll_immediate};

use super::{Backend, blocks, broke, read, small, state, zone};
use crate::device::{ZoneOp, ZoneState, ZonedDevice};
use crate::error::Violation as V;
use crate::geometry::Geometry;

/// The first sequential zone of [`small`], and where it starts.
const ZONE: ZoneId = ZoneId(2);
const START: Lba = Lba(32);

pub(super) async fn check<B: Backend>(backend: &B) -> usize {
    let mut cases = 0;
    macro_rules! run {
        ($($case:ident),*) => {$(
            if let Some(device) = backend.make(&small()).await {
                $case(&device).await;
                cases += 1;
            }
        )*};
    }
    run!(
        a_fresh_device_is_empty,
        writes_are_read_back,
        writes_go_to_the_write_pointer_only,
        reads_end_at_the_write_pointer
    );
    run!(ranges_lie_in_one_zone_of_the_device, data_is_whole_aligned_blocks, capacity_ends_before_the_zone_does);
    run!(conventional_zones_take_writes_anywhere, appends_say_where_they_landed, a_command_that_started_happens);
    let limited = Geometry { append_max: Some(Blocks(4)), ..small() };
    if let Some(device) = backend.make(&limited).await {
        long_appends_are_refused(&device).await;
        cases += 1;
    }
    if let Some(device) = backend.make(&small()).await {
        cases += usize::from(a_device_is_as_it_was_when_opened_again(backend, device).await);
    }
    cases
}

async fn a_fresh_device_is_empty(device: &impl ZonedDevice) {
    let geometry = device.geometry().clone();
    let zones = device.report(ZoneId(0), u32::MAX).await.unwrap();
    assert_eq!(zones.len(), geometry.zone_count as usize);
    for (at, info) in zones.iter().enumerate() {
        let id = ZoneId(at as u32);
        let conventional = geometry.is_conventional(id);
        let expected = if conventional { ZoneState::NotWritePointer } else { ZoneState::Empty };
        assert_eq!((info.zone, info.state, info.written), (id, expected, Blocks::ZERO));
        assert_eq!((info.start, info.capacity), (geometry.start_of(id), geometry.capacity_of(id)));
    }
    assert_eq!(device.report(ZoneId(4), 3).await.unwrap(), zones[4..7], "a part of the zones");
    assert_eq!(device.report(ZoneId(geometry.zone_count), 3).await.unwrap(), [], "past the last zone");
    device.flush().await.unwrap();
}

async fn writes_are_read_back(device: &impl ZonedDevice) {
    device.write(START, vec![blocks(1, 1), blocks(2, 3), blocks(5, 1)]).await.unwrap();
    device.write(START + Blocks(5), vec![blocks(6, 2)]).await.unwrap();
    assert_eq!(state(device, ZONE).await, (ZoneState::ImplicitOpen, 7));
    for from in 0..7 {
        for length in 1..=7 - from {
            let bytes = read(device, START + Blocks(from), length).await.unwrap();
            assert!(bytes == blocks(1 + from, length), "{length} blocks from {from}");
        }
    }
}

async fn writes_go_to_the_write_pointer_only(device: &impl ZonedDevice) {
    device.write(START, vec![blocks(1, 2)]).await.unwrap();
    for at in [0, 1, 3, 11, 12] {
        let at = START + Blocks(at);
        broke(
            device.write(at, vec![blocks(9, 1)]).await,
            V::NotAtWritePointer { at, write_pointer: START + Blocks(2) },
        );
    }
    let untouched = ZoneId(3);
    let at = Lba(49);
    broke(device.write(at, vec![blocks(9, 1)]).await, V::NotAtWritePointer { at, write_pointer: Lba(48) });
    assert_eq!(state(device, untouched).await, (ZoneState::Empty, 0));
    assert_eq!(state(device, ZONE).await, (ZoneState::ImplicitOpen, 2));
    assert!(read(device, START, 2).await.unwrap() == blocks(1, 2), "a refused write changes nothing");
}

async fn reads_end_at_the_write_pointer(device: &impl ZonedDevice) {
    broke(read(device, START, 1).await, V::PastWritePointer { end: START + Blocks(1), write_pointer: START });
    device.write(START, vec![blocks(1, 3)]).await.unwrap();
    let write_pointer = START + Blocks(3);
    for (at, length) in [(0, 4), (2, 2), (3, 1), (12, 4)] {
        let at = START + Blocks(at);
        broke(read(device, at, length).await, V::PastWritePointer { end: at + Blocks(length), write_pointer });
    }
}

async fn ranges_lie_in_one_zone_of_the_device(device: &impl ZonedDevice) {
    let device_end = Lba(device.geometry().blocks().0);
    let crossing = V::CrossesZone { end: Lba(33), zone_end: Lba(32) };
    broke(read(device, Lba(31), 2).await, crossing);
    broke(device.write(Lba(31), vec![blocks(1, 2)]).await, crossing);
    broke(device.write(START, vec![blocks(1, 17)]).await, V::CrossesZone { end: Lba(49), zone_end: Lba(48) });
    for (at, length) in [(device_end, 1), (Lba(device_end.0 - 1), 2), (Lba(1 << 50), 1)] {
        let past = V::OutOfRange { end: at + Blocks(length), device_end };
        broke(read(device, at, length).await, past);
        broke(device.write(at, vec![blocks(1, length)]).await, past);
    }
    let beyond = ZoneId(device.geometry().zone_count);
    let past = V::OutOfRange { end: device_end + Blocks(16), device_end };
    broke(device.append(beyond, vec![blocks(1, 1)]).await, past);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        broke(device.manage(beyond, op).await, past);
    }
}

async fn data_is_whole_aligned_blocks(device: &impl ZonedDevice) {
    let two = blocks(1, 2);
    let unaligned = [
        vec![],
        vec![Bytes::new()],
        vec![two.slice(..BLOCK_SIZE), Bytes::new()],
        vec![two.slice(..100)],
        vec![two.slice(..BLOCK_SIZE), two.slice(BLOCK_SIZE..BLOCK_SIZE + 100)],
        vec![two.slice(8..8 + BLOCK_SIZE)],
    ];
    for data in unaligned {
        broke(device.write(START, data.clone()).await, V::Misaligned);
        broke(device.append(ZONE, data.clone()).await, V::Misaligned);
        broke(device.write(Lba(0), data).await, V::Misaligned);
    }
    broke(device.read(Lba(0), Blocks::ZERO).await, V::Misaligned);
    assert_eq!(state(device, ZONE).await, (ZoneState::Empty, 0));
}

async fn capacity_ends_before_the_zone_does(device: &impl ZonedDevice) {
    let capacity_end = START + Blocks(12);
    device.write(START, vec![blocks(1, 10)]).await.unwrap();
    let too_long = V::PastCapacity { end: START + Blocks(13), capacity_end };
    broke(device.write(START + Blocks(10), vec![blocks(11, 3)]).await, too_long);
    broke(device.append(ZONE, vec![blocks(11, 3)]).await, too_long);
    assert_eq!(state(device, ZONE).await, (ZoneState::ImplicitOpen, 10));
    device.write(START + Blocks(10), vec![blocks(11, 2)]).await.unwrap();
    assert_eq!(state(device, ZONE).await, (ZoneState::Full, 12));
    for at in [START, capacity_end] {
        broke(device.write(at, vec![blocks(1, 1)]).await, V::ZoneFull);
    }
    broke(device.append(ZONE, vec![blocks(1, 1)]).await, V::ZoneFull);
    assert!(read(device, START, 12).await.unwrap() == blocks(1, 12));
    broke(
        read(device, START + Blocks(11), 2).await,
        V::PastWritePointer { end: START + Blocks(13), write_pointer: capacity_end },
    );
}

async fn conventional_zones_take_writes_anywhere(device: &impl ZonedDevice) {
    assert!(read(device, Lba(16), 16).await.unwrap().iter().all(|&byte| byte == 0), "never written");
    device.write(Lba(28), vec![blocks(10, 4)]).await.unwrap();
    device.write(Lba(16), vec![blocks(20, 3)]).await.unwrap();
    device.write(Lba(17), vec![blocks(30, 1)]).await.unwrap();
    device.write(Lba(27), vec![blocks(40, 3)]).await.unwrap();
    let bytes = read(device, Lba(16), 16).await.unwrap();
    let tags = [20, 30, 22, 0, 0, 0, 0, 0, 0, 0, 0, 40, 41, 42, 12, 13];
    for (at, (&tag, found)) in tags.iter().zip(bytes.chunks_exact(BLOCK_SIZE)).enumerate() {
        let right = if tag == 0 { found.iter().all(|&byte| byte == 0) } else { found == blocks(tag, 1) };
        assert!(right, "block {at} of a conventional zone");
    }
    assert_eq!(state(device, ZoneId(1)).await, (ZoneState::NotWritePointer, 0));
    broke(device.append(ZoneId(1), vec![blocks(1, 1)]).await, V::NotSequential);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        let refused = V::WrongState { op, state: ZoneState::NotWritePointer };
        broke(device.manage(ZoneId(1), op).await, refused);
    }
    assert!(read(device, Lba(28), 2).await.unwrap() == blocks(41, 2), "a refused reset changes nothing");
}

async fn appends_say_where_they_landed(device: &impl ZonedDevice) {
    assert_eq!(device.append(ZONE, vec![blocks(1, 1), blocks(2, 1)]).await.unwrap(), START);
    assert_eq!(device.append(ZONE, vec![blocks(3, 1)]).await.unwrap(), START + Blocks(2));
    let many = (0..4).map(|at| device.append(ZONE, vec![blocks(100 + 10 * at, 2)]));
    let mut landed = Vec::new();
    for (at, result) in join_all(many).await.into_iter().enumerate() {
        let place = result.unwrap();
        assert!(read(device, place, 2).await.unwrap() == blocks(100 + 10 * at as u64, 2), "append {at}");
        landed.push(place.0);
    }
    landed.sort_unstable();
    assert_eq!(landed, [35, 37, 39, 41], "appends under way together land side by side");
    assert_eq!(state(device, ZONE).await, (ZoneState::ImplicitOpen, 11));
    assert!(read(device, START, 3).await.unwrap() == blocks(1, 3));
}

async fn a_command_that_started_happens(device: &impl ZonedDevice) {
    drop(device.write(START, vec![blocks(50, 1)]));
    assert_eq!(state(device, ZONE).await, (ZoneState::Empty, 0), "never polled, never started");
    // Polled once and dropped.
    let _ = poll_immediate(device.write(START, vec![blocks(1, 2)])).await;
    // Behind it in the same zone: by the time this has completed, so has the other.
    device.append(ZONE, vec![blocks(3, 1)]).await.unwrap();
    assert_eq!(zone(device, ZONE).await.written, Blocks(3));
    assert!(read(device, START, 3).await.unwrap() == blocks(1, 3));
}

async fn long_appends_are_refused(device: &impl ZonedDevice) {
    let refused = V::AppendTooLong { length: Blocks(5), limit: Blocks(4) };
    broke(device.append(ZONE, vec![blocks(1, 5)]).await, refused);
    assert_eq!(device.append(ZONE, vec![blocks(1, 4)]).await.unwrap(), START);
    device.write(START + Blocks(4), vec![blocks(5, 8)]).await.unwrap();
}

/// Returns whether the backend could open it again.
async fn a_device_is_as_it_was_when_opened_again<B: Backend>(backend: &B, device: B::Device) -> bool {
    device.write(Lba(5), vec![blocks(77, 2)]).await.unwrap();
    device.write(START, vec![blocks(1, 5)]).await.unwrap();
    device.manage(ZONE, ZoneOp::Close).await.unwrap();
    device.append(ZoneId(3), vec![blocks(9, 12)]).await.unwrap();
    device.append(ZoneId(4), vec![blocks(30, 3)]).await.unwrap();
    device.manage(ZoneId(4), ZoneOp::Finish).await.unwrap();
    device.append(ZoneId(5), vec![blocks(40, 3)]).await.unwrap();
    device.manage(ZoneId(5), ZoneOp::Reset).await.unwrap();
    device.append(ZoneId(6), vec![blocks(50, 3)]).await.unwrap();
    device.manage(ZoneId(7), ZoneOp::Open).await.unwrap();
    device.flush().await.unwrap();
    let before = device.report(ZoneId(0), u32::MAX).await.unwrap();
    let Some(device) = backend.reopen(device).await else { return false };
    let mut after = device.report(ZoneId(0), u32::MAX).await.unwrap();
    if !backend.reopens_exactly() {
        for (info, before) in after.iter_mut().zip(&before) {
            let closed = if before.written == Blocks::ZERO { ZoneState::Empty } else { ZoneState::Closed };
            if before.state.is_open() && info.state == closed {
                info.state = before.state;
            }
        }
    }
    assert_eq!(after, before);
    for (at, tag, count) in [(5, 77, 2), (32, 1, 5), (48, 9, 12), (64, 30, 3), (96, 50, 3)] {
        assert!(read(&device, Lba(at), count).await.unwrap() == blocks(tag, count), "block {at} after opening again");
    }
    device.write(START + Blocks(5), vec![blocks(6, 1)]).await.unwrap();
    assert!(read(&device, START, 6).await.unwrap() == blocks(1, 6));
    true
}
