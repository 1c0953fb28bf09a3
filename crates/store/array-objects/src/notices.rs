//! News of readers and writers for the owner, sent without waiting: so that dropping one never waits.

use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Notices of readers and writers, sent without waiting, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// It was dropped.
    ReaderGone(u64),
    WriterGone(u64),
    /// Bytes for the writer's call of that number have come; the call itself may have to wait for its turn.
    BytesCame {
        writer: u64,
        call: u64,
    },
}

/// A blob that the owner writes for us, until this is dropped.
pub(crate) struct Open {
    pub(crate) number: u64,
    /// Calls that brought bytes.
    pub(crate) calls: u64,
    notices: mpsc::UnboundedSender<Notice>,
    _place: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        // The owner may be gone; then nothing is being written.
        let _ = self.notices.send(Notice::WriterGone(self.number));
    }
}

impl Open {
    /// The blob that the owner began as writer `number`, which has `place`.
    pub(crate) fn new(number: u64, notices: mpsc::UnboundedSender<Notice>, place: OwnedSemaphorePermit) -> Self {
        Self { number, calls: 0, notices, _place: place }
    }
}
