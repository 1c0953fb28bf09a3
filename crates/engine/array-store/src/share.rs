//! Small objects share segments: what comes while one is being written goes into the next. (The coalescing buffer of
//! SMORE, section III, without memory that would have to survive a power cut.)

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::allocator::SeatId;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::object_bytes;
use crate::put::{InFlight, Progress};
use crate::segment::zeros;
use crate::stats::add;
use crate::types::{Completion, Part};
use crate::writer::{Item, Placed};

/// Objects that wait for a segment.
#[derive(Default)]
pub(crate) struct Sharing {
    waiting: RefCell<VecDeque<Small>>,
    /// Bytes of theirs.
    bytes: Cell<usize>,
    /// Tasks that write them.
    writers: Cell<usize>,
}

/// Segments of small objects on their way at once, for each group. More than one only where they are full: one that waits grows.
const WRITERS: usize = 4;

/// What a segment's marker may say of its objects, as a share of its data.
const MARKER: u32 = 4;

struct Small {
    progress: Rc<Progress>,
    name: Bytes,
    data: Bytes,
    completion: Completion,
    /// Until the answer.
    _in_flight: InFlight,
    done: oneshot::Sender<Result<()>>,
}

/// What still goes into a segment of whole objects.
pub(crate) struct SegmentRoom {
    data: usize,
    /// What its marker says: that is on each of its drives, and read in a recovery.
    marker: usize,
    empty: bool,
}

impl SegmentRoom {
    pub(crate) fn new(segment_length: u32) -> Self {
        Self { data: segment_length as usize, marker: (segment_length / MARKER) as usize, empty: true }
    }

    /// Takes room for an object; whether there was enough. For the first one there always is.
    pub(crate) fn take(&mut self, name: &Bytes, data: usize, completion: &Completion) -> bool {
        let marker = object_bytes(name, completion);
        let fits = self.empty || (data <= self.data && marker <= self.marker);
        if fits {
            self.data = self.data.saturating_sub(data);
            self.marker = self.marker.saturating_sub(marker);
            self.empty = false;
        }
        fits
    }
}

impl Engine {
    /// Writes a whole object in a segment with others. Returns when it is complete.
    pub(crate) async fn share(
        self: &Rc<Self>,
        progress: Rc<Progress>,
        data: Bytes,
        completion: Completion,
    ) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let name = progress.name().clone();
        let in_flight = InFlight::new(&progress);
        self.sharing.bytes.set(self.sharing.bytes.get() + data.len());
        self.sharing.waiting.borrow_mut().push_back(Small {
            progress,
            name,
            data,
            completion,
            _in_flight: in_flight,
            done,
        });
        let writers = self.sharing.writers.get() + 1;
        if self.are_needed(writers) {
            self.sharing.writers.set(writers);
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                engine.write_shared().await;
                engine.sharing.writers.set(engine.sharing.writers.get() - 1);
            });
        }
        answer.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Whether so many tasks have something to write.
    fn are_needed(&self, writers: usize) -> bool {
        writers <= 1
            || (writers <= WRITERS * self.allocator.groups()
                && self.sharing.bytes.get() >= self.segment_length as usize)
    }

    /// Writes what waits, segment after segment.
    async fn write_shared(self: &Rc<Self>) {
        while self.are_needed(self.sharing.writers.get()) {
            let seat = self.allocator.seat();
            if seat.small_turn(|| self.running()).await.is_err() {
                // Closed: who waits learns it from the end of its channel.
                self.sharing.waiting.borrow_mut().clear();
                self.sharing.bytes.set(0);
                return;
            }
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            self.write_batch(seat.id, batch).await;
        }
    }

    /// As many of those that wait as fill a segment. Those that were overtaken are done: nobody will see them, and what is
    /// not written cannot come back (SNAP-3).
    fn next_batch(&self) -> Vec<Small> {
        let mut waiting = self.sharing.waiting.borrow_mut();
        let mut room = SegmentRoom::new(self.segment_length);
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
        self.sharing.bytes.set(waiting.iter().map(|small| small.data.len()).sum());
        batch
    }

    /// Writes objects in one segment; where there is no room for that, in several smaller ones, as far as they fit.
    async fn write_batch(self: &Rc<Self>, seat: SeatId, batch: Vec<Small>) {
        let mut left = vec![batch];
        while let Some(mut batch) = left.pop() {
            let placed = self.append_batch(seat, &batch).await;
            let first = match &placed {
                Ok(placed) => placed.parts.len(),
                Err(error) if error.kind == ErrorKind::NoSpace && batch.len() > 1 => {
                    left.push(batch.split_off(batch.len() / 2));
                    left.push(batch);
                    continue;
                }
                Err(_) => batch.len(),
            };
            if first < batch.len() {
                left.push(batch.split_off(first));
            }
            self.answer(batch, placed);
        }
    }

    /// Writes as many of them as go into one segment, where a set ends not all.
    async fn append_batch(self: &Rc<Self>, seat: SeatId, batch: &[Small]) -> Result<Placed> {
        let mut data = BytesMut::new();
        let mut length = 0;
        let mut parts = Vec::with_capacity(batch.len());
        for small in batch {
            parts.push(Part {
                name: small.name.clone(),
                version: small.progress.version,
                offset: 0,
                at: length as u32,
                length: small.data.len() as u32,
                completion: Some(small.completion.clone()),
            });
            length += small.data.len();
            if !self.hollow {
                data.extend_from_slice(&small.data);
            }
        }
        let data = if self.hollow { zeros(length) } else { data.freeze() };
        Ok(self.append_from(seat, &Item::Shared { parts, data, together: false }).await?.0)
    }

    /// Completes objects that were placed, and says so to those who wait for it.
    fn answer(&self, batch: Vec<Small>, placed: Result<Placed>) {
        let completed = placed.and_then(|placed| {
            self.complete_all(batch.iter().map(|small| &*small.progress), &placed)?;
            for small in &batch {
                add(&self.counters.ingested, small.data.len() as u64);
            }
            Ok(())
        });
        let reply = completed.as_ref().map_err(|error| (error.kind, error.message.clone())).copied();
        // Everybody gets the answer; only the first its cause.
        let mut cause = completed.err();
        for small in batch {
            let own =
                reply.clone().map_err(|(kind, message)| cause.take().unwrap_or_else(|| Error::new(kind, message)));
            let _ = small.done.send(own);
        }
    }
}
