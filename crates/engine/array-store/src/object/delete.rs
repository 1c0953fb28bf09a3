//! Deleting an object: a tombstone, then its parts leave the index. (SMORE, section III-F.3.)
//!
//! Deletions that come while tombstones are being written share the next record of them.

use std::rc::Rc;

use crate::append::item::{Item, Placed};
use crate::append::open_set::{Room, Stream};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Tombstone;
use crate::index::Change;
use crate::object::progress::Progress;
use bytes::Bytes;
use tokio::sync::oneshot;

/// Copies of deleted versions that reach the drives after their tombstones.
struct Late {
    /// The tombstones.
    placed: Placed,
    /// Versions in progress that have segments on their way.
    puts: Vec<Rc<Progress>>,
    /// Batches that cleaners are copying.
    batches: Vec<u64>,
}

impl Engine {
    /// Deletes every version of an object that began before now. Returns true if there was one.
    pub(crate) async fn delete(self: &Rc<Self>, name: Bytes) -> Result<bool> {
        self.writable()?;
        let version = self.stamps.version();
        let found = !self.index()?.versions(&name).map_err(Error::index)?.is_empty();
        if !found && !self.may_come_back(&name, version) && !self.unsure.may_be_there(&name) {
            // This call ends versions that began before it, whenever they would end (AS-PUT-2).
            let (any, on_drives) = self.puts.in_progress(&name, version);
            if !on_drives {
                self.puts.overtake(&name, |other| other < version);
                return Ok(any);
            }
        }
        self.entomb(Tombstone { name, version }).await.unwrap_or_else(|_| Err(Error::stopped()))?;
        Ok(true)
    }

    /// Has a tombstone written, with others that wait.
    pub(crate) fn entomb(self: &Rc<Self>, tombstone: Tombstone) -> oneshot::Receiver<Result<()>> {
        let (done, is_first) = self.deleting.wait(tombstone);
        if is_first {
            let engine = self.clone();
            let busy = self.lifecycle.busy.begin();
            self.rt.spawn_detached(async move {
                engine.write_tombstones().await;
                drop(busy);
            });
        }
        done
    }

    /// Deletions below it are in the index.
    pub(crate) fn buried_below(&self) -> u64 {
        self.deleting.oldest().map_or_else(|| self.stamps.next(), |version| version.0)
    }

    async fn write_tombstones(self: Rc<Self>) {
        while let Some(batch) = self.deleting.next_batch() {
            let result = self.bury(&batch.tombstones).await;
            let result = match result {
                Ok(late) => {
                    self.buried(batch.tombstones.clone(), late);
                    Ok(())
                }
                Err(error) => {
                    self.deleting.end(&batch.tombstones);
                    Err(error)
                }
            };
            batch.answer(result);
        }
    }

    /// The deletions are done, and answered. But a snapshot may not cover their tombstones before it covers everything
    /// that they delete: recovery would find the one, and not look at the other. (AS-SNAP-3)
    fn buried(self: &Rc<Self>, tombstones: Vec<Tombstone>, late: Late) {
        if late.puts.is_empty() && late.batches.is_empty() {
            self.deleting.end(&tombstones);
            return;
        }
        let engine = self.clone();
        self.rt.spawn_detached(async move {
            let Late { placed, puts, batches } = late;
            for put in puts {
                put.at_rest().await;
            }
            engine.cleaners.moved(&batches).await;
            engine.deleting.end(&tombstones);
            drop(placed);
        });
    }

    /// Writes tombstones durably and takes what they delete out of the index.
    async fn bury(self: &Rc<Self>, tombstones: &[Tombstone]) -> Result<Late> {
        let placed = self.append_tombstones(tombstones).await?;
        self.unsure.buried(tombstones);
        let removals = tombstones
            .iter()
            .map(|tombstone| Change::RemoveUpTo { name: tombstone.name.clone(), version: tombstone.version });
        let mut puts = Vec::new();
        for tombstone in tombstones {
            puts.extend(self.puts.overtake(&tombstone.name, |version| version <= tombstone.version));
        }
        self.enter(&removals.collect::<Vec<_>>())?;
        self.space.notify_waiters();
        self.bury_buffered(tombstones).await.map_err(Error::behind_a_write)?;
        Ok(Late { placed, puts, batches: self.cleaners.moving() })
    }

    /// Appends to clients' sets; or, if there is no room left, to those of cleaning: deletion must always be possible.
    pub(crate) async fn append_tombstones(self: &Rc<Self>, tombstones: &[Tombstone]) -> Result<Placed> {
        self.append_to_spare(&Item::Tombstones(tombstones.to_vec())).await
    }

    /// Appends to clients' sets; or, if there is no room left, to the room that cleaning can spare.
    pub(crate) async fn append_to_spare(self: &Rc<Self>, item: &Item) -> Result<Placed> {
        match self.append_user(item).await {
            Err(error) if error.kind == ErrorKind::NoSpace => {
                Ok(self.append_with(Stream::Clean(0), Room::SPARE, item).await?.0)
            }
            result => Ok(result?.0),
        }
    }
}
