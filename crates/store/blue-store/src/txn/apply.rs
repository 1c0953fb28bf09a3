//! Operations happen to the state in memory. All of a transaction happens in one step.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;

use crate::blob::checks::{checks_of, padded};
use crate::blob::packing::{PACKED_RAW_MAX, Packing};
use crate::blob::{Blob, State as BlobState};
use crate::change::{Change, HeadChange, ShardChange};
use crate::engine::Engine;
use crate::format::key;
use crate::format::object::Head;
use crate::hints::Hints;
use crate::ids::ObjectId;
use crate::kv;
use crate::map::{DEFERRED_MAX, Extent, Extents, by_shard, thin_blobs};
use crate::object::{Object, stored_bytes};
use crate::relocate::{Move, Rewrite};
use crate::transaction::Operation;

/// Bytes of a small extent map, which is a part of its object's head.
const INSIDE_MAX: usize = 1200;

/// A transaction that happens.
pub(super) struct Apply<'e> {
    engine: &'e Rc<Engine>,
    objects: BTreeMap<ObjectId, Rc<Object>>,
    /// Omaps of objects that are cloned, by the object's number.
    omaps: BTreeMap<u64, Vec<(Bytes, Bytes)>>,
    change: Change,
    /// Blocks of new blobs.
    blocks: u64,
}

impl<'e> Apply<'e> {
    pub(super) fn new(
        engine: &'e Rc<Engine>,
        objects: BTreeMap<ObjectId, Rc<Object>>,
        omaps: BTreeMap<u64, Vec<(Bytes, Bytes)>>,
    ) -> Self {
        Self { engine, objects, omaps, change: Change::default(), blocks: 0 }
    }

    /// Runs operations that were checked. Returns their effects, and the blocks that they write.
    pub(super) fn run(mut self, operations: Vec<Operation>) -> (Change, u64) {
        self.change.counts = true;
        for operation in operations {
            self.operate(operation);
        }
        self.finish()
    }

    /// Gives blobs other places.
    pub(super) fn relocate(mut self, job: Move) -> (Change, u64) {
        if let Some((object, shard)) = &job.shard {
            let extents = object.state.borrow().extents(*shard);
            self.set_shard(object, *shard, Extents::clone(&extents));
        }
        self.change.moves = job.moves;
        self.finish()
    }

    /// Puts gathered blobs in the place of deferred ones, as far as those are there still.
    pub(super) fn rewrite(mut self, job: Rewrite) -> (Change, u64) {
        let mut extents = Extents::clone(&job.object.state.borrow().extents(job.shard));
        for (old, blob, first) in job.gathered {
            let same = |now: &Extent| {
                Rc::ptr_eq(&now.blob, &old.blob) && now.from.wrapping_sub(now.at) == old.from.wrapping_sub(old.at)
            };
            let left = extents.parts(old.at..old.end()).into_iter().filter(same);
            let new = |now: Extent| Extent { blob: blob.clone(), from: first + (now.at - old.at), ..now };
            let new: Vec<Extent> = left.map(new).collect();
            extents = extents.with(&new);
        }
        self.set_shard(&job.object, job.shard, extents);
        (self.change.written, self.change.group, self.change.wrote) = (job.written, job.group, true);
        self.finish()
    }

    fn of(&self, id: &ObjectId) -> Rc<Object> {
        let object = self.objects.get(id).cloned();
        object.unwrap_or_else(|| unreachable!("object {id} was not loaded for its transaction"))
    }

