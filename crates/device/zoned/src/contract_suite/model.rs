//! A long random history beside a model that does everything the obvious way.

use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};

use super::rig::{Backend, blocks, fill, read};
use crate::device::ZonedDevice;
use crate::error::{DeviceErrorKind, DeviceResult, Violation as V};
use crate::geometry::Geometry;
use crate::zone::{ZoneOp, ZoneState};

/// Expected answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Broke(V),
    ReadOnly,
    Offline,
}

#[derive(Clone, Debug)]
struct ModelZone {
    state: ZoneState,
    /// Tags of the blocks written; `None` in a conventional zone where nothing was, and behind a finish.
    tags: Vec<Option<u64>>,
}

struct Model {
    geometry: Geometry,
    zones: Vec<ModelZone>,
}

/// Numbers from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// Runs `steps` random commands, right and wrong ones, on a device with limits and conventional zones, and compares
/// every answer, every zone and every byte with a model. Closes and opens the device now and then, if it can.
///
/// # Panics
/// At the first difference; the message names the seed.
pub async fn random<B: Backend>(backend: &B, seed: u64, steps: usize) {
    let own = || Geometry {
        conventional_zones: 2,
        append_max: Some(Blocks(6)),
        ..Geometry::zns(Blocks(16), Blocks(13), 12, 3, 5)
    };
    let geometry = backend.shape().unwrap_or_else(own);
    let Some(mut device) = backend.make(&geometry).await else { return };
    let size = geometry.zone_size.0;
    // More zones than may be active, so that limits are met; the first ones, where there are many.
    let active = geometry.active_zones_max.or(geometry.open_zones_max).unwrap_or(5);
    let count = geometry.zone_count.min(geometry.conventional_zones + active + 5);
    let numbers = &mut Numbers(seed);
    let fresh = |zone| match geometry.is_conventional(ZoneId(zone)) {
        true => ModelZone { state: ZoneState::NotWritePointer, tags: vec![None; size as usize] },
        false => ModelZone { state: ZoneState::Empty, tags: Vec::new() },
    };
    let mut model = Model { zones: (0..count).map(fresh).collect(), geometry: geometry.clone() };
    for step in 0..steps {
        let context = format!("seed {seed}, step {step}");
        let zone = ZoneId(numbers.below(u64::from(count)) as u32);
        let tag = (step as u64 + 1) << 20;
        let before = model.zones.clone();
        let length = 1 + numbers.below(geometry.zone_capacity.0.div_ceil(2));
        match numbers.below(100) {
            0..35 => {
                let start = geometry.start_of(zone);
                let at = match numbers.below(8) {
                    0 => start + Blocks(numbers.below(size)),
                    _ if geometry.is_conventional(zone) => start + Blocks(numbers.below(size)),
                    _ => start + Blocks(model.zones[zone.0 as usize].tags.len() as u64),
                };
                // Behind the last zone that the model follows there may be more.
                let at = if at < geometry.start_of(ZoneId(count)) { at } else { start };
                let expected = model.write(at, length, tag);
                let cut = numbers.below(length);
                let pieces = [(tag, cut), (tag + cut, length - cut)];
                let data = pieces.into_iter().filter(|piece| piece.1 > 0).map(|(tag, count)| blocks(tag, count));
                same(device.write(at, data.collect()).await, expected, &context);
            }
            35..50 => {
                let (expected, at) = model.append(zone, length, tag);
                let landed = device.append(zone, vec![blocks(tag, length)]).await;
                if let Ok(landed) = &landed {
                    assert_eq!(*landed, at, "{context}");
                }
                same(landed, expected, &context);
            }
            50..75 => {
                let at = geometry.start_of(zone) + Blocks(numbers.below(size));
                let expected = model.check_read(at, length);
                let found = read(&device, at, length).await;
                if let Ok(bytes) = &found {
                    model.compare(at, bytes, &context);
                }
                same(found, expected, &context);
            }
            75..96 => {
                let op = [ZoneOp::Open, ZoneOp::Close, ZoneOp::Finish, ZoneOp::Reset][numbers.below(4) as usize];
                let expected = model.manage(zone, op);
                same(device.manage(zone, op).await, expected, &context);
            }
            96 => device.flush().await.unwrap(),
            97 if numbers.below(8) == 0 && zone.0 > 8 => {
                let dead = if numbers.below(2) == 0 { ZoneState::ReadOnly } else { ZoneState::Offline };
                if backend.degrade(&device, zone, dead) {
                    model.zones[zone.0 as usize].state = dead;
                }
            }
            _ if backend.reopens_exactly() => {
                device = backend.reopen(device).await.unwrap_or_else(|| panic!("cannot be opened again: {context}"));
            }
            _ => {}
        }
        model.follow_closed(&device, &before, &context).await;
    }
    for zone in 0..count {
        let start = geometry.start_of(ZoneId(zone));
        let length = model.zones[zone as usize].tags.len() as u64;
        if length > 0 && model.zones[zone as usize].state != ZoneState::Offline {
            model.compare(start, &read(&device, start, length).await.unwrap(), &format!("seed {seed}, at the end"));
        }
    }
}

