//! Cleaning: what lives in a zone is copied elsewhere, so that the zone can be reset. (Section 5.7 of the dissertation, for files.)
//!
//! # Invariants
//! - ZF-CLEAN-1: a file gets the copies only if it still has the extent that was copied, once they are durable, and if their zone has not
//!   failed since; its old blocks become free once the journal says so durably. (`a_zone_that_fails_with_copies_costs_no_original`)
//! - ZF-CLEAN-2: copies that were given up are garbage, whenever they are written: no block counts as live that no file has.
//!   (`no_block_is_live_that_no_file_has`)
//! - ZF-CLEAN-3: what cannot be read stays where it is, with whole records, and all else leaves: nothing is lost that was readable, and nothing that
//!   cannot be read now is given up, or passes for anything else. (`a_zone_that_fails_costs_only_what_cannot_be_read`)
//! - ZF-CLEAN-4: a zone that keeps such records is tried again from time to time, and more often while writers wait for room.
//!   (`a_block_that_is_readable_again_lets_its_zone_go`)

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use shingle_base::ZoneId;

use crate::config::FileKind;
use crate::copy::{Copied, Moved};
use crate::engine::{After, Engine};
use crate::error::{FilesErrorKind, FilesResult};
use crate::extent::{Extent, Extents};
use crate::format::Op;
use crate::state::State;
use crate::zones::Zone;

/// Bytes that are copied before the journal hears of them.
const BATCH_BYTES: u64 = 16 << 20;

/// Records that cannot be read before a cleaning of a zone ends: a disk may take seconds for each.
const UNREADABLE_MAX: u64 = 16;

/// Extents that are looked at in one step.
const STEP: usize = 16_384;

/// The fate of copies.
#[derive(Clone, Copy, Default)]
struct Given {
    /// Extents that still needed them.
    count: u64,
    /// Some were lost with their zone, and are to be made again.
    lost: bool,
}

impl Engine {
    /// The zone to be emptied next, if one has to be: that which wins most for the copies that it costs, and which has rested longest. Zones
    /// that can be written no more are emptied as soon as there is room.
    pub(crate) fn victim(&self) -> Option<ZoneId> {
        let state = self.state.borrow();
        let free = state.zones.free();
        let closed = || state.zones.candidates().filter(|(_, zone)| !zone.own.tried);
        if free > self.options.low_water
            && state.zones.broken_in_use() > 0
            && let Some((zone, _)) = closed().find(|(_, zone)| zone.broken)
        {
            return Some(zone);
        }
        let waits = state.lanes.all.iter().any(|lane| lane.own.waits);
        if free >= self.options.low_water && !waits {
            return None;
        }
        let blocks = u64::from(self.drive.layout.zone_blocks);
        // Records cut at the ends of zones may take a block more each. Without need, little garbage is left to grow.
        let least = if waits { 2 } else { blocks / 8 };
        let gain = |zone: &Zone| blocks.saturating_sub(zone.live + least);
        let score = |zone: &Zone| {
            let age = state.zones.opened().saturating_sub(zone.order) + 1;
            let age = if waits { 1 } else { age };
            gain(zone).saturating_mul(1024).saturating_mul(age) / (zone.live + 1)
        };
        let worth = closed().filter(|(_, zone)| !zone.broken && gain(zone) > 0);
        worth.max_by_key(|(_, zone)| score(zone)).map(|(zone, _)| zone)
    }

    /// Copies all that lives in a zone elsewhere, around what cannot be read. (ZF-CLEAN-3)
    pub(crate) async fn clean(self: &Rc<Self>, victim: ZoneId) -> FilesResult<()> {
        let pin = self.state.borrow().zones.pin(victim);
        let (mut unreadable, mut no_room, mut given) = (0, false, Given::default());
        let mut batch: Vec<Moved> = Vec::new();
        let mut batched = 0;
        let mut left = self.extents_in(victim).await;
        while let Some((serial, extent)) = left.pop_front() {
            if unreadable >= UNREADABLE_MAX {
                left.push_front((serial, extent));
                break;
            }
            let moved = match self.copy(serial, extent).await {
                Ok(Copied::Whole(moved)) => Some(moved),
                Ok(Copied::Gone) => None,
                Ok(Copied::Around { front, hole, rest }) => {
                    unreadable += hole.records();
                    if let Some(rest) = rest {
                        left.push_front((serial, rest));
                    }
                    front
                }
                Err(error) if error.kind == FilesErrorKind::NoSpace => {
                    no_room = true;
                    break;
                }
                Err(error) => return Err(error),
            };
            if let Some(moved) = moved {
                batched += moved.from.length;
                batch.push(moved);
            }
            if batched >= BATCH_BYTES {
                self.give(std::mem::take(&mut batch), &mut given).await?;
                batched = 0;
            }
        }
        self.give(batch, &mut given).await?;
        drop(pin);
        if unreadable > 0 {
            // The next cleaning begins with what this one did not come to.
            self.note_stuck(victim, left.front().map(|(serial, extent)| (*serial, extent.offset)));
        }
        let mut state = self.state.borrow_mut();
        state.counters.cleaned += u64::from(unreadable == 0 && !no_room && !given.lost);
        if let Some(own) = state.zones.own_mut(victim) {
            // Nothing moved: entries that are on their way free its blocks, or nobody can.
            own.tried |= no_room || (given.count == 0 && !given.lost);
        }
        Ok(())
    }

