//! The batch of metadata of a transaction. (Dissertation, section 5.7.1: ZonedFreelistManager; and the offsets that it notes for ZonedCleaner.)
//!
//! Blobs' places change here and nowhere else, in the order of batches: so places in memory are those of the newest batch, also while
//! transactions behind it have been applied.
//!
//! # Invariants
//! - BLU-COUNT-1: the live blocks of a zone in the metadata are those that blobs in the metadata have places for.
//! - BLU-G-1: namespace `G` has a key for each holder with live blocks in a zone, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shingle_base::ZoneId;

use super::load::held_zones;
use crate::blob::ranges::Ranges;
use crate::blob::{Blob, Place};
use crate::change::{Change, HeadChange, ShardChange};
use crate::engine::Engine;
use crate::format::key::{self, Holder};
use crate::format::zone::ZoneChange;
use crate::format::{object, shard, values};
use crate::ids::ObjectId;
use crate::kv::Batch;
use crate::map::changes;

/// Numbers that the metadata let be given out at a time.
const NUMBERS: u64 = 1024;

/// Effects of a batch once it is durable.
#[derive(Debug, Default)]
pub(super) struct Settle {
    /// Zones that are held until then.
    pub(super) held: Vec<u32>,
}

/// Changes of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Delta {
    /// Live blocks in the metadata, more or fewer.
    live: i64,
    /// Block behind the last that was written.
    end: u32,
    /// Blocks that live in memory no more.
    gone: u64,
    /// Blocks that metadata name from now on, or that nobody will.
    settled: u32,
}

/// A batch that is being made.
struct Making {
    batch: Batch,
    zones: BTreeMap<u32, Delta>,
    shared: BTreeMap<u64, (Rc<Blob>, BTreeSet<u32>)>,
    kept: Vec<Rc<Blob>>,
    /// Bytes of deferred writes that are over.
    undeferred: u64,
}

impl Engine {
    /// Makes the batch of a transaction whose data are durable.
    pub(super) fn batch(&self, change: &mut Change) -> (Batch, Settle) {
        let (batch, zones) = (Batch::default(), BTreeMap::new());
        let mut making = Making { batch, zones, shared: BTreeMap::new(), kept: Vec::new(), undeferred: 0 };
        making.batch.changes.append(&mut change.keys);
        for (blob, owner) in std::mem::take(&mut change.shares) {
            self.begin_sharing(&mut making, &blob, owner);
        }
        for ((id, shard), change) in &change.shards {
            making.shard(id, *shard, change);
        }
        for blob in &change.written {
            making.unused(blob);
        }
        for moved in &change.moves {
            making.moved(&moved.blob, &moved.places());
        }
        making.shared_blobs();
        for ((id, shard), change) in &change.shards {
            making.shard_keys(id, *shard, change);
        }
        change.heads.iter().for_each(|(id, change)| making.head(id, change));
        change.kept.append(&mut making.kept);
        self.finish(making)
    }

    /// A blob has several holders from now on.
    fn begin_sharing(&self, making: &mut Making, blob: &Rc<Blob>, owner: (u64, u32)) {
        let mut state = self.state.borrow_mut();
        let known = blob.state.borrow().shared;
        let number = known.unwrap_or_else(|| state.number());
        if known.is_none() {
            let mut blob = blob.state.borrow_mut();
            // Its one holder so far needs all that is live.
            let live: Ranges = blob.places.iter().filter(|_| blob.counted).map(Place::range).collect();
            blob.counts = crate::blob::ranges::Counts::default();
            blob.counts.change(&live, 1);
            (blob.shared, blob.owner) = (Some(number), owner);
        }
        state.add_shared(number, blob);
        // Shards had the zones of a blob that was not shared before.
        let zones = if known.is_some() { blob.state.borrow().blocks_by_zone() } else { BTreeMap::new() };
        making.shared.entry(number).or_insert_with(|| (blob.clone(), zones.into_keys().collect()));
    }

    fn finish(&self, making: Making) -> (Batch, Settle) {
        let Making { mut batch, zones, undeferred, .. } = making;
        let mut state = self.state.borrow_mut();
        let mut settle = Settle::default();
        for (zone, delta) in zones {
            let epoch = state.zones.get(ZoneId(zone)).map_or(0, |entry| entry.epoch);
            if delta.live != 0 || delta.end > 0 {
                let change = ZoneChange { epoch, end: delta.end, live: delta.live as i32 };
                batch.merge(key::zone(zone), change.encode());
            }
            if let Some(own) = state.zones.own_mut(ZoneId(zone)) {
                debug_assert!(own.pending >= delta.settled, "zone {zone}: {own:?}, {delta:?}");
                own.pending = own.pending.saturating_sub(delta.settled);
                own.changes = own.changes.wrapping_add(1);
                own.passed = false;
            }
            // Held also where nothing has gone: the zone is not free before the metadata know its blocks.
            state.take_live(zone, delta.gone);
            settle.held.push(zone);
        }
        state.deferred_bytes = state.deferred_bytes.saturating_sub(undeferred);
        if state.next_number > state.numbers_end {
            state.numbers_end = state.next_number + NUMBERS;
            batch.put(key::numbers(), values::encode_numbers(state.numbers_end));
        }
        state.counters.metadata_bytes += batch.bytes();
        (batch, settle)
    }
}

