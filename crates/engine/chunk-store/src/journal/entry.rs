//! One entry of the journal, from a change in memory to a durable record.

use std::future::Future;
use std::rc::Rc;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::JournalEntry;

impl Engine {
    /// Journals a change that the caller makes in memory in the same step (CS-CKPT-1): the entry takes its place at once,
    /// the future waits until it is durable. If it cannot be made so, the store stops: memory is ahead of the drive.
    pub(crate) fn journal(
        self: &Rc<Self>,
        entry: JournalEntry,
        sequence: u64,
    ) -> impl Future<Output = Result<()>> + use<> {
        let written = self.log.append(entry.encode(), sequence);
        let engine = self.clone();
        async move {
            if engine.log.needs_checkpoint() {
                engine.wakes.checkpoint.notify_one();
            }
            let Err(error) = written.await else {
                engine.state.borrow_mut().counters.journal_entries += 1;
                return Ok(());
            };
            let why = format!("the journal could not be written: {error}");
            engine.stop(&why);
            Err(Error::new(ErrorKind::Stopped, format!("the chunk store has stopped: {why}")).caused_by(error))
        }
    }
}
