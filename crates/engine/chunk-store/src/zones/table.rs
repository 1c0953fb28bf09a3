//! The zone table: what each data zone is doing, and what lies in it. (SMRstore, section 5.4, Figure 12.)
//!
//! ```text
//! Free -> Opened -> Activated -> Closed -> Garbage -> Free
//!           \___________________________________________/      (an opened zone that another stream needs more)
//! ```
//! Any zone can turn `ReadOnly` or `Offline`, for good.
//!
//! # Invariants
//! - CS-ZONE-1: a closed zone is not written again before it is reset.
//! - CS-ZONE-2: a zone is reset only when no chunk has a record in it, no reader uses it, and the reset is journaled.
//! - CS-ZONE-3: all records before `indexed_to` are in the index or dead, so recovery scans from there.
//! - CS-ZONE-4: a zone of which recovery could not read all that it had to, or in which it left something to be judged by
//!   a later opening (CS-REC-8), is not reset.
//! - CS-ZONE-5: once nothing more is written to a zone, because it is closed, read-only or offline, the checkpoint's table
//!   has as many blocks of it as are indexed, unless something behind these counts. So an offline zone with records
//!   that were acknowledged and are not in the index has more, and is told of by every opening and check; one of which
//!   the index had all is not. `a_loss_in_an_offline_zone_is_told_by_every_later_opening`,
//!   `a_zone_that_a_failed_write_closed_is_not_lost_for_what_is_elsewhere`.

use shingle_base::{Blocks, ZoneId};

use crate::index::Handle;
use crate::types::ZoneStatus;
use crate::zones::census::{Census, ZoneSet};
use crate::zones::{Rest, Zone};

/// Free zones that only GC may use, so that it can always move something.
pub(crate) const GC_RESERVE: u32 = 1;

/// All data zones, by number on the drive.
pub(crate) struct ZoneTable {
    first: u32,
    zones: Vec<Zone>,
    counts: [u32; ZoneStatus::ALL.len()],
    /// By status: changed with it.
    sets: [ZoneSet; ZoneStatus::ALL.len()],
    census: Census,
    /// Zones that may have changed since they were counted, and the same as a set.
    changed: Vec<u32>,
    is_changed: ZoneSet,
    groups: u64,
    /// Zone at which the search for a free one goes on, so that wear and head movement are even.
    cursor: ZoneId,
}

impl ZoneTable {
    /// `count` free zones from `first`, each with room for that many blocks of records.
    pub(crate) fn new(first: u32, count: u32, room: u32) -> Self {
        let mut counts = [0; ZoneStatus::ALL.len()];
        counts[ZoneStatus::Free as usize] = count;
        let mut sets: [ZoneSet; ZoneStatus::ALL.len()] = std::array::from_fn(|_| ZoneSet::new(count));
        (0..count).for_each(|at| {
            sets[ZoneStatus::Free as usize].insert(at);
        });
        let zones = (0..count).map(|_| Zone::new()).collect();
        let (census, is_changed) = (Census::new(count, room), ZoneSet::new(count));
        Self { first, zones, counts, sets, census, changed: Vec::new(), is_changed, groups: 0, cursor: ZoneId(first) }
    }

    /// Number of data zones.
    pub(crate) fn len(&self) -> u32 {
        self.zones.len() as u32
    }

    /// A zone known to be a data zone.
    pub(crate) fn get(&self, zone: ZoneId) -> &Zone {
        &self.zones[(zone.0 - self.first) as usize]
    }

    /// A zone known to be a data zone. Its status is changed by [`set_status`](Self::set_status) only.
    pub(crate) fn get_mut(&mut self, zone: ZoneId) -> &mut Zone {
        let at = zone.0 - self.first;
        if self.is_changed.insert(at) {
            self.changed.push(at);
        }
        &mut self.zones[at as usize]
    }

    /// Counts what has changed; to be done before the [census](Self::census) is asked.
    pub(crate) fn settle(&mut self) {
        for at in std::mem::take(&mut self.changed) {
            self.is_changed.remove(at);
            self.census.count(at, &self.zones[at as usize]);
        }
    }

    /// Totals of all zones, as of when they were last [settled](Self::settle).
    pub(crate) fn census(&self) -> &Census {
        debug_assert!(self.changed.is_empty(), "CS-CENSUS-1");
        &self.census
    }

    /// The zone at that place in the table.
    pub(crate) fn number(&self, at: u32) -> ZoneId {
        ZoneId(self.first + at)
    }

    pub(crate) fn set_status(&mut self, zone: ZoneId, status: ZoneStatus) {
        let at = zone.0 - self.first;
        let slot = self.get_mut(zone);
        if matches!(slot.status, ZoneStatus::ReadOnly | ZoneStatus::Offline) && status != ZoneStatus::Offline {
            return;
        }
        let before = std::mem::replace(&mut slot.status, status);
        self.counts[before as usize] -= 1;
        self.counts[status as usize] += 1;
        self.sets[before as usize].remove(at);
        self.sets[status as usize].insert(at);
    }

    /// Number of zones of a status.
    pub(crate) fn count(&self, status: ZoneStatus) -> u32 {
        self.counts[status as usize]
    }

