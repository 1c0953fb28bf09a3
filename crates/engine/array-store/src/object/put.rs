//! Writing an object: cut into segments as it comes, complete when the last one is durable. (SMORE, section III-F.1.)
//!
//! # Invariants
//! - AS-PUT-1: a version is complete in the index only when all its parts are durable; recovery takes a version for
//!   complete only if it finds all its parts.
//! - AS-PUT-3 and AS-PUT-4 are [`crate::object::unsure`]'s.
//! - AS-PUT-2: a deletion that came after the version began, or a newer version that was completed first, wins.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::allocator::{PutHints, Want, Who};
use crate::append::item::{Item, Placed, Started};
use crate::append::open_set::Room;
use crate::buffer::{BUFFER_SET, Buffered};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Change, PartKey};
use crate::object::progress::{InFlight, Progress};
use crate::stats::add;
use crate::types::{ATTRIBUTES_MAX, Completion, NAME_MAX, Part, PartPlace, Version};

/// Objects up to this share of a segment share segments with others.
const SMALL: u32 = 4;

/// A version of an object that is being written. Dropped without [`finish`](Put::finish), it leaves nothing behind.
pub struct Put {
    engine: Rc<Engine>,
    progress: Rc<Progress>,
    queue: VecDeque<Bytes>,
    queued: usize,
    /// Bytes that went into segments.
    issued: u64,
    hints: PutHints,
    /// A call that was not waited for may have left the bytes with a gap.
    torn: bool,
}

/// A version that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The version.
    pub version: Version,
    /// Bytes of the object.
    pub size: u64,
}

/// Checks a name that came from outside.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        let message = format!("an object's name has 1 to {NAME_MAX} bytes; this one has {}", name.len());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    if name.starts_with(&[0]) {
        return Err(Error::new(ErrorKind::Invalid, "an object's name must not begin with a zero byte"));
    }
    Ok(())
}

impl Put {
    pub(crate) fn begin(engine: &Rc<Engine>, name: Bytes, hints: PutHints) -> Result<Self> {
        engine.writable()?;
        check_name(&name)?;
        let progress = engine.puts.begin(name, engine.stamps.version());
        let engine = engine.clone();
        let queue = VecDeque::new();
        Ok(Self { engine, progress, queue, queued: 0, issued: 0, hints, torn: false })
    }

    /// The version that this will be.
    pub fn version(&self) -> Version {
        self.progress.version
    }

    /// Takes the next bytes; waits while too many segments are on their way.
    ///
    /// **Durability:** none until [`finish`](Self::finish) returns.
    ///
    /// # Errors
    /// `NoSpace`, `Device`: nothing of the version will be seen. `Invalid` after an earlier call that failed or was not
    /// waited for.
    pub async fn write(&mut self, data: Bytes) -> Result<()> {
        self.whole()?;
        self.torn = true;
        self.queued += data.len();
        self.queue.push_back(data);
        let _going = Going(self.progress.clone());
        // The last segment is kept back: it says that the version is complete.
        while self.queued > self.engine.segment_length as usize {
            self.issue(None).await?;
        }
        self.torn = false;
        Ok(())
    }

