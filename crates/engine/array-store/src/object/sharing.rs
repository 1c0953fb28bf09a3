//! Small objects that wait for a segment, and which of them go into the next one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::error::Result;
use crate::format::object_bytes;
use crate::object::progress::{InFlight, Progress};
use crate::types::Completion;

/// Objects that wait for a segment.
#[derive(Default)]
pub(crate) struct Sharing {
    waiting: RefCell<VecDeque<Small>>,
    /// Bytes of theirs.
    bytes: Cell<usize>,
    /// Tasks that write them.
    writers: Cell<usize>,
}

/// Segments of small objects on their way at once, for each group. More than one only where they are full: one that
/// waits grows.
const WRITERS: usize = 4;

/// Limit of a segment's marker, as a share of its data.
const MARKER: u32 = 4;

pub(crate) struct Small {
    pub(crate) progress: Rc<Progress>,
    pub(crate) name: Bytes,
    pub(crate) data: Bytes,
    pub(crate) completion: Completion,
    /// Until the answer.
    _in_flight: InFlight,
    pub(crate) done: oneshot::Sender<Result<()>>,
}

/// Room left in a segment of whole objects.
pub(crate) struct SegmentRoom {
    data: usize,
    /// Bytes of its marker: that is on each of its drives, and read in a recovery.
    marker: usize,
    empty: bool,
}

impl SegmentRoom {
    pub(crate) fn new(segment_length: u32) -> Self {
        Self { data: segment_length as usize, marker: (segment_length / MARKER) as usize, empty: true }
    }

    /// Takes room for an object; whether there was enough. For the first one there always is.
    pub(crate) fn take(&mut self, name: &Bytes, data: usize, completion: &Completion) -> bool {
        self.take_part(object_bytes(name, completion), data)
    }

    /// The same for a part that has so many bytes in the marker.
    pub(crate) fn take_part(&mut self, marker: usize, data: usize) -> bool {
        let fits = self.empty || (data <= self.data && marker <= self.marker);
        if fits {
            self.data = self.data.saturating_sub(data);
            self.marker = self.marker.saturating_sub(marker);
            self.empty = false;
        }
        fits
    }
}

impl Sharing {
    /// An object waits for a segment; the answer to come.
    pub(crate) fn wait(
        &self,
        progress: Rc<Progress>,
        data: Bytes,
        completion: Completion,
    ) -> oneshot::Receiver<Result<()>> {
        let (done, answer) = oneshot::channel();
        let (name, _in_flight) = (progress.name().clone(), InFlight::new(&progress));
        self.bytes.set(self.bytes.get() + data.len());
        self.waiting.borrow_mut().push_back(Small { progress, name, data, completion, _in_flight, done });
        answer
    }

    /// One more task writes them, if so many have something to write.
    pub(crate) fn another_writer(&self, groups: usize, segment_length: u32) -> bool {
        let writers = self.writers.get() + 1;
        let needed = self.are_needed(writers, groups, segment_length);
        if needed {
            self.writers.set(writers);
        }
        needed
    }

    /// The tasks that there are have something to write.
    pub(crate) fn writers_are_needed(&self, groups: usize, segment_length: u32) -> bool {
        self.are_needed(self.writers.get(), groups, segment_length)
    }

    fn are_needed(&self, writers: usize, groups: usize, segment_length: u32) -> bool {
        writers <= 1 || (writers <= WRITERS * groups && self.bytes.get() >= segment_length as usize)
    }

    /// A task that wrote them ended.
    pub(crate) fn writer_ends(&self) {
        self.writers.set(self.writers.get() - 1);
    }

    /// Gives up all: who waits learns it from the end of its channel.
    pub(crate) fn give_up(&self) {
        self.waiting.borrow_mut().clear();
        self.bytes.set(0);
    }

    /// As many of the waiting objects as fill a segment. Objects that were overtaken are done: no reader will see them,
    /// and an object that is not written cannot come back (AS-SNAP-3).
    pub(crate) fn next_batch(&self, segment_length: u32) -> Vec<Small> {
        let mut waiting = self.waiting.borrow_mut();
        let mut room = SegmentRoom::new(segment_length);
        let mut batch: Vec<Small> = Vec::new();
        while let Some(next) = waiting.front() {
            if next.progress.overtaken.get() {
                if let Some(overtaken) = waiting.pop_front() {
                    let _ = overtaken.done.send(Ok(()));
                }
                continue;
            }
            if !room.take(&next.name, next.data.len(), &next.completion) {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        self.bytes.set(waiting.iter().map(|small| small.data.len()).sum());
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::progress::Puts;
    use crate::types::Version;

    const SEGMENT: u32 = 4096;

    fn wait(
        sharing: &Sharing,
        puts: &Puts,
        version: u64,
        length: usize,
    ) -> (Rc<Progress>, oneshot::Receiver<Result<()>>) {
        let progress = puts.begin(Bytes::from_static(b"x"), Version(version));
        let completion = Completion { size: length as u64, attributes: Bytes::new() };
        let answer = sharing.wait(progress.clone(), Bytes::from(vec![1; length]), completion);
        (progress, answer)
    }

    #[test]
    fn a_segment_takes_what_fits_in_the_order_in_which_it_came() {
        let (sharing, puts) = (Sharing::default(), Puts::default());
        let _waiting: Vec<_> = [2000, 2000, 2000]
            .into_iter()
            .zip(1..)
            .map(|(length, version)| wait(&sharing, &puts, version, length))
            .collect();
        assert_eq!(
            sharing.next_batch(SEGMENT).iter().map(|small| small.progress.version.0).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(sharing.next_batch(SEGMENT).len(), 1);
        assert!(sharing.next_batch(SEGMENT).is_empty());
    }

    #[test]
    fn another_writer_comes_where_a_segment_is_full() {
        let (sharing, puts) = (Sharing::default(), Puts::default());
        let _first = wait(&sharing, &puts, 1, 100);
        assert!(sharing.another_writer(1, SEGMENT), "somebody has to write");
        assert!(!sharing.another_writer(1, SEGMENT), "what waits fills no segment");
        let _second = wait(&sharing, &puts, 2, 4000);
        assert!(sharing.another_writer(1, SEGMENT));
        sharing.next_batch(SEGMENT);
        assert!(!sharing.writers_are_needed(1, SEGMENT), "one of the two ends");
    }

    #[test]
    fn what_was_overtaken_is_answered_and_not_written() {
        let (sharing, puts) = (Sharing::default(), Puts::default());
        let (progress, mut answer) = wait(&sharing, &puts, 1, 100);
        progress.overtaken.set(true);
        assert!(sharing.next_batch(SEGMENT).is_empty());
        assert!(matches!(answer.try_recv(), Ok(Ok(()))));
    }
}
