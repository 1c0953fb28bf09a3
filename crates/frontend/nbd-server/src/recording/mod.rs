//! A block trace of an export's requests, written while it serves. (docs/formats/block-trace.md)
//!
//! A request notes itself when it was read whole, and again just before its reply may go out, in memory and under a lock that nobody holds for
//! longer than that. A thread of the recording's own packs and writes what is complete, about once a second.
//!
//! # Invariants
//! - NBD-REC-1: no request waits for the file, or fails for its sake. A file that cannot be written, or that is behind by more than
//!   [`BEHIND_MAX`] requests, ends the recording with a warning, and memory stays bounded by those.
//! - NBD-REC-2: the file is written in parts that are packed and whole; one that cannot be written is taken back. So a recording that has ended,
//!   for whatever reason, is a whole trace of the requests up to then.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shingle_block_trace::TraceError;
use shingle_block_trace::blocks::BlockTraceWriter;
use shingle_block_trace::io::{Io, IoKind, LENGTH_MAX};
use shingle_block_trace::recorder::{Recorder, Request};
use shingle_store_api::Durability;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::request::{Order, Span};

use packed::{Destination, Packed};

mod packed;

/// I/Os that wait for the file, at most: some 30 MB.
const BEHIND_MAX: usize = 1 << 18;

/// I/Os that are worth writing at once.
const BATCH: usize = 4096;

/// Time in which fewer of them gather.
const GATHER: Duration = Duration::from_secs(1);

/// Time that the file has to take the last of them when the recording is finished.
const PATIENCE: Duration = Duration::from_secs(10);

/// A recording under way. Its end ends it.
pub struct Recording {
    notes: Arc<Notes>,
    ended: oneshot::Receiver<()>,
}

/// Notes of requests.
pub(crate) struct Notes {
    /// For messages: the export and the file.
    called: String,
    began: Instant,
    /// Nothing is noted any more.
    over: AtomicBool,
    state: Mutex<State>,
    more: Condvar,
}

struct State {
    recorder: Recorder,
    ready: Vec<Io>,
    /// The writer is to end once it has written what is ready.
    closing: bool,
}

/// A request that was noted, as I/Os of these numbers.
pub(crate) struct Noted {
    notes: Arc<Notes>,
    numbers: Range<u64>,
}

impl Recording {
    /// Begins a recording of a disk of `size` bytes in a new file. (One that is no file but a device is written to as it is.)
    ///
    /// # Errors
    /// `AlreadyExists`, or the file cannot be made.
    pub(crate) fn begin(file: &Path, name: &str, size: u64) -> io::Result<Self> {
        let called = format!("the recording of `{name}` in {}", file.display());
        Self::into(Box::new(create(file)?), called, name, size)
    }

    fn into(out: Box<dyn Destination>, called: String, name: &str, size: u64) -> io::Result<Self> {
        let state = State { recorder: Recorder::new(size), ready: Vec::new(), closing: false };
        let notes = Arc::new(Notes {
            called,
            began: Instant::now(),
            over: AtomicBool::new(false),
            state: Mutex::new(state),
            more: Condvar::new(),
        });
        let (tell, ended) = oneshot::channel();
        let (own, name) = (notes.clone(), name.to_owned());
        let writer = move || {
            if let Err(error) = own.write(out, &name, size) {
                tracing::warn!("{} has ended, and the export goes on: {error}", own.called);
                own.give_up();
            }
            drop(tell);
        };
        thread::Builder::new().name("recording".to_owned()).spawn(writer)?;
        Ok(Self { notes, ended })
    }

    pub(crate) fn notes(&self) -> Arc<Notes> {
        self.notes.clone()
    }

    /// Ends it: requests that come from now on are not in it, those under way are without the time that they take. Completes when the file is
    /// whole, or has taken nothing for ten seconds.
    pub async fn finish(mut self) {
        self.notes.close();
        // The writer's end is the end of the channel.
        if timeout(PATIENCE, &mut self.ended).await.is_err() {
            tracing::warn!("{} lacks its end: the file takes nothing", self.notes.called);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.notes.close();
    }
}

/// A new file, or a device that is there.
fn create(file: &Path) -> io::Result<File> {
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if file.metadata()?.file_type().is_char_device() {
                return OpenOptions::new().write(true).open(file);
            }
            Err(io::Error::new(
                error.kind(),
                "it is there already, and a recording writes over nothing: name another file",
            ))
        }
        created => created,
    }
}

