//! An open volume: its parts together. Operations are in modules of their own.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::{Instant, Runtime};
use shingle_store_api::StoreErrorKind;
use shingle_zone_kit::{Joint, Keeper};
use tokio::sync::{Mutex, Notify};

use crate::config::Options;
use crate::drive::Drive;
use crate::failure::Failure;
use crate::format::Entry;
use crate::state::State;

/// Wakes of tasks.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Zones became free, or the keeper found that none will.
    pub(crate) room: Notify,
    /// A controller may have something to do.
    pub(crate) control: Notify,
    /// A frontier has nothing to write.
    pub(crate) idle: Notify,
    /// While writes are held: one has ended or failed, or a checkpoint waits.
    pub(crate) landed: Notify,
    /// Writes are held no more.
    pub(crate) released: Notify,
    /// The volume has stopped.
    pub(crate) stopped: Notify,
}

/// An open volume.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) drive: Drive,
    /// Numbers of writes, moves and generations.
    pub(crate) sequence: SequenceSource,
    pub(crate) log: MetaLog,
    checkpoints: Joint<Result<(), Failure>>,
    pub(crate) state: RefCell<State>,
    /// Checkpoints, and changes of the volume as a whole: one at a time. (TL-SNAP-3)
    pub(crate) whole: Mutex<()>,
    /// A checkpoint waits for its turn there.
    pub(crate) checkpoint_waits: Cell<bool>,
    pub(crate) wakes: Wakes,
    /// When a caller last asked for something.
    pub(crate) last_call: Cell<Instant>,
    /// No more writes are taken.
    pub(crate) closing: Cell<bool>,
    /// It sees to free zones and checkpoints.
    pub(crate) keeper: Keeper,
}

impl Engine {
    pub(crate) fn new(
        rt: &Runtime,
        options: Options,
        drive: Drive,
        sequence: SequenceSource,
        log: MetaLog,
        state: State,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this: &Weak<Self>| {
            let checkpoints = Joint::of(this.clone(), Self::write_checkpoint, || Err(Failure::gone()));
            let (keeper, state) = (Keeper::new(state.zones.keeper()), RefCell::new(state));
            let (wakes, whole, closing) = (Wakes::default(), Mutex::new(()), Cell::new(false));
            let (rt, last_call, checkpoint_waits) = (rt.clone(), Cell::new(rt.now()), Cell::new(false));
            Self {
                rt,
                options,
                drive,
                sequence,
                log,
                checkpoints,
                state,
                whole,
                checkpoint_waits,
                wakes,
                last_call,
                closing,
                keeper,
            }
        })
    }

    /// Fails once no more writes are taken.
    pub(crate) fn still_open(&self) -> Result<(), Failure> {
        if self.closing.get() { Err(Failure::gone()) } else { Ok(()) }
    }

    /// Journals an entry, which takes its place at once; the future completes once it is durable. `number` is its own.
    pub(crate) fn journal(
        self: &Rc<Self>,
        entry: &Entry,
        number: u64,
    ) -> impl Future<Output = Result<(), Failure>> + use<> {
        let (journaled, engine) = (self.log.append(entry.encode(), number), self.clone());
        async move {
            journaled.await.map_err(|error| {
                let failure = Failure::from(error);
                engine.stop(failure.clone());
                failure
            })
        }
    }

    /// Waits until the journal takes entries.
    pub(crate) async fn journal_room(&self) -> Result<(), Failure> {
        while !self.log.has_journal_room() {
            self.checkpoint().await?;
            if !self.log.has_journal_room() {
                return Err(Failure::new(
                    StoreErrorKind::Device,
                    "too few of the zones for metadata can be written to",
                ));
            }
        }
        Ok(())
    }

    /// Writes a checkpoint, or joins others who wait for one that has not begun.
    pub(crate) async fn checkpoint(&self) -> Result<(), Failure> {
        self.checkpoints.call().await
    }

    /// Makes every completed write durable. If that fails, writes may be lost of which callers think that they only have to be
    /// flushed, so the volume stops.
    pub(crate) async fn flush(&self) -> Result<(), Failure> {
        let written = {
            let state = self.state.borrow();
            state.running()?;
            state.zones.written()
        };
        if let Err(error) = self.drive.flush.flush().await {
            let failure = Failure::from(error);
            self.stop(failure.clone());
            return Err(failure);
        }
        self.state.borrow_mut().zones.mark_durable(&written);
        Ok(())
    }

    /// The volume can go on no more: all who wait are told.
    pub(crate) fn stop(&self, failure: Failure) {
        let waiting: Vec<_> = {
            let mut state = self.state.borrow_mut();
            if state.stopped.is_none() {
                tracing::error!(error = ?failure, "the volume has stopped");
                state.stopped = Some(failure.clone());
            }
            let deferred: Vec<_> = state.router.drain().collect();
            state.frontiers.iter_mut().flat_map(|frontier| frontier.queue.drain(..)).chain(deferred).collect()
        };
        for done in waiting.into_iter().filter_map(|piece| piece.done) {
            let _ = done.send(Err(failure.clone()));
        }
        self.keeper.wake();
        self.wakes.room.notify_waiters();
        self.wakes.landed.notify_waiters();
        self.wakes.control.notify_waiters();
        self.wakes.stopped.notify_waiters();
    }
}
