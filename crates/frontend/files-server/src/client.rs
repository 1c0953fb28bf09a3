//! The way to the owner with all that goes beside it: the cache of tables, and tails of logs.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use shingle_zone_files::FilesError;

use crate::awake::Awake;
use crate::cache::{BLOCK, Caching, TableCache};
use crate::link::{self, Answering, Link};
use crate::tail::{Keeping, Tails};
use crate::wire::{About, Answer, Call, Reply, out_of_place};

/// Tails of the logs that this process writes.
pub(crate) enum Tailing {
    /// Another process owns the drive, and has what was flushed.
    Elsewhere,
    /// This process owns the drive. There may be no memory for tails.
    Here(Option<Arc<Tails>>),
}

struct Inner {
    link: Arc<dyn Link>,
    cache: TableCache,
    tails: Tailing,
    awake: Awake,
}

/// A process's side of the files of a drive: a cheap handle.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

impl Client {
    pub(crate) fn new(link: Arc<dyn Link>, caching: Caching, tails: Tailing) -> Self {
        Self(Arc::new(Inner { link, cache: TableCache::new(caching), tails, awake: Awake::new() }))
    }

    /// Makes a call, and waits for its answer.
    pub(crate) fn call(&self, call: Call) -> Answer {
        self.wait(&self.begin(call, Bytes::new()))
    }

    /// Waits for an answer.
    pub(crate) fn wait(&self, answer: &Receiver<Answer>) -> Answer {
        link::wait(answer, &self.0.awake)
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

    /// The place of a log's flushed bytes until they are written.
    pub(crate) fn keeping(&self, about: &About, path: &str) -> Keeping {
        let tails = match &self.0.tails {
            Tailing::Here(tails) if about.log => tails,
            _ => return Keeping::Owner,
        };
        let tail = tails.as_ref().map(|tails| tails.tail(about.serial, path));
        match tail {
            Some(Ok(tail)) => Keeping::Tail(tail),
            Some(Err(error)) => {
                tracing::warn!(%error, path, "each flush of the log waits for the drive");
                Keeping::Drive
            }
            None => Keeping::Drive,
        }
    }

    /// A table was cut: what the cache has of it from byte `size` on is gone.
    pub(crate) fn cut(&self, serial: u64, size: u64) {
        self.0.cache.cut(serial, size / BLOCK);
    }
}
