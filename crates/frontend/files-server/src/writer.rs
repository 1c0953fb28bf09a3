//! A file that is being written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use shingle_zone_files::{FilesError, WriteLifetime};

use crate::client::Client;
use crate::fresh::Fresh;
use crate::link::Answering;
use crate::tail::Tail;
use crate::wire::{About, Call, DATA_BYTES_MAX, Reply, Then, lifetime_number};

/// Bytes that gather here before they go to the owner, unless they are flushed.
const GATHERED: usize = 256 << 10;
/// Bytes on their way to the owner before an append waits.
const ON_THEIR_WAY: u64 = 8 << 20;

/// The side of those who append. Held while a call is handed in, which may wait for the owner.
#[derive(Default)]
struct State {
    buffer: BytesMut,
    size: u64,
    /// Bytes that were handed to the owner.
    sent: u64,
    /// The end of a table, on its way to the cache.
    fresh: Option<Fresh>,
    /// Bytes that were flushed and are not written yet, for the next owner of the drive (FS-TAIL-1).
    tail: Option<Tail>,
}

/// The side of the answers. Held for a moment only, as answers must never wait for one who hands in a call.
#[derive(Default)]
struct Answers {
    /// Bytes that the owner has answered for.
    answered: u64,
    /// All bytes of the file before this one are written.
    written: u64,
    /// The first failure: bytes behind it would leave a hole.
    failed: Option<FilesError>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    answers: Mutex<Answers>,
    answered: Condvar,
}

/// A file that is being written, at its end. When it is dropped, what was appended is written, and durable some time later.
pub struct Writer {
    client: Client,
    handle: u64,
    serial: u64,
    table: bool,
    shared: Arc<Shared>,
}

impl State {
    /// Keeps what is in the buffer in the tail. True if that is not needed, or done.
    fn keep(&mut self, written: u64) -> bool {
        let offset = self.size - self.buffer.len() as u64;
        self.tail.as_mut().is_none_or(|tail| {
            tail.written(written);
            tail.keep(offset, &self.buffer)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits until at most `most` of the `sent` bytes are unanswered, or one failed.
    fn wait(&self, sent: u64, most: u64) -> Result<(), FilesError> {
        let answers = lock(&self.answers);
        let waits = |answers: &mut Answers| answers.failed.is_none() && sent - answers.answered > most;
        let answers = self.answered.wait_while(answers, waits).unwrap_or_else(PoisonError::into_inner);
        answers.failed.clone().map_or(Ok(()), Err)
    }

    /// The first failure, if there was one.
    fn sound(&self) -> Result<(), FilesError> {
        lock(&self.answers).failed.clone().map_or(Ok(()), Err)
    }

    fn written(&self) -> u64 {
        lock(&self.answers).written
    }

    fn take_answer(&self, length: u64, written: Option<u64>, answer: Result<Reply, FilesError>) {
        let mut answers = lock(&self.answers);
        answers.answered += length;
        match (answer, written) {
            (Ok(_), Some(end)) => answers.written = answers.written.max(end),
            (Ok(_), None) => {}
            (Err(error), _) => {
                answers.failed.get_or_insert(error);
            }
        }
        drop(answers);
        self.answered.notify_all();
    }
}

impl Writer {
    pub(crate) fn new(client: &Client, handle: u64, about: About, tail: Option<Tail>) -> Self {
        let caches = about.table && client.cache().holds_any();
        let fresh = caches.then(|| Fresh::new(about.serial, about.size));
        let state = State { size: about.size, fresh, tail, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), ..Shared::default() });
        Self { client: client.clone(), handle, serial: about.serial, table: about.table, shared }
    }

    /// Number of the file, which no other of the drive ever has.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        lock(&self.shared.state).size
    }

