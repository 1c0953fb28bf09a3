//! A file that is being written.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use shingle_zone_files::{FilesError, WriteLifetime};

use crate::client::Client;
use crate::fresh::Fresh;
use crate::link::{Answering, Appends};
use crate::tail::Keeping;
use crate::wire::{About, Answer, Call, DATA_BYTES_MAX, Then, lifetime_number};

/// Bytes that gather here before they go to the owner, unless they are flushed.
const GATHERED: usize = 256 << 10;
/// Bytes on their way to the owner before an append waits.
pub(crate) const ON_THEIR_WAY: u64 = 8 << 20;

/// The side of those who append. Held while a call is handed in, which may wait for the owner.
struct State {
    buffer: BytesMut,
    size: u64,
    /// Bytes that were handed to the owner.
    sent: u64,
    /// The end of a table, on its way to the cache.
    fresh: Option<Fresh>,
    /// The place of flushed bytes, for the next owner of the drive (FS-TAIL-1).
    keeping: Keeping,
    /// Flushed bytes before this one are nowhere until they are written.
    unkept: u64,
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
    /// Threads that wait.
    waiting: u32,
}

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
    log: bool,
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Waits until at most `most` of the `sent` bytes are unanswered, or one failed.
    fn wait(&self, sent: u64, most: u64) -> Result<(), FilesError> {
        self.wait_while(|answers| sent - answers.answered > most)
    }

    /// Waits until all bytes before `end` are written, or one failed.
    fn wait_written(&self, end: u64) -> Result<(), FilesError> {
        self.wait_while(|answers| answers.written < end)
    }

    fn wait_while(&self, waits: impl Fn(&Answers) -> bool) -> Result<(), FilesError> {
        let mut answers = lock(&self.answers);
        answers.waiting += 1;
        while answers.failed.is_none() && waits(&answers) {
            answers = self.answered.wait(answers).unwrap_or_else(PoisonError::into_inner);
        }
        answers.waiting -= 1;
        answers.failed.clone().map_or(Ok(()), Err)
    }

    /// The first failure, if there was one.
    fn sound(&self) -> Result<(), FilesError> {
        lock(&self.answers).failed.clone().map_or(Ok(()), Err)
    }

    fn written(&self) -> u64 {
        lock(&self.answers).written
    }
}

impl Appends for Shared {
    fn take_answer(&self, bytes: u64, written: Option<u64>, answer: Answer) {
        let mut answers = lock(&self.answers);
        answers.answered += bytes;
        match (answer, written) {
            (Ok(_), Some(end)) => answers.written = answers.written.max(end),
            (Ok(_), None) => {}
            (Err(error), _) => {
                answers.failed.get_or_insert(error);
            }
        }
        // Of a hundred thousand flushes in a second next to none is waited for.
        if answers.waiting > 0 {
            self.answered.notify_all();
        }
    }
}

impl Drop for Shared {
    /// All is answered for. A tail that has bytes which were not written stays for the next owner.
    fn drop(&mut self) {
        let written = self.written();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.keeping.end(written);
    }
}