fn same<T>(found: DeviceResult<T>, expected: Answer, context: &str) {
    let answer = match found {
        Ok(_) => Answer::Done,
        Err(error) => match error.kind {
            DeviceErrorKind::Rule(violation) => Answer::Broke(violation),
            DeviceErrorKind::ZoneReadOnly => Answer::ReadOnly,
            DeviceErrorKind::ZoneOffline => Answer::Offline,
            _ => panic!("{error}: {context}"),
        },
    };
    assert_eq!(answer, expected, "{context}");
}

impl Model {
    fn place(&self, at: Lba, length: u64) -> Result<usize, Answer> {
        let (end, device_end) = (at + Blocks(length), Lba(self.geometry.blocks().0));
        if end > device_end {
            return Err(Answer::Broke(V::OutOfRange { end, device_end }));
        }
        let size = self.geometry.zone_size.0;
        let zone = at.0 / size;
        let zone_end = Lba((zone + 1) * size);
        if end > zone_end { Err(Answer::Broke(V::CrossesZone { end, zone_end })) } else { Ok(zone as usize) }
    }

    fn dead(&self, zone: usize) -> Option<Answer> {
        match self.zones[zone].state {
            ZoneState::ReadOnly => Some(Answer::ReadOnly),
            ZoneState::Offline => Some(Answer::Offline),
            _ => None,
        }
    }

    fn count(&self, counts: impl Fn(ZoneState) -> bool) -> usize {
        self.zones.iter().filter(|zone| counts(zone.state)).count()
    }

    /// Expected refusal if no zone can be opened. The zone that the device closes for it is found afterwards.
    fn no_resource(&self, zone: usize) -> Option<Answer> {
        let state = self.zones[zone].state;
        if let Some(limit) = self.geometry.active_zones_max
            && !state.is_active()
            && self.count(ZoneState::is_active) == limit as usize
        {
            return Some(Answer::Broke(V::TooManyActive { limit }));
        }
        let limit = self.geometry.open_zones_max?;
        let all_explicit = self.count(|state| state == ZoneState::ExplicitOpen) == limit as usize;
        (!state.is_open() && all_explicit).then_some(Answer::Broke(V::TooManyOpen { limit }))
    }

    fn write(&mut self, at: Lba, length: u64, tag: u64) -> Answer {
        let zone = match self.place(at, length) {
            Ok(zone) => zone,
            Err(answer) => return answer,
        };
        if let Some(answer) = self.dead(zone) {
            return answer;
        }
        let size = self.geometry.zone_size.0;
        let from = (at.0 % size) as usize;
        if self.geometry.is_conventional(ZoneId(zone as u32)) {
            for block in 0..length as usize {
                self.zones[zone].tags[from + block] = Some(tag + block as u64);
            }
            return Answer::Done;
        }
        if self.zones[zone].state == ZoneState::Full {
            return Answer::Broke(V::ZoneFull);
        }
        let write_pointer = Lba(zone as u64 * size + self.zones[zone].tags.len() as u64);
        if at != write_pointer {
            return Answer::Broke(V::NotAtWritePointer { at, write_pointer });
        }
        self.extend(zone, at, length, tag)
    }

    fn append(&mut self, zone: ZoneId, length: u64, tag: u64) -> (Answer, Lba) {
        let at = zone.0 as usize;
        let start = self.geometry.start_of(zone);
        if self.geometry.is_conventional(zone) {
            return (Answer::Broke(V::NotSequential), start);
        }
        if let Some(limit) = self.geometry.append_max.filter(|limit| length > limit.0) {
            return (Answer::Broke(V::AppendTooLong { length: Blocks(length), limit }), start);
        }
        if let Some(answer) = self.dead(at) {
            return (answer, start);
        }
        if self.zones[at].state == ZoneState::Full {
            return (Answer::Broke(V::ZoneFull), start);
        }
        let place = start + Blocks(self.zones[at].tags.len() as u64);
        (self.extend(at, place, length, tag), place)
    }

