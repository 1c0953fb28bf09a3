//! The zone table: state of each data zone of an engine, what lives in it, and who reads it.
//!
//! An engine tells the table what it did, in the step in which it did it.
//!
//! **Owns** statuses, generations, counts, pins, and the order of free zones. **Knows nothing of** what lives in a zone, of the choice of
//! a victim, of the journal, or of the drive.
//!
//! # Invariants
//! - ZK-ZONE-1: free zones are taken in the order in which they became free, so that all wear alike.
//! - ZK-ZONE-2: a zone is vacated, to be reset, only if nothing more is written to it, nothing lives in it, nobody has it pinned, and all
//!   that the engine holds it for (`unsettled`) is durable.
//! - ZK-ZONE-3: news that come late change no younger generation of their zone.
//! - ZK-ZONE-4: a zone that the drive does not call read-only or offline is not out of use because it was not reset for some seconds. It is
//!   the last that is taken meanwhile.
//! - ZK-ZONE-5: a flush makes nothing durable in a zone that has failed, or of which the drive does not tell: its blocks that none had
//!   covered before stay [in doubt](Zone::is_in_doubt).

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use tokio::sync::Notify;

use super::pins::{Pin, Pins};
use super::zone::{Reset, Status, Zone};

/// Attempts at a zone, each of a few tries, until it counts as one that will never be reset: 13 seconds if no other is free.
const RESETS_MAX: u32 = 8;

/// Half of the pause after the second attempt at a zone; each is twice as long as the one before.
const RESET_PAUSE: Duration = Duration::from_millis(100);

/// All data zones of an engine. `Own` is the engine's part of each; it is as by default when a generation begins.
#[derive(Debug)]
pub struct ZoneTable<Own> {
    first: u32,
    zones: Vec<Zone<Own>>,
    pins: Rc<Pins>,
    /// The longest free first. (ZK-ZONE-1)
    free: VecDeque<ZoneId>,
    open: BTreeSet<ZoneId>,
    /// Zones that were opened, those of earlier lives not counted.
    opened: u64,
    /// Sum of all zones' counts.
    live: u64,
    /// Zones that can be written no more, and those of them that are dead.
    broken: u32,
    dead: u32,
}

/// Blocks of open zones that a flush makes durable which begins now.
#[derive(Clone, Debug)]
pub struct Written(Vec<(ZoneId, u64, u32)>);

/// The fate of a zone in which nothing lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacated {
    /// It is in no list. Once the drive has reset it, it [is free](ZoneTable::add_free).
    Reset,
    /// It can be written no more, and is dead.
    Dead,
}

impl<Own: Copy + Default> ZoneTable<Own> {
    /// Zones of which none is used, and none free.
    pub fn new(zones: &Range<u32>) -> Self {
        let entries = vec![Zone::default(); zones.len()];
        Self {
            first: zones.start,
            zones: entries,
            pins: Pins::new(zones.start, zones.len()),
            free: VecDeque::new(),
            open: BTreeSet::new(),
            opened: 0,
            live: 0,
            broken: 0,
            dead: 0,
        }
    }

    fn at(&self, zone: ZoneId) -> Option<usize> {
        zone.0.checked_sub(self.first).map(|at| at as usize)
    }

    /// A zone; `None` if it is no data zone.
    pub fn get(&self, zone: ZoneId) -> Option<&Zone<Own>> {
        self.zones.get(self.at(zone)?)
    }

    fn entry(&mut self, zone: ZoneId) -> Option<&mut Zone<Own>> {
        let at = self.at(zone)?;
        self.zones.get_mut(at)
    }

    /// A generation of a zone; `None` once it is over. (ZK-ZONE-3)
    fn generation(&mut self, zone: ZoneId, epoch: u64) -> Option<&mut Zone<Own>> {
        self.entry(zone).filter(|entry| entry.epoch == epoch)
    }

