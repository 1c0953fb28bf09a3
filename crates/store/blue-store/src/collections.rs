//! Collections: making, removing, splitting and merging them. (Dissertation, section 4.4.1: only the number of bits changes.)
//!
//! # Invariants
//! - BLU-SPLIT-1: collections change when all transactions of theirs that were submitted before are durable, and before any later one.

use std::rc::Rc;

use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::{key, values};
use crate::ids::{BITS_MAX, CollectionId, CollectionInfo, mask};
use crate::kv::{Batch, Order};
use crate::sequence::{Collection, Job};

/// Bits by which a collection is split at once at most.
const SPLIT_MAX: u8 = 8;

/// A collection to which nothing happens until this is dropped.
pub(crate) struct Held {
    collection: Rc<Collection>,
    /// The sequencer waits for its end.
    _end: oneshot::Sender<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.collection.held.set(false);
        self.collection.settled.notify_waiters();
    }
}

impl Engine {
    /// Waits until all transactions of some collections are durable, and holds those that come. (BLU-SPLIT-1) One holds at a time.
    pub(crate) async fn hold(self: &Rc<Self>, collections: &[Rc<Collection>]) -> BlueResult<Vec<Held>> {
        let mut all = Vec::new();
        for collection in collections {
            let (ready, is_ready) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            self.enqueue(collection, Job::Hold(ready, ended));
            // The store's own moves go on until all are ready: a transaction of the next one may wait for room that they win.
            is_ready.await.map_err(|_| BlueError::closed())?;
            all.push(Held { collection: collection.clone(), _end: end });
        }
        collections.iter().for_each(|collection| collection.held.set(true));
        for collection in collections {
            self.settled(collection).await;
        }
        self.state.borrow().running()?;
        Ok(all)
    }

    fn named(&self, id: CollectionId) -> BlueResult<Rc<Collection>> {
        let found = self.state.borrow().collections.get(&id).cloned();
        found.ok_or_else(|| BlueError::new(BlueErrorKind::NotFound, format!("there is no collection {id}")))
    }

    fn overlapping(&self, info: &CollectionInfo) -> Vec<Rc<Collection>> {
        let state = self.state.borrow();
        state.collections.values().filter(|other| other.info.get().overlaps(info)).cloned().collect()
    }

    async fn write_or_stop(&self, batch: Batch) -> BlueResult<()> {
        let written = self.kv.write(batch).await.map_err(BlueError::from);
        if let Err(error) = &written {
            self.stop(error);
        }
        written
    }

    pub(crate) async fn create_collection(self: &Rc<Self>, info: CollectionInfo) -> BlueResult<()> {
        self.writable()?;
        info.check()?;
        let _turn = self.locks.exclusive(b"collections".to_vec()).await;
        if let Some(other) = self.overlapping(&info).first() {
            let text = format!("collection {} has objects of the hashes of {}", other.info.get().id, info.id);
            return Err(BlueError::new(BlueErrorKind::Exists, text));
        }
        let mut batch = Batch::default();
        batch.put(key::collection(info.id), values::encode_collection(info.bits));
        self.write_or_stop(batch).await?;
        self.state.borrow_mut().collections.insert(info.id, Rc::new(Collection::new(info)));
        Ok(())
    }

    pub(crate) async fn remove_collection(self: &Rc<Self>, id: CollectionId) -> BlueResult<()> {
        self.writable()?;
        let _turn = self.locks.exclusive(b"collections".to_vec()).await;
        let collection = self.named(id)?;
        let _held = self.hold(std::slice::from_ref(&collection)).await?;
        let (from, to) = key::objects_of(&collection.info.get());
        if !self.kv.scan(from.into()..to.into(), Order::Forward, 1).await?.is_empty() {
            return Err(BlueError::invalid(format!("collection {id} has objects: remove them first")));
        }
        let mut batch = Batch::default();
        batch.delete(key::collection(id));
        self.write_or_stop(batch).await?;
        collection.gone.set(true);
        self.state.borrow_mut().collections.remove(&id);
        Ok(())
    }

    pub(crate) async fn split(self: &Rc<Self>, id: CollectionId, bits: u8) -> BlueResult<Vec<CollectionInfo>> {
        self.writable()?;
        let _turn = self.locks.exclusive(b"collections".to_vec()).await;
        let collection = self.named(id)?;
        let old = collection.info.get().bits;
        if bits <= old || bits > BITS_MAX || bits - old > SPLIT_MAX {
            let most = BITS_MAX.min(old + SPLIT_MAX);
            return Err(BlueError::invalid(format!(
                "collection {id} has {old} bits: split it by more, and {most} at most"
            )));
        }
        let _held = self.hold(std::slice::from_ref(&collection)).await?;
        let part = |number: u32| CollectionInfo { id: CollectionId { seed: id.seed | number << old, ..id }, bits };
        let parts: Vec<CollectionInfo> = (0..1 << (bits - old)).map(part).collect();
        let mut batch = Batch::default();
        for info in &parts {
            batch.put(key::collection(info.id), values::encode_collection(info.bits));
        }
        self.write_or_stop(batch).await?;
        let mut state = self.state.borrow_mut();
        for info in &parts {
            match state.collections.get(&info.id) {
                Some(whole) => whole.info.set(*info),
                None => drop(state.collections.insert(info.id, Rc::new(Collection::new(*info)))),
            }
        }
        Ok(parts)
    }

    pub(crate) async fn merge(self: &Rc<Self>, id: CollectionId, bits: u8) -> BlueResult<CollectionInfo> {
        self.writable()?;
        let _turn = self.locks.exclusive(b"collections".to_vec()).await;
        let into = self.named(id)?;
        let info = CollectionInfo { id, bits };
        if bits > into.info.get().bits || id.seed & !mask(bits) != 0 {
            let (old, seed) = (into.info.get().bits, id.seed);
            return Err(BlueError::invalid(format!(
                "collection {id} has {old} bits: merge it to fewer, of which {seed:x} has no others"
            )));
        }
        let all = self.overlapping(&info);
        let _held = self.hold(&all).await?;
        let mut batch = Batch::default();
        for one in all.iter().filter(|one| !Rc::ptr_eq(one, &into)) {
            batch.delete(key::collection(one.info.get().id));
        }
        batch.put(key::collection(id), values::encode_collection(bits));
        self.write_or_stop(batch).await?;
        let mut state = self.state.borrow_mut();
        for one in all.iter().filter(|one| !Rc::ptr_eq(one, &into)) {
            one.gone.set(true);
            state.collections.remove(&one.info.get().id);
        }
        into.info.set(info);
        Ok(info)
    }
}
