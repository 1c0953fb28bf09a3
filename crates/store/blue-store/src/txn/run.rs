//! The task that applies the transactions of a collection, one after the other.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::apply::Apply;
use super::bill::bill;
use super::copies;
use super::load::Shards;
use super::plan;
use crate::change::Change;
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::key;
use crate::ids::ObjectId;
use crate::map::{by_shard, shard_of};
use crate::object::Object;
use crate::promise::Promise;
use crate::relocate::{Move, Rewrite};
use crate::sequence::{Collection, Job};
use crate::transaction::{Operation, Transaction};

/// Room that batches leave in the store of metadata to those that remove.
const METADATA_MARGIN: u64 = 64 << 10;

/// All that a transaction needs in memory.
pub(super) struct Prepared {
    objects: BTreeMap<ObjectId, Rc<Object>>,
    omaps: BTreeMap<u64, Vec<(Bytes, Bytes)>>,
    /// Blocks that have to be promised to it.
    blocks: u64,
    /// Its room in the metadata. (BLU-META-1)
    promise: Promise,
}

/// The turn at which a transaction is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its own.
    Own,
    /// That of another one, which waits for room, and has a promise: one that waited for it would do so for ever.
    Passes,
}

impl Engine {
    /// Puts a job behind others of its collection, in the step of the call.
    pub(crate) fn enqueue(self: &Rc<Self>, collection: &Rc<Collection>, job: Job) {
        collection.queue.borrow_mut().push_back(job);
        collection.queued.notify_one();
        if !collection.applying.replace(true) {
            self.rt.spawn_detached(self.clone().apply_all(collection.clone()));
        }
    }

    /// Runs a transaction behind others of its collection, and waits for its end. It has its place from this call on.
    pub(crate) fn run(
        self: &Rc<Self>,
        collection: &Rc<Collection>,
        transaction: Transaction,
    ) -> impl Future<Output = BlueResult<()>> + use<> {
        let (reply, done) = oneshot::channel();
        self.enqueue(collection, Job::Transaction(transaction, reply));
        async move { done.await.unwrap_or_else(|_| Err(BlueError::closed())) }
    }

    /// Gives blobs of a collection's objects other places, and waits until that is durable.
    pub(crate) async fn relocate(self: &Rc<Self>, owner: (u64, u32), job: Move) -> BlueResult<()> {
        self.apply_own(owner, |apply| apply.relocate(job)).await
    }

    /// Puts gathered blobs in the place of deferred ones, and waits until that is durable.
    pub(crate) async fn rewrite(self: &Rc<Self>, job: Rewrite) -> BlueResult<()> {
        let owner = (job.object.id.pool, job.object.id.hash);
        self.apply_own(owner, |apply| apply.rewrite(job)).await
    }

