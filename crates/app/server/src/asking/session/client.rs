//! The command's side of a session. Its calls block: a command does one thing at a time.

use std::io::{BufRead, BufReader, ErrorKind as Io, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use shingle_store_api::{
    Commit, ObjectInfo, ObjectReader, ObjectWriter, StoreError, StoreErrorKind, StoreFuture, StoreResult,
};

use super::wire::{Call, Reply, refused};
use super::{PATH, PIECE_BYTES_MAX, PROTOCOL};
use crate::asking::LINE_BYTES_MAX;
use crate::asking::head::{Head, PATIENCE};
use crate::error::Result;
use crate::reports::status;

/// The objects of a server that runs: it reads, stores and deletes them for a command.
pub struct Served {
    directory: PathBuf,
}

impl Served {
    /// The objects of a data directory's server; `None` if none runs there.
    ///
    /// # Errors
    /// `System`: it cannot be asked.
    pub fn of(directory: &Path) -> Result<Option<Self>> {
        let found = status::connect(directory, PATIENCE)?;
        Ok(found.map(|_| Self { directory: directory.to_owned() }))
    }

    /// Attributes of an object.
    ///
    /// # Errors
    /// Those of the store; `Unavailable` if the server does not answer.
    pub fn head(&self, bucket: &str, key: &str) -> StoreResult<ObjectInfo> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Talk::begin(&self.directory)?.object(&Call::Head { bucket, key })
    }

    /// Deletes an object; false if there was none.
    ///
    /// # Errors
    /// As [`Served::head`].
    pub fn delete(&self, bucket: &str, key: &str) -> StoreResult<bool> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let mut talk = Talk::begin(&self.directory)?;
        match talk.call(&Call::Delete { bucket, key }, &[])? {
            Reply::Deleted { found } => Ok(found),
            _ => Err(talk.nonsense()),
        }
    }

    /// Opens an object to read it.
    ///
    /// # Errors
    /// As [`Served::head`].
    pub fn open(&self, bucket: &str, key: &str) -> StoreResult<Box<dyn ObjectReader>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let mut talk = Talk::begin(&self.directory)?;
        let info = talk.object(&Call::Open { bucket, key })?;
        Ok(Box::new(Reading { info, talk: Mutex::new(talk) }))
    }

    /// Begins to store an object; its size, if known.
    ///
    /// # Errors
    /// As [`Served::head`].
    pub fn begin_put(&self, bucket: &str, key: &str, size: Option<u64>) -> StoreResult<Box<dyn ObjectWriter>> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let mut talk = Talk::begin(&self.directory)?;
        talk.ready(&Call::Put { bucket, key, size }, &[])?;
        Ok(Box::new(Writing { talk }))
    }
}

/// An object open for reading.
struct Reading {
    info: ObjectInfo,
    talk: Mutex<Talk>,
}

impl ObjectReader for Reading {
    fn info(&self) -> &ObjectInfo {
        &self.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        Box::pin(async move {
            let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = Vec::with_capacity(length as usize);
            while (bytes.len() as u64) < length {
                let done = bytes.len() as u64;
                talk.read(offset + done, (length - done).min(PIECE_BYTES_MAX), &mut bytes)?;
            }
            Ok(Bytes::from(bytes))
        })
    }
}

/// An object being stored.
struct Writing {
    talk: Talk,
}

impl ObjectWriter for Writing {
    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            data.chunks(PIECE_BYTES_MAX as usize)
                .try_for_each(|piece| self.talk.ready(&Call::Piece { length: piece.len() as u64 }, piece))
        })
    }

    fn commit(mut self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        Box::pin(async move { self.talk.object(&Call::Commit { etag: commit.etag, metadata: commit.metadata }) })
    }
}

/// A session under way.
struct Talk {
    socket: BufReader<UnixStream>,
    directory: PathBuf,
}

impl Talk {
    fn begin(directory: &Path) -> StoreResult<Self> {
        let failed = |error: crate::Error| StoreError::new(StoreErrorKind::Unavailable, error.message);
        let none = || StoreError::new(StoreErrorKind::Unavailable, "the server has stopped: try again without it");
        let mut socket = status::connect(directory, PATIENCE).map_err(failed)?.ok_or_else(none)?;
        let head =
            format!("GET {PATH} HTTP/1.1\r\nHost: shingle\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\r\n");
        let sent = socket.write_all(head.as_bytes());
        let mut talk = Self { socket: BufReader::new(socket), directory: directory.to_owned() };
        sent.map_err(|error| talk.broken(&error))?;
        let head = Head::read(&mut talk.socket).map_err(|error| talk.broken(&error))?;
        if head.status == "101" {
            return Ok(talk);
        }
        let words = head.refusal(&mut talk.socket).map_err(|error| talk.broken(&error))?;
        Err(talk.failed(words.trim_end()))
    }

    /// The reply to a call, which `bytes` follow.
    fn call(&mut self, call: &Call, bytes: &[u8]) -> StoreResult<Reply> {
        let mut line = serde_json::to_vec(call).map_err(|error| self.failed(&error.to_string()))?;
        line.push(b'\n');
        let socket = self.socket.get_mut();
        socket.write_all(&line).and_then(|()| socket.write_all(bytes)).map_err(|error| self.broken(&error))?;
        loop {
            let mut line = Vec::new();
            let read = self.socket.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            read.map_err(|error| self.broken(&error))?;
            if line.last() != Some(&b'\n') {
                return Err(self.broken(&Io::UnexpectedEof.into()));
            }
            match serde_json::from_slice(&line).map_err(|_| self.nonsense())? {
                Reply::Alive => {}
                Reply::Refused { kind, message } => return Err(refused(&kind, message)),
                reply => return Ok(reply),
            }
        }
    }

    fn object(&mut self, call: &Call) -> StoreResult<ObjectInfo> {
        match self.call(call, &[])? {
            Reply::Object(info) => Ok(info),
            _ => Err(self.nonsense()),
        }
    }

    fn ready(&mut self, call: &Call, bytes: &[u8]) -> StoreResult<()> {
        match self.call(call, bytes)? {
            Reply::Ready => Ok(()),
            _ => Err(self.nonsense()),
        }
    }

    /// Adds bytes of the open object: at least one, at most `length`.
    fn read(&mut self, at: u64, length: u64, bytes: &mut Vec<u8>) -> StoreResult<()> {
        let length = match self.call(&Call::Read { at, length }, &[])? {
            Reply::Piece { length: told } if (1..=length).contains(&told) => told,
            _ => return Err(self.nonsense()),
        };
        let read = self.socket.by_ref().take(length).read_to_end(bytes).map_err(|error| self.broken(&error))?;
        if (read as u64) < length { Err(self.broken(&Io::UnexpectedEof.into())) } else { Ok(()) }
    }

    fn failed(&self, why: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, format!("the server of {}: {why}", self.directory.display()))
    }

    fn nonsense(&self) -> StoreError {
        self.failed("the answer makes no sense")
    }

    fn broken(&self, error: &std::io::Error) -> StoreError {
        match error.kind() {
            Io::WouldBlock | Io::TimedOut => self.failed("it does not answer: stop it and try again"),
            Io::UnexpectedEof | Io::BrokenPipe | Io::ConnectionReset => {
                self.failed("it ended before its answer did: try again once it runs, or without it")
            }
            _ => self.failed(&error.to_string()),
        }
    }
}
