//! The way to the owner with all that goes beside it: the cache of tables, and tails of logs.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use shingle_zone_files::FilesError;

use crate::cache::{BLOCK, TableCache};
use crate::link::{Answering, Link, wait};
use crate::tail::Tails;
use crate::wire::{Answer, Call, Reply, out_of_place};

struct Inner {
    link: Arc<dyn Link>,
    cache: TableCache,
    /// Those of the logs that this process writes, if it owns the drive.
    tails: Option<Arc<Tails>>,
    /// Those who hold flushed bytes back for a moment, by their handles.
    held: Mutex<BTreeMap<u64, Arc<dyn Held>>>,
}

/// Flushed bytes that are held back for a moment, to go to the owner together.
pub(crate) trait Held: Send + Sync {
    /// Hands them in now.
    fn hand_in(&self, client: &Client);

    /// As [`hand_in`](Self::hand_in), unless someone is at them: then it is false. Waits for nobody.
    fn try_hand_in(&self, client: &Client) -> bool;
}

/// A process's side of the files of a drive: a cheap handle.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

impl Client {
    pub(crate) fn new(link: Arc<dyn Link>, cache_bytes: u64, tails: Option<Arc<Tails>>) -> Self {
        Self(Arc::new(Inner { link, cache: TableCache::new(cache_bytes), tails, held: Mutex::default() }))
    }

    /// Has bytes of a file handed in after a moment, or before the next call that may see them. (FS-ORDER-1)
    pub(crate) fn hold(&self, handle: u64, held: Arc<dyn Held>) {
        self.held().insert(handle, held);
        self.hand_in_soon(handle);
    }

    fn hand_in_soon(&self, handle: u64) {
        let inner = Arc::downgrade(&self.0);
        let after = Answering::new(move |paused| {
            let Some(inner) = inner.upgrade().filter(|_| paused.is_ok()) else { return };
            let client = Self(inner);
            let Some(held) = client.held().remove(&handle) else { return };
            if !held.try_hand_in(&client) {
                client.hold(handle, held);
            }
        });
        self.send(Call::Pause, Bytes::new(), after);
    }

    /// Hands in all that is held back: the next call sees it.
    pub(crate) fn settle(&self) {
        let held = std::mem::take(&mut *self.held());
        held.values().for_each(|held| held.hand_in(self));
    }

    /// Nothing of a file is held back any more.
    pub(crate) fn let_go(&self, handle: u64) {
        self.held().remove(&handle);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<dyn Held>>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, and waits for its answer.
    pub(crate) fn call(&self, call: Call) -> Answer {
        wait(&self.begin(call, Bytes::new()))
    }

    /// As [`call`](Self::call), of a call whose answer says only that it is done.
    pub(crate) fn done(&self, call: Call) -> Result<(), FilesError> {
        match self.call(call)? {
            Reply::Done => Ok(()),
            _ => Err(out_of_place()),
        }
    }

    /// Hands a call in; its answer appears at the receiver.
    pub(crate) fn begin(&self, call: Call, data: Bytes) -> Receiver<Answer> {
        let (answering, answer) = Answering::waited();
        self.send(call, data, answering);
        answer
    }

    /// Hands a call in whose answer tells nothing.
    pub(crate) fn tell(&self, call: Call) {
        self.send(call, Bytes::new(), Answering::nobody());
    }

    pub(crate) fn send(&self, call: Call, data: Bytes, answering: Answering) {
        self.0.link.send(call, data, answering);
    }

    pub(crate) fn cache(&self) -> &TableCache {
        &self.0.cache
    }

    pub(crate) fn tails(&self) -> Option<&Tails> {
        self.0.tails.as_deref()
    }

    /// A table was cut: what the cache has of it from byte `size` on is gone.
    pub(crate) fn cut(&self, serial: u64, size: u64) {
        self.0.cache.cut(serial, size / BLOCK);
    }
}
