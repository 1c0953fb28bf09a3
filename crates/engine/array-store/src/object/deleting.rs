//! Deletions on their way: those that wait for their tombstones, and those that are not in the index yet.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::format::Tombstone;
use crate::types::Version;

/// Tombstones of one record at most.
const BATCH: usize = 256;

type Answer = oneshot::Sender<Result<()>>;

/// Deletions that share a record of tombstones, and those who wait for them.
pub(crate) struct Batch {
    pub(crate) tombstones: Vec<Tombstone>,
    answers: Vec<Answer>,
}

/// Deletions of an array.
#[derive(Default)]
pub(crate) struct Deleting {
    waiting: RefCell<Vec<(Tombstone, Answer)>>,
    /// A task writes tombstones.
    writing: Cell<bool>,
    /// Versions of deletions that are not in the index yet.
    burying: RefCell<BTreeSet<Version>>,
}

impl Deleting {
    /// A deletion waits for its tombstone: its answer to come. `true` if a task has to be started that writes it.
    pub(crate) fn wait(&self, tombstone: Tombstone) -> (oneshot::Receiver<Result<()>>, bool) {
        let (answer, done) = oneshot::channel();
        self.begin(tombstone.version);
        self.waiting.borrow_mut().push((tombstone, answer));
        (done, !self.writing.replace(true))
    }

    /// The next of those that wait, for the task that writes them; `None` ends it.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        let mut waiting = self.waiting.borrow_mut();
        let count = waiting.len().min(BATCH);
        if count == 0 {
            self.writing.set(false);
            return None;
        }
        let (tombstones, answers) = waiting.drain(..count).unzip();
        Some(Batch { tombstones, answers })
    }

    /// A deletion of that version is under way.
    pub(crate) fn begin(&self, version: Version) {
        self.burying.borrow_mut().insert(version);
    }

    /// Those are in the index, or given up.
    pub(crate) fn end(&self, tombstones: &[Tombstone]) {
        let mut burying = self.burying.borrow_mut();
        for tombstone in tombstones {
            burying.remove(&tombstone.version);
        }
    }

    /// The oldest that is not in the index yet.
    pub(crate) fn oldest(&self) -> Option<Version> {
        self.burying.borrow().first().copied()
    }
}

impl Batch {
    /// Tells all who wait; the first learns the cause of a failure.
    pub(crate) fn answer(self, result: Result<()>) {
        let told = result.as_ref().map_err(|error| (error.kind, error.message.clone())).copied();
        let mut cause = result.err();
        for answer in self.answers {
            let own = told.clone().map_err(|(kind, message)| cause.take().unwrap_or_else(|| Error::new(kind, message)));
            // A caller that went away does not need its answer.
            let _ = answer.send(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::ErrorKind;

    fn tombstone(version: u64) -> Tombstone {
        Tombstone { name: Bytes::from_static(b"x"), version: Version(version) }
    }

    #[test]
    fn deletions_that_wait_share_a_record_and_its_answer() {
        let deleting = Deleting::default();
        let (mut first, starts) = deleting.wait(tombstone(7));
        let (mut second, starts_again) = deleting.wait(tombstone(5));
        assert_eq!((starts, starts_again, deleting.oldest()), (true, false, Some(Version(5))));
        let batch = deleting.next_batch().unwrap();
        assert_eq!(batch.tombstones.len(), 2);
        deleting.end(&batch.tombstones[1..]);
        assert_eq!(deleting.oldest(), Some(Version(7)));
        batch.answer(Err(Error::new(ErrorKind::NoSpace, "full")));
        for done in [&mut first, &mut second] {
            assert_eq!(done.try_recv().unwrap().unwrap_err().kind, ErrorKind::NoSpace);
        }
        assert!(deleting.next_batch().is_none());
        assert!(deleting.wait(tombstone(8)).1, "the task had ended");
    }

    #[test]
    fn a_record_has_so_many_tombstones_at_most() {
        let deleting = Deleting::default();
        let _answers: Vec<_> = (0..BATCH as u64 + 1).map(|version| deleting.wait(tombstone(version))).collect();
        assert_eq!(deleting.next_batch().unwrap().tombstones.len(), BATCH);
        assert_eq!(deleting.next_batch().unwrap().tombstones.len(), 1);
    }
}