    /// Extents of files in a closed zone. Those of all files are gone through, some in a step: 200,000 tables take less time than the drive
    /// takes to read a block. None comes to the zone meanwhile, and one that goes is found out when it is copied.
    /// They begin where the last cleaning ended.
    async fn extents_in(&self, zone: ZoneId) -> VecDeque<(u64, Extent)> {
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            from = self.state.borrow().tree.some_extents(next, STEP, |serial, extent| {
                if extent.zone == zone {
                    found.push((serial, *extent));
                }
            });
            if from.is_some() {
                self.rt.yield_now().await;
            }
        }
        let begins = self.state.borrow().zones.get(zone).map_or((0, 0), |entry| entry.own.from);
        // Those of a file are in order, too.
        let behind = found.partition_point(|(serial, extent)| (*serial, extent.offset) < begins);
        found.rotate_left(behind);
        found.into()
    }

    /// Gives copies to their files (ZF-CLEAN-1).
    async fn give(self: &Rc<Self>, moved: Vec<Moved>, fate: &mut Given) -> FilesResult<()> {
        if moved.is_empty() {
            return Ok(());
        }
        // Of bytes that the journal does not know yet it may be told those that the flush makes durable.
        let sizes: BTreeMap<u64, u64> = {
            let state = self.state.borrow();
            let size = |moved: &Moved| {
                let node = state.tree.file(moved.serial);
                (moved.serial, node.map_or(0, |node| node.extents.size()))
            };
            moved.iter().map(size).collect()
        };
        self.flush().await?;
        let unknown = self.look_at_copies(&moved).await;
        let mut last = 0;
        for Moved { serial, from, copies } in moved {
            self.journal_room().await?;
            let (ops, after) = {
                let mut state = self.state.borrow_mut();
                let State { tree, extents, zones, .. } = &mut *state;
                let placed = copies.placed.take();
                let broken = |extent: &Extent| zones.get(extent.zone).is_none_or(|zone| zone.broken);
                let lost = placed.iter().any(broken);
                fate.lost |= lost;
                let held = !lost && placed.iter().all(|extent| !unknown.contains(&extent.zone));
                let merged = Extents::merged(&placed);
                let given = held && tree.file_mut(serial).is_some_and(|node| node.extents.replace(&from, &merged));
                if !given {
                    state.free(placed.iter().map(|extent| (extent.zone, extent.blocks())));
                    continue;
                }
                fate.count += 1;
                *extents = *extents + merged.len() as u64 - 1;
                let known = sizes.get(&serial).copied().unwrap_or(0);
                let node = state.tree.file(serial).map(|node| (node.kind, node.links, node.modified));
                let Some((kind, links, time)) = node else { continue };
                let told = match state.active.get(&serial) {
                    Some(active) if kind != FileKind::Wal => active.journaled,
                    _ => u64::MAX,
                };
                let mut ops = Vec::new();
                if told > from.offset && links > 0 {
                    // Few, as copies follow each other; and in one operation, as their records end where the old ones do not.
                    ops.push(Op::Place { serial, time, extents: merged.clone() });
                    if told < from.end() {
                        state.active_mut(serial).journaled = from.end();
                    }
                }
                // Bytes before it come with it, so that the journal has no gap.
                if told < from.end() {
                    ops.extend(state.tell(serial, known));
                }
                (ops, After { freed: vec![(from.zone, from.blocks())], unlinked: None })
            };
            let Some((final_op, earlier)) = ops.split_last() else {
                // A file without a name, of which the journal tells nothing.
                self.state.borrow_mut().free(after.freed);
                continue;
            };
            for op in earlier {
                self.journal(std::slice::from_ref(op), After::default());
            }
            last = self.journal(std::slice::from_ref(final_op), after);
            // A sync of these bytes has to wait for this entry, for it finds nothing that it has to tell. (ZF-SYNC-1)
            if let Some(active) = self.state.borrow_mut().active.get_mut(&serial) {
                active.entry = active.entry.max(last);
            }
        }
        self.journaled(last).await
    }
}
