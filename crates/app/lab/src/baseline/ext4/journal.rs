//! Metadata on its way to the drive: jbd2 in ordered mode.
//!
//! Changed blocks join the running transaction. A commit writes descriptors and copies of the blocks in one sweep of
//! the journal, waits, and writes the commit record; callers that asked for durability meanwhile share the next commit.
//! Blocks go to their own places later, when the flusher finds them 30 s old. (fs/jbd2/commit.c of Linux 4.19, with no
//! `journal_async_commit`.) A [`Medium`] says what data a commit waits for, and what a barrier costs.
//!
//! # Invariants
//! - LAB-EJ-1: one transaction commits at a time, and all that joined before it began commits with it.
//! - LAB-EJ-2: freed blocks can be allocated again only once the transaction that freed them has committed.
//! - LAB-EJ-3: a block goes to its own place only as it was committed: never while the running transaction changes it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::time::Duration;

use shingle_runtime::Runtime;
use tokio::sync::{Notify, oneshot};

use super::alloc::{Allocator, Run};
use crate::baseline::disk::{Disk, runs};
use crate::rig::target::{TargetError, TargetFuture};

/// Interval of commits without a waiting caller.
const COMMIT_EVERY: Duration = Duration::from_secs(5);
/// Age of a changed block at which the flusher writes it (`dirty_expire_centisecs`).
const WRITE_BACK_EVERY: Duration = Duration::from_secs(30);
/// Blocks that a descriptor names: 16 bytes each, with checksums.
const TAGS: u64 = 254;
/// Writes that the flusher has under way.
const FLUSHER_DEPTH: usize = 16;

