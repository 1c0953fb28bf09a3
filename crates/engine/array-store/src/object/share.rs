//! Small objects share segments: what comes while one is being written goes into the next. (The coalescing buffer of
//! SMORE, section III, without memory that would have to survive a power cut.)

use std::rc::Rc;

use bytes::Bytes;

use crate::allocator::SeatId;
use crate::append::item::{Item, Placed};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::object::progress::Progress;
use crate::object::sharing::Small;
use crate::stats::add;
use crate::types::{Completion, Part};

impl Engine {
    /// Writes a whole object in a segment with others. Returns when it is complete.
    pub(crate) async fn share(
        self: &Rc<Self>,
        progress: Rc<Progress>,
        data: Bytes,
        completion: Completion,
    ) -> Result<()> {
        let answer = self.sharing.wait(progress, data, completion);
        if self.sharing.another_writer(self.allocator.groups(), self.segment_length) {
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                engine.write_shared().await;
                engine.sharing.writer_ends();
            });
        }
        answer.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Writes what waits, segment after segment.
    async fn write_shared(self: &Rc<Self>) {
        while self.sharing.writers_are_needed(self.allocator.groups(), self.segment_length) {
            let seat = self.allocator.seat();
            if seat.small_turn(|| self.running()).await.is_err() {
                self.sharing.give_up();
                return;
            }
            let batch = self.sharing.next_batch(self.segment_length);
            if batch.is_empty() {
                return;
            }
            self.write_batch(seat.id, batch).await;
        }
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
        }
        let data = self.framing.join(&batch.iter().map(|small| small.data.clone()).collect::<Vec<Bytes>>());
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