    /// The engine's part of a zone.
    pub fn own_mut(&mut self, zone: ZoneId) -> Option<&mut Own> {
        self.entry(zone).map(|entry| &mut entry.own)
    }

    /// The engine's part of a zone; `None` once that generation is over. (ZK-ZONE-3)
    pub fn own_of_mut(&mut self, zone: ZoneId, epoch: u64) -> Option<&mut Own> {
        self.generation(zone, epoch).map(|entry| &mut entry.own)
    }

    /// The engine's part of each zone.
    pub fn all_own_mut(&mut self) -> impl Iterator<Item = &mut Own> {
        self.zones.iter_mut().map(|entry| &mut entry.own)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ZoneId, &Zone<Own>)> {
        self.zones.iter().enumerate().map(|(at, zone)| (ZoneId(self.first + at as u32), zone))
    }

    /// Closed zones in which something lives that can leave them: a cleaner chooses among them.
    pub fn candidates(&self) -> impl Iterator<Item = (ZoneId, &Zone<Own>)> {
        self.iter().filter(|(_, zone)| zone.status == Status::Closed && zone.live > 0 && !zone.stuck)
    }

    /// Number of free zones.
    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Open zones, in order.
    pub fn open_zones(&self) -> impl ExactSizeIterator<Item = ZoneId> {
        self.open.iter().copied()
    }

    /// Zones that can be written no more.
    pub fn broken(&self) -> u32 {
        self.broken
    }

    /// Those of them that are in use still.
    pub fn broken_in_use(&self) -> u32 {
        self.broken - self.dead
    }

    /// Zones that were opened, those of earlier lives not counted.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// Sum of all zones' counts.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Makes a zone as an opening found it. Its count begins at zero.
    pub fn restore(&mut self, zone: ZoneId, found: Zone<Own>) {
        self.open.remove(&zone);
        if found.status == Status::Open {
            self.open.insert(zone);
        }
        if let Some(entry) = self.entry(zone) {
            let before = std::mem::replace(entry, Zone { live: 0, ..found });
            self.live -= before.live;
            let counts = |zone: &Zone<Own>| (u32::from(zone.broken), u32::from(zone.status == Status::Dead));
            let ((broken, dead), (is_broken, is_dead)) = (counts(&before), counts(&found));
            (self.broken, self.dead) = (self.broken + is_broken - broken, self.dead + is_dead - dead);
        }
        self.note(zone);
    }

    /// A zone is free from now on. `dirty` if the drive has not reset it.
    pub fn add_free(&mut self, zone: ZoneId, dirty: bool) {
        self.restore(zone, Zone { dirty, ..Zone::default() });
        if self.get(zone).is_some() {
            self.free.push_back(zone);
        }
    }

    /// Takes the zone that was free longest. (ZK-ZONE-1)
    pub fn take_free(&mut self) -> Option<ZoneId> {
        self.free.pop_front()
    }

    /// Gives back a zone that was taken, is not opened, and is reset. It is the next that is taken.
    pub fn give_back(&mut self, zone: ZoneId) {
        self.add_free(zone, false);
        self.feed(zone);
    }

    /// A zone that was taken was not reset. Returns the time to wait before another is tried: none the first time, as others may do
    /// better. (ZK-ZONE-4)
    pub fn not_reset(&mut self, zone: ZoneId, ended: Reset) -> Duration {
        let failures = self.get(zone).map_or(0, |entry| entry.failures) + 1;
        if ended == Reset::Broken || failures == RESETS_MAX {
            self.bury(zone);
            return Duration::ZERO;
        }
        self.add_free(zone, true);
        if let Some(entry) = self.entry(zone) {
            entry.failures = failures;
        }
        if failures == 1 { Duration::ZERO } else { RESET_PAUSE * (1 << (failures - 1)) }
    }

    /// Has a free zone taken before all others. False if it is not free.
    pub fn feed(&mut self, zone: ZoneId) -> bool {
        let Some(at) = self.free.iter().position(|&free| free == zone) else { return false };
        self.free.remove(at);
        self.free.push_front(zone);
        true
    }

