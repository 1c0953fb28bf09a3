//! Contents of a drive: as commands see them, those that survive a power cut for certain, and those that may.
//!
//! A command takes effect in the order of calls. Effects that are not durable yet are kept in a list for each zone.
//!
//! **Owns** both states of the drive, and the effects between them. **Knows nothing of** commands' times and callers.

use std::cell::RefCell;
use std::collections::BTreeMap;

use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_zoned::{MemoryDevice, ZoneOp, ZoneState, ZonedDevice};

use crate::cut::{self, Former, Survival};
use crate::effect::{EARLIER, Effect, Pending};
use crate::seeds::Random;

/// A drive without the process that uses it. It outlives a [kill](crate::SimDevice::kill), its cache included.
pub struct Medium {
    /// Contents as commands see them.
    pub(crate) current: MemoryDevice,
    /// Contents that survive for certain, without limits; `None` if no power cut is to come.
    durable: Option<MemoryDevice>,
    /// Effects that may survive: by zone, in order.
    pending: RefCell<BTreeMap<ZoneId, Vec<Pending>>>,
    /// The first blocks of zones before their last reset: a host that writes over them in place has them still.
    former: RefCell<Former>,
}

/// Blocks that are kept of a zone's former life.
const FORMER_MAX: u64 = 64;

impl From<&MemoryDevice> for Medium {
    /// A drive whose cache is empty.
    fn from(image: &MemoryDevice) -> Self {
        // Effects become durable zone by zone, in an order that the drive's limits may not allow.
        Self { durable: Some(image.with_limits(None, None)), ..Self::without_power_cuts(image.snapshot()) }
    }
}

impl Medium {
    pub(crate) fn without_power_cuts(current: MemoryDevice) -> Self {
        Self { current, durable: None, pending: RefCell::default(), former: RefCell::default() }
    }

    /// Visible contents, cached or not: the device after an orderly shutdown.
    pub fn image(&self) -> MemoryDevice {
        self.current.snapshot()
    }

    /// Contents if the power fails now: everything durable, and of the rest a part chosen by `survival`.
    ///
    /// # Panics
    /// If the device was made [without power cuts](crate::SimDevice::without_power_cuts).
    pub fn crash_image(&self, seed: u64, survival: Survival) -> MemoryDevice {
        let Some(durable) = &self.durable else { panic!("this device was made without power cuts") };
        let random = &mut Random::new(seed);
        let pending = self.pending.borrow();
        match survival {
            Survival::Prefix => cut::prefix_of_each_zone(durable, self.current.geometry(), &pending, random),
            Survival::AnySubset => {
                cut::any_subset(durable, self.current.geometry(), &pending, &self.former.borrow(), random)
            }
        }
    }

    /// As [`MemoryDevice::fail_reads`], on the medium: images have the fault too (SIM-5).
    pub fn fail_reads(&self, at: Lba, length: Blocks, times: Option<u32>) {
        self.both(|device| device.fail_reads(at, length, times));
    }

    /// As [`MemoryDevice::heal`].
    pub fn heal(&self) {
        self.both(MemoryDevice::heal);
    }

    /// Changes bytes of one readable block, as a failing medium does. Effects pending in it are durable now.
    pub fn rot(&self, at: Lba, seed: u64) {
        if let Some(zone) = self.current.geometry().zone_of(at) {
            self.settle_zone(zone);
        }
        self.both(|device| {
            let random = &mut Random::new(seed);
            device.corrupt(at, |bytes| {
                for _ in 0..1 + random.below(3) {
                    bytes[random.below(BLOCK_SIZE as u64) as usize] ^= 1 << random.below(8);
                }
            });
        });
    }

    /// Puts `zone` into `state`, as a failing drive does (read-only, offline), for good: its pending effects are
    /// settled.
    ///
    /// # Panics
    /// If a zone of its type cannot be in `state`.
    pub fn set_state(&self, zone: ZoneId, state: ZoneState) {
        self.settle_zone(zone);
        self.both(|device| device.set_state(zone, state));
    }

