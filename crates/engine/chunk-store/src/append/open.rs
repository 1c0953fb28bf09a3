//! A chunk that is being written, and its appends.

use std::collections::VecDeque;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::sliced_record_blocks;
use shingle_runtime::Instant;
use tokio::sync::oneshot;

use crate::append::pools::PoolId;
use crate::client::Reply;
use crate::index::Handle;
use crate::landing::Tail;

/// Zones an append is tried in before the drive is taken to be unwritable.
const TRIES_MAX: u32 = 8;

/// State of a chunk's first append since the opening (CS-APP-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// It can: it was created since the store was opened, or its entry is durable.
    #[default]
    Done,
    /// The first append journals that it goes on.
    Needed,
    /// The entry is on its way.
    Journaling,
}

/// True if a chunk that is not sealed takes no more appends, because it is to be. Once its seal has a place in the
/// journal the chunk counts as sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sealing {
    /// Callers whose seals have no place in the journal yet. A caller that goes away, or is refused, leaves no trace.
    pub(crate) callers: u32,
    /// It has to be: an append that failed may be on the drive.
    pub(crate) needed: bool,
}

impl Sealing {
    pub(crate) fn is_begun(self) -> bool {
        self.needed || self.callers > 0
    }
}

/// The state that only a chunk being written needs.
#[derive(Default)]
pub(crate) struct OpenChunk {
    /// Bytes, counting appends without an answer.
    pub(crate) end: u32,
    /// Blocks its records take, counting those without an answer at their largest.
    pub(crate) footprint: u32,
    /// Zone of its next records.
    pub(crate) zone: Option<ZoneId>,
    /// Zone before that.
    pub(crate) left: Option<ZoneId>,
    /// Blocks it will likely take in all; `u32::MAX` where that cannot be told.
    pub(crate) expected: u32,
    /// The pool that counts it as open.
    pub(crate) pool: Option<PoolId>,
    /// The chunk of the pool that was created before it, and may be gone by now.
    pub(crate) before: Option<Handle>,
    /// Appends and moves in that zone's queue or write.
    pub(crate) inflight: u32,
    /// End of the bytes sent to that zone.
    pub(crate) sent_to: u32,
    /// Appends that land or wait to.
    pub(crate) landing: u32,
    /// Landed bytes that are not in the index.
    pub(crate) tail: Tail,
    /// Appends and moves that have no zone yet.
    pub(crate) queue: VecDeque<Pending>,
    /// True if it is in a queue of starved chunks.
    pub(crate) starved: bool,
    /// Its creation is not durable yet.
    pub(crate) creating: bool,
    /// It is being sealed.
    pub(crate) sealing: Sealing,
    /// True if appends have to wait for a journal entry (CS-APP-5).
    pub(crate) resumption: Resumption,
    /// Callers waiting for its last append.
    pub(crate) drained: Vec<oneshot::Sender<()>>,
    /// Callers waiting for its seal to be durable, if that is on its way.
    pub(crate) sealers: Option<Vec<oneshot::Sender<crate::Result<()>>>>,
}

impl OpenChunk {
    /// A chunk that goes on at `size`.
    pub(crate) fn at(size: u32, footprint: u32, pool: PoolId, before: Option<Handle>) -> Self {
        Self { end: size, footprint, pool: Some(pool), before, expected: u32::MAX, ..Self::default() }
    }

    /// Blocks that it will likely take from now on, of `limit` that it may take in all; at least `need`.
    pub(super) fn expected(&self, limit: u32, need: u32) -> u32 {
        let waiting: u32 = self.queue.iter().map(|pending| pending.blocks).sum();
        let durable = self.footprint.saturating_sub(waiting);
        let expected = if self.expected > durable { self.expected.min(limit) } else { limit };
        expected.saturating_sub(durable).max(need)
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.inflight == 0 && self.landing == 0 && self.queue.is_empty()
    }

    /// True if its next append was tried so often that there is no point in going on.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.queue.front().is_some_and(|front| front.tries >= TRIES_MAX)
    }

    /// True if its tail can be put in front of what waits.
    pub(crate) fn can_move(&self) -> bool {
        self.queue.front().is_none_or(|front| !front.moved && front.tries == 0)
    }
}

/// A caller that waits for bytes up to `end`.
pub(crate) struct Waiter {
    pub(super) end: u32,
    pub(super) began: Instant,
    pub(super) reply: Reply<u64>,
}

/// An append without an answer, or several that are one record (CS-APP-4); or landed bytes on their way to the chunk's
/// zone.
pub(crate) struct Pending {
    pub(crate) handle: Handle,
    pub(crate) offset: u32,
    pub(crate) length: u32,
    /// Blocks of its record.
    pub(crate) blocks: u32,
    pub(crate) data: Vec<Bytes>,
    pub(crate) waiters: Vec<Waiter>,
    /// Zones it failed in. Once above zero it is joined with nothing.
    pub(crate) tries: u32,
    /// It has landed, and is durable there. It is joined with nothing.
    pub(crate) moved: bool,
}

impl Pending {
    /// True if `next` can make one record with it, of up to `most` bytes.
    pub(crate) fn joins(&self, next: &Self, most: usize) -> bool {
        let free = |pending: &Self| pending.tries == 0 && !pending.moved;
        let follows = next.handle == self.handle && next.offset == self.offset + self.length;
        free(self) && free(next) && follows && (self.length + next.length) as usize <= most
    }

    /// Blocks of the record of both.
    pub(crate) fn blocks_with(&self, next: &Self) -> u32 {
        sliced_record_blocks(u64::from(self.length) + u64::from(next.length)).0 as u32
    }

    /// Takes in the append that follows, to make one record of both.
    pub(crate) fn join(&mut self, next: Self) {
        self.blocks = self.blocks_with(&next);
        self.length += next.length;
        self.data.extend(next.data);
        self.waiters.extend(next.waiters);
    }
}
