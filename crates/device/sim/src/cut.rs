//! Survivors of a power cut among effects that are not durable: a prefix of each zone's, or any mix of their blocks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_zoned::{Geometry, MemoryDevice, ZoneOp, ZoneState};

use crate::command::Command;
use crate::effect::{Effect, Pending};
use crate::faults::landed;
use crate::seeds::Random;
use crate::spoil::{garbage_after, join, prefix};

/// Effects that survive a power cut among those that are not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// A drive's own cache: of each zone a random prefix survives, its last write perhaps cut short at a block, with
    /// garbage in its last block (SIM-2).
    Prefix,
    /// A drive in a file whose host loses power (ZD-FD-2): of each zone's state and write pointer any that it had since
    /// the last flush survives, and of the blocks written since then any subset (SIM-4).
    AnySubset,
}

/// Images of power cuts, one before each command.
#[derive(Clone, Default)]
pub struct Cuts {
    images: Rc<RefCell<Vec<(Command, MemoryDevice)>>>,
}

impl Cuts {
    pub(crate) fn add(&self, command: &Command, image: MemoryDevice) {
        self.images.borrow_mut().push((*command, image));
    }

    /// The cuts since the last call: the command before which the power fails, and the image left.
    pub fn take(&self) -> Vec<(Command, MemoryDevice)> {
        self.images.take()
    }
}

impl Survival {
    /// Losses in a power cut that a drive of this shape can have. One with a volatile cache is taken for a file, whose host may
    /// lose any blocks, or for a drive, which loses the ends of zones. One without loses ends alone (ZD-DEV-3).
    #[must_use]
    pub fn on(self, geometry: &Geometry) -> Self {
        if geometry.volatile_cache { self } else { Self::Prefix }
    }
}

/// Blocks of zones before they were reset, where they could be read.
pub(crate) type Former = BTreeMap<ZoneId, Vec<Option<Bytes>>>;

pub(crate) type AllPending = BTreeMap<ZoneId, Vec<Pending>>;

pub(crate) fn prefix_of_each_zone(
    durable: &MemoryDevice,
    geometry: &Geometry,
    pending: &AllPending,
    random: &mut Random,
) -> MemoryDevice {
    let image = durable.snapshot();
    let mut lost = Vec::new();
    for (&zone, effects) in pending {
        let (kept, rest) = effects.split_at(random.between(0, effects.len() as u64) as usize);
        kept.iter().for_each(|pending| pending.effect.apply(&image, zone));
        lost.push((zone, rest));
    }
    // No drive wakes up with more active zones than its limit: the effects that gave some of them up have happened,
    // then.
    let is_active = |zone| image.zone(zone).state.is_active();
    let active = || (0..geometry.zone_count).filter(|&zone| is_active(ZoneId(zone))).count() as u32;
    let limit = geometry.active_zones_max.unwrap_or(u32::MAX);
    for (zone, rest) in lost {
        if active() > limit {
            rest.iter().for_each(|pending| pending.effect.apply(&image, zone));
        } else if let Some(Pending { effect: Effect::Write { at, data }, .. }) = rest.first()
            && (is_active(zone) || active() < limit)
        {
            tear(&image, zone, *at, data, random);
        }
    }
    image.with_limits(geometry.open_zones_max, geometry.active_zones_max)
}

/// Lets a part of a write happen.
fn tear(image: &MemoryDevice, zone: ZoneId, at: Lba, data: &[Bytes], random: &mut Random) {
    let blocks = Blocks(data.iter().map(|piece| (piece.len() / BLOCK_SIZE) as u64).sum());
    let part = landed(blocks, random);
    if part == Blocks::ZERO {
        return;
    }
    let mut torn = prefix(data, part);
    if random.chance(0.25) {
        torn = vec![garbage_after(&join(&torn), Blocks(part.0 - 1), random)];
    }
    Effect::Write { at, data: torn }.apply(image, zone);
}

/// The host's page cache goes to its disk in any order, the table of zones' states as well as their bytes, and stops
/// anywhere. As many zones may be active as the table says: the file's device does not check that against its limits.
pub(crate) fn any_subset(
    durable: &MemoryDevice,
    geometry: &Geometry,
    pending: &AllPending,
    former: &Former,
    random: &mut Random,
) -> MemoryDevice {
    let image = durable.snapshot();
    let host = Host {
        former,
        // A host that cannot punch holes writes over a zone in place; and unwritten blocks are not zeros there.
        in_place: random.chance(0.3),
        survives: [0.0, 0.5, 0.9, 1.0][random.below(4) as usize],
        whole_table: random.chance(0.5),
    };
    for (&zone, effects) in pending {
        if geometry.is_conventional(zone) {
            host.cut_conventional(&image, zone, effects, random);
        } else {
            host.cut_sequential(&image, geometry, zone, effects, random);
        }
    }
    reopened(&image, geometry)
}

