//! Open files: their parts together. Operations are in modules of their own.
//!
//! # Invariants
//! - ZF-JOURNAL-1: state changes in the step in which its entry takes its place in the journal, so that entries and state have one order;
//!   blocks become free once the entry that takes them from their file is durable.
//! - ZF-JOURNAL-2: if no checkpoint makes room in the journal, the files stop: whoever waits hears why, and nothing is tried for ever.
//! - ZF-JOURNAL-3: no step of a checkpoint grows with the number of files, so that syncs go on beside it.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use shingle_base::ZoneId;
use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use shingle_zone_kit::{Joint, JournalRoom, Keeper};
use tokio::sync::Notify;

use crate::config::Options;
use crate::drive::Drive;
use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::format::{Op, encode};
use crate::state::State;

/// Operations of a checkpoint that are made in one step.
const STEP: usize = 1024;

/// Wakes of tasks.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Zones became free.
    pub(crate) room: Notify,
    /// Bytes were written, or there is no room for them.
    pub(crate) landed: Notify,
    /// Journal entries are durable.
    pub(crate) journaled: Notify,
}

/// Effects of a journal entry once it is durable. (ZF-JOURNAL-1)
#[derive(Clone, Debug, Default)]
pub(crate) struct After {
    /// Blocks that are free then.
    pub(crate) freed: Vec<(ZoneId, u64)>,
    /// A file that has lost a name then.
    pub(crate) unlinked: Option<u64>,
}

impl After {
    /// Blocks may be free then. (ZF-ROOM-2)
    fn frees(&self) -> bool {
        !self.freed.is_empty() || self.unlinked.is_some()
    }
}

