//! Taking objects and deletions into the buffer, and making an end of a buffer whose files both failed.

use std::rc::Rc;

use bytes::Bytes;

use super::log::{Appended, BUFFER_SET, Buffer, Held, Needed};
use super::ring::Entry;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::{BufferName, Tombstone};
use crate::object::progress::{InFlight, Progress};
use crate::stats::add;
use crate::types::{Completion, Part, PartPlace, Version};

/// Waits of an object for room before it goes to a segment without being buffered.
const WAITS: usize = 8;

/// Outcome of giving an object to the buffer.
pub(crate) enum Buffered {
    /// It is complete, or was overtaken.
    Done,
    /// There was no room: nothing was written.
    Full,
    /// No file is left, and what they were given before they failed may be there when they come back.
    Lost,
}

impl Engine {
    /// The buffer, if there is one that can be written to.
    pub(crate) fn usable_buffer(&self) -> Option<Rc<Buffer>> {
        self.buffering.open().filter(|buffer| buffer.usable())
    }

    /// Appends to the log. If one file was left behind, a superblock says so first: it is not believed alone.
    /// (AS-BUF-1)
    async fn append_to_log(&self, buffer: &Rc<Buffer>, wanted: impl Fn() -> Vec<Entry>) -> Result<Appended> {
        let appended = buffer.append(wanted).await?;
        if buffer.named.get() < buffer.head.get().generation {
            self.write_superblock(None).await?;
        }
        Ok(appended)
    }

    /// Takes a whole object into the buffer.
    pub(crate) async fn buffer_object(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        progress: &Rc<Progress>,
        data: &Bytes,
        completion: &Completion,
    ) -> Result<Buffered> {
        let _in_flight = InFlight::new(progress);
        let overtaken = || progress.overtaken.get();
        let (name, version) = (progress.name().clone(), progress.version);
        let entry = Entry::Put { name: name.clone(), version, completion: completion.clone(), data: data.clone() };
        // An object that was overtaken before its turn is not written: no deletion would know of it (AS-BUF-3).
        let wanted = || if overtaken() { Vec::new() } else { vec![entry.clone()] };
        progress.started.set(true);
        let needed = match self.append_when_there_is_room(buffer, wanted).await {
            // Memory alone has it, and the buffer may have been given up while a superblock was waited for. (AS-BUF-4)
            Ok(Appended::Durable(_)) if !buffer.usable() => {
                self.leave_soon(buffer);
                return Ok(Buffered::Lost);
            }
            Ok(Appended::Durable(needed)) => needed,
            Ok(Appended::Nothing) => return Ok(Buffered::Done),
            Ok(Appended::Full) => {
                progress.started.set(false);
                return Ok(Buffered::Full);
            }
            Err(_) if !buffer.usable() => {
                self.leave_soon(buffer);
                return Ok(Buffered::Lost);
            }
            Err(error) => return Err(error.behind_a_write()),
        };
        if overtaken() {
            return Ok(Buffered::Done);
        }
        let length = data.len() as u32;
        let part = Part { name, version, offset: 0, at: 0, length, completion: Some(completion.clone()) };
        let place = self.hold(buffer, needed, &part, completion, data);
        add(&self.counters.ingested, u64::from(length));
        self.complete_at(vec![(progress, &part, place)])?;
        if self.index()?.part(&part.name, version, 0).map_err(Error::index)?.is_none_or(|found| found != place) {
            // It was overtaken: no entry names it.
            buffer.release(place.stamp);
        }
        if buffer.bytes.get() >= self.segment_length as usize {
            self.flush_soon(buffer, self.segment_length as usize);
        }
        Ok(Buffered::Done)
    }

    /// Appends to the log; where that is full, once some of it was written to segments: full ones, as its own would not
    /// be.
    async fn append_when_there_is_room(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        wanted: impl Fn() -> Vec<Entry>,
    ) -> Result<Appended> {
        for _ in 0..WAITS {
            let flushed = buffer.flushed.notified();
            let appended = self.append_to_log(buffer, &wanted).await?;
            // Of an empty log: it is longer than the ring.
            if !matches!(appended, Appended::Full) || buffer.is_empty() {
                return Ok(appended);
            }
            if !buffer.flushing.get() {
                self.flush_soon(buffer, 0);
            }
            flushed.await;
            if buffer.flush_failed.get() {
                break;
            }
        }
        Ok(Appended::Full)
    }

    /// Keeps the bytes of an object, and its record in the log; the place that its entry names.
    pub(super) fn hold(
        &self,
        buffer: &Buffer,
        needed: Needed,
        part: &Part,
        completion: &Completion,
        data: &Bytes,
    ) -> PartPlace {
        let stamp = self.stamps.next();
        let held = Held {
            name: part.name.clone(),
            version: part.version,
            completion: completion.clone(),
            data: data.clone(),
            needed,
            since: self.rt.now(),
        };
        buffer.held.borrow_mut().insert(stamp, held);
        buffer.bytes.set(buffer.bytes.get() + data.len());
        let length = data.len() as u32;
        PartPlace { set: BUFFER_SET, block: 0, stamp, segment_length: length, at: 0, length, last: true }
    }

    /// Says in the buffer's log what tombstones say on the drives. (AS-BUF-3)
    pub(crate) async fn bury_buffered(self: &Rc<Self>, tombstones: &[Tombstone]) -> Result<()> {
        let Some(buffer) = self.buffering.open() else { return Ok(()) };
        while !buffer.burials(tombstones).is_empty() {
            let said = match self.append_to_log(&buffer, || buffer.burials(tombstones)).await {
                // Only a log of a version that kept no room for it: with the buffer empty there is nothing to say.
                Ok(Appended::Full) => self.flush(&buffer, 0).await,
                said => said.map(drop),
            };
            match said {
                Err(_) if !buffer.usable() => self.leave(&buffer).await?,
                said => said?,
            }
        }
        Ok(())
    }

    /// The buffer's log may hold a version up to that one whose deletion it was not told of.
    pub(crate) fn may_come_back(&self, name: &Bytes, deleted: Version) -> bool {
        self.buffering.buffer.borrow().as_ref().is_some_and(|buffer| buffer.needs_burial(name, deleted))
    }

    /// Makes an end of a buffer whose files both failed. (AS-BUF-4)
    async fn leave(self: &Rc<Self>, buffer: &Rc<Buffer>) -> Result<()> {
        let _one = buffer.leaving.lock().await;
        if buffer.is_empty() {
            return Ok(());
        }
        self.flush(buffer, 0).await?;
        self.buffering.named.set(BufferName::default());
        self.write_superblock(None).await?;
        // Only now: until then the next opening reads the files, should they be there again.
        buffer.records.take();
        tracing::error!("both files of the buffer failed: what they held is in segments; the array does without it");
        Ok(())
    }

    /// The same; if it fails, it is tried again.
    pub(super) async fn try_to_leave(self: &Rc<Self>, buffer: &Rc<Buffer>) {
        let _busy = self.lifecycle.busy.begin();
        if let Err(error) = self.leave(buffer).await {
            tracing::warn!(%error, "the buffer's files failed, and what they hold could not be written to segments yet");
        }
    }

    /// The same in a task of its own.
    fn leave_soon(self: &Rc<Self>, buffer: &Rc<Buffer>) {
        let (engine, buffer, busy) = (self.clone(), buffer.clone(), self.lifecycle.busy.begin());
        self.rt.spawn_detached(async move {
            engine.try_to_leave(&buffer).await;
            drop(busy);
        });
    }
}