    fn operate(&mut self, operation: Operation) {
        let object = self.of(operation.target());
        match operation {
            Operation::Create(_) | Operation::Touch(_) => drop(self.head(&object)),
            Operation::Write { offset, data, .. } => self.write(&object, offset as u32, &data),
            Operation::Append { data, .. } => {
                let at = object.state.borrow().head.as_ref().map_or(0, |head| head.size);
                self.write(&object, at, &data);
            }
            Operation::Zero { length: 0, .. } => drop(self.head(&object)),
            Operation::Zero { offset, length, .. } => {
                self.punch(&object, offset as u32..(offset + length) as u32);
                self.grow(&object, (offset + length) as u32);
            }
            Operation::Truncate { size, .. } => {
                let old = object.state.borrow().head.as_ref().map_or(0, |head| head.size);
                if (size as u32) < old {
                    self.punch(&object, size as u32..old);
                }
                self.change_head(&object, |head| head.size = size as u32);
            }
            Operation::Remove(_) => self.remove(&object),
            Operation::Clone { from, .. } => self.clone_object(&from, &object),
            Operation::CloneRange { from, offset, length, to_offset, .. } => {
                let from = self.of(&from);
                let size = from.state.borrow().head.as_ref().map_or(0, |head| head.size);
                let length = u64::from(size).saturating_sub(offset).min(length) as u32;
                self.head(&object);
                if length > 0 {
                    self.share(&from, offset as u32..offset as u32 + length, &object, to_offset as u32);
                    self.grow(&object, to_offset as u32 + length);
                }
            }
            Operation::SetAttribute { name, value, .. } => {
                self.change_head(&object, |head| drop(head.attributes.insert(name, value)));
            }
            Operation::RemoveAttribute { name, .. } => {
                self.change_head(&object, |head| drop(head.attributes.remove(&name)));
            }
            Operation::OmapSet { key: name, value, .. } => {
                let number = self.change_head(&object, |head| head.omap = true);
                self.change.bytes += (name.len() + value.len()) as u64;
                self.change.keys.push(kv::Change::Put(key::omap(number, &name).into(), value));
            }
            Operation::OmapRemove { key: name, .. } => {
                let number = self.head(&object);
                self.change.keys.push(kv::Change::Delete(key::omap(number, &name).into()));
            }
            Operation::OmapClear(_) => {
                let number = self.change_head(&object, |head| head.omap = false);
                let (from, to) = key::omap_of(number);
                self.change.keys.push(kv::Change::DeleteRange(from.into(), to.into()));
            }
            Operation::SetHints { hints, .. } => drop(self.change_head(&object, |head| head.hints = hints)),
        }
    }

    /// Makes the object if it is not there. Returns its number.
    fn head(&mut self, object: &Rc<Object>) -> u64 {
        let known = object.state.borrow().head.as_ref().map(|head| head.number);
        known.unwrap_or_else(|| {
            let number = self.engine.state.borrow_mut().number();
            self.set_head(object, Some(Head { number, ..Head::default() }));
            number
        })
    }

    fn set_head(&mut self, object: &Rc<Object>, head: Option<Head>) {
        object.state.borrow_mut().head = head;
        self.note_head(object);
    }

    fn note_head(&mut self, object: &Rc<Object>) {
        let change = || HeadChange { object: object.clone(), head: None, inside: Vec::new() };
        self.change.heads.entry(object.id.clone()).or_insert_with(change);
    }

    fn change_head(&mut self, object: &Rc<Object>, change: impl FnOnce(&mut Head)) -> u64 {
        let number = self.head(object);
        self.note_head(object);
        if let Some(head) = object.state.borrow_mut().head.as_mut() {
            change(head);
        }
        number
    }

    fn grow(&mut self, object: &Rc<Object>, end: u32) {
        self.head(object);
        let old = object.state.borrow().head.as_ref().map_or(0, |head| head.size);
        if end > old {
            self.change_head(object, |head| head.size = end);
        }
    }

    fn set_shard(&mut self, object: &Rc<Object>, shard: u32, extents: Extents) {
        let mut state = object.state.borrow_mut();
        debug_assert!(state.knows(shard), "shard {shard} of {} was not loaded", object.id);
        let slot = state.shards.entry(shard).or_default();
        let before = std::mem::replace(&mut slot.extents, Rc::new(extents));
        let change = || ShardChange { object: object.clone(), before, after: Rc::default(), sharded: None };
        self.change.shards.entry((object.id.clone(), shard)).or_insert_with(change);
    }

    fn punch(&mut self, object: &Rc<Object>, range: Range<u32>) {
        self.head(object);
        let first_last = (crate::map::shard_of(range.start), crate::map::shard_of(range.end));
        let shards: Vec<u32> = {
            let state = object.state.borrow();
            let used = state.shards.range(first_last.0..=first_last.1).filter(|(_, slot)| !slot.extents.is_empty());
            used.map(|(shard, _)| *shard).collect()
        };
        for shard in shards {
            let extents = object.state.borrow().extents(shard);
            self.set_shard(object, shard, extents.punched(&range));
        }
    }