    fn whole(&self) -> Result<()> {
        if self.torn {
            let message = "an earlier write of this object failed or was not waited for: begin it anew";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Makes what was written the object's newest version. `attributes` are stored with it.
    ///
    /// **Durability:** durable when it returns. Until then, readers find the version before. (SMORE, section III-A.) It
    /// goes on to its end also if nobody waits for it any more.
    ///
    /// # Errors
    /// `NoSpace`: nothing of the version will be seen. `Device`: nothing of it until the next opening, which may find all of it.
    /// `Invalid` for too long attributes.
    pub async fn finish(self, attributes: Bytes) -> Result<Stored> {
        self.whole()?;
        self.engine.running()?;
        let (rt, busy) = (self.engine.rt.clone(), self.engine.lifecycle.busy.begin());
        let finishing = rt.spawn(async move {
            let (engine, progress) = (self.engine.clone(), self.progress.clone());
            let stored = match engine.keep_in_mind(&progress.name).await {
                Ok(()) => self.end(attributes).await,
                Err(error) => {
                    drop(self);
                    Err(error)
                }
            };
            // In the step in which it is in progress no more. (AS-PUT-3)
            if let Err(error) = &stored
                && progress.started.get()
            {
                engine.unsure.failed(&progress.name, progress.version, error.kind);
            }
            drop(busy);
            stored
        });
        finishing.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    async fn end(mut self, attributes: Bytes) -> Result<Stored> {
        if attributes.len() > ATTRIBUTES_MAX {
            let message = format!("attributes have {} bytes; at most {ATTRIBUTES_MAX} can be stored", attributes.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let size = self.issued + self.queued as u64;
        let stored = Stored { version: self.progress.version, size };
        let completion = Completion { size, attributes };
        let small = self.queued <= (self.engine.segment_length / SMALL) as usize;
        let buffer = self.engine.usable_buffer();
        if (self.engine.options.coalesce || buffer.is_some()) && self.issued == 0 && small {
            let data = self.take(self.queued);
            let buffered = match buffer {
                Some(buffer) => self.engine.buffer_object(&buffer, &self.progress, &data, &completion).await?,
                None => Buffered::Full,
            };
            if let Buffered::Done = buffered {
                return Ok(stored);
            }
            let shared = self.engine.share(self.progress.clone(), data, completion).await;
            shared.map_err(|error| if let Buffered::Lost = buffered { error.behind_a_write() } else { error })?;
            return Ok(stored);
        }
        loop {
            self.issue(Some(&completion)).await?;
            if self.queued == 0 {
                break;
            }
        }
        // The next one's segments are there when the drives come to the end of these.
        self.progress.ready.set(false);
        self.progress.stand_up();
        self.landed(0).await?;
        if self.progress.overtaken.get() {
            return Ok(stored);
        }
        let last = self.progress.last.borrow_mut().take();
        let Some(last) = last else { return Err(Error::new(ErrorKind::Stopped, "the last segment was lost")) };
        self.engine.complete(&self.progress, &last)?;
        Ok(stored)
    }

    /// Waits until at most `most` segments are on their way.
    async fn landed(&self, most: usize) -> Result<()> {
        loop {
            let landed = self.progress.landed.notified();
            if let Some(error) = self.progress.error.borrow_mut().take() {
                return Err(error);
            }
            if self.progress.in_flight.get() <= most {
                return Ok(());
            }
            landed.await;
        }
    }

    /// Up to `length` queued bytes in one piece: uncopied where they came so.
    fn take(&mut self, length: usize) -> Bytes {
        self.queued -= length;
        while self.queue.front().is_some_and(|piece| piece.is_empty()) {
            self.queue.pop_front();
        }
        match self.queue.front_mut() {
            None => return Bytes::new(),
            Some(first) if first.len() >= length => return first.split_to(length),
            Some(_) => {}
        }
        let mut pieces = Vec::new();
        let mut missing = length;
        while missing > 0 {
            let Some(mut piece) = self.queue.pop_front() else { break };
            let part = piece.split_to(piece.len().min(missing));
            missing -= part.len();
            pieces.push(part);
            if !piece.is_empty() {
                self.queue.push_front(piece);
            }
        }
        self.engine.framing.join(&pieces)
    }

    /// Starts the next segment, or what of it fits where it goes.
    async fn issue(&mut self, completion: Option<&Completion>) -> Result<()> {
        self.progress.ready.set(true);
        let most = self.engine.options.in_flight.max(1) - 1;
        self.landed(most).await?;
        let left = self.hints.length.and_then(|length| length.checked_sub(self.issued));
        let length = left.map(|left| left.max(self.queued as u64));
        let data = self.take(self.queued.min(self.engine.segment_length as usize));
        if self.progress.overtaken.get() {
            // Nobody will see it, and what is not written cannot come back (AS-SNAP-3).
            self.issued += data.len() as u64;
            return Ok(());
        }
        let completion = completion.filter(|_| self.queued == 0).cloned();
        let run = Run { offset: self.issued, data: data.clone(), completion };
        let (engine, progress, in_flight) = (self.engine.clone(), self.progress.clone(), InFlight::new(&self.progress));
        let who = Who::Client(self.progress.sit_down(&engine.allocator), Want::Turn(PutHints { length, ..self.hints }));
        let (tell, consumed) = oneshot::channel();
        self.engine.rt.spawn_detached(async move {
            let started = engine.start(who, Room::PLAIN, run.behind(&progress, 0)).await;
            let consumed = started.as_ref().map_or(0, |started| started.consumed);
            let (told, started) = match started {
                Ok(started) => (Ok(consumed), Some(started)),
                Err(error) => (Err(error), None),
            };
            // A caller that went away does not need to know.
            let _ = tell.send(told);
            if let Some(started) = started
                && let Err(error) = engine.land(&progress, started, run.up_to(consumed)).await
            {
                progress.error.borrow_mut().get_or_insert(error);
            }
            drop(in_flight);
        });
        match consumed.await.unwrap_or_else(|_| Err(Error::stopped())) {
            Ok(consumed) => {
                self.issued += consumed as u64;
                if consumed < data.len() {
                    self.queued += data.len() - consumed;
                    self.queue.push_front(data.slice(consumed..));
                }
                Ok(())
            }
            Err(error) => {
                self.progress.stand_up();
                Err(error)
            }
        }
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        // Parts that are in the index, and those that are on their way, belong to nobody unless it was completed.
        if self.progress.in_flight.get() == 0 {
            self.engine.puts.end(&self.progress);
        } else {
            // Until they have landed a deletion has to know of them.
            let (engine, progress) = (self.engine.clone(), self.progress.clone());
            self.engine.rt.spawn_detached(async move {
                progress.at_rest().await;
                engine.puts.end(&progress);
            });
        }
        self.progress.last.borrow_mut().take();
        self.progress.stand_up();
        if !self.progress.overtaken.replace(true) && self.progress.has_begun() {
            self.engine.forget(&self.progress);
        }
    }
}

/// A call that has segments ready. When it ends, in whatever way, the turn is kept only for what is on its way.
struct Going(Rc<Progress>);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.ready.set(false);
        self.0.rest();
    }
}

/// Part of an object in a segment.
struct Run {
    offset: u64,
    data: Bytes,
    completion: Option<Completion>,
}

impl Run {
    /// The part to be appended, without the first `done` bytes.
    fn behind(&self, progress: &Progress, done: usize) -> Item {
        Item::Run {
            name: progress.name.clone(),
            version: progress.version,
            offset: self.offset + done as u64,
            data: self.data.slice(done..),
            completion: self.completion.clone(),
        }
    }

    /// So many bytes of it.
    fn up_to(self, length: usize) -> Self {
        let whole = length == self.data.len();
        Self { data: self.data.slice(..length), completion: self.completion.filter(|_| whole), ..self }
    }
}

impl Engine {
    /// Waits for a segment and enters it in the index; places it anew where a member failed.
    async fn land(self: &Rc<Self>, progress: &Progress, started: Started, run: Run) -> Result<()> {
        let mut placed = self.finish(started).await?;
        let mut done = 0;
        loop {
            if let Some(placed) = placed.take() {
                done += placed.parts.first().map_or(0, |part| part.length as usize);
                self.landed(progress, placed)?;
                if done >= run.data.len() {
                    return Ok(());
                }
            }
            placed = Some(self.append_user(&run.behind(progress, done)).await?.0);
        }
    }

    fn landed(&self, progress: &Progress, placed: Placed) -> Result<()> {
        let Some(part) = placed.parts.first() else { return Ok(()) };
        add(&self.counters.ingested, u64::from(part.length));
        if progress.overtaken.get() {
            return Ok(());
        }
        if part.completion.is_some() {
            *progress.last.borrow_mut() = Some(placed);
            return Ok(());
        }
        progress.begun.set(true);
        let key = PartKey { name: part.name.clone(), version: part.version, offset: part.offset };
        self.enter(&[Change::Put { key, place: placed.place(part), completion: None }])
    }

    /// Enters the last part: the version is complete. Earlier versions go.
    pub(crate) fn complete(&self, progress: &Progress, last: &Placed) -> Result<()> {
        self.complete_all([progress], last)
    }

    /// The same for several versions whose last parts lie in one segment.
    pub(crate) fn complete_all<'a>(
        &self,
        versions: impl IntoIterator<Item = &'a Progress>,
        last: &Placed,
    ) -> Result<()> {
        let place = |progress: &'a Progress| {
            let mut parts = last.parts.iter();
            let part = parts.find(|part| part.name == progress.name && part.version == progress.version)?;
            Some((progress, part, last.place(part)))
        };
        self.complete_at(versions.into_iter().filter_map(place).collect())
    }

    /// The same where places are known.
    pub(crate) fn complete_at(&self, mut parts: Vec<(&Progress, &Part, PartPlace)>) -> Result<()> {
        // Of versions of one object the newest comes last, and takes the others' place.
        parts.sort_by_key(|(progress, ..)| progress.version);
        let mut changes = Vec::with_capacity(2 * parts.len());
        let mut completed = Vec::with_capacity(parts.len());
        for (progress, part, place) in parts {
            if progress.overtaken.replace(true) {
                continue;
            }
            let newer = self.index()?.object(&progress.name).map_err(Error::index)?;
            if newer.is_some_and(|newest| newest.version > progress.version) {
                if progress.has_begun() {
                    self.forget(progress);
                }
                continue;
            }
            let key = PartKey { name: part.name.clone(), version: part.version, offset: part.offset };
            changes.push(Change::Put { key, place, completion: part.completion.clone() });
            changes.push(Change::RemoveOlder { name: part.name.clone(), version: part.version });
            completed.push(progress);
        }
        self.enter(&changes)?;
        for progress in completed {
            self.unsure.replaced(&progress.name, progress.version);
            self.puts.overtake(&progress.name, |version| version < progress.version);
        }
        Ok(())
    }

    /// Takes a version that will not be completed out of the index.
    fn forget(&self, progress: &Progress) {
        let change = Change::RemoveVersion { name: progress.name.clone(), version: progress.version };
        if let Err(error) = self.enter(&[change]) {
            tracing::error!(%error, "parts of an object that was given up stay until the array is opened again");
        }
    }

    /// Changes the index and counts what lives where.
    pub(crate) fn enter(&self, changes: &[Change]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let applied = self.index()?.apply(changes);
        let applied = applied.inspect_err(|_| self.lifecycle.index_lacks.set(true)).map_err(Error::index)?;
        for (change, done) in changes.iter().zip(applied.done) {
            match change {
                Change::Put { place, .. } => self.sets.add_live(place.set, u64::from(place.length)),
                Change::Move { place, .. } if done => self.sets.add_live(place.set, u64::from(place.length)),
                _ => {}
            }
        }
        let buffer = self.buffering.buffer.borrow();
        for place in &applied.freed {
            if let Some(buffer) = buffer.as_ref().filter(|_| place.set == BUFFER_SET) {
                buffer.release(place.stamp);
            }
            self.sets.remove_live(place.set, u64::from(place.length));
        }
        Ok(())
    }
}
