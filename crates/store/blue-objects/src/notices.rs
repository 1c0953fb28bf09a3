//! News of readers and writers for the owner, sent without waiting: so that dropping one never waits.

use tokio::sync::mpsc;

/// Notices of readers and writers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// A reader of the bytes of this number was dropped.
    ReaderGone(u64),
    /// The writer of the bytes of this number was dropped.
    WriterGone(u64),
}

/// Something that the owner has open for us, until this is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) number: u64,
    notice: Notice,
    notices: mpsc::UnboundedSender<Notice>,
}

impl Open {
    /// Bytes of this number that are read.
    pub(crate) fn reader(number: u64, notices: mpsc::UnboundedSender<Notice>) -> Self {
        Self { number, notice: Notice::ReaderGone(number), notices }
    }

    /// Bytes of this number that are written.
    pub(crate) fn writer(number: u64, notices: mpsc::UnboundedSender<Notice>) -> Self {
        Self { number, notice: Notice::WriterGone(number), notices }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The owner may be gone; then nothing is open.
        let _ = self.notices.send(self.notice);
    }
}