    fn write(&mut self, object: &Rc<Object>, at: u32, data: &Bytes) {
        self.head(object);
        if data.is_empty() {
            return;
        }
        let hints = object.state.borrow().head.as_ref().map_or(Hints::default(), |head| head.hints);
        let deferred = self.defers(data.len());
        self.change.bytes += data.len() as u64;
        for (shard, range) in by_shard(at..at + data.len() as u32) {
            // Compressed content is unpacked as a whole by each read, so it is short.
            let step =
                if deferred || hints.packing() == Packing::Plain { range.end - range.start } else { PACKED_RAW_MAX };
            let mut new = Vec::new();
            for from in range.clone().step_by(step as usize) {
                let length = step.min(range.end - from);
                let content = data.slice((from - at) as usize..(from - at + length) as usize);
                let blob = self.blob(object, shard, &content, hints, deferred);
                new.push(Extent { at: from, length, blob, from: 0 });
            }
            let extents = object.state.borrow().extents(shard);
            let extents = extents.with(&new);
            if deferred && extents.iter().filter(|extent| extent.is_deferred()).count() >= DEFERRED_MAX {
                self.engine.state.borrow_mut().crowded.insert((object.id.clone(), shard));
            }
            self.set_shard(object, shard, extents);
        }
        self.grow(object, at + data.len() as u32);
    }

    /// So many bytes are deferred: few of them, and few others are. (Dissertation, section 4.4.2.)
    fn defers(&self, length: usize) -> bool {
        let waiting = self.engine.state.borrow().deferred_bytes;
        length < self.engine.drive.layout.small as usize && waiting < self.engine.options.deferred_bytes * 2
    }

    /// A new blob of a shard.
    fn blob(&mut self, object: &Rc<Object>, shard: u32, content: &[u8], hints: Hints, deferred: bool) -> Rc<Blob> {
        let mut blob = build(content, hints, !deferred);
        self.engine.state.borrow_mut().counters.bytes_written += content.len() as u64;
        if deferred {
            let mut state = self.engine.state.borrow_mut();
            blob.state.get_mut().deferred = Some(state.number());
            state.deferred_bytes += u64::from(blob.stored);
            state.counters.bytes_deferred += u64::from(blob.stored);
            state.deferred.insert((object.id.clone(), shard));
            self.engine.keeper.wake();
        }
        let blob = Rc::new(blob);
        self.change.written.push(blob.clone());
        if !deferred {
            self.blocks += u64::from(blob.blocks());
            self.change.wrote = true;
            let lane = self.engine.lane_for(hints.lifetime);
            let data = blob.state.borrow().data.clone().unwrap_or_default();
            self.engine.write_out(lane, &blob, 0, data, &self.change.group);
        }
        blob
    }

    fn remove(&mut self, object: &Rc<Object>) {
        self.punch(object, 0..u32::MAX);
        let Some(head) = object.state.borrow_mut().head.take() else { return };
        let ranges = [(head.sharded, key::shards_of(head.number)), (head.omap, key::omap_of(head.number))];
        for (_, (from, to)) in ranges.into_iter().filter(|(used, _)| *used) {
            self.change.keys.push(kv::Change::DeleteRange(from.into(), to.into()));
        }
        object.state.borrow_mut().whole = true;
        self.set_head(object, None);
    }

    fn clone_object(&mut self, from: &ObjectId, to: &Rc<Object>) {
        let from = self.of(from);
        if to.state.borrow().head.is_some() {
            self.remove(to);
        }
        let Some(head) = from.state.borrow().head.clone() else { return };
        let number = self.engine.state.borrow_mut().number();
        for (name, value) in self.omap(head.number) {
            self.change.keys.push(kv::Change::Put(key::omap(number, &name).into(), value));
        }
        let size = head.size;
        self.set_head(to, Some(Head { number, sharded: false, ..head }));
        self.share(&from, 0..size, to, 0);
    }

    /// An omap, after the changes of this transaction.
    fn omap(&self, number: u64) -> BTreeMap<Vec<u8>, Bytes> {
        let (from, to) = key::omap_of(number);
        let known = self.omaps.get(&number).into_iter().flatten().cloned();
        let mut pairs: BTreeMap<Bytes, Bytes> = known.collect();
        for change in &self.change.keys {
            match change {
                kv::Change::Put(key, value) if (&from[..]..&to[..]).contains(&&key[..]) => {
                    pairs.insert(key.clone(), value.clone());
                }
                kv::Change::Delete(key) => drop(pairs.remove(key)),
                kv::Change::DeleteRange(from, to) => pairs.retain(|key, _| !(from <= key && key < to)),
                _ => {}
            }
        }
        let name = |(key, value): (Bytes, Bytes)| Some((key::parse_omap(&key)?.1.to_vec(), value));
        pairs.into_iter().filter_map(name).collect()
    }