/// Chances of survival in a host's power cut.
struct Host<'a> {
    former: &'a Former,
    in_place: bool,
    /// The chance of each block.
    survives: f64,
    /// The table is as new as can be, which leaves the most to find out from bytes.
    whole_table: bool,
}

impl Host<'_> {
    /// Each block is the old one or the new one.
    fn cut_conventional(&self, image: &MemoryDevice, zone: ZoneId, effects: &[Pending], random: &mut Random) {
        for pending in effects {
            let Effect::Write { at, data } = &pending.effect else { continue };
            for (block, bytes) in (at.0..).zip(join(data).chunks_exact(BLOCK_SIZE)) {
                if random.chance(self.survives) {
                    Effect::Write { at: Lba(block), data: vec![aligned(bytes)] }.apply(image, zone);
                }
            }
        }
    }

    fn cut_sequential(
        &self,
        image: &MemoryDevice,
        geometry: &Geometry,
        zone: ZoneId,
        effects: &[Pending],
        random: &mut Random,
    ) {
        let start = geometry.start_of(zone);
        let mut blocks = Slot::of(image, start, image.zone(zone).written);
        let kept = if self.whole_table { effects.len() } else { random.between(0, effects.len() as u64) as usize };
        for (number, pending) in effects.iter().enumerate() {
            match &pending.effect {
                Effect::Write { at, data } => {
                    for (block, bytes) in ((*at - start).0..).zip(join(data).chunks_exact(BLOCK_SIZE)) {
                        if random.chance(self.survives) {
                            blocks.0.insert(block, aligned(bytes));
                        }
                    }
                }
                Effect::Manage(ZoneOp::Reset) if !self.in_place => {
                    // The hole is punched, or is not yet; later writes lie elsewhere in the file.
                    if number < kept || random.chance(0.5) {
                        blocks.0.clear();
                    }
                    if number >= kept {
                        break;
                    }
                }
                Effect::Manage(_) => {}
            }
            if number < kept {
                pending.effect.apply(image, zone);
            }
        }
        for block in 0..image.zone(zone).written.0 {
            let bytes = blocks.0.get(&block).cloned();
            let bytes = bytes.unwrap_or_else(|| self.never_written(image, geometry, zone, block, random));
            image.corrupt(start + Blocks(block), |old| old.copy_from_slice(&bytes));
        }
    }

    /// A block that was never written, or whose write did not survive.
    fn never_written(
        &self,
        image: &MemoryDevice,
        geometry: &Geometry,
        zone: ZoneId,
        block: u64,
        random: &mut Random,
    ) -> Bytes {
        let former = self.former.get(&zone).and_then(|blocks| blocks.get(block as usize)?.clone());
        if let Some(former) = former
            && self.in_place
            && random.chance(0.7)
        {
            return former;
        }
        let other = image.zone(ZoneId(random.below(u64::from(geometry.zone_count)) as u32));
        if !self.in_place {
            AlignedBuf::zeroed(Blocks(1)).freeze()
        } else if random.chance(0.5) && other.written > Blocks::ZERO {
            // Old bytes of another zone.
            let at = other.start + Blocks(random.below(other.written.0));
            image.read_now(at, Blocks(1)).unwrap_or_else(|_| AlignedBuf::zeroed(Blocks(1)).freeze())
        } else {
            aligned(&random.bytes(BLOCK_SIZE))
        }
    }
}

/// Place of a zone's bytes in the file: its blocks, by number.
struct Slot(BTreeMap<u64, Bytes>);

impl Slot {
    fn of(image: &MemoryDevice, start: Lba, written: Blocks) -> Self {
        // A block that cannot be read stays so (SIM-5), and has its bytes when it is healed.
        let image = image.snapshot();
        image.heal();
        let read = |block: u64| Some((block, image.read_now(start + Blocks(block), Blocks(1)).ok()?));
        Self((0..written.0).filter_map(read).collect())
    }
}

/// The device that opens the file: zones that the table has open stay open, as far as the limit goes.
fn reopened(image: &MemoryDevice, geometry: &Geometry) -> MemoryDevice {
    let opened = image.with_limits(geometry.open_zones_max, geometry.active_zones_max);
    let mut room = geometry.open_zones_max.unwrap_or(u32::MAX);
    let states = [ZoneState::ExplicitOpen, ZoneState::ImplicitOpen];
    for (state, zone) in states.into_iter().flat_map(|state| (0..geometry.zone_count).map(move |zone| (state, zone))) {
        if image.zone(ZoneId(zone)).state == state && (state == ZoneState::ExplicitOpen || room > 0) {
            opened.set_state(ZoneId(zone), state);
            room = room.saturating_sub(1);
        }
    }
    opened
}

fn aligned(bytes: &[u8]) -> Bytes {
    let mut out = AlignedBuf::zeroed(Blocks::holding(bytes.len() as u64));
    out.copy_from_slice(bytes);
    out.freeze()
}