impl Making {
    /// Keeps some blocks of a blob, and gives some other places.
    fn keep(&mut self, blob: &Blob, needed: Option<&Ranges>, moved: &[Place]) {
        let mut state = blob.state.borrow_mut();
        let before = state.blocks_by_zone();
        let counted = std::mem::replace(&mut state.counted, true);
        let mut in_memory: BTreeMap<u32, u64> = BTreeMap::new();
        for (zone, blocks) in &before {
            *in_memory.entry(*zone).or_default() += u64::from(*blocks);
            let delta = self.zones.entry(*zone).or_default();
            match counted {
                true => delta.live -= i64::from(*blocks),
                false => delta.settled += blocks,
            }
        }
        let new = if counted { moved } else { &state.places[..] };
        for place in new {
            let delta = self.zones.entry(place.zone).or_default();
            delta.end = delta.end.max(place.block + place.count);
        }
        for place in moved {
            *in_memory.entry(place.zone).or_default() += u64::from(place.count);
            self.zones.entry(place.zone).or_default().settled += place.count;
        }
        if !moved.is_empty() {
            state.move_to(moved);
        }
        if let Some(needed) = needed {
            state.keep(needed);
        }
        let after = state.blocks_by_zone();
        for (zone, blocks) in in_memory {
            let left = after.get(&zone).copied().unwrap_or(0);
            let delta = self.zones.entry(zone).or_default();
            delta.live += i64::from(left);
            delta.gone += blocks - u64::from(left);
        }
    }

    /// Counts what a shard needs more or no more.
    fn shard(&mut self, id: &ObjectId, shard: u32, change: &ShardChange) {
        for blob_change in changes(&change.before, &change.after) {
            let blob = &blob_change.blob;
            let shared = blob.state.borrow().shared;
            if let Some(number) = shared {
                let mut state = blob.state.borrow_mut();
                let zones = state.blocks_by_zone();
                self.shared.entry(number).or_insert_with(|| (blob.clone(), zones.into_keys().collect()));
                let good = state.counts.change(&blob_change.after, 1) & state.counts.change(&blob_change.before, -1);
                debug_assert!(good, "shared blob {number} has fewer references than holders");
                continue;
            }
            let (counted, deferred) = (blob.state.borrow().counted, blob.state.borrow().deferred);
            self.keep(blob, Some(&blob_change.after), &[]);
            if let Some(number) = deferred {
                match (counted, blob_change.after.is_empty()) {
                    (false, false) => {
                        let data = blob.state.borrow().data.clone().unwrap_or_default();
                        let stored = data.slice(..blob.stored as usize);
                        self.batch.put(key::deferred(number), values::encode_deferred(id, shard, &stored));
                    }
                    (true, true) => {
                        self.batch.delete(key::deferred(number));
                        self.undeferred += u64::from(blob.stored);
                    }
                    (false, true) => self.undeferred += u64::from(blob.stored),
                    (true, false) => {}
                }
            }
        }
    }

    /// A new blob that no extent shows any more: later operations of its own transaction have taken its place.
    fn unused(&mut self, blob: &Rc<Blob>) {
        let (counted, shared, deferred) = {
            let state = blob.state.borrow();
            (state.counted, state.shared, state.deferred)
        };
        if !counted && shared.is_none() {
            self.keep(blob, Some(&Ranges::default()), &[]);
            if deferred.is_some() {
                self.undeferred += u64::from(blob.stored);
            }
        }
    }

    /// Blocks of a blob have other places, as far as they are live still.
    fn moved(&mut self, blob: &Rc<Blob>, moved: &[Place]) {
        let shared = blob.state.borrow().shared;
        if let Some(number) = shared {
            let zones = blob.state.borrow().blocks_by_zone();
            self.shared.entry(number).or_insert_with(|| (blob.clone(), zones.into_keys().collect()));
        }
        self.keep(blob, None, moved);
    }

    /// Values of shared blobs, and the zones that they have blocks in.
    fn shared_blobs(&mut self) {
        for (number, (blob, before)) in std::mem::take(&mut self.shared) {
            let used = blob.state.borrow().counts.used();
            self.keep(&blob, Some(&used), &[]);
            let after: BTreeSet<u32> = blob.state.borrow().blocks_by_zone().into_keys().collect();
            self.live_keys(&Holder::Shared(number), &before, &after);
            match used.is_empty() {
                true => self.batch.delete(key::shared(number)),
                false => self.batch.put(key::shared(number), values::encode_shared(&blob)),
            }
            self.kept.push(blob);
        }
    }

    /// Keys of namespace `G`. (BLU-G-1)
    fn live_keys(&mut self, holder: &Holder, before: &BTreeSet<u32>, after: &BTreeSet<u32>) {
        before.difference(after).for_each(|zone| self.batch.delete(key::live(*zone, holder)));
        after.difference(before).for_each(|zone| self.batch.put(key::live(*zone, holder), Vec::new()));
    }

    /// Keys of a shard: where it has blocks, and its extents unless they are in the head.
    fn shard_keys(&mut self, id: &ObjectId, shard: u32, change: &ShardChange) {
        let after = held_zones(&change.after);
        let before = match change.object.state.borrow_mut().shards.get_mut(&shard) {
            Some(slot) => std::mem::replace(&mut slot.held, after.clone()),
            None => BTreeSet::new(),
        };
        self.live_keys(&Holder::Object(id.clone(), shard), &before, &after);
        let Some(number) = change.sharded else { return };
        match change.after.is_empty() {
            true => self.batch.delete(key::shard(number, shard)),
            false => self.batch.put(key::shard(number, shard), shard::encode(shard, &change.after)),
        }
    }

    fn head(&mut self, id: &ObjectId, change: &HeadChange) {
        let Some(head) = &change.head else {
            self.batch.delete(key::object(id));
            return;
        };
        let inside = change.inside.iter().map(|(number, extents)| (*number, shard::encode(*number, extents)));
        self.batch.put(key::object(id), object::encode(head, &inside.collect::<Vec<_>>()));
    }
}