    /// The last writes of `zone` that are not durable, any number of them, cannot be read any more: its cache lost them.
    pub(crate) fn lose_cache(&self, zone: ZoneId, random: &mut Random) {
        let pending = self.pending.borrow();
        let effects = pending.get(&zone).into_iter().flatten();
        let written: Vec<_> = effects.filter_map(|pending| pending.effect.extent()).collect();
        drop(pending);
        let kept = random.between(0, written.len() as u64) as usize;
        self.settle_zone(zone);
        for &(at, blocks) in &written[kept..] {
            self.fail_reads(at, blocks, None);
        }
    }

    /// Contents after the process is killed: all of it. Commands under way happen.
    pub(crate) fn killed(&self) -> Self {
        let (current, durable) = (self.current.snapshot(), self.durable.as_ref().map(MemoryDevice::snapshot));
        let mut pending = self.pending.borrow().clone();
        for pending in pending.values_mut().flatten() {
            (pending.number, pending.completed) = (EARLIER, Some(0));
        }
        let killed = Self { current, durable, pending: RefCell::new(pending), former: self.former.clone() };
        if !killed.current.geometry().volatile_cache {
            killed.settle_all();
        }
        killed
    }

    /// True if power cuts of this medium can be simulated.
    pub(crate) fn knows_cuts(&self) -> bool {
        self.durable.is_some()
    }

    /// Takes note of an effect that is not durable yet.
    pub(crate) fn note(&self, zone: ZoneId, number: u64, effect: Effect) {
        if self.knows_cuts() {
            let pending = Pending { number, effect, completed: None };
            self.pending.borrow_mut().entry(zone).or_default().push(pending);
        }
    }

    /// A command completed, when `begun` commands had begun. Without a volatile cache it is now durable, and with it all
    /// before it in its zone.
    pub(crate) fn complete(&self, zone: ZoneId, number: u64, begun: u64) {
        let mut all = self.pending.borrow_mut();
        let Some(effects) = all.get_mut(&zone) else { return };
        let Some(at) = effects.iter().position(|pending| pending.number == number) else { return };
        effects[at].completed = Some(begun);
        if !self.current.geometry().volatile_cache {
            effects.drain(..=at).for_each(|pending| self.settle(zone, &pending.effect));
            if effects.is_empty() {
                all.remove(&zone);
            }
        }
    }

    /// Command `flush`, a flush, completes: commands that had completed when it began are durable, and those before
    /// them in their zones (SIM-3).
    pub(crate) fn flushed(&self, flush: u64) {
        let mut all = self.pending.borrow_mut();
        for (&zone, effects) in all.iter_mut() {
            let covered = |pending: &Pending| pending.completed.is_some_and(|begun| begun <= flush);
            let end = effects.iter().rposition(covered).map_or(0, |last| last + 1);
            effects.drain(..end).for_each(|pending| self.settle(zone, &pending.effect));
        }
        all.retain(|_, effects| !effects.is_empty());
    }

    fn settle_all(&self) {
        let zones: Vec<ZoneId> = self.pending.borrow().keys().copied().collect();
        zones.into_iter().for_each(|zone| self.settle_zone(zone));
    }

    fn settle_zone(&self, zone: ZoneId) {
        for pending in self.pending.borrow_mut().remove(&zone).unwrap_or_default() {
            self.settle(zone, &pending.effect);
        }
    }

    /// Makes an effect durable.
    fn settle(&self, zone: ZoneId, effect: &Effect) {
        let Some(durable) = &self.durable else { return };
        if matches!(effect, Effect::Manage(ZoneOp::Reset)) {
            let info = durable.zone(zone);
            let blocks = (0..info.written.0.min(FORMER_MAX)).map(|block| info.start + Blocks(block));
            let bytes = blocks.map(|at| durable.read_now(at, Blocks(1)).ok()).collect();
            self.former.borrow_mut().insert(zone, bytes);
        }
        effect.apply(durable, zone);
    }

    fn both(&self, change: impl Fn(&MemoryDevice)) {
        change(&self.current);
        self.durable.iter().for_each(change);
    }
}