    /// Shows bytes of an object in another one, in place of those that are there. (Dissertation, section 4.4.2: clones.)
    fn share(&mut self, from: &Rc<Object>, range: Range<u32>, to: &Rc<Object>, at: u32) {
        self.punch(to, at..at + (range.end - range.start));
        for (shard, part) in by_shard(range.clone()) {
            let extents = from.state.borrow().extents(shard);
            for extent in extents.parts(part) {
                let place = at + (extent.at - range.start);
                if extent.blob.state.borrow().deferred.is_some() {
                    // Few bytes, which have one holder: they are copied.
                    let data = extent.blob.state.borrow().data.clone().unwrap_or_default();
                    let content = extent.content();
                    self.write(to, place, &data.slice(content.start as usize..content.end as usize));
                    continue;
                }
                self.change.shares.push((extent.blob.clone(), (from.id.pool, from.id.hash)));
                self.set_shard(from, shard, Extents::clone(&extents));
                let new = Extent { at: place, ..extent };
                for (shard, part) in by_shard(new.at..new.end()) {
                    let extents = to.state.borrow().extents(shard);
                    let new: Vec<Extent> = new.part(&part).into_iter().collect();
                    self.set_shard(to, shard, extents.with(&new));
                }
            }
        }
    }

    /// Notes the state after all operations.
    fn finish(mut self) -> (Change, u64) {
        let changed: Vec<Rc<Object>> = self.change.shards.values().map(|change| change.object.clone()).collect();
        for object in changed {
            let Some((sharded, known)) = inside_or_not(&object) else { continue };
            if sharded && !known {
                self.change_head(&object, |head| head.sharded = true);
                let all: Vec<_> =
                    object.state.borrow().shards.iter().map(|(shard, slot)| (*shard, slot.extents.clone())).collect();
                for (shard, extents) in all.into_iter().filter(|(_, extents)| !extents.is_empty()) {
                    self.set_shard(&object, shard, Extents::clone(&extents));
                }
            } else if !sharded {
                self.note_head(&object);
            }
        }
        for ((id, shard), change) in &mut self.change.shards {
            let state = change.object.state.borrow();
            change.after = state.shards.get(shard).map(|slot| slot.extents.clone()).unwrap_or_default();
            change.sharded = state.head.as_ref().filter(|head| head.sharded).map(|head| head.number);
            // Deferred ones are gathered in any case.
            if !change.after.iter().any(Extent::is_deferred) && !thin_blobs(&change.after).is_empty() {
                self.engine.state.borrow_mut().crowded.insert((id.clone(), *shard));
                self.engine.keeper.wake();
            }
        }
        for change in self.change.heads.values_mut() {
            let state = change.object.state.borrow();
            change.head.clone_from(&state.head);
            if state.head.as_ref().is_some_and(|head| !head.sharded) {
                let used = state.shards.iter().filter(|(_, slot)| !slot.extents.is_empty());
                change.inside = used.map(|(shard, slot)| (*shard, slot.extents.clone())).collect();
            }
        }
        let objects = self.change.heads.values().map(|change| &change.object);
        objects
            .chain(self.change.shards.values().map(|change| &change.object))
            .for_each(|object| self.engine.weigh(object));
        (self.change, self.blocks)
    }
}

/// Says if an object's map has to have keys of its own, and if it has; `None` for one that was removed.
fn inside_or_not(object: &Object) -> Option<(bool, bool)> {
    let state = object.state.borrow();
    let sharded = state.head.as_ref()?.sharded;
    let large = || stored_bytes(state.shards.values().map(|slot| &slot.extents)) > INSIDE_MAX;
    Some((sharded || large(), sharded))
}

/// A blob of some content, which is in memory.
pub(crate) fn build(content: &[u8], hints: Hints, may_pack: bool) -> Blob {
    let packed = if may_pack { hints.packing().pack(content) } else { None };
    let packing = if packed.is_some() { hints.packing() } else { Packing::Plain };
    let stored = packed.as_deref().unwrap_or(content);
    let (length, data) = (stored.len() as u32, padded(&[stored]));
    let unit_shift = hints.unit_shift(length);
    let checks = checks_of(&data, unit_shift);
    let state = RefCell::new(BlobState { data: Some(data), ..BlobState::default() });
    Blob { raw: content.len() as u32, stored: length, packing, unit_shift, checks, state }
}
