//! A file that is being written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use shingle_zone_files::{FilesError, WriteLifetime};

use crate::files::Files;
use crate::link::Answering;
use crate::tail::Tail;
use crate::wire::{About, Call, DATA_BYTES_MAX, Reply, Then, lifetime_number, out_of_place};

/// Bytes that gather here before they go to the owner, unless they are flushed.
const GATHERED: usize = 256 << 10;
/// Bytes on their way to the owner before an append waits.
const ON_THEIR_WAY: usize = 8 << 20;

#[derive(Default)]
struct State {
    buffer: BytesMut,
    size: u64,
    sent: usize,
    /// What was flushed and is not written yet, for whoever comes after this process (FS-TAIL-1).
    tail: Option<Tail>,
    /// The first failure: bytes behind it would leave a hole.
    failed: Option<FilesError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    answered: Condvar,
}

/// A file that is being written, at its end. When it is dropped, what was appended is written, and durable some time later.
pub struct Writer {
    files: Files,
    handle: u64,
    serial: u64,
    table: bool,
    shared: Arc<Shared>,
}

impl State {
    /// Keeps what is in the buffer in the tail. True if that is not needed, or done.
    fn keep(&mut self) -> bool {
        let offset = self.size - self.buffer.len() as u64;
        self.tail.as_mut().is_none_or(|tail| tail.keep(offset, &self.buffer))
    }

    /// All bytes before `end` are written.
    fn written(&mut self, end: u64) {
        if let Some(tail) = &mut self.tail {
            tail.written(end);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    pub(crate) fn new(files: &Files, handle: u64, about: About, tail: Option<Tail>) -> Self {
        let state = State { size: about.size, tail, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), answered: Condvar::new() });
        Self { files: files.clone(), handle, serial: about.serial, table: about.table, shared }
    }

    /// Number of the file, which no other of the drive ever has.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.shared.lock().size
    }

    /// Appends bytes. Others see them after [`flush`](Self::flush).
    ///
    /// # Errors
    /// `NoSpace`, `Unavailable`: those of this append or of an earlier one. The file takes no more then.
    pub fn append(&self, bytes: &[u8]) -> Result<(), FilesError> {
        let mut state = self.shared.lock();
        for part in bytes.chunks(DATA_BYTES_MAX / 2) {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            state.buffer.extend_from_slice(part);
            state.size += part.len() as u64;
            if state.buffer.len() >= GATHERED {
                self.send(&mut state, Then::Gather);
            }
            while state.sent > ON_THEIR_WAY && state.failed.is_none() {
                state = self.shared.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        Ok(())
    }

    /// Hands all that was appended to the owner: reads see it, and it is written within some milliseconds. Does not wait for that. What was
    /// flushed to a log survives the end of the process, if it owns the drive.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn flush(&self) -> Result<(), FilesError> {
        let mut state = self.shared.lock();
        if state.buffer.is_empty() {
            return state.failed.clone().map_or(Ok(()), Err);
        }
        let kept = state.keep();
        self.send(&mut state, Then::Flush);
        if !kept {
            // It is safe once it is written.
            while state.sent > 0 && state.failed.is_none() {
                state = self.shared.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// Makes all that was appended durable. May be called beside appends of another thread.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn sync(&self) -> Result<(), FilesError> {
        let (answer, end) = {
            let mut state = self.shared.lock();
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            let data = state.buffer.split().freeze();
            // Handed in under the lock, so that no later bytes overtake these.
            (self.files.begin(Call::Append { handle: self.handle, then: Then::Sync }, data), state.size)
        };
        match crate::link::wait(&answer) {
            Ok(Reply::Done) => {
                self.shared.lock().written(end);
                Ok(())
            }
            Ok(_) => Err(out_of_place()),
            Err(error) => {
                self.shared.lock().failed.get_or_insert_with(|| error.clone());
                Err(error)
            }
        }
    }

    /// Cuts the file.
    ///
    /// # Errors
    /// `Invalid` if it is shorter; as [`append`](Self::append).
    pub fn truncate(&self, size: u64) -> Result<(), FilesError> {
        if self.size() == size {
            return self.flush();
        }
        // Nothing of what is cut stays in the tail.
        self.sync()?;
        self.files.done(Call::Truncate { handle: self.handle, size })?;
        if self.table {
            self.files.cut(self.serial, size);
        }
        self.shared.lock().size = size;
        Ok(())
    }

    /// Says how large the file will be: a table about as large as a zone gets zones of its own.
    pub fn expect(&self, bytes: u64) {
        self.files.tell(Call::Expect { handle: self.handle, bytes });
    }

    /// Says how long the file will live: those of one lifetime share zones.
    pub fn set_lifetime(&self, lifetime: WriteLifetime) {
        self.files.tell(Call::SetLifetime { handle: self.handle, lifetime: lifetime_number(lifetime) });
    }

    fn send(&self, state: &mut State, then: Then) {
        let data: Bytes = state.buffer.split().freeze();
        let (length, end) = (data.len(), state.size);
        state.sent += length;
        let shared = self.shared.clone();
        let answering = Answering::new(move |answer| {
            let mut state = shared.lock();
            state.sent -= length;
            match answer {
                Ok(_) if then != Then::Gather => state.written(end),
                Ok(_) => {}
                Err(error) => {
                    state.failed.get_or_insert(error);
                }
            }
            drop(state);
            shared.answered.notify_all();
        });
        self.files.send(Call::Append { handle: self.handle, then }, data, answering);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if !state.buffer.is_empty() && state.failed.is_none() {
            // The tail goes with the answer to the last flush.
            state.keep();
            self.send(&mut state, Then::Flush);
        }
        drop(state);
        self.files.tell(Call::Close { handle: self.handle });
    }
}