    /// Applies a job of the store's own between two transactions: one of them may wait for the room that it wins.
    async fn apply_own(
        self: &Rc<Self>,
        (pool, hash): (u64, u32),
        run: impl FnOnce(Apply<'_>) -> (Change, u64),
    ) -> BlueResult<()> {
        let collection = loop {
            self.state.borrow().running()?;
            let collection = self.state.borrow().collection_of(pool, hash);
            let Some(collection) = collection else {
                return Err(BlueError::senseless("object without a collection"));
            };
            let settled = collection.settled.notified();
            if !collection.held.get() {
                break collection.clone();
            }
            settled.await;
        };
        let (change, _) = run(Apply::new(self, BTreeMap::new(), BTreeMap::new()));
        let (reply, done) = oneshot::channel();
        self.commit(&collection, change, reply);
        done.await.unwrap_or_else(|_| Err(BlueError::closed()))
    }

    async fn apply_all(self: Rc<Self>, collection: Rc<Collection>) {
        loop {
            let job = collection.queue.borrow_mut().pop_front();
            let Some(job) = job else { break };
            let (reply, applied) = match job {
                Job::Transaction(transaction, reply) => (reply, self.apply(&collection, transaction).await),
                Job::Hold(ready, end) => {
                    if ready.send(()).is_ok() {
                        // The other one lets go by dropping its end.
                        let _ = end.await;
                    }
                    continue;
                }
            };
            match applied {
                // Nobody may wait for the end of a transaction any more.
                Err(error) => drop(reply.send(Err(error))),
                Ok(change) => self.commit(&collection, change, reply),
            }
        }
        collection.applying.set(false);
        self.wakes.settled.notify_waiters();
    }

    /// Waits until all that was applied to a collection is durable, or the store has stopped.
    pub(crate) async fn settled(&self, collection: &Collection) {
        loop {
            let settled = collection.settled.notified();
            if collection.under_way.get() == 0 {
                break;
            }
            settled.await;
        }
    }

    async fn apply(self: &Rc<Self>, collection: &Rc<Collection>, transaction: Transaction) -> BlueResult<Change> {
        let prepared = self.prepare(collection, &transaction, Turn::Own).await?;
        self.reserve_behind(collection, &transaction, prepared.blocks).await?;
        Ok(self.happen(prepared, transaction))
    }

    /// Has a transaction happen that has room.
    pub(super) fn happen(self: &Rc<Self>, prepared: Prepared, transaction: Transaction) -> Change {
        let Prepared { objects, omaps, blocks, promise } = prepared;
        let (mut change, used) = Apply::new(self, objects, omaps).run(transaction.operations);
        debug_assert!(used <= blocks, "BLU-ROOM-1: {used} blocks are written, and {blocks} were promised");
        change.promise = Some(promise);
        let mut state = self.state.borrow_mut();
        state.promised = (state.promised + used).saturating_sub(blocks);
        change
    }

    /// Loads what a transaction needs, and checks it: all but the room of its data. Nothing has happened when it fails.
    pub(super) async fn prepare(
        &self,
        collection: &Collection,
        transaction: &Transaction,
        turn: Turn,
    ) -> BlueResult<Prepared> {
        if collection.gone.get() {
            return Err(BlueError::new(BlueErrorKind::NotFound, "the collection was removed"));
        }
        transaction.check(&collection.info.get())?;
        self.pace().await?;
        let operations = &transaction.operations;
        let mut objects = BTreeMap::new();
        for (id, need) in needs(operations) {
            let shards = if need.all { Shards::All } else { Shards::Some(need.from..need.to) };
            let mut object = self.object(&id, shards).await?;
            if need.append > 0 && !need.all {
                let size = object.state.borrow().head.as_ref().map_or(0, |head| head.size);
                let shards = shard_of(size)..shard_of(size.saturating_add(need.append)) + 1;
                object = self.object(&id, Shards::Some(shards)).await?;
            }
            objects.insert(id, object);
        }
        let size = |object: &Rc<Object>| object.state.borrow().head.as_ref().map(|head| head.size);
        let mut sizes = objects.iter().map(|(id, object)| (id.clone(), size(object))).collect();
        plan::check(operations, &mut sizes)?;
        let omaps = self.omaps_for(collection, operations, &objects).await?;
        let bill = bill(operations, &objects, &omaps, self.drive.layout.small)?.check(self.options.batch_bytes)?;
        let promise = self.promise_metadata(bill.room, transaction, turn).await?;
        // Behind all that is waited for: deferred bytes may be gathered meanwhile.
        let copied = copies::copied(operations, &objects, self.drive.layout.small);
        Ok(Prepared { objects, omaps, blocks: plan::blocks(operations).saturating_add(copied), promise })
    }

    /// Promises room in the metadata; a transaction that may use the reserve has it in any case. (BLU-META-1) Promises are ample, so it waits for
    /// those of others, if it may, before it is refused.
    async fn promise_metadata(&self, bytes: u64, transaction: &Transaction, turn: Turn) -> BlueResult<Promise> {
        let promises = self.state.borrow().promised_metadata.clone();
        let needed = || promises.bytes().saturating_add(bytes).saturating_add(METADATA_MARGIN);
        let fits = || bytes == 0 || transaction.reserve || self.kv.room() >= needed();
        loop {
            if !fits() {
                self.kv.win_room().await?;
            }
            let given_back = promises.given_back();
            self.state.borrow().running()?;
            if fits() {
                return Ok(promises.promise(bytes));
            }
            if promises.bytes() == 0 || turn == Turn::Passes {
                return Err(BlueError::new(
                    BlueErrorKind::NoSpace,
                    "the metadata have no room for more; remove objects",
                ));
            }
            given_back.await;
        }
    }

    /// Waits until few enough bytes are under way.
    async fn pace(&self) -> BlueResult<()> {
        loop {
            let settled = self.wakes.settled.notified();
            {
                let state = self.state.borrow();
                state.running()?;
                if state.waiting_bytes <= self.options.waiting_bytes {
                    return Ok(());
                }
            }
            settled.await;
        }
    }

    /// Omaps of objects that are cloned. They are read from the metadata, so all before has to be there.
    async fn omaps_for(
        &self,
        collection: &Collection,
        operations: &[Operation],
        objects: &BTreeMap<ObjectId, Rc<Object>>,
    ) -> BlueResult<BTreeMap<u64, Vec<(Bytes, Bytes)>>> {
        let mut omaps = BTreeMap::new();
        for operation in operations {
            let Operation::Clone { from, .. } = operation else { continue };
            let known = objects.get(from).and_then(|object| {
                object.state.borrow().head.as_ref().filter(|head| head.omap).map(|head| head.number)
            });
            if let Some(number) = known {
                self.settled(collection).await;
                self.state.borrow().running()?;
                let (from, to) = key::omap_of(number);
                omaps.insert(number, self.scan_all(from, to).await?);
            }
        }
        Ok(omaps)
    }

    /// Promises blocks to new data, as soon as there is room for them.
    pub(crate) async fn reserve(&self, blocks: u64) -> BlueResult<()> {
        if blocks == 0 {
            return Ok(());
        }
        let mut waits = Waits { engine: self, counted: false };
        loop {
            let woken = self.wakes.room.notified();
            {
                let (mut state, now) = (self.state.borrow_mut(), self.rt.now());
                state.running()?;
                if state.room(self.drive.layout.zone_blocks) >= blocks {
                    state.promised += blocks;
                    if waits.counted {
                        state.waits_since = now;
                    }
                    return Ok(());
                }
                if state.is_full(now) {
                    return Err(BlueError::no_space());
                }
                if state.full.take().is_some() {
                    state.looked.note_all();
                }
                if !std::mem::replace(&mut waits.counted, true) {
                    if state.waiters == 0 {
                        state.waits_since = now;
                    }
                    state.waiters += 1;
                }
            }
            self.wakes.pressure.notify_one();
            self.keeper.wake();
            woken.await;
        }
    }
}

/// A call that waits for room, and is counted as one.
struct Waits<'e> {
    engine: &'e Engine,
    counted: bool,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.engine.state.borrow_mut().waiters -= 1;
        }
    }
}

