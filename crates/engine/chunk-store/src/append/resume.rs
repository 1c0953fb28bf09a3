//! The first append of an opening to a chunk of an earlier one.
//!
//! # Invariants
//! - CS-APP-5: the first append of an opening to a chunk of an earlier one waits for a journal entry with the size at
//!   which the chunk goes on. Records that an earlier opening left behind that place, found or not, can then never be
//!   taken for this one's: two timelines of a chunk do not join (CS-RESUME-1).
//!   `an_old_tail_never_fills_a_hole_in_what_took_its_place`.

use std::future::Future;
use std::rc::Rc;

use crate::append::Resumption;
use crate::engine::Engine;
use crate::format::JournalEntry;
use crate::index::Handle;
use crate::state::StoreState;

impl Engine {
    /// Journals where a chunk goes on (CS-APP-5), then lets its appends go their way.
    async fn resume(self: Rc<Self>, handle: Handle, birth: u64) {
        let journaled = match self.journal_room().await {
            Ok(()) => self.journal_resumption(handle, birth).map(Box::pin),
            Err(error) => {
                let mut state = self.state.borrow_mut();
                // Handles are used again.
                if state.chunks.get(handle).is_some_and(|chunk| chunk.birth == birth)
                    && let Some(open) = state.open.get_mut(&handle)
                {
                    open.resumption = Resumption::Needed;
                    self.fail_appends(&mut state, handle, error.kind, &error.message);
                }
                return;
            }
        };
        let resumption = match journaled {
            Some(journaled) => match self.journaled_resumption(handle, journaled).await {
                Ok(()) => Resumption::Done,
                // The store has stopped.
                Err(_) => return,
            },
            // It is being deleted, which may fail.
            None => Resumption::Needed,
        };
        let mut state = self.state.borrow_mut();
        if state.chunks.get(handle).is_some_and(|chunk| chunk.birth == birth)
            && let Some(open) = state.open.get_mut(&handle)
        {
            open.resumption = resumption;
            self.place(&mut state, handle);
        }
    }

    /// Waits for a chunk's entry; its appends only while the log need not wait for room on the host.
    async fn journaled_resumption(
        self: &Rc<Self>,
        handle: Handle,
        journaled: impl Future<Output = crate::Result<()>> + Unpin,
    ) -> crate::Result<()> {
        match self.unless_stalled(journaled).await {
            Ok(done) => done,
            Err(journaled) => {
                self.refuse_appends(&mut self.state.borrow_mut(), &[handle]);
                journaled.await
            }
        }
    }

    /// The chunk's entry takes its place in the journal; `None` if the chunk is gone, or about to be.
    fn journal_resumption(
        self: &Rc<Self>,
        handle: Handle,
        birth: u64,
    ) -> Option<impl Future<Output = crate::Result<()>> + use<>> {
        let state = &mut *self.state.borrow_mut();
        let chunk = state.chunks.get(handle).filter(|chunk| chunk.birth == birth)?;
        if state.deletions.hides(chunk.id, handle) || !state.open.contains_key(&handle) {
            return None;
        }
        let (number, size) = (self.sequence.next(), chunk.size);
        state.resumed.note(handle, (number, size));
        Some(self.journal(JournalEntry::Resume { id: chunk.id, size }, number))
    }

    /// True if appends of the chunk have to wait until it can be continued; begins that if some do.
    pub(super) fn is_resuming(self: &Rc<Self>, state: &mut StoreState, handle: Handle) -> bool {
        let Some(birth) = state.chunks.get(handle).map(|chunk| chunk.birth) else { return false };
        let Some(open) = state.open.get_mut(&handle).filter(|open| open.resumption != Resumption::Done) else {
            return false;
        };
        if open.resumption == Resumption::Needed && !open.queue.is_empty() {
            open.resumption = Resumption::Journaling;
            self.rt.spawn(self.clone().resume(handle, birth));
        }
        true
    }
}
