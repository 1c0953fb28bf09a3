//! Writing what is buffered to segments.

use std::rc::Rc;

use bytes::BytesMut;

use super::Buffer;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::index::{Change, PartKey};
use crate::put::{InFlight, Progress};
use crate::types::Part;
use crate::writer::Item;

impl Engine {
    /// Writes until fewer than `least` bytes are left, in a task of its own, unless that is being done.
    pub(crate) fn flush_soon(self: &Rc<Self>, buffer: &Rc<Buffer>, least: usize) {
        if buffer.flushing.replace(true) {
            return;
        }
        let (engine, buffer, busy) = (self.clone(), buffer.clone(), self.busy.begin());
        self.rt.spawn_detached(async move {
            if let Err(error) = engine.flush_down_to(&buffer, least).await {
                tracing::warn!(%error, "the buffer could not be written to segments; that is tried again");
            }
            buffer.flushing.set(false);
            buffer.flushed.notify_waiters();
            drop(busy);
        });
    }

    /// Writes until fewer than `least` bytes are left, or with 0 nothing; empties areas of which nothing is needed.
    pub(crate) async fn flush(self: &Rc<Self>, buffer: &Rc<Buffer>, least: usize) -> Result<()> {
        while buffer.flushing.get() {
            let flushed = buffer.flushed.notified();
            if !buffer.flushing.get() {
                break;
            }
            flushed.await;
        }
        buffer.flushing.set(true);
        let (engine, held) = (self.clone(), buffer.clone());
        let flushing = self.rt.spawn(async move {
            let done = engine.flush_down_to(&held, least).await;
            held.flushing.set(false);
            held.flushed.notify_waiters();
            done
        });
        flushing.await.unwrap_or_else(|_| Err(crate::error::Error::stopped()))
    }

    async fn flush_down_to(self: &Rc<Self>, buffer: &Buffer, least: usize) -> Result<()> {
        let mut most = usize::MAX;
        while !buffer.held.borrow().is_empty() && buffer.bytes.get() >= least {
            match self.flush_segment(buffer, most).await {
                (count, Err(error)) if error.kind == ErrorKind::NoSpace && count > 1 => most = count / 2,
                (_, done) => done?,
            }
        }
        buffer.empty_areas().await
    }

    /// Writes the oldest objects, as many as fit in a segment, and `most` at most; how many those are.
    async fn flush_segment(self: &Rc<Self>, buffer: &Buffer, most: usize) -> (usize, Result<()>) {
        let (mut data, mut parts, mut stamps, mut attributes) = (BytesMut::new(), Vec::new(), Vec::new(), 0);
        let mut flights = Vec::new();
        for (stamp, held) in buffer.held.borrow().iter().take(most) {
            attributes += held.completion.attributes.len() + held.name.len();
            if !parts.is_empty() && data.len() + held.data.len() + attributes > self.segment_length as usize {
                break;
            }
            // A deletion has to know of the copy that is on its way (SNAP-3).
            let progress = Progress::of(self, held.name.clone(), held.version);
            flights.push((InFlight::new(&progress), progress));
            parts.push(Part {
                name: held.name.clone(),
                version: held.version,
                offset: 0,
                at: data.len() as u32,
                length: held.data.len() as u32,
                completion: Some(held.completion.clone()),
            });
            stamps.push(*stamp);
            data.extend_from_slice(&held.data);
        }
        let item = Item::Shared { parts, data: data.freeze() };
        let placed = self.append_user(&item).await;
        let entered = placed.and_then(|(placed, _)| {
            let moves = stamps.iter().zip(&placed.parts).map(|(stamp, part)| Change::Move {
                key: PartKey { name: part.name.clone(), version: part.version, offset: 0 },
                from_stamp: *stamp,
                place: placed.place(part),
            });
            self.enter(&moves.collect::<Vec<_>>())
        });
        for (flight, progress) in flights {
            self.puts.borrow_mut().remove(&(progress.name().clone(), progress.version));
            drop(flight);
        }
        (stamps.len(), entered)
    }
}