    /// Says whether the drive has reset a zone that is free.
    pub fn set_dirty(&mut self, zone: ZoneId, dirty: bool) {
        if let Some(entry) = self.entry(zone) {
            entry.dirty = dirty;
        }
    }

    /// A zone that holds nothing can be used no more.
    pub fn bury(&mut self, zone: ZoneId) {
        self.restore(zone, Zone { status: Status::Dead, broken: true, ..Zone::default() });
    }

    /// Begins a generation of a zone that was taken.
    pub fn open(&mut self, zone: ZoneId, stream: u8, epoch: u64) {
        self.opened += 1;
        self.restore(zone, Zone { status: Status::Open, stream, epoch, order: self.opened, ..Zone::default() });
    }

    /// Nothing more is written to a zone.
    pub fn close(&mut self, zone: ZoneId) {
        self.open.remove(&zone);
        if let Some(entry) = self.entry(zone) {
            debug_assert!(entry.is_used(), "{zone} is closed, and was not open");
            entry.status = Status::Closed;
        }
        self.note(zone);
    }

    /// A command has written a zone up to block `next`. `durable` if the drive needs no flush.
    pub fn advance(&mut self, zone: ZoneId, next: u32, durable: bool) {
        let Some(entry) = self.entry(zone) else { return };
        debug_assert!(next >= entry.next, "{zone} goes back from block {} to {next}", entry.next);
        (entry.next, entry.failures) = (next, 0);
        if durable {
            entry.durable = next;
        }
    }

    /// A command has failed in a zone. Returns the number of those since the last that succeeded; one that is not the zone's fault does
    /// not count.
    pub fn note_failure(&mut self, zone: ZoneId, broken: bool, counts: bool) -> u32 {
        let Some(entry) = self.entry(zone) else { return u32::MAX };
        let breaks = broken && !entry.broken;
        entry.broken |= broken;
        entry.failures += u32::from(counts);
        let failures = entry.failures;
        self.broken += u32::from(breaks);
        failures
    }

    /// The drive does not tell whether a zone has failed, so a flush may not have made blocks of this generation durable. (ZK-ZONE-3,
    /// ZK-ZONE-5)
    pub fn note_untold(&mut self, zone: ZoneId, epoch: u64) {
        if let Some(entry) = self.generation(zone, epoch) {
            entry.untold = true;
        }
    }

    /// Some of what lives in a zone cannot be read.
    pub fn note_stuck(&mut self, zone: ZoneId) {
        if let Some(entry) = self.entry(zone) {
            entry.stuck = true;
        }
    }

    /// No zone is stuck from now on, as bytes that could not be read may be readable again. Returns those that were.
    pub fn unstick(&mut self) -> Vec<ZoneId> {
        let stuck: Vec<ZoneId> = self.iter().filter(|(_, zone)| zone.stuck).map(|(zone, _)| zone).collect();
        self.zones.iter_mut().for_each(|entry| entry.stuck = false);
        stuck
    }

    /// Blocks that are written now: to be asked for before a flush, and [marked](Self::mark_durable) after it.
    pub fn written(&self) -> Written {
        let open = self.open.iter().filter_map(|zone| Some((*zone, self.get(*zone)?)));
        Written(open.map(|(zone, entry)| (zone, entry.epoch, entry.next)).collect())
    }

    /// Blocks are durable. (ZK-ZONE-3)
    pub fn mark_durable(&mut self, written: &Written) {
        for (zone, epoch, next) in &written.0 {
            self.mark_durable_before(*zone, *epoch, *next);
        }
    }

    /// The blocks of a generation before block `end` are durable. (ZK-ZONE-3) Not so in a zone that failed, or may have: a flush that
    /// succeeds says nothing of what its cache held. (ZK-ZONE-5)
    pub fn mark_durable_before(&mut self, zone: ZoneId, epoch: u64, end: u32) {
        if let Some(entry) = self.generation(zone, epoch).filter(|entry| !(entry.broken || entry.untold)) {
            entry.durable = entry.durable.max(end);
        }
    }

