//! Blobs that are being written, and the writers' pin on them.

use std::collections::BTreeMap;

use tokio::sync::mpsc;

use crate::files::pins::Release;

/// A blob that is being written.
#[derive(Clone, Copy, Debug, Default)]
struct WriterState {
    /// Segments that have arrived, or failed to.
    ended: u32,
    /// The writer has given it up, having sent so many.
    given_up: Option<u32>,
}

/// The blobs that are being written, of those with more than one segment; and those that were given up while some were on their way.
#[derive(Debug, Default)]
pub(crate) struct Writers(BTreeMap<u64, WriterState>);

impl Writers {
    /// A segment of a blob has arrived, or failed to. True if the blob is garbage now.
    #[must_use]
    pub(crate) fn segment_ended(&mut self, blob: u64) -> bool {
        self.0.entry(blob).or_default().ended += 1;
        self.is_over(blob)
    }

    /// Its writer has given the blob up, having sent so many segments. True if it is garbage now.
    #[must_use]
    pub(crate) fn given_up(&mut self, blob: u64, sent: u32) -> bool {
        self.0.entry(blob).or_default().given_up = Some(sent);
        self.is_over(blob)
    }

    /// The blob was committed: its writer cannot give it up any more.
    pub(crate) fn committed(&mut self, blob: u64) {
        self.0.remove(&blob);
    }

    /// True, once, if the blob was given up and none of its segments can still arrive.
    fn is_over(&mut self, blob: u64) -> bool {
        let ended = |writer: &WriterState| writer.given_up.is_some_and(|sent| writer.ended >= sent);
        let over = self.0.get(&blob).is_some_and(ended);
        if over {
            self.0.remove(&blob);
        }
        over
    }
}

/// A writer's pin on its blob. Dropped, it gives the blob up; a commit that succeeds, or may have, keeps it.
#[derive(Debug)]
pub(crate) struct BlobPin {
    blob: u64,
    pub(crate) sent: u32,
    releases: Option<mpsc::UnboundedSender<Release>>,
}

impl BlobPin {
    pub(crate) fn new(blob: u64, releases: mpsc::UnboundedSender<Release>) -> Self {
        Self { blob, sent: 0, releases: Some(releases) }
    }

    /// The blob is not this writer's to give up any more.
    pub(crate) fn keep(mut self) {
        self.releases = None;
    }
}

impl Drop for BlobPin {
    fn drop(&mut self) {
        if let Some(releases) = self.releases.take() {
            // The engine may have stopped; the blob is then given up at the next start.
            let _ = releases.send(Release::Writer { blob: self.blob, sent: self.sent });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_garbage_once_it_is_given_up_and_no_segment_can_still_arrive() {
        let mut writers = Writers::default();
        assert!(!writers.segment_ended(1));
        assert!(!writers.given_up(1, 2));
        assert!(writers.segment_ended(1));
        assert!(writers.given_up(2, 0), "no segment was sent");
        assert!(!writers.segment_ended(3));
        writers.committed(3);
        assert!(writers.0.is_empty());
    }
}