    /// All zones with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ZoneId, &Zone)> {
        self.zones.iter().enumerate().map(|(at, zone)| (ZoneId(self.first + at as u32), zone))
    }

    /// The first zone of a status, looking from after `from` and around.
    pub(crate) fn next_of(&self, status: ZoneStatus, from: ZoneId) -> Option<ZoneId> {
        let set = &self.sets[status as usize];
        let start = from.0.saturating_sub(self.first).saturating_add(1);
        set.next(start).or_else(|| set.next(0)).map(|at| self.number(at))
    }

    /// The free zone that is to be opened next.
    pub(crate) fn next_free(&self) -> Option<ZoneId> {
        self.next_of(ZoneStatus::Free, self.cursor)
    }

    /// A free zone is being opened.
    pub(crate) fn note_opened(&mut self, zone: ZoneId) {
        self.set_status(zone, ZoneStatus::Opened);
        self.cursor = zone;
    }

    /// All zones of a status, in order.
    pub(crate) fn of(&self, status: ZoneStatus) -> impl Iterator<Item = ZoneId> + '_ {
        self.sets[status as usize].iter().map(|at| self.number(at))
    }

    /// Number of groups in all zones.
    pub(crate) fn groups(&self) -> u64 {
        self.groups
    }

    /// Bytes of memory: of the zones themselves, and of what says which chunks lie in them.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let lists = self.zones.iter().map(|zone| zone.groups.heap_bytes()).sum();
        let sets = self.sets.iter().chain([&self.is_changed]).map(ZoneSet::bytes).sum::<usize>();
        let changed = self.changed.capacity() * size_of::<u32>();
        (self.zones.capacity() * size_of::<Zone>() + sets + changed + self.census.bytes(), lists)
    }

    /// A group of `chunk` now lies in `zone`.
    pub(crate) fn add_group(&mut self, zone: ZoneId, chunk: Handle) {
        self.get_mut(zone).groups.push(chunk);
        self.groups += 1;
    }

    /// `blocks` in `zone` now live.
    pub(crate) fn add_live(&mut self, zone: ZoneId, blocks: Blocks) {
        self.get_mut(zone).live += blocks.0 as u32;
    }

    /// A group of `chunk` with `blocks` is gone from `zone`. The caller notes garbage once its change is whole.
    pub(crate) fn remove_group(&mut self, zone: ZoneId, chunk: Handle, blocks: Blocks) {
        let slot = self.get_mut(zone);
        let removed = slot.groups.remove(chunk);
        slot.live = slot.live.saturating_sub(blocks.0 as u32);
        self.groups -= u64::from(removed);
    }

    /// Groups of many chunks are gone from `zone`: one for each entry of `chunks`, which is in order.
    pub(crate) fn remove_groups(&mut self, zone: ZoneId, chunks: &[Handle]) {
        let removed = self.get_mut(zone).groups.remove_all(chunks);
        self.groups -= removed as u64;
    }

    /// A record of that many blocks is in `zone`, or was.
    pub(crate) fn note_length(&mut self, zone: ZoneId, blocks: Blocks) {
        let slot = self.get_mut(zone);
        slot.longest = slot.longest.max(blocks.0 as u32);
    }

    /// `blocks` in `zone` live no more.
    pub(crate) fn remove_live(&mut self, zone: ZoneId, blocks: Blocks) {
        let slot = self.get_mut(zone);
        slot.live = slot.live.saturating_sub(blocks.0 as u32);
    }

    /// A closed zone in which nothing lives is garbage.
    pub(crate) fn note_garbage(&mut self, zone: ZoneId) {
        let slot = self.get(zone);
        let fails = slot.resting == Some(Rest::Reset);
        let used = !slot.groups.is_empty() || slot.landed > 0 || slot.filling || slot.suspect || fails;
        if slot.status == ZoneStatus::Closed && !used {
            self.set_status(zone, ZoneStatus::Garbage);
            let slot = self.get_mut(zone);
            (slot.damaged, slot.resting) = (false, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_zones_are_opened_one_after_the_other_around_the_drive() {
        let mut zones = ZoneTable::new(10, 4, 60);
        let opened: Vec<u32> = (0..6)
            .map(|_| {
                let zone = zones.next_free().unwrap();
                zones.note_opened(zone);
                zones.set_status(zone, ZoneStatus::Free);
                zone.0
            })
            .collect();
        assert_eq!(opened, [11, 12, 13, 10, 11, 12]);
        (10..14).for_each(|zone| zones.note_opened(ZoneId(zone)));
        assert_eq!((zones.next_free(), zones.count(ZoneStatus::Opened)), (None, 4));
    }

    #[test]
    fn a_zone_is_garbage_once_nothing_in_it_is_needed() {
        let mut zones = ZoneTable::new(0, 1, 60);
        let zone = ZoneId(0);
        zones.add_group(zone, 7);
        zones.set_status(zone, ZoneStatus::Closed);
        let needs: [fn(&mut Zone); 4] = [
            |zone| zone.landed = 1,
            |zone| zone.filling = true,
            |zone| zone.suspect = true,
            |zone| zone.resting = Some(Rest::Reset),
        ];
        for need in needs {
            need(zones.get_mut(zone));
            zones.note_garbage(zone);
            assert_eq!(zones.get(zone).status, ZoneStatus::Closed, "CS-ZONE-2, CS-ZONE-4, CS-ZONE-6, CS-GC-5");
            let slot = zones.get_mut(zone);
            (slot.landed, slot.filling, slot.suspect, slot.resting) = (0, false, false, None);
        }
        zones.note_garbage(zone);
        assert_eq!(zones.get(zone).status, ZoneStatus::Closed, "a chunk has records in it");
        zones.remove_group(zone, 7, Blocks(3));
        zones.note_garbage(zone);
        assert_eq!(zones.get(zone).status, ZoneStatus::Garbage);
        zones.set_status(zone, ZoneStatus::Offline);
        zones.set_status(zone, ZoneStatus::Free);
        assert_eq!(zones.get(zone).status, ZoneStatus::Offline, "for good");
    }
}