    fn extend(&mut self, zone: usize, at: Lba, length: u64, tag: u64) -> Answer {
        let (end, capacity_end) =
            (at + Blocks(length), self.geometry.start_of(ZoneId(zone as u32)) + self.geometry.zone_capacity);
        if end > capacity_end {
            return Answer::Broke(V::PastCapacity { end, capacity_end });
        }
        if let Some(answer) = self.no_resource(zone) {
            return answer;
        }
        let capacity = self.geometry.zone_capacity.0 as usize;
        let zone = &mut self.zones[zone];
        zone.tags.extend((tag..tag + length).map(Some));
        zone.state = match zone.state {
            _ if zone.tags.len() == capacity => ZoneState::Full,
            ZoneState::ExplicitOpen => ZoneState::ExplicitOpen,
            _ => ZoneState::ImplicitOpen,
        };
        Answer::Done
    }

    fn check_read(&self, at: Lba, length: u64) -> Answer {
        let zone = match self.place(at, length) {
            Ok(zone) => zone,
            Err(answer) => return answer,
        };
        if self.zones[zone].state == ZoneState::Offline {
            return Answer::Offline;
        }
        let size = self.geometry.zone_size.0;
        let (end, write_pointer) = (at + Blocks(length), Lba(zone as u64 * size + self.zones[zone].tags.len() as u64));
        if end > write_pointer { Answer::Broke(V::PastWritePointer { end, write_pointer }) } else { Answer::Done }
    }

    fn manage(&mut self, zone: ZoneId, op: ZoneOp) -> Answer {
        let at = zone.0 as usize;
        if let Some(answer) = self.dead(at) {
            return answer;
        }
        let state = self.zones[at].state;
        let wrong = state == ZoneState::NotWritePointer || op == ZoneOp::Open && state == ZoneState::Full;
        if wrong {
            return Answer::Broke(V::WrongState { op, state });
        }
        let opens = op == ZoneOp::Open || op == ZoneOp::Finish && state != ZoneState::Full;
        if opens && let Some(answer) = self.no_resource(at) {
            return answer;
        }
        let capacity = self.geometry.zone_capacity.0 as usize;
        let zone = &mut self.zones[at];
        match op {
            ZoneOp::Open => zone.state = ZoneState::ExplicitOpen,
            ZoneOp::Close if !state.is_open() => {}
            ZoneOp::Close if zone.tags.is_empty() => zone.state = ZoneState::Empty,
            ZoneOp::Close => zone.state = ZoneState::Closed,
            ZoneOp::Finish => {
                zone.state = ZoneState::Full;
                zone.tags.resize(capacity, None);
            }
            ZoneOp::Reset => {
                zone.state = ZoneState::Empty;
                zone.tags.clear();
            }
        }
        Answer::Done
    }

    fn compare(&self, at: Lba, bytes: &[u8], context: &str) {
        let mut expected = vec![0; BLOCK_SIZE];
        let size = self.geometry.zone_size.0 as usize;
        let conventional = self.geometry.conventional_zones as usize;
        for (block, found) in (at.0 as usize..).zip(bytes.chunks_exact(BLOCK_SIZE)) {
            match self.zones[block / size].tags[block % size] {
                Some(tag) => fill(&mut expected, tag),
                None if block / size < conventional => expected.fill(0),
                // Behind a finish: the drive's own affair.
                None => continue,
            }
            assert!(found == expected, "bytes of block {block}: {context}");
        }
    }

    /// Compares all zones. If as many zones were open as may be and one more was needed, the device has closed one that
    /// was implicitly open.
    async fn follow_closed(&mut self, device: &impl ZonedDevice, before: &[ModelZone], context: &str) {
        let zones = device.report(ZoneId(0), self.zones.len() as u32).await.unwrap();
        let [open, active] = [self.geometry.open_zones_max, self.geometry.active_zones_max]
            .map(|limit| limit.map_or(usize::MAX, |limit| limit as usize));
        let was_full = before.iter().filter(|zone| zone.state.is_open()).count() == open;
        let opened = |at: usize, zone: &ModelZone| {
            let passed_through = zone.state.is_open() || zone.state == ZoneState::Full;
            passed_through && !before[at].state.is_open() && before[at].state != ZoneState::Full
        };
        let mut may_close = was_full && self.zones.iter().enumerate().any(|(at, zone)| opened(at, zone));
        let must_close = may_close;
        for (info, zone) in zones.iter().zip(&mut self.zones) {
            if may_close && zone.state == ZoneState::ImplicitOpen && info.state == ZoneState::Closed {
                zone.state = ZoneState::Closed;
                may_close = false;
            }
            let written = match zone.state {
                ZoneState::NotWritePointer | ZoneState::Offline => 0,
                _ => zone.tags.len() as u64,
            };
            let conventional = self.geometry.is_conventional(info.zone);
            let written = if conventional { 0 } else { written };
            assert_eq!((info.state, info.written.0), (zone.state, written), "{}: {context}", info.zone);
        }
        assert!(!must_close || !may_close, "one zone too many is open: {context}");
        assert!(self.count(ZoneState::is_open) <= open && self.count(ZoneState::is_active) <= active, "{context}");
    }
}
