//! The way to the owner with all that goes beside it: the cache of tables, and tails of logs.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

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
}

/// A process's side of the files of a drive: a cheap handle.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

impl Client {
    pub(crate) fn new(link: Arc<dyn Link>, cache_bytes: u64, tails: Option<Arc<Tails>>) -> Self {
        Self(Arc::new(Inner { link, cache: TableCache::new(cache_bytes), tails }))
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
