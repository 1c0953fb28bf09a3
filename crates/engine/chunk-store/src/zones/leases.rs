//! Leases of open zones: the one place that says whether another data zone may be opened.
//!
//! **Owns** the count of data zones that the drive holds open, or active where it limits those.
//! **Knows nothing of** streams, of what a zone holds, or of commands: it is told of them.
//!
//! The drive's limit is divided before anything is opened: one zone for the metadata log, which gives one back before it
//! begins the next; a share for GC, so that it can always move something; the rest for callers' zones, in pools and for
//! landing. A zone counts from before the drive is told to open it until the drive says that it is open no more.
//!
//! # Invariants
//! - CS-LEASE-1: no zone is opened without a [`Lease`], and all leases and the log's zone together keep the drive's limit.
//! - CS-LEASE-2: a lease ends only when the drive has been seen to hold the zone no longer, or the zone was reset.

use std::collections::BTreeMap;

use shingle_base::ZoneId;
use shingle_zoned::Geometry;

/// Zones of the metadata log that are open at once.
const LOG_ZONES: u32 = 1;

/// Holder of a zone's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A pool, or landing.
    Caller,
    /// A destination of GC.
    Gc,
}

/// The right to open one zone. Only [`Leases::take`] makes one, and opening the zone uses it up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    zone: ZoneId,
}

impl Lease {
    /// The zone that may be opened.
    pub(crate) fn zone(&self) -> ZoneId {
        self.zone
    }
}

/// A zone that counts against the limit.
#[derive(Clone, Copy, Debug)]
struct Held {
    holder: Holder,
    /// It is done with, and the drive is to give it up.
    ending: bool,
}

/// All leases of a drive.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Limits: of callers and GC together; of callers; and of destinations of GC.
    most: u32,
    callers: u32,
    gc: u32,
    held: BTreeMap<ZoneId, Held>,
    /// Zones that the drive is to give up next, the last first.
    ending: Vec<ZoneId>,
}

impl Leases {
    /// The division of a drive's limit, with `gc` zones for GC.
    pub(crate) fn new(geometry: &Geometry, gc: u32) -> Self {
        let limits = [geometry.open_zones_max, geometry.active_zones_max];
        let limit = limits.into_iter().flatten().min();
        let most = limit.map_or(u32::MAX, |limit| limit.saturating_sub(LOG_ZONES));
        Self { most, callers: most.saturating_sub(gc), gc, held: BTreeMap::new(), ending: Vec::new() }
    }

    /// Zones that callers may have open.
    pub(crate) fn callers(&self) -> u32 {
        self.callers
    }

    /// Destinations that GC may have.
    pub(crate) fn gc(&self) -> u32 {
        self.gc
    }

    fn count(&self, holder: Holder) -> u32 {
        self.held.values().filter(|held| held.holder == holder).count() as u32
    }

    /// The right to open `zone`, if the limit allows it (CS-LEASE-1). A zone that GC is done with may still count while its
    /// next is opened, if callers do not need the place.
    pub(crate) fn take(&mut self, zone: ZoneId, holder: Holder) -> Option<Lease> {
        let share = holder == Holder::Gc || self.count(Holder::Caller) < self.callers;
        let free = (self.held.len() as u32) < self.most && !self.held.contains_key(&zone);
        if !share || !free {
            return None;
        }
        self.held.insert(zone, Held { holder, ending: false });
        Some(Lease { zone })
    }

    /// The drive has `zone` open from before this store was opened, and nobody goes on with it.
    pub(crate) fn found(&mut self, zone: ZoneId) {
        self.held.insert(zone, Held { holder: Holder::Caller, ending: true });
        self.ending.push(zone);
    }

    /// True if the drive has more zones open than the log and all leases together.
    fn exceed(&self) -> bool {
        self.held.len() as u32 > self.most
    }

    /// Nothing more is written to `zone`: the drive is to give it up, if it counts. Also to be called again after a try
    /// that failed.
    pub(crate) fn end(&mut self, zone: ZoneId) {
        if let Some(held) = self.held.get_mut(&zone) {
            held.ending = true;
            self.ending.push(zone);
        }
    }

    /// The zone that the drive is to give up next.
    pub(crate) fn next_ending(&mut self) -> Option<ZoneId> {
        self.ending.pop()
    }

    /// A zone that is to be given up at once, for more are open than may be.
    pub(crate) fn next_excess(&mut self) -> Option<ZoneId> {
        if self.exceed() { self.ending.pop() } else { None }
    }

    /// True if the drive is to close `zone`.
    pub(crate) fn is_ending(&self, zone: ZoneId) -> bool {
        self.held.get(&zone).is_some_and(|held| held.ending)
    }

    /// The drive holds `zone` no longer (CS-LEASE-2).
    pub(crate) fn ended(&mut self, zone: ZoneId) {
        self.held.remove(&zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::Blocks;

    #[test]
    fn the_limit_is_shared_and_a_lease_ends_when_the_drive_says_so() {
        let mut leases = Leases::new(&Geometry::hm_smr(Blocks(64), 40, 0, 7), 3);
        assert_eq!((leases.callers(), leases.gc()), (3, 3));
        for zone in 0..3 {
            assert_eq!(leases.take(ZoneId(zone), Holder::Caller).unwrap().zone(), ZoneId(zone));
        }
        assert_eq!(leases.take(ZoneId(3), Holder::Caller), None, "CS-LEASE-1: the rest is GC's");
        for zone in 3..6 {
            assert!(leases.take(ZoneId(zone), Holder::Gc).is_some());
        }
        assert_eq!(leases.take(ZoneId(6), Holder::Gc), None, "CS-LEASE-1: the log has one");
        leases.end(ZoneId(4));
        assert!(leases.is_ending(ZoneId(4)) && leases.next_ending() == Some(ZoneId(4)));
        assert_eq!(leases.take(ZoneId(6), Holder::Gc), None, "CS-LEASE-2");
        leases.ended(ZoneId(4));
        leases.end(ZoneId(4));
        assert_eq!(leases.next_ending(), None, "the drive does not hold it");
        assert!(leases.take(ZoneId(6), Holder::Gc).is_some());
    }

    #[test]
    fn zones_that_are_open_from_before_keep_others_from_being_opened() {
        let mut leases = Leases::new(&Geometry::hm_smr(Blocks(64), 40, 0, 7), 3);
        (0..8).for_each(|zone| leases.found(ZoneId(zone)));
        assert_eq!(leases.next_excess(), Some(ZoneId(7)));
        (0..2).for_each(|zone| leases.ended(ZoneId(zone)));
        assert_eq!(leases.next_excess(), None);
        assert_eq!((leases.take(ZoneId(0), Holder::Gc), leases.exceed()), (None, false));
        leases.ended(ZoneId(2));
        assert!(leases.take(ZoneId(0), Holder::Gc).is_some());
    }

    #[test]
    fn a_drive_without_limits_sets_none() {
        let unlimited =
            Geometry { open_zones_max: None, active_zones_max: None, ..Geometry::hm_smr(Blocks(64), 40, 0, 7) };
        let mut leases = Leases::new(&unlimited, 3);
        assert!((0..1000).all(|zone| leases.take(ZoneId(zone), Holder::Caller).is_some()));
    }
}