    /// So much lives in a zone from now on.
    pub fn add_live(&mut self, zone: ZoneId, count: u64) {
        let Some(entry) = self.entry(zone) else { return };
        entry.live += count;
        self.live += count;
        self.pins.note(zone, false);
    }

    /// So much lives in a zone no more. The engine [holds](Self::hold) the zone as long as that is not durable.
    pub fn take_live(&mut self, zone: ZoneId, count: u64) {
        let Some(entry) = self.entry(zone) else { return };
        debug_assert!(entry.live >= count, "{zone} has {} live, not {count}", entry.live);
        let taken = count.min(entry.live);
        entry.live -= taken;
        self.live -= taken;
        self.note(zone);
    }

    /// Entries that say what has left a zone are on their way: it is not reset before they are durable. (ZK-ZONE-2)
    pub fn hold(&mut self, zone: ZoneId) {
        if let Some(entry) = self.entry(zone) {
            entry.unsettled += 1;
        }
    }

    /// An entry is durable that a zone was held for.
    pub fn settle(&mut self, zone: ZoneId) {
        let Some(entry) = self.entry(zone) else { return };
        debug_assert!(entry.unsettled > 0, "ZK-ZONE-2: {zone} is settled, and was not held");
        entry.unsettled = entry.unsettled.saturating_sub(1);
        self.note(zone);
    }

    /// Keeps a zone from being reset. (ZK-ZONE-2)
    pub fn pin(&self, zone: ZoneId) -> Pin {
        Pin::new(&self.pins, zone)
    }

    /// Those who read in a zone.
    pub fn pins(&self, zone: ZoneId) -> u32 {
        self.pins.of(zone)
    }

    /// The keeper's wake: also a pin that is the last of an empty zone gives it.
    pub fn keeper(&self) -> Rc<Notify> {
        self.pins.keeper.clone()
    }

    /// True if zones may have become ready to be vacated since this was asked last.
    pub fn take_emptied(&self) -> bool {
        self.pins.emptied.take()
    }

    /// As [`take_emptied`](Self::take_emptied), for one who only asks.
    pub fn has_emptied(&self) -> bool {
        self.pins.emptied.get()
    }

    /// Zones may be ready to be vacated, for a reason of the engine's own.
    pub fn note_emptied(&self) {
        self.pins.emptied.set(true);
    }

    fn note(&self, zone: ZoneId) {
        self.pins.note(zone, self.get(zone).is_some_and(Zone::is_empty));
    }

    /// A zone can be vacated, as far as the table knows. (ZK-ZONE-2)
    fn may_go(&self, zone: ZoneId, entry: &Zone<Own>) -> bool {
        entry.is_empty() && entry.unsettled == 0 && self.pins(zone) == 0
    }

    /// Zones that can be vacated, and that the engine lets go, with their generations. (ZK-ZONE-2)
    pub fn vacant(&self, lets_go: impl Fn(&Zone<Own>) -> bool) -> Vec<(ZoneId, u64)> {
        let vacant = self.iter().filter(|(id, zone)| self.may_go(*id, zone) && lets_go(zone));
        vacant.map(|(id, zone)| (id, zone.epoch)).collect()
    }

    /// Ends a generation in which nothing lives. The engine journals that in the same step, so that no later checkpoint has the zone.
    /// `None` if the zone cannot be vacated, or not any more. (ZK-ZONE-2, ZK-ZONE-3)
    pub fn vacate(&mut self, zone: ZoneId, epoch: u64) -> Option<Vacated> {
        let entry = self.get(zone).filter(|entry| entry.epoch == epoch && self.may_go(zone, entry))?;
        if entry.broken {
            self.bury(zone);
            return Some(Vacated::Dead);
        }
        self.restore(zone, Zone::default());
        Some(Vacated::Reset)
    }
}
