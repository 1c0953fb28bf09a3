//! Loading of objects, shards and shared blobs.
//!
//! # Invariants
//! - BLU-LOAD-1: there is one instance of an object or of a shared blob in memory. One task loads it at a time, and nobody changes it
//!   without having it; so what a load has read is not out of date when it ends.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;

use crate::blob::Blob;
use crate::blob::checks::padded;
use crate::engine::Engine;
use crate::error::{BlueError, BlueResult};
use crate::format::shard::{BlobRef, ShardRecord};
use crate::format::{key, object as head, shard, values};
use crate::ids::ObjectId;
use crate::map::{Extent, Extents, needed_by_blob};
use crate::object::{Object, ObjectState, Slot};

/// Shards of an object that somebody needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shards {
    All,
    /// These, as far as there are any.
    Some(std::ops::Range<u32>),
}

impl Engine {
    /// An object, with some of its shards.
    pub(crate) async fn object(&self, id: &ObjectId, shards: Shards) -> BlueResult<Rc<Object>> {
        let cached = self.state.borrow_mut().objects.get(id).cloned();
        if let Some(object) = cached {
            let knows = match &shards {
                Shards::All => object.state.borrow().whole,
                Shards::Some(range) => range.clone().all(|shard| object.state.borrow().knows(shard)),
            };
            if knows {
                return Ok(object);
            }
        }
        let _turn = self.locks.exclusive(key::object(id)).await;
        let known = self.state.borrow().objects.peek(id).cloned();
        let object = match known {
            Some(object) => object,
            None => {
                let state = self.load_head(id).await?;
                let object = Rc::new(Object { id: id.clone(), state: RefCell::new(state) });
                let weight = object.state.borrow().weight();
                self.state.borrow_mut().objects.insert(id.clone(), object.clone(), weight);
                object
            }
        };
        self.load_shards(&object, shards).await?;
        Ok(object)
    }

    async fn load_head(&self, id: &ObjectId) -> BlueResult<ObjectState> {
        let Some(value) = self.kv.get(&key::object(id)).await? else {
            return Ok(ObjectState { whole: true, ..ObjectState::default() });
        };
        let senseless = || BlueError::senseless(&format!("head of object {id}"));
        let (head, inside) = head::decode(&value).ok_or_else(senseless)?;
        let mut state = ObjectState { whole: !head.sharded, head: Some(head), ..ObjectState::default() };
        for (number, bytes) in inside {
            let record = shard::decode(number, bytes).ok_or_else(senseless)?;
            state.shards.insert(number, self.resolve(id, number, record).await?);
        }
        Ok(state)
    }

    async fn load_shards(&self, object: &Rc<Object>, shards: Shards) -> BlueResult<()> {
        let number = object.state.borrow().head.as_ref().map(|head| head.number);
        let Some(number) = number else { return Ok(()) };
        if object.state.borrow().whole {
            return Ok(());
        }
        let mut pairs = Vec::new();
        let whole = shards == Shards::All;
        match shards {
            Shards::All => {
                let (from, to) = key::shards_of(number);
                pairs = self.scan_all(from, to).await?;
            }
            Shards::Some(range) => {
                for shard in range {
                    if !object.state.borrow().knows(shard) {
                        let key = key::shard(number, shard);
                        let value = self.kv.get(&key).await?;
                        pairs.push((key.into(), value.unwrap_or_default()));
                    }
                }
            }
        }
        let slots = self.slots(object, pairs).await?;
        {
            let mut state = object.state.borrow_mut();
            for (shard, slot) in slots {
                state.shards.entry(shard).or_insert(slot);
            }
            state.whole |= whole;
        }
        self.weigh(object);
        Ok(())
    }

    pub(crate) fn weigh(&self, object: &Rc<Object>) {
        let weight = object.state.borrow().weight();
        self.state.borrow_mut().objects.weigh(&object.id, weight);
    }