impl Notes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes an order; `None` if it is none that a trace has, or the recording is over.
    pub(crate) fn came(self: &Arc<Self>, order: Order) -> Option<Noted> {
        if self.over.load(Relaxed) {
            return None;
        }
        let request = request(order)?;
        let mut state = self.state();
        if state.closing {
            return None;
        }
        // Under the lock, so that times are in the order of numbers, and those of one request follow each other.
        let now = self.now();
        let mut numbers = 0..0;
        for part in parts(request) {
            let number = state.recorder.came(now, part)?;
            numbers = if numbers.is_empty() { number..number + 1 } else { numbers.start..number + 1 };
        }
        self.collect(&mut state);
        Some(Noted { notes: self.clone(), numbers })
    }

    fn answered(&self, numbers: Range<u64>) {
        let mut state = self.state();
        if !state.closing {
            let now = self.now();
            numbers.for_each(|number| state.recorder.answered(now, number));
            self.collect(&mut state);
        }
    }

    /// Takes what is complete. (NBD-REC-1)
    fn collect(&self, state: &mut State) {
        let before = state.ready.len();
        while let Some(io) = state.recorder.next_io() {
            state.ready.push(io);
        }
        let now = state.ready.len();
        if now > BEHIND_MAX {
            tracing::warn!("{} has ended, and the export goes on: its file takes data too slowly", self.called);
            self.over.store(true, Relaxed);
            state.closing = true;
        }
        if (before == 0 && now > 0) || (before < BATCH && now >= BATCH) || state.closing {
            self.more.notify_one();
        }
    }

    /// Lets the writer write what there is, and end.
    fn close(&self) {
        self.over.store(true, Relaxed);
        let mut state = self.state();
        if !state.closing {
            while let Some(io) = state.recorder.last_io() {
                state.ready.push(io);
            }
            state.closing = true;
        }
        self.more.notify_one();
    }

    /// Drops what there is.
    fn give_up(&self) {
        self.over.store(true, Relaxed);
        let mut state = self.state();
        *state = State { recorder: Recorder::new(0), ready: Vec::new(), closing: true };
    }

    /// I/Os that are ready, once they are many or a second has gone by; and whether they are the last.
    fn batch(&self) -> (Vec<Io>, bool) {
        let waited = self.more.wait_while(self.state(), |state| state.ready.is_empty() && !state.closing);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        let few = |state: &mut State| state.ready.len() < BATCH && !state.closing;
        let waited = self.more.wait_timeout_while(state, GATHER, few);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (mem::take(&mut state.ready), state.closing)
    }

    fn write(&self, out: Box<dyn Destination>, name: &str, size: u64) -> Result<(), TraceError> {
        let mut trace = BlockTraceWriter::begin(Packed::new(out), name, size)?;
        // A trace without I/Os is one, too.
        trace.out().end_part()?;
        loop {
            let (ios, last) = self.batch();
            for io in &ios {
                trace.write(io)?;
                trace.out().end_large_part()?;
            }
            trace.out().end_part()?;
            if last {
                return Ok(());
            }
        }
    }
}

/// The request that a trace has of an order.
fn request(order: Order) -> Option<Request> {
    let of = |kind, span: Span, durability: Durability| {
        let fua = durability == Durability::Durable;
        Some(Request { kind, offset: span.offset, length: span.length, fua })
    };
    match order {
        Order::Read { span, .. } => of(IoKind::Read, span, Durability::Cached),
        Order::Write { span, durability } => of(IoKind::Write, span, durability),
        Order::Flush => of(IoKind::Flush, Span::between(0, 0), Durability::Cached),
        Order::Trim { span, durability } => of(IoKind::Trim, span, durability),
        // Zeros that are to take their room are written as data is.
        Order::Zero { span, durability, filled: true } => of(IoKind::Write, span, durability),
        Order::Zero { span, durability, filled: false } => of(IoKind::Zero, span, durability),
        Order::Status { .. } => None,
    }
}

/// A request as I/Os that a trace can have: it has no write that is longer than [`LENGTH_MAX`], and zeros that take their room may be. Each part
/// ends where a multiple of that does, so that it stays as short with the whole of its first and last sectors.
fn parts(request: Request) -> impl Iterator<Item = Request> {
    let end = request.offset.saturating_add(request.length);
    let whole = request.kind != IoKind::Write || request.length == 0;
    let mut next = Some(request.offset);
    std::iter::from_fn(move || {
        let offset = next.take()?;
        let border = (offset / LENGTH_MAX + 1).saturating_mul(LENGTH_MAX);
        let until = if whole || border >= end { end } else { border };
        next = (until < end).then_some(until);
        Some(Request { offset, length: until - offset, ..request })
    })
}

impl Noted {
    pub(crate) fn answered(self) {
        self.notes.answered(self.numbers);
    }
}

#[cfg(test)]
mod tests;