    /// Appends bytes. Others see them after [`flush`](Self::flush).
    ///
    /// # Errors
    /// `NoSpace`, `Unavailable`: those of this append or of an earlier one. The file takes no more then.
    pub fn append(&self, bytes: &[u8]) -> Result<(), FilesError> {
        let mut state = lock(&self.shared.state);
        self.shared.sound()?;
        for part in bytes.chunks(DATA_BYTES_MAX / 2) {
            state.buffer.extend_from_slice(part);
            state.size += part.len() as u64;
            if state.buffer.len() >= GATHERED {
                self.send(&mut state, Then::Gather);
                self.shared.wait(state.sent, ON_THEIR_WAY)?;
            }
        }
        Ok(())
    }

    /// Hands all that was appended to the owner: reads see it, and it is written within some milliseconds. Does not wait for that. Bytes
    /// that were flushed to a log survive the end of the process, if it owns the drive.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn flush(&self) -> Result<(), FilesError> {
        let mut state = lock(&self.shared.state);
        if state.buffer.is_empty() {
            return self.shared.sound();
        }
        let kept = state.keep(self.shared.written());
        self.send(&mut state, Then::Flush);
        // Without a place in the tail it is safe once it is written.
        self.shared.wait(state.sent, if kept { ON_THEIR_WAY } else { 0 })
    }

    /// Makes all that was appended durable. May be called beside appends of another thread.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn sync(&self) -> Result<(), FilesError> {
        let (answer, end) = {
            let mut state = lock(&self.shared.state);
            self.shared.sound()?;
            let data = self.handed_over(&mut state);
            // Handed in under the lock, so that no later bytes overtake these.
            (self.client.begin(Call::Append { handle: self.handle, then: Then::Sync }, data), state.size)
        };
        self.shared.take_answer(0, Some(end), crate::link::wait(&answer));
        self.shared.sound()
    }

    /// Cuts the file.
    ///
    /// # Errors
    /// `Invalid` if it is shorter; as [`append`](Self::append).
    pub fn truncate(&self, size: u64) -> Result<(), FilesError> {
        if self.size() == size {
            return self.flush();
        }
        self.sync()?;
        let state = &mut *lock(&self.shared.state);
        // No late answer may take the new end for written, and nothing of what is cut may stay in the tail.
        self.shared.wait(state.sent, 0)?;
        if let Some(tail) = &mut state.tail {
            tail.written(state.size);
        }
        self.client.done(Call::Truncate { handle: self.handle, size })?;
        if self.table {
            self.client.cut(self.serial, size);
            // Of the block that is cut, the cache would know the rest alone.
            state.fresh = None;
        }
        lock(&self.shared.answers).written = size;
        state.size = size;
        Ok(())
    }

    /// Says how large the file will be: a table about as large as a zone gets zones of its own.
    pub fn expect(&self, bytes: u64) {
        self.client.tell(Call::Expect { handle: self.handle, bytes });
    }

    /// Says how long the file will live: those of one lifetime share zones.
    pub fn set_lifetime(&self, lifetime: WriteLifetime) {
        self.client.tell(Call::SetLifetime { handle: self.handle, lifetime: lifetime_number(lifetime) });
    }

    /// Takes the bytes that go to the owner; those of a table go to the cache, too.
    fn handed_over(&self, state: &mut State) -> Bytes {
        let data = state.buffer.split().freeze();
        if let Some(fresh) = &mut state.fresh {
            fresh.take(self.client.cache(), &data);
        }
        data
    }

    fn send(&self, state: &mut State, then: Then) {
        let data = self.handed_over(state);
        let length = data.len() as u64;
        state.sent += length;
        let (shared, written) = (self.shared.clone(), (then != Then::Gather).then_some(state.size));
        let answering = Answering::new(move |answer| shared.take_answer(length, written, answer));
        self.client.send(Call::Append { handle: self.handle, then }, data, answering);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        if !state.buffer.is_empty() && self.shared.sound().is_ok() {
            // The tail goes with the answer to the last flush.
            state.keep(self.shared.written());
            self.send(&mut state, Then::Flush);
        }
        if let Some(mut fresh) = state.fresh.take() {
            fresh.complete(self.client.cache());
            if self.shared.sound().is_err() {
                // Nobody is to read what may not be there.
                self.client.cut(self.serial, 0);
            }
        }
        drop(state);
        self.client.tell(Call::Close { handle: self.handle });
    }
}