    /// Slots of shards that are not in memory. A value of no bytes is a shard that is not there.
    async fn slots(&self, object: &Rc<Object>, pairs: Vec<(Bytes, Bytes)>) -> BlueResult<Vec<(u32, Slot)>> {
        let mut slots = Vec::new();
        for (key, value) in pairs {
            let senseless = || BlueError::senseless(&format!("shard of object {}", object.id));
            let (_, number) = key::parse_shard(&key).ok_or_else(senseless)?;
            if object.state.borrow().shards.contains_key(&number) {
                continue;
            }
            if value.is_empty() {
                slots.push((number, Slot::default()));
                continue;
            }
            let record = shard::decode(number, &value).ok_or_else(senseless)?;
            slots.push((number, self.resolve(&object.id, number, record).await?));
        }
        Ok(slots)
    }

    /// Finds the blobs of a shard.
    async fn resolve(&self, id: &ObjectId, number: u32, record: ShardRecord) -> BlueResult<Slot> {
        let mut blobs = Vec::with_capacity(record.blobs.len());
        for blob in record.blobs {
            blobs.push(match blob {
                BlobRef::Own(blob) => {
                    self.load_deferred(id, &blob).await?;
                    Rc::new(blob)
                }
                BlobRef::Shared(number) => self.shared_blob(number).await?,
            });
        }
        let senseless = || BlueError::senseless(&format!("shard of object {id}"));
        let extent = |record: &crate::format::shard::ExtentRecord| {
            let blob = blobs.get(record.blob)?.clone();
            Some(Extent { at: record.at, length: record.length, blob, from: record.from })
        };
        let extents: Option<Vec<Extent>> = record.extents.iter().map(extent).collect();
        let extents = extents.and_then(|extents| Extents::checked(number, extents)).ok_or_else(senseless)?;
        let held = held_zones(&extents);
        Ok(Slot { extents: Rc::new(extents), held })
    }

    /// The bytes of a deferred write are in memory until they are in a zone.
    async fn load_deferred(&self, id: &ObjectId, blob: &Blob) -> BlueResult<()> {
        let Some(number) = blob.state.borrow().deferred else { return Ok(()) };
        let value = self.kv.get(&key::deferred(number)).await?;
        let data = value.as_ref().and_then(values::decode_deferred).map(|(.., data)| padded(&[&data]));
        let good = data.as_ref().is_some_and(|data| {
            data.len() == (blob.blocks() * crate::blob::BLOCK) as usize && blob.first_bad(0, data).is_none()
        });
        if !good {
            let text = format!("the bytes of deferred write {number} of object {id} are not those that were written");
            return Err(BlueError::senseless_as(text));
        }
        blob.state.borrow_mut().data = data;
        Ok(())
    }

    /// A shared blob. (BLU-LOAD-1)
    pub(crate) async fn shared_blob(&self, number: u64) -> BlueResult<Rc<Blob>> {
        if let Some(blob) = self.state.borrow().shared(number) {
            return Ok(blob);
        }
        let key = key::shared(number);
        let _turn = self.locks.exclusive(key.clone()).await;
        if let Some(blob) = self.state.borrow().shared(number) {
            return Ok(blob);
        }
        let senseless = || BlueError::senseless(&format!("shared blob {number}"));
        let value = self.kv.get(&key).await?.ok_or_else(senseless)?;
        let blob = Rc::new(values::decode_shared(number, &value).ok_or_else(senseless)?);
        self.state.borrow_mut().add_shared(number, &blob);
        Ok(blob)
    }

    /// All keys of a range, with their values.
    pub(crate) async fn scan_all(&self, from: Vec<u8>, to: Vec<u8>) -> BlueResult<Vec<(Bytes, Bytes)>> {
        const STEP: usize = 1024;
        let (mut from, to, mut all) = (Bytes::from(from), Bytes::from(to), Vec::new());
        loop {
            let some = self.kv.scan(from.clone()..to.clone(), crate::kv::Order::Forward, STEP).await?;
            let count = some.len();
            all.extend(some);
            let Some((last, _)) = all.last().filter(|_| count == STEP) else { return Ok(all) };
            from = [&last[..], &[0]].concat().into();
        }
    }
}

/// Zones with blocks of the own blobs of a shard.
pub(crate) fn held_zones(extents: &Extents) -> std::collections::BTreeSet<u32> {
    let blobs = needed_by_blob(extents).into_iter();
    let own = blobs.filter(|(blob, _)| blob.state.borrow().shared.is_none());
    own.flat_map(|(blob, _)| blob.state.borrow().places.iter().map(|place| place.zone).collect::<Vec<_>>()).collect()
}
