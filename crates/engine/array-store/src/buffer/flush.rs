//! Writing what is buffered to segments.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use super::log::{Buffer, Held};
use crate::append::item::Item;
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::index::{Change, PartKey};
use crate::object::progress::InFlight;
use crate::object::sharing::SegmentRoom;
use crate::types::Part;

/// Segments on their way at once: with more, what could be written over next would wait for all of them.
const SEGMENTS: usize = 2;

/// Between two looks at how long objects have been in the buffer.
const MOMENT: Duration = Duration::from_millis(10);

impl Engine {
    /// Writes until fewer than `least` bytes are left, in a task of its own, unless that is being done.
    pub(crate) fn flush_soon(self: &Rc<Self>, buffer: &Rc<Buffer>, least: usize) {
        if buffer.flushing.replace(true) {
            return;
        }
        let (engine, buffer, busy) = (self.clone(), buffer.clone(), self.lifecycle.busy.begin());
        self.rt.spawn_detached(async move {
            let written = engine.flush_down_to(&buffer, least).await;
            if let Err(error) = &written {
                tracing::warn!(%error, "the buffer could not be written to segments; that is tried again");
            }
            buffer.flush_failed.set(written.is_err());
            buffer.flushing.set(false);
            buffer.flushed.notify_waiters();
            drop(busy);
        });
    }

    /// Writes until fewer than `least` bytes are left, or with 0 nothing; wins the room of what is needed no more.
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
            held.flush_failed.set(done.is_err());
            held.flushing.set(false);
            held.flushed.notify_waiters();
            done
        });
        flushing.await.unwrap_or_else(|_| Err(crate::error::Error::stopped()))
    }

    /// Writes to segments what has been in the buffer alone for long, however little it is (AS-BUF-6), and makes an end of a buffer whose
    /// files both failed, whoever met it (AS-BUF-4).
    pub(crate) async fn flush_aged(self: Rc<Self>) {
        let Some(buffer) = self.buffering.buffer.borrow().clone() else { return };
        let time = self.options.buffer_time;
        while !self.lifecycle.stopped.get() {
            if !buffer.usable() && !buffer.is_empty() {
                self.try_to_leave(&buffer).await;
            }
            let oldest = buffer.held.borrow().values().next().map(|held| held.since);
            let age = oldest.map(|since| self.rt.now().since(since));
            if age.is_some_and(|age| age >= time) && !buffer.flushing.get() {
                self.flush_soon(&buffer, 0);
            }
            // At least a moment: while it is tried again in vain, too.
            let left = age.map_or(time, |age| time.saturating_sub(age)).max(time / 8).max(MOMENT);
            self.rt.sleep(left).await;
        }
    }

    /// Writes all to segments, so that the log has no gaps any more.
    pub(crate) async fn leave_gaps(self: &Rc<Self>) {
        let Some(buffer) = self.buffering.buffer.borrow().clone() else { return };
        if let Err(error) = self.flush(&buffer, 0).await {
            tracing::warn!(%error, "the buffer's log keeps its gaps, and the next opening tells of them again");
        }
    }

    /// The oldest go first, several segments at a time; their room is won as soon as that may be, since puts wait for
    /// it.
    async fn flush_down_to(self: &Rc<Self>, buffer: &Buffer, least: usize) -> Result<()> {
        let failed = RefCell::new(None);
        let segments = stream::unfold(0, |after| {
            let going = failed.borrow().is_none();
            let stamps = if going { buffer.oldest(after, least, self.segment_length) } else { Vec::new() };
            let last = stamps.last().copied();
            async move { last.map(|last| (stamps, last)) }
        });
        let mut written = pin!(segments.map(|stamps| self.flush_group(buffer, stamps)).buffered(SEGMENTS));
        while let Some(done) = written.next().await {
            let emptied = if done.is_ok() { buffer.reclaim().await } else { done };
            if let Err(error) = emptied {
                failed.borrow_mut().get_or_insert(error);
            }
        }
        match failed.take() {
            Some(error) => Err(error),
            None => buffer.reclaim().await,
        }
    }

    /// Writes these objects in a segment; in several, where a nearly full array has no room for one with all of them.
    async fn flush_group(self: &Rc<Self>, buffer: &Buffer, stamps: Vec<u64>) -> Result<()> {
        let mut groups = vec![&stamps[..]];
        while let Some(stamps) = groups.pop() {
            match self.flush_segment(buffer, stamps).await {
                Err(error) if error.kind == ErrorKind::NoSpace && stamps.len() > 1 => {
                    let (first, second) = stamps.split_at(stamps.len() / 2);
                    groups.extend([second, first]);
                }
                done => {
                    let left = &stamps[done?..];
                    groups.extend((!left.is_empty()).then_some(left));
                }
            }
        }
        Ok(())
    }

    /// Writes these objects in a segment, but for those that are gone. Returns the number done: if a set ends, not all.
    async fn flush_segment(self: &Rc<Self>, buffer: &Buffer, stamps: &[u64]) -> Result<usize> {
        let (mut pieces, mut length, mut parts, mut from) = (Vec::new(), 0, Vec::new(), Vec::new());
        let mut flights = Vec::new();
        for &stamp in stamps {
            let held = buffer.held.borrow();
            let Some(held) = held.get(&stamp) else { continue };
            // A deletion has to know of the copy that is on its way (AS-SNAP-3).
            let progress = self.puts.begin(held.name.clone(), held.version);
            flights.push((InFlight::new(&progress), progress));
            parts.push(Part {
                name: held.name.clone(),
                version: held.version,
                offset: 0,
                at: length,
                length: held.data.len() as u32,
                completion: Some(held.completion.clone()),
            });
            from.push(stamp);
            length += held.data.len() as u32;
            pieces.push(held.data.clone());
        }
        if parts.is_empty() {
            return Ok(stamps.len());
        }
        let item = Item::Shared { parts, data: self.framing.join(&pieces), together: false };
        // An object that is deleted meanwhile gives its memory back.
        drop(pieces);
        // Without the files only memory has it: then it may take the room that tombstones may (AS-BUF-4).
        let placed = if buffer.usable() {
            self.append_user(&item).await.map(|(placed, _)| placed)
        } else {
            self.append_to_spare(&item).await
        };
        let entered = placed.and_then(|placed| {
            let moves = from.iter().zip(&placed.parts).map(|(stamp, part)| Change::Move {
                key: PartKey { name: part.name.clone(), version: part.version, offset: 0 },
                from_stamp: *stamp,
                place: placed.place(part),
            });
            self.enter(&moves.collect::<Vec<_>>())?;
            let next = from.get(placed.parts.len());
            Ok(next.and_then(|next| stamps.iter().position(|stamp| stamp == next)).unwrap_or(stamps.len()))
        });
        for (flight, progress) in flights {
            self.puts.end(&progress);
            drop(flight);
        }
        entered
    }
}

impl Buffer {
    /// Stamps of the oldest objects behind `after`, as many as go into a segment; none where less than `least` bytes
    /// are left.
    fn oldest(&self, after: u64, least: usize, segment_length: u32) -> Vec<u64> {
        let held = self.held.borrow();
        let rest = || held.range(after.saturating_add(1)..);
        if rest().map(|(_, held)| held.data.len()).sum::<usize>() < least {
            return Vec::new();
        }
        let mut room = SegmentRoom::new(segment_length);
        let fits = |(_, held): &(&u64, &Held)| room.take(&held.name, held.data.len(), &held.completion);
        rest().take_while(fits).map(|(stamp, _)| *stamp).collect()
    }
}