/// A journal's way to the drive.
pub(crate) trait Medium {
    /// Writes runs of blocks, all at once.
    fn write_runs(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()>;

    /// Writes a commit's record: when it completes, it is durable, and all that was written before it.
    fn write_record(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()>;

    /// Writes what files have in memory for places that a transaction gave them: it goes to the drive before the commit.
    fn write_data(&self, files: BTreeSet<u64>) -> TargetFuture<'_, ()>;
}

/// A drive without a volatile cache, and a file system without data in memory.
impl Medium for Disk {
    fn write_runs(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()> {
        Box::pin(Self::write_runs(self, runs))
    }

    fn write_record(&self, runs: Vec<(u64, u64)>) -> TargetFuture<'_, ()> {
        Box::pin(Self::write_runs(self, runs))
    }

    fn write_data(&self, _: BTreeSet<u64>) -> TargetFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[derive(Default)]
struct Transaction {
    blocks: BTreeSet<u64>,
    /// Files to which it gave places.
    files: BTreeSet<u64>,
    freed: Vec<Run>,
    waiting: Vec<oneshot::Sender<()>>,
}

pub(crate) struct Journal {
    rt: Runtime,
    medium: Rc<dyn Medium>,
    allocator: Rc<RefCell<Allocator>>,
    area: Range<u64>,
    head: Cell<u64>,
    running: RefCell<Transaction>,
    /// Number of the running transaction.
    number: Cell<u64>,
    /// All transactions below that number have ended.
    ended: Cell<u64>,
    one_ended: Notify,
    committing: Cell<bool>,
    /// Committed, and not yet in their own places.
    dirty: RefCell<BTreeSet<u64>>,
    commits: Cell<u64>,
    /// Freed blocks whose transaction has not committed.
    pending: Cell<u64>,
    failed: RefCell<Option<TargetError>>,
}

impl Journal {
    pub(crate) fn new(
        rt: &Runtime,
        medium: Rc<dyn Medium>,
        allocator: Rc<RefCell<Allocator>>,
        area: Range<u64>,
    ) -> Rc<Self> {
        let this = Rc::new(Self {
            rt: rt.clone(),
            medium,
            allocator,
            head: Cell::new(area.start),
            area,
            running: RefCell::default(),
            number: Cell::new(1),
            ended: Cell::new(1),
            one_ended: Notify::new(),
            committing: Cell::new(false),
            dirty: RefCell::default(),
            commits: Cell::new(0),
            pending: Cell::new(0),
            failed: RefCell::default(),
        });
        rt.spawn_detached(every(rt.clone(), COMMIT_EVERY, Rc::downgrade(&this), |this| {
            if !this.running.borrow().blocks.is_empty() {
                this.begin_commit();
            }
        }));
        rt.spawn_detached(every(rt.clone(), WRITE_BACK_EVERY, Rc::downgrade(&this), |this| {
            this.rt.spawn_detached(this.clone().write_back());
        }));
        this
    }

    /// Adds a changed block to the running transaction.
    pub(crate) fn change(&self, block: u64) {
        self.running.borrow_mut().blocks.insert(block);
    }

    /// Notes that the running transaction gave a file places: its data goes to the drive before the commit.
    pub(crate) fn order(&self, file: u64) {
        self.running.borrow_mut().files.insert(file);
    }

    /// Number of the running transaction.
    pub(crate) fn running(&self) -> u64 {
        self.number.get()
    }

    /// Completes when that transaction has committed. False if it had before.
    pub(crate) async fn complete(self: &Rc<Self>, number: u64) -> Result<bool, TargetError> {
        if number < self.ended.get() {
            return self.check().map(|()| false);
        }
        if number == self.number.get() {
            return self.commit().await.map(|()| true);
        }
        loop {
            let waits = self.one_ended.notified();
            if number < self.ended.get() {
                return self.check().map(|()| true);
            }
            waits.await;
        }
    }

    /// Frees blocks with the running transaction.
    pub(crate) fn free(&self, run: Run) {
        self.pending.set(self.pending.get() + run.blocks);
        self.running.borrow_mut().freed.push(run);
    }

    /// Completes when all earlier changes have committed.
    pub(crate) async fn commit(self: &Rc<Self>) -> Result<(), TargetError> {
        let (sender, receiver) = oneshot::channel();
        self.running.borrow_mut().waiting.push(sender);
        self.begin_commit();
        // The sender is lost where the commit failed.
        let _ = receiver.await;
        self.check()
    }

    /// Commits so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.get()
    }

    /// The error of a failed background task.
    pub(crate) fn check(&self) -> Result<(), TargetError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Blocks that come free with transactions that have not committed.
    #[cfg(test)]
    pub(crate) fn pending_blocks(&self) -> u64 {
        self.pending.get()
    }

    fn begin_commit(self: &Rc<Self>) {
        if !self.committing.replace(true) {
            let this = self.clone();
            self.rt.spawn_detached(async move {
                loop {
                    let transaction = std::mem::take(&mut *this.running.borrow_mut());
                    this.number.set(this.number.get() + 1);
                    if let Err(error) = this.write(transaction).await {
                        this.failed.borrow_mut().get_or_insert(error);
                    }
                    this.ended.set(this.number.get());
                    this.one_ended.notify_waiters();
                    if this.running.borrow().waiting.is_empty() {
                        break;
                    }
                }
                this.committing.set(false);
            });
        }
    }

    async fn write(&self, transaction: Transaction) -> Result<(), TargetError> {
        let blocks = transaction.blocks.len() as u64;
        if !transaction.files.is_empty() {
            self.medium.write_data(transaction.files).await?;
        }
        if blocks > 0 {
            let sweep = self.advance(blocks + blocks.div_ceil(TAGS));
            self.medium.write_runs(sweep).await?;
            let record = self.advance(1);
            self.medium.write_record(record).await?;
            self.commits.set(self.commits.get() + 1);
        }
        for sender in transaction.waiting {
            let _ = sender.send(());
        }
        let mut allocator = self.allocator.borrow_mut();
        for run in transaction.freed {
            self.pending.set(self.pending.get() - run.blocks);
            allocator.give(run);
        }
        self.dirty.borrow_mut().extend(transaction.blocks);
        Ok(())
    }

    /// The journal's next `blocks` blocks; it is a ring.
    fn advance(&self, mut blocks: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::with_capacity(1);
        while blocks > 0 {
            let head = self.head.get();
            let part = blocks.min(self.area.end - head);
            parts.push((head, part));
            blocks -= part;
            self.head.set(if head + part == self.area.end { self.area.start } else { head + part });
        }
        parts
    }

    /// Takes the committed blocks that do not change again. The others come with a later commit (LAB-EJ-3).
    pub(super) fn settled(&self) -> BTreeSet<u64> {
        let mut dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        dirty.retain(|block| !self.running.borrow().blocks.contains(block));
        dirty
    }

    async fn write_back(self: Rc<Self>) {
        for part in runs(self.settled()).chunks(FLUSHER_DEPTH) {
            if let Err(error) = self.medium.write_runs(part.to_vec()).await {
                self.failed.borrow_mut().get_or_insert(error);
            }
        }
    }
}

/// Does `work` at every interval, until its owner is gone.
async fn every(rt: Runtime, pause: Duration, journal: Weak<Journal>, work: fn(&Rc<Journal>)) {
    loop {
        rt.sleep(pause).await;
        let Some(journal) = journal.upgrade() else { return };
        work(&journal);
    }
}