impl Writer {
    pub(crate) fn new(client: &Client, handle: u64, about: About, path: &str) -> Self {
        let caches = about.table && client.cache().holds_any();
        let fresh = caches.then(|| Fresh::new(about.serial, about.size));
        let keeping = client.keeping(&about, path);
        let state = State { buffer: BytesMut::new(), size: about.size, sent: 0, fresh, keeping, unkept: 0 };
        let answers = Answers { written: about.size, ..Answers::default() };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), answers: Mutex::new(answers), answered: Condvar::new() });
        Self { client: client.clone(), handle, serial: about.serial, table: about.table, log: about.log, shared }
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
        let most = if self.log { GATHERED } else { DATA_BYTES_MAX / 2 };
        for part in bytes.chunks(most) {
            state.buffer.extend_from_slice(part);
            state.size += part.len() as u64;
            if state.buffer.len() < GATHERED {
                continue;
            }
            if self.log {
                // The flush to come answers for these bytes, too.
                self.flush_all(&mut state)?;
            } else {
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
            // A sync of another thread may have these bytes, and not have returned.
            return self.shared.wait_written(state.unkept);
        }
        self.flush_all(&mut state)
    }

    fn flush_all(&self, state: &mut State) -> Result<(), FilesError> {
        self.keep(state);
        self.send(state, Then::Flush);
        let (sent, unkept) = (state.sent, state.unkept);
        self.shared.wait_while(|answers| answers.written < unkept || sent - answers.answered > ON_THEIR_WAY)
    }

    /// Keeps what is in the buffer for the next owner, or notes that it has to be written first.
    fn keep(&self, state: &mut State) {
        let offset = state.size - state.buffer.len() as u64;
        if !state.keeping.keep(self.shared.written(), offset, &state.buffer) {
            state.unkept = state.size;
        }
    }

    /// Makes all that was appended durable. May be called beside appends of another thread.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn sync(&self) -> Result<(), FilesError> {
        let (answer, end) = {
            let mut state = lock(&self.shared.state);
            self.shared.sound()?;
            if !state.buffer.is_empty() {
                // A flush of another thread may return before this sync does.
                self.keep(&mut state);
            }
            let data = self.handed_over(&mut state);
            // Handed in under the lock, so that no later bytes overtake these.
            (self.client.begin(Call::Append { handle: self.handle, then: Then::Sync }, data), state.size)
        };
        self.shared.take_answer(0, Some(end), self.client.wait(&answer));
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
        if let Keeping::Tail(tail) = &mut state.keeping {
            tail.written(state.size);
        }
        self.client.done(Call::Truncate { handle: self.handle, size })?;
        if self.table {
            self.client.cut(self.serial, size);
            // Of the block that is cut, the cache would know the rest alone.
            state.fresh = None;
        }
        lock(&self.shared.answers).written = size;
        (state.size, state.unkept) = (size, state.unkept.min(size));
        Ok(())
    }

    /// Says how large the file will be: a table of about a zone or more begins a zone. Reserves nothing.
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
        let written = (then != Then::Gather).then_some(state.size);
        let answering = Answering::appends(self.shared.clone(), length, written);
        self.client.send(Call::Append { handle: self.handle, then }, data, answering);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        if !state.buffer.is_empty() && self.shared.sound().is_ok() {
            // The tail goes with the answer to the last flush.
            self.keep(&mut state);
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

#[cfg(test)]
mod tests {
    use shingle_base::StoreId;

    use super::*;
    use crate::cache::Caching;
    use crate::client::Tailing;
    use crate::link::Link;
    use crate::tail::Tails;
    use crate::wire::Reply;

    /// An owner that does nothing, and answers when it is told to.
    #[derive(Default)]
    struct Slow(Mutex<Vec<(Call, Bytes, Answering)>>);

    impl Link for Slow {
        fn send(&self, call: Call, data: Bytes, answering: Answering) {
            lock(&self.0).push((call, data, answering));
        }
    }

    impl Slow {
        /// Answers for all there is, and gives back the appended bytes.
        fn answer(&self) -> Vec<u8> {
            let mut bytes = Vec::new();
            for (_, data, answering) in std::mem::take(&mut *lock(&self.0)) {
                bytes.extend(data);
                answering.give(Ok(Reply::Done));
            }
            bytes
        }
    }

    const LOG: About = About { serial: 7, size: 0, modified: 0, links: 1, table: false, log: true };

    fn tails(memory: &std::path::Path) -> Arc<Tails> {
        Arc::new(Tails::below(memory, StoreId(3)).unwrap())
    }

    /// FS-TAIL-1: large commits, too, are in the tail when their flush returns, although nothing of them is written.
    #[test]
    fn all_that_was_flushed_is_in_the_tail_however_large() {
        let memory = std::env::temp_dir().join(format!("shingle-writer-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&memory);
        std::fs::create_dir(&memory).unwrap();
        let slow = Arc::new(Slow::default());
        let client = Client::new(slow.clone(), Caching::Blocks(0), Tailing::Here(Some(tails(&memory))));
        let writer = Writer::new(&client, 1, LOG, "/log");
        let all: Vec<u8> = (0..2_900_000).map(|at: u32| (at / 5) as u8).collect();
        let (mut end, mut flushed) = (0, Vec::new());
        for length in [10, GATHERED, 3 * GATHERED + 5, 700_000, GATHERED - 1, 20] {
            writer.append(&all[end..end + length]).unwrap();
            writer.flush().unwrap();
            end += length;
            let left = &tails(&memory).left().unwrap()[0];
            assert!(left.missing(flushed.len() as u64) == all[flushed.len()..end], "{end} bytes were flushed");
            if length == 700_000 {
                flushed.extend(slow.answer());
            }
        }
        flushed.extend(slow.answer());
        assert!(flushed == all[..end]);
        drop(writer);
        slow.answer();
        assert!(tails(&memory).left().unwrap().is_empty());
        std::fs::remove_dir_all(&memory).unwrap();
    }

    /// Without memory for a tail a flush of a log waits for the drive; that of another file does not.
    #[test]
    fn a_flush_without_a_tail_waits_until_it_is_written() {
        let slow = Arc::new(Slow::default());
        let client = Client::new(slow.clone(), Caching::Blocks(0), Tailing::Here(None));
        let other = Writer::new(&client, 2, About { log: false, ..LOG }, "/other");
        other.append(&[1; 100]).unwrap();
        other.flush().unwrap();
        let writer = Arc::new(Writer::new(&client, 1, LOG, "/log"));
        writer.append(&[1; 100]).unwrap();
        let (told, flushed) = std::sync::mpsc::channel();
        let flushing = writer.clone();
        let thread = std::thread::Builder::new().spawn(move || told.send(flushing.flush()));
        assert!(flushed.recv_timeout(std::time::Duration::from_millis(100)).is_err());
        slow.answer();
        flushed.recv().unwrap().unwrap();
        thread.unwrap().join().unwrap().unwrap();
        assert_eq!(writer.shared.written(), 100);
    }

    /// FS-TAIL-1: a sync of another thread has the bytes, and has not returned.
    #[test]
    fn a_flush_beside_a_sync_waits_where_there_is_no_tail() {
        let slow = Arc::new(Slow::default());
        let client = Client::new(slow.clone(), Caching::Blocks(0), Tailing::Here(None));
        let writer = Arc::new(Writer::new(&client, 1, LOG, "/log"));
        writer.append(&[1; 100]).unwrap();
        let (syncing, flushing) = (writer.clone(), writer.clone());
        let synced = std::thread::Builder::new().spawn(move || syncing.sync()).unwrap();
        while lock(&slow.0).is_empty() {
            std::thread::yield_now();
        }
        let (told, flushed) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().spawn(move || told.send(flushing.flush()));
        assert!(flushed.recv_timeout(std::time::Duration::from_millis(100)).is_err());
        slow.answer();
        flushed.recv().unwrap().unwrap();
        thread.unwrap().join().unwrap().unwrap();
        synced.join().unwrap().unwrap();
    }
}
