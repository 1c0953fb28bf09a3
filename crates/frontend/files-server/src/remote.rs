//! The files of a drive that another process owns.

#![expect(clippy::disallowed_types, reason = "calls are found by number alone")]

use std::collections::HashMap;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::frame::{Head, LENGTHS, Lengths, joined};
use crate::link::{Answering, Link};
use crate::peer::check_owner;
use crate::wire::{Call, VERSION};

/// Time for the owner to say its version: it may be busy with a checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);

/// Calls under way.
#[derive(Default)]
struct Calls {
    waiting: HashMap<u64, Answering>,
    next: u64,
    /// The connection is gone.
    ended: bool,
}

struct Shared {
    calls: Mutex<Calls>,
}

/// A connection to the process that owns the files.
pub(crate) struct Remote {
    shared: Arc<Shared>,
    /// Held over a whole frame, and while its call takes its number, so that calls have one order (FS-ORDER-1).
    stream: Mutex<UnixStream>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Tells all who wait that the owner is gone.
    fn end(&self) {
        let waiting = {
            let mut calls = lock(&self.calls);
            calls.ended = true;
            std::mem::take(&mut calls.waiting)
        };
        drop(waiting);
    }
}

impl Remote {
    /// Connects to the owner.
    ///
    /// # Errors
    /// There is none; `PermissionDenied` if it belongs to another user, or is of another version.
    pub(crate) fn connect(address: &SocketAddr, holder: &Path) -> io::Result<Arc<Self>> {
        let stream = UnixStream::connect_addr(address)?;
        check_owner(&stream, holder)?;
        Self::over(stream)
    }

    /// Uses a connection to the owner.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) fn over(mut stream: UnixStream) -> io::Result<Arc<Self>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&Head::Hello(VERSION).encode(0)?)?;
        match next(&mut stream)?.0 {
            Head::Hello(VERSION) => {}
            Head::Answer(_, Err((_, words))) => return Err(Error::new(ErrorKind::PermissionDenied, words)),
            _ => {
                return Err(Error::new(
                    ErrorKind::PermissionDenied,
                    "the drive is open in a process of another version of Shingle",
                ));
            }
        }
        stream.set_read_timeout(None)?;
        let (shared, mut reading) = (Arc::new(Shared { calls: Mutex::default() }), stream.try_clone()?);
        let receiving = shared.clone();
        std::thread::Builder::new().name("shingle-answers".to_owned()).spawn(move || {
            while let Ok((Head::Answer(id, answer), data)) = next(&mut reading) {
                let answering = lock(&receiving.calls).waiting.remove(&id);
                if let Some(answering) = answering {
                    answering.give(joined(answer, data));
                }
            }
            receiving.end();
        })?;
        Ok(Arc::new(Self { shared, stream: Mutex::new(stream) }))
    }
}

impl Link for Remote {
    fn send(&self, call: Call, data: Bytes, answering: Answering) {
        let mut stream = lock(&self.stream);
        let id = {
            let mut calls = lock(&self.shared.calls);
            if calls.ended {
                return;
            }
            calls.next += 1;
            let id = calls.next;
            calls.waiting.insert(id, answering);
            id
        };
        let sent = Head::Call(id, call).encode(data.len()).and_then(|head| {
            stream.write_all(&head)?;
            stream.write_all(&data)
        });
        if sent.is_err() {
            // Half a frame may be out: nothing more goes by this connection.
            let _ = stream.shutdown(std::net::Shutdown::Both);
            self.shared.end();
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = lock(&self.stream).shutdown(std::net::Shutdown::Both);
    }
}

fn next(reading: &mut UnixStream) -> io::Result<(Head, Bytes)> {
    let mut lengths = [0; LENGTHS];
    reading.read_exact(&mut lengths)?;
    let lengths = Lengths::of_answer(lengths)?;
    let mut bytes = vec![0; lengths.head + lengths.data];
    reading.read_exact(&mut bytes)?;
    let head = Head::decode(&bytes[..lengths.head])?;
    Ok((head, Bytes::from(bytes).slice(lengths.head..)))
}
