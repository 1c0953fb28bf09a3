//! Pins: who reads in a zone keeps it from being reset.
//!
//! A pin needs neither the engine nor its state, so it can be dropped anywhere.
//!
//! **Owns** the counts. **Knows nothing of** what is read.

use std::cell::Cell;
use std::rc::Rc;

use shingle_base::ZoneId;
use tokio::sync::Notify;

/// Counts of a table's zones, shared with its pins.
#[derive(Debug)]
pub(super) struct Pins {
    first: u32,
    counts: Box<[Count]>,
    /// A zone may have become ready to be reset since the keeper looked.
    pub(super) emptied: Cell<bool>,
    /// The keeper has something to do.
    pub(super) keeper: Rc<Notify>,
}

#[derive(Debug, Default)]
struct Count {
    pins: Cell<u32>,
    /// The zone is empty: once nobody reads in it, it can be reset.
    empty: Cell<bool>,
}

impl Pins {
    pub(super) fn new(first: u32, zones: usize) -> Rc<Self> {
        let counts = std::iter::repeat_with(Count::default).take(zones).collect();
        Rc::new(Self { first, counts, emptied: Cell::new(false), keeper: Rc::default() })
    }

    fn count(&self, zone: ZoneId) -> Option<&Count> {
        self.counts.get(zone.0.checked_sub(self.first)? as usize)
    }

    pub(super) fn of(&self, zone: ZoneId) -> u32 {
        self.count(zone).map_or(0, |count| count.pins.get())
    }

    /// A zone has become empty, or is so no more.
    pub(super) fn note(&self, zone: ZoneId, empty: bool) {
        if let Some(count) = self.count(zone) {
            count.empty.set(empty);
        }
        if empty {
            self.emptied.set(true);
        }
    }
}

/// A zone that is not reset as long as this lives. (ZK-ZONE-2)
#[derive(Debug)]
pub struct Pin {
    pins: Rc<Pins>,
    zone: ZoneId,
}

impl Pin {
    pub(super) fn new(pins: &Rc<Pins>, zone: ZoneId) -> Self {
        if let Some(count) = pins.count(zone) {
            count.pins.set(count.pins.get() + 1);
        }
        Self { pins: pins.clone(), zone }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let Some(count) = self.pins.count(self.zone) else { return };
        count.pins.set(count.pins.get() - 1);
        if count.pins.get() == 0 && count.empty.get() {
            self.pins.emptied.set(true);
            self.pins.keeper.notify_one();
        }
    }
}