/// Shards of an object that a transaction needs.
#[derive(Default)]
struct Need {
    all: bool,
    from: u32,
    to: u32,
    append: u32,
    ranges: u32,
}

fn needs(operations: &[Operation]) -> BTreeMap<ObjectId, Need> {
    let mut needs: BTreeMap<ObjectId, Need> = BTreeMap::new();
    for operation in operations {
        if let Some(from) = operation.source() {
            needs.entry(from.clone()).or_default().all = true;
        }
        let need = needs.entry(operation.target().clone()).or_default();
        let range = match operation {
            Operation::Write { offset, data, .. } => *offset as u32..(offset + data.len() as u64) as u32,
            Operation::Zero { offset, length, .. } => *offset as u32..(offset + length) as u32,
            Operation::Append { data, .. } => {
                need.append = need.append.saturating_add(data.len() as u32);
                continue;
            }
            Operation::Truncate { .. }
            | Operation::Remove(_)
            | Operation::Clone { .. }
            | Operation::CloneRange { .. } => {
                need.all = true;
                continue;
            }
            _ => continue,
        };
        need.ranges += 1;
        for (shard, _) in by_shard(range) {
            let empty = need.from == need.to;
            need.from = if empty { shard } else { need.from.min(shard) };
            need.to = need.to.max(shard + 1);
        }
    }
    for need in needs.values_mut() {
        // An append may begin anywhere behind a write.
        need.all |= need.append > 0 && need.ranges > 0;
    }
    needs
}
