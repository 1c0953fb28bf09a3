//! Addresses, lengths and data that a command may have, and its effects.

use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};

use bytes::Bytes;
use futures_util::future::{join_all, poll_immediate};

use super::rig::{Backend, Places, blocks, broke, read, state, zone};
use crate::device::ZonedDevice;
use crate::error::Violation as V;
use crate::geometry::Geometry;
use crate::zone::{ZoneOp, ZoneState};

pub(super) async fn check<B: Backend>(backend: &B, shape: &Geometry) -> usize {
    let mut cases = 0;
    macro_rules! run {
        ($($case:ident),*) => {$(
            if let Some(device) = backend.make(shape).await {
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
    let limited = Geometry { append_max: Some(Blocks(4)), ..shape.clone() };
    if let Some(device) = backend.make(&limited).await {
        long_appends_are_refused(&device).await;
        cases += 1;
    }
    if let Some(device) = backend.make(shape).await {
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
    let Places { zone, start, .. } = Places::of(device);
    device.write(start, vec![blocks(1, 1), blocks(2, 3), blocks(5, 1)]).await.unwrap();
    device.write(start + Blocks(5), vec![blocks(6, 2)]).await.unwrap();
    assert_eq!(state(device, zone).await, (ZoneState::ImplicitOpen, 7));
    for from in 0..7 {
        for length in 1..=7 - from {
            let bytes = read(device, start + Blocks(from), length).await.unwrap();
            assert!(bytes == blocks(1 + from, length), "{length} blocks from {from}");
        }
    }
}

async fn writes_go_to_the_write_pointer_only(device: &impl ZonedDevice) {
    let places @ Places { zone, start, size, capacity, .. } = Places::of(device);
    device.write(start, vec![blocks(1, 2)]).await.unwrap();
    for at in [0, 1, 3, capacity - 1, capacity].into_iter().filter(|&at| at < size) {
        let at = start + Blocks(at);
        broke(
            device.write(at, vec![blocks(9, 1)]).await,
            V::NotAtWritePointer { at, write_pointer: start + Blocks(2) },
        );
    }
    let write_pointer = places.start_of(1);
    let at = write_pointer + Blocks(1);
    broke(device.write(at, vec![blocks(9, 1)]).await, V::NotAtWritePointer { at, write_pointer });
    assert_eq!(state(device, places.nth(1)).await, (ZoneState::Empty, 0), "untouched");
    assert_eq!(state(device, zone).await, (ZoneState::ImplicitOpen, 2));
    assert!(read(device, start, 2).await.unwrap() == blocks(1, 2), "a refused write changes nothing");
}

async fn reads_end_at_the_write_pointer(device: &impl ZonedDevice) {
    let Places { start, size, capacity, .. } = Places::of(device);
    broke(read(device, start, 1).await, V::PastWritePointer { end: start + Blocks(1), write_pointer: start });
    device.write(start, vec![blocks(1, 3)]).await.unwrap();
    let write_pointer = start + Blocks(3);
    for (at, length) in [(0, 4), (2, 2), (3, 1), (capacity, 4)].into_iter().filter(|&(at, _)| at + 4 <= size) {
        let at = start + Blocks(at);
        broke(read(device, at, length).await, V::PastWritePointer { end: at + Blocks(length), write_pointer });
    }
}

async fn ranges_lie_in_one_zone_of_the_device(device: &impl ZonedDevice) {
    let places @ Places { start, size, .. } = Places::of(device);
    let device_end = Lba(device.geometry().blocks().0);
    let next = places.start_of(1);
    for zone_end in [start, next].into_iter().filter(|&end| end.0 > 0) {
        let last = Lba(zone_end.0 - 1);
        let crossing = V::CrossesZone { end: zone_end + Blocks(1), zone_end };
        broke(read(device, last, 2).await, crossing);
        broke(device.write(last, vec![blocks(1, 2)]).await, crossing);
    }
    let whole = device.write(start, vec![blocks(1, size + 1)]).await;
    broke(whole, V::CrossesZone { end: next + Blocks(1), zone_end: next });
    for (at, length) in [(device_end, 1), (Lba(device_end.0 - 1), 2), (Lba(1 << 50), 1)] {
        let past = V::OutOfRange { end: at + Blocks(length), device_end };
        broke(read(device, at, length).await, past);
        broke(device.write(at, vec![blocks(1, length)]).await, past);
    }
    let beyond = ZoneId(device.geometry().zone_count);
    let past = V::OutOfRange { end: device_end + Blocks(size), device_end };
    broke(device.append(beyond, vec![blocks(1, 1)]).await, past);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        broke(device.manage(beyond, op).await, past);
    }
}

async fn data_is_whole_aligned_blocks(device: &impl ZonedDevice) {
    let Places { zone, start, .. } = Places::of(device);
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
        broke(device.write(start, data.clone()).await, V::Misaligned);
        broke(device.append(zone, data.clone()).await, V::Misaligned);
        broke(device.write(Lba(0), data).await, V::Misaligned);
    }
    broke(device.read(Lba(0), Blocks::ZERO).await, V::Misaligned);
    assert_eq!(state(device, zone).await, (ZoneState::Empty, 0));
}

async fn capacity_ends_before_the_zone_does(device: &impl ZonedDevice) {
    let Places { zone, start, capacity, gap, .. } = Places::of(device);
    let capacity_end = start + Blocks(capacity);
    let most = capacity - 2;
    device.write(start, vec![blocks(1, most)]).await.unwrap();
    let write_pointer = start + Blocks(most);
    if gap {
        let too_long = V::PastCapacity { end: capacity_end + Blocks(1), capacity_end };
        broke(device.write(write_pointer, vec![blocks(1, 3)]).await, too_long);
    }
    let too_long = V::PastCapacity { end: capacity_end + Blocks(1), capacity_end };
    broke(device.append(zone, vec![blocks(1, 3)]).await, too_long);
    assert_eq!(state(device, zone).await, (ZoneState::ImplicitOpen, most));
    device.write(write_pointer, vec![blocks(1 + most, 2)]).await.unwrap();
    assert_eq!(state(device, zone).await, (ZoneState::Full, capacity));
    broke(device.write(start, vec![blocks(1, 1)]).await, V::ZoneFull);
    broke(device.append(zone, vec![blocks(1, 1)]).await, V::ZoneFull);
    assert!(read(device, start, capacity).await.unwrap() == blocks(1, capacity));
    if gap {
        broke(device.write(capacity_end, vec![blocks(1, 1)]).await, V::ZoneFull);
        let past = V::PastWritePointer { end: capacity_end + Blocks(1), write_pointer: capacity_end };
        broke(read(device, Lba(capacity_end.0 - 1), 2).await, past);
    }
}

async fn conventional_zones_take_writes_anywhere(device: &impl ZonedDevice) {
    let Some((zone, start)) = Places::of(device).conventional() else { return };
    let at = |block| start + Blocks(block);
    assert!(read(device, start, 16).await.unwrap().iter().all(|&byte| byte == 0), "never written");
    device.write(at(12), vec![blocks(10, 4)]).await.unwrap();
    device.write(at(0), vec![blocks(20, 3)]).await.unwrap();
    device.write(at(1), vec![blocks(30, 1)]).await.unwrap();
    device.write(at(11), vec![blocks(40, 3)]).await.unwrap();
    let bytes = read(device, start, 16).await.unwrap();
    let tags = [20, 30, 22, 0, 0, 0, 0, 0, 0, 0, 0, 40, 41, 42, 12, 13];
    for (block, (&tag, found)) in tags.iter().zip(bytes.chunks_exact(BLOCK_SIZE)).enumerate() {
        let right = if tag == 0 { found.iter().all(|&byte| byte == 0) } else { found == blocks(tag, 1) };
        assert!(right, "block {block} of a conventional zone");
    }
    assert_eq!(state(device, zone).await, (ZoneState::NotWritePointer, 0));
    broke(device.append(zone, vec![blocks(1, 1)]).await, V::NotSequential);
    for op in [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset] {
        let refused = V::WrongState { op, state: ZoneState::NotWritePointer };
        broke(device.manage(zone, op).await, refused);
    }
    assert!(read(device, at(12), 2).await.unwrap() == blocks(41, 2), "a refused reset changes nothing");
}

async fn appends_say_where_they_landed(device: &impl ZonedDevice) {
    let Places { zone, start, .. } = Places::of(device);
    assert_eq!(device.append(zone, vec![blocks(1, 1), blocks(2, 1)]).await.unwrap(), start);
    assert_eq!(device.append(zone, vec![blocks(3, 1)]).await.unwrap(), start + Blocks(2));
    let many = (0..4).map(|at| device.append(zone, vec![blocks(100 + 10 * at, 2)]));
    let mut landed = Vec::new();
    for (at, result) in join_all(many).await.into_iter().enumerate() {
        let place = result.unwrap();
        assert!(read(device, place, 2).await.unwrap() == blocks(100 + 10 * at as u64, 2), "append {at}");
        landed.push(place);
    }
    landed.sort_unstable();
    let side_by_side = [3, 5, 7, 9].map(|at| start + Blocks(at));
    assert_eq!(landed, side_by_side, "appends under way together land side by side");
    assert_eq!(state(device, zone).await, (ZoneState::ImplicitOpen, 11));
    assert!(read(device, start, 3).await.unwrap() == blocks(1, 3));
}

async fn a_command_that_started_happens(device: &impl ZonedDevice) {
    let Places { zone: id, start, .. } = Places::of(device);
    drop(device.write(start, vec![blocks(50, 1)]));
    assert_eq!(state(device, id).await, (ZoneState::Empty, 0), "never polled, never started");
    // Polled once and dropped.
    let _ = poll_immediate(device.write(start, vec![blocks(1, 2)])).await;
    // Behind it in the same zone: by the time this has completed, so has the other.
    device.append(id, vec![blocks(3, 1)]).await.unwrap();
    assert_eq!(zone(device, id).await.written, Blocks(3));
    assert!(read(device, start, 3).await.unwrap() == blocks(1, 3));
}

async fn long_appends_are_refused(device: &impl ZonedDevice) {
    let Places { zone, start, .. } = Places::of(device);
    let refused = V::AppendTooLong { length: Blocks(5), limit: Blocks(4) };
    broke(device.append(zone, vec![blocks(1, 5)]).await, refused);
    assert_eq!(device.append(zone, vec![blocks(1, 4)]).await.unwrap(), start);
    device.write(start + Blocks(4), vec![blocks(5, 8)]).await.unwrap();
}

/// Returns whether the backend could open it again.
async fn a_device_is_as_it_was_when_opened_again<B: Backend>(backend: &B, device: B::Device) -> bool {
    let places @ Places { zone, start, capacity, .. } = Places::of(&device);
    let conventional = places.conventional().map(|(_, start)| start + Blocks(5));
    if let Some(at) = conventional {
        device.write(at, vec![blocks(77, 2)]).await.unwrap();
    }
    device.write(start, vec![blocks(1, 5)]).await.unwrap();
    device.manage(zone, ZoneOp::Close).await.unwrap();
    device.append(places.nth(1), vec![blocks(9, capacity)]).await.unwrap();
    device.append(places.nth(2), vec![blocks(30, 3)]).await.unwrap();
    device.manage(places.nth(2), ZoneOp::Finish).await.unwrap();
    device.append(places.nth(3), vec![blocks(40, 3)]).await.unwrap();
    device.manage(places.nth(3), ZoneOp::Reset).await.unwrap();
    device.append(places.nth(4), vec![blocks(50, 3)]).await.unwrap();
    device.manage(places.nth(5), ZoneOp::Open).await.unwrap();
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
    let held =
        [(start, 1, 5), (places.start_of(1), 9, capacity), (places.start_of(2), 30, 3), (places.start_of(4), 50, 3)];
    for (at, tag, count) in held.into_iter().chain(conventional.map(|at| (at, 77, 2))) {
        assert!(read(&device, at, count).await.unwrap() == blocks(tag, count), "{at} after opening again");
    }
    device.write(start + Blocks(5), vec![blocks(6, 1)]).await.unwrap();
    assert!(read(&device, start, 6).await.unwrap() == blocks(1, 6));
    true
}