/// Open files.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) drive: Drive,
    /// Numbers of files, records, journal entries and generations of zones.
    pub(crate) sequence: SequenceSource,
    pub(crate) log: MetaLog,
    checkpoints: Joint<FilesResult<()>>,
    room: JournalRoom,
    pub(crate) state: RefCell<State>,
    pub(crate) wakes: Wakes,
    /// Nothing is written: the files were opened for reading alone.
    pub(crate) read_only: Cell<bool>,
    /// No more changes are taken.
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
            let checkpoints = Joint::of(this.clone(), Self::write_checkpoint, || Err(FilesError::closed()));
            let (keeper, state) = (Keeper::new(state.zones.keeper()), RefCell::new(state));
            let (rt, wakes, read_only, closing) = (rt.clone(), Wakes::default(), Cell::new(false), Cell::new(false));
            Self {
                rt,
                options,
                drive,
                sequence,
                log,
                checkpoints,
                room: JournalRoom::default(),
                state,
                wakes,
                read_only,
                closing,
                keeper,
            }
        })
    }

    /// Fails where nothing is written.
    pub(crate) fn changeable(&self) -> FilesResult<()> {
        self.state.borrow().running()?;
        if self.read_only.get() {
            return Err(FilesError::new(FilesErrorKind::ReadOnly, "the files were opened for reading alone"));
        }
        Ok(())
    }

    /// Fails where no change is taken.
    pub(crate) fn writable(&self) -> FilesResult<()> {
        self.changeable()?;
        if self.closing.get() { Err(FilesError::closed()) } else { Ok(()) }
    }

    /// Journals operations, which take their place at once and happen as a whole. Returns the number of the entry.
    pub(crate) fn journal(self: &Rc<Self>, ops: &[Op], after: After) -> u64 {
        let number = self.sequence.next();
        let (appended, engine) = (self.log.append(encode(ops), number), self.clone());
        {
            let mut state = self.state.borrow_mut();
            state.counters.entries += 1;
            if after.frees() {
                state.freeing += 1;
                state.full = false;
            }
        }
        self.room.note_entry();
        self.rt.spawn_detached(async move {
            match appended.await {
                Ok(()) => engine.settle(number, after),
                Err(error) => engine.stop(&error.into()),
            }
        });
        number
    }

    /// An entry is durable, and so are all before it (RC-LOG-1).
    fn settle(&self, number: u64, after: After) {
        let mut state = self.state.borrow_mut();
        state.durable_entry = state.durable_entry.max(number);
        let frees = after.frees();
        state.freeing -= u64::from(frees);
        state.free(after.freed);
        if let Some(serial) = after.unlinked {
            if let Some(active) = state.active.get_mut(&serial) {
                active.unlinking -= 1;
            }
            state.release_if_gone(serial);
            state.rest_if_idle(serial);
        }
        drop(state);
        self.wakes.journaled.notify_waiters();
        if frees {
            self.keeper.wake();
        }
    }

    /// Waits until a journal entry is durable.
    pub(crate) async fn journaled(&self, number: u64) -> FilesResult<()> {
        loop {
            let settled = self.wakes.journaled.notified();
            {
                let state = self.state.borrow();
                if state.durable_entry >= number {
                    return Ok(());
                }
                state.running()?;
            }
            settled.await;
        }
    }

    /// Waits until the journal takes entries. (ZF-JOURNAL-2)
    pub(crate) async fn journal_room(&self) -> FilesResult<()> {
        if self.room.make(|| self.log.has_journal_room(), async || self.checkpoint().await).await? {
            return Ok(());
        }
        let text = "too few of the zones for metadata can be written to";
        let failure = FilesError::new(FilesErrorKind::Device, text);
        self.stop(&failure);
        Err(failure)
    }

    /// True if it is time for a checkpoint, and one may help.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.log.needs_checkpoint() && self.room.may_grow()
    }

    /// Fails where a checkpoint of all metadata, with so many bytes and extents more, would have no room.
    pub(crate) fn metadata_room(&self, state: &State, bytes: u64, extents: u64) -> FilesResult<()> {
        let zones = u64::from(self.drive.layout.data_zones.len() as u32) * 40;
        let all = state.tree.checkpoint_bytes(state.extents + extents) + bytes + zones;
        if self.log.room_for_checkpoint(all) { Ok(()) } else { Err(FilesError::no_metadata_room()) }
    }

    /// Writes a checkpoint, or joins others who wait for one that has not begun.
    pub(crate) async fn checkpoint(&self) -> FilesResult<()> {
        self.checkpoints.call().await
    }

    async fn write_checkpoint(self: Rc<Self>) -> FilesResult<()> {
        self.state.borrow().running()?;
        let written = self.write_parts().await;
        if let Err(failure) = &written {
            self.stop(failure);
        }
        self.keeper.wake();
        written
    }

    async fn write_parts(self: &Rc<Self>) -> FilesResult<()> {
        // One step: entries before the start are in this snapshot, and those behind it are not.
        let (begun, snapshot) = (self.log.begin_checkpoint(), self.state.borrow().snapshot());
        let mut writer = begun.await?;
        let part_max = self.log.part_max();
        let mut part = Vec::new();
        for (number, op) in snapshot.ops().enumerate() {
            let bytes = encode(std::slice::from_ref(&op));
            if !part.is_empty() && part.len() + bytes.len() > part_max {
                writer.part(std::mem::take(&mut part)).await?;
            }
            part.extend(bytes);
            if number % STEP == STEP - 1 {
                // ZF-JOURNAL-3.
                self.rt.yield_now().await;
            }
        }
        if !part.is_empty() {
            writer.part(part).await?;
        }
        // Records that the operations name were written before the parts were, and the log flushes each part before the next (RC-LOG-5).
        writer.finish().await?;
        self.state.borrow_mut().counters.checkpoints += 1;
        self.room.note_checkpoint();
        Ok(())
    }

    /// Makes every completed write durable.
    pub(crate) async fn flush(&self) -> FilesResult<()> {
        let written = self.state.borrow().zones.written();
        self.flush_cache().await?;
        self.state.borrow_mut().zones.mark_durable(&written);
        Ok(())
    }

    /// Flushes the drive's cache. If that fails, writes may be lost of which callers think that they only have to be flushed, so the files stop.
    pub(crate) async fn flush_cache(&self) -> FilesResult<()> {
        self.state.borrow().running()?;
        let flushed = self.drive.flush.flush().await.map_err(FilesError::from);
        if let Err(failure) = &flushed {
            self.stop(failure);
        }
        flushed
    }

    /// The files can go on no more: all who wait are told.
    pub(crate) fn stop(&self, failure: &FilesError) {
        {
            let mut state = self.state.borrow_mut();
            if state.stopped.is_none() {
                tracing::error!(error = %failure, "the files have stopped");
                let text = format!("the files have stopped: {failure}");
                state.stopped = Some(FilesError::new(FilesErrorKind::Unavailable, text));
            }
        }
        self.keeper.wake();
        self.wakes.room.notify_waiters();
        self.wakes.landed.notify_waiters();
        self.wakes.journaled.notify_waiters();
    }
}
