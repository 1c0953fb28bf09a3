//! The swap of the index to copies that are durable for sure.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_zoned::{ZoneState, report_patiently};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Handle, Located};
use crate::journal::groups_bytes;
use crate::types::{Stream, ZoneStatus};

/// A live record of the victim.
#[derive(Clone, Copy)]
pub(super) struct Live {
    pub(super) handle: Handle,
    pub(super) birth: u64,
    pub(super) id: ChunkId,
    pub(super) record: Located,
}

/// A record and its copy.
pub(super) struct Copied {
    pub(super) live: Live,
    pub(super) copy: Located,
}

impl Engine {
    /// Zones with copies that a flush need not have made durable, to be asked once it has succeeded: those that can be read only or
    /// are offline, for they may have lost before it what their cache held, and those of which the drive does not say. No
    /// more is moved there.
    ///
    /// The status that is remembered would not do: a zone may have failed at a command of somebody else, or at none.
    pub(super) async fn doubtful_destinations(
        self: &Rc<Self>,
        victim: ZoneId,
        stream: Stream,
        copies: &[Copied],
    ) -> BTreeSet<ZoneId> {
        let mut zones: BTreeSet<ZoneId> = copies.iter().map(|copied| copied.copy.zone).collect();
        for zone in std::mem::take(&mut zones) {
            let report = report_patiently(&self.drive.dev, zone, 1).await.inspect_err(|error| self.stop_if_gone(error));
            let status = match report.as_deref().map(|zones| zones.first().map(|info| info.state)) {
                Ok(Some(ZoneState::ReadOnly)) => Some(ZoneStatus::ReadOnly),
                Ok(Some(ZoneState::Offline)) => Some(ZoneStatus::Offline),
                Ok(Some(_)) => continue,
                Ok(None) | Err(_) => {
                    // Another try would write the same in vain.
                    self.rest(&mut self.state.borrow_mut(), victim);
                    None
                }
            };
            zones.insert(zone);
            if self.collector.destination(stream).is_some_and(|destination| destination.zone == zone) {
                self.end_destination(stream, status.unwrap_or(ZoneStatus::Closed));
            } else if let Some(status) = status {
                self.state.borrow_mut().zones.set_status(zone, status);
            }
        }
        zones
    }

    /// Lets the index point at the copies (CS-GC-1) and the destinations count as indexed (CS-GC-3). A chunk whose groups would take more
    /// than is left of the reservation stays where it is (CS-ROOM-4): writes and reads that failed have split it. So does a record whose
    /// copy is in a doubtful zone (CS-GC-8).
    ///
    /// # Errors
    /// `Device` if there were such records: the victim is worth another try.
    pub(super) fn swap(&self, victim: ZoneId, copies: &[Copied], doubtful: &BTreeSet<ZoneId>) -> Result<()> {
        debug_assert!(
            copies.iter().all(|Copied { copy, .. }| self.state.borrow().zones.get(copy.zone).indexed_to <= copy.block),
            "CS-GC-3: a recovery would pass over copies that were not swapped in"
        );
        let mut state = self.state.borrow_mut();
        let may_be_lost = |copied: &&Copied| doubtful.contains(&copied.copy.zone);
        let (lost, mut copies): (Vec<&Copied>, Vec<&Copied>) = copies.iter().partition(may_be_lost);
        copies.sort_unstable_by_key(|copied| (copied.live.handle, copied.copy.offset));
        let mut gone = Vec::new();
        let mut left = self.reserved_index_room();
        for of_chunk in copies.chunk_by(|left, right| left.live.handle == right.live.handle) {
            let Some(Live { handle, birth, .. }) = of_chunk.first().map(|copied| copied.live) else { continue };
            let moved: Vec<Located> = of_chunk.iter().map(|copied| copied.copy).collect();
            let Some(chunk) = state.chunks.get_mut(handle).filter(|chunk| chunk.birth == birth) else { continue };
            let new = chunk.groups.moved(victim, &moved);
            let growth = groups_bytes(&new).saturating_sub(groups_bytes(&chunk.groups));
            let Some(rest) = left.checked_sub(growth) else {
                tracing::warn!(zone = victim.0, chunk = %chunk.id, "GC leaves a chunk where it is: the index has no room for its parts");
                continue;
            };
            left = rest;
            self.note_replaced(&chunk.groups, &new);
            let old = std::mem::replace(&mut chunk.groups, new.clone());
            let mut changes: BTreeMap<ZoneId, i64> = BTreeMap::new();
            for group in old.iter() {
                *changes.entry(group.zone).or_default() -= 1;
                state.zones.remove_live(group.zone, group.blocks());
            }
            for group in new.iter() {
                *changes.entry(group.zone).or_default() += 1;
                state.zones.add_live(group.zone, group.blocks());
            }
            for (zone, change) in changes {
                (0..change).for_each(|_| state.zones.add_group(zone, handle));
                let lost = std::iter::repeat_n(handle, change.min(0).unsigned_abs() as usize);
                if zone == victim {
                    gone.extend(lost);
                } else {
                    lost.for_each(|handle| state.zones.remove_group(zone, handle, Blocks::ZERO));
                }
            }
        }
        state.zones.remove_groups(victim, &gone);
        let mut zones: Vec<ZoneId> = copies.iter().map(|copied| copied.copy.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        for zone in zones {
            let slot = state.zones.get_mut(zone);
            slot.indexed_to = slot.written;
            slot.last_write = self.sequence.last();
            state.zones.note_garbage(zone);
        }
        for copied in copies {
            state.zones.note_length(copied.copy.zone, copied.copy.blocks());
            self.note_unmarked(&mut state, copied.copy.zone, copied.copy.blocks().0);
            state.unmarked.note_moved(copied.copy.zone);
        }
        match lost.first() {
            None => Ok(()),
            Some(Copied { copy, .. }) => {
                let why = format!("{} may have lost what GC had moved there; that stays where it was", copy.zone);
                Err(Error::new(ErrorKind::Device, why))
            }
        }
    }
}
