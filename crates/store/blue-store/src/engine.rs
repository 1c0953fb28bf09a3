//! An open store: its parts together. Operations are in modules of their own.
//!
//! # Invariants
//! - BLU-DROP-1: a call that changes the store goes on to its end once it has begun, whether or not somebody waits for it. So memory follows
//!   the metadata, and the end of the store is waited for by all who ask for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_runtime::locks::Locks;
use shingle_zone_files::ZoneFiles;
use shingle_zone_kit::Keeper;
use tokio::sync::Notify;

use crate::drive::Drive;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::kv::KeyValue;
use crate::options::Options;
use crate::piece::Group;
use crate::sequence::Collection;
use crate::state::State;

/// Wakes of tasks.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Somebody waits for room: cleaning does not rest.
    pub(crate) pressure: Notify,
    /// There may be room now, or there will be none.
    pub(crate) room: Notify,
    /// A transaction has become durable.
    pub(crate) settled: Notify,
    /// Data of a transaction are written, or another one waits for its batch.
    pub(crate) landed: Notify,
    /// The store has ended.
    pub(crate) ended: Notify,
}

/// An open store.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) drive: Drive,
    pub(crate) files: ZoneFiles,
    pub(crate) kv: Rc<dyn KeyValue>,
    pub(crate) state: RefCell<State>,
    /// One loads an object or a shared blob at a time; one changes collections at a time.
    pub(crate) locks: Rc<Locks>,
    pub(crate) wakes: Wakes,
    pub(crate) read_only: bool,
    /// No more transactions are taken.
    pub(crate) closing: Cell<bool>,
    /// The result of the store's end, once it has ended.
    pub(crate) end: RefCell<Option<BlueResult<()>>>,
    /// The task that sees to free zones and deferred writes.
    pub(crate) keeper: Keeper,
    /// Deferred writes are being gathered.
    pub(crate) flushing: Cell<bool>,
    /// Collections with transactions that have no batch yet, and whether the task that makes batches runs.
    pub(crate) committing: RefCell<Vec<Rc<Collection>>>,
    pub(crate) commits: Cell<bool>,
}

impl Engine {
    /// Fails where nothing can be changed.
    pub(crate) fn writable(&self) -> BlueResult<()> {
        self.state.borrow().running()?;
        if self.read_only {
            return Err(BlueError::new(BlueErrorKind::ReadOnly, "the store was opened for reading alone"));
        }
        if self.closing.get() { Err(BlueError::closed()) } else { Ok(()) }
    }

    /// Makes a call that goes on to its end, also if nobody waits for it. (BLU-DROP-1)
    pub(crate) async fn to_its_end<T: 'static>(
        &self,
        call: impl Future<Output = BlueResult<T>> + 'static,
    ) -> BlueResult<T> {
        self.rt.spawn(call).await.unwrap_or_else(|_| Err(BlueError::closed()))
    }

    /// Waits until all of some writes are on the drive.
    pub(crate) async fn landed(&self, group: &Group) -> BlueResult<()> {
        loop {
            let landed = group.landed.notified();
            if group.failed.get() {
                return Err(BlueError::no_space());
            }
            if group.left.get() == 0 {
                return Ok(());
            }
            self.state.borrow().running()?;
            landed.await;
        }
    }

    /// Makes every completed write to data zones durable. If that fails, writes may be lost of which nobody knows, so the store stops.
    pub(crate) async fn flush(&self) -> BlueResult<()> {
        self.state.borrow().running()?;
        let flushed = self.drive.flush.flush().await.map_err(BlueError::from);
        if let Err(error) = &flushed {
            self.stop(error);
        }
        flushed
    }

    /// The store can go on no more: all who wait are told.
    pub(crate) fn stop(&self, failure: &BlueError) {
        {
            let mut state = self.state.borrow_mut();
            if state.stopped.is_none() {
                tracing::error!(error = %failure, "the store has stopped");
                let text = format!("the store has stopped: {failure}");
                state.stopped = Some(BlueError::new(BlueErrorKind::Unavailable, text));
            }
            for lane in &state.lanes {
                lane.queue.iter().for_each(|piece| piece.writing.group.landed.notify_waiters());
            }
        }
        self.keeper.wake();
        self.wakes.room.notify_waiters();
        self.wakes.settled.notify_waiters();
        self.wakes.landed.notify_one();
    }
}
