//! An open volume: its parts together. Operations are in modules of their own.
//!
//! # Invariants
//! - TL-JOURNAL-1: if no checkpoint makes room in the journal, the volume stops: whoever waits hears why, and nothing is tried for ever.
//!   (`a_journal_without_room_stops_the_volume`)
//! - TL-LOSS-1: the next flush of a caller fails after a zone failed with writes that no flush had covered; all that can be read then is
//!   durable. No opening depends on blocks of such a zone. A failure counts from when a write meets it, or the look at the end of the zone.
//!   (`a_flush_tells_of_writes_that_were_lost_with_their_zone`, `a_zone_that_fails_at_its_end_is_told_of_and_refuses_no_opening`)

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use shingle_record::{MetaLog, Scanned, SequenceSource, ZoneScanner};
use shingle_runtime::{Instant, Runtime};
use shingle_store_api::StoreErrorKind;
use shingle_zone_kit::{Joint, JournalRoom, Keeper};
use tokio::sync::{Mutex, Notify};

use crate::config::Options;
use crate::drive::Drive;
use crate::failure::Failure;
use crate::format::Entry;
use crate::state::{Doubt, State};

/// Wakes of tasks.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Zones became free, or the keeper found that none will.
    pub(crate) room: Notify,
    /// A controller may have something to do.
    pub(crate) control: Notify,
    /// A frontier has nothing to write.
    pub(crate) idle: Notify,
    /// A command of callers' writes has ended.
    pub(crate) served: Notify,
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
    pub(crate) room: JournalRoom,
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
                room: JournalRoom::default(),
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
        self.room.note_entry();
        async move {
            journaled.await.map_err(|error| {
                let failure = Failure::from(error);
                engine.stop(failure.clone());
                failure
            })
        }
    }

    /// Waits until the journal takes entries. (TL-JOURNAL-1)
    pub(crate) async fn journal_room(&self) -> Result<(), Failure> {
        if self.room.make(|| self.log.has_journal_room(), async || self.checkpoint().await).await? {
            return Ok(());
        }
        let text = "too few of the zones for metadata can be written to";
        let failure = Failure::new(StoreErrorKind::Device, text);
        self.stop(failure.clone());
        Err(failure)
    }

    /// True if it is time for a checkpoint, and one may help.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.log.needs_checkpoint() && self.room.may_grow()
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

    /// As [`flush`](Self::flush), for a caller whose writes some zone may have taken along: it hears of that, once. (TL-LOSS-1)
    pub(crate) async fn flush_for_caller(&self) -> Result<(), Failure> {
        let told = self.state.borrow().losses.told();
        self.flush().await?;
        let lost = self.state.borrow().losses.since(told);
        let Some(lost) = lost else { return Ok(()) };
        let kept = self.read_back(told, lost).await?;
        self.state.borrow_mut().losses.tell(lost);
        kept
    }

    /// Settles all failures of zones. Fails if writes were lost with them; the next flush of a caller tells of that all the same. (TL-SNAP-4)
    pub(crate) async fn settle_failures(&self) -> Result<(), Failure> {
        let (told, lost) = {
            let losses = &self.state.borrow().losses;
            (losses.told(), losses.since(losses.told()))
        };
        let Some(lost) = lost else { return self.checkpoint().await };
        self.read_back(told, lost).await??;
        self.state.borrow_mut().losses.tell(lost);
        Ok(())
    }

    /// Makes durable what is left of writes in the zones that failed after the first `told`, up to `lost` of them; and says whether any are lost.
    async fn read_back(&self, told: u64, lost: u64) -> Result<Result<(), Failure>, Failure> {
        let doubts =
            self.state.borrow().doubts.get(told as usize..lost as usize).map(<[_]>::to_vec).unwrap_or_default();
        // With the map, all that is left of such writes is durable.
        self.checkpoint().await?;
        for doubt in &doubts {
            if !self.is_whole(doubt).await {
                let text = "a zone failed, and writes that no flush had covered are lost with it";
                return Ok(Err(Failure::new(StoreErrorKind::Device, text)));
            }
        }
        Ok(Ok(()))
    }

    /// True if nothing is lost of what a zone held when it failed.
    async fn is_whole(&self, doubt: &Doubt) -> bool {
        let Doubt { zone, epoch, from, to } = *doubt;
        let Drive { dev, store, .. } = &self.drive;
        let mut scanner = ZoneScanner::new(dev.clone(), *store, epoch, zone, from.max(1), to);
        let pin = self.state.borrow().zones.pin(zone);
        let whole = loop {
            match scanner.next().await {
                Ok(Scanned::Record { intact: true, .. }) => {}
                Ok(Scanned::Clean) => break true,
                _ => break false,
            }
        };
        drop(pin);
        // Its blocks are needed no more if it was vacated before.
        whole || self.state.borrow().zones.get(zone).is_none_or(|entry| entry.epoch != epoch)
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
