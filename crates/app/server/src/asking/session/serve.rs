//! The server's side of a session.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::io::{Error, ErrorKind, Result};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use shingle_base::printable;
use shingle_runtime::memory::Memory;
use shingle_s3_gateway::Peer as Caller;
use shingle_store_api::{Commit, ObjectReader, ObjectStore, ObjectWriter, StoreError, StoreErrorKind};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::OwnedSemaphorePermit;

use super::noted::Noted;
use super::wire::{Call, Reply};
use super::{PIECE_BYTES_MAX, PROTOCOL};
use crate::asking::lines::STALL;
use crate::asking::{LINE_BYTES_MAX, SEATS};
use crate::reports::access_log::AccessNotes;
use crate::reports::answers::Watched;

/// Time after which a line says that work goes on.
const TELL: Duration = Duration::from_millis(500);

/// A session that begins once its connection is upgraded.
pub(crate) struct Session {
    upgrade: OnUpgrade,
    store: Arc<dyn ObjectStore>,
    memory: Arc<Memory>,
    caller: Caller,
    access: Option<AccessNotes>,
    /// One of [`SEATS`]. (SV-ASK-3)
    _seat: OwnedSemaphorePermit,
}

/// Begins a session; or a status and words, if it cannot begin.
pub(crate) fn begin(
    mut request: Request<Incoming>,
    watched: &Watched,
    caller: Caller,
) -> std::result::Result<Session, (StatusCode, String)> {
    let protocol = request.headers().get(header::UPGRADE);
    if protocol.is_none_or(|protocol| protocol != PROTOCOL) {
        return Err((StatusCode::UPGRADE_REQUIRED, format!("the connection must be upgraded to {PROTOCOL}\n")));
    }
    let Ok(seat) = watched.seats.clone().try_acquire_owned() else {
        let words = format!("{SEATS} commands ask the server already: wait until one of them has ended\n");
        return Err((StatusCode::SERVICE_UNAVAILABLE, words));
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let (store, memory, access) = (watched.store.clone(), watched.memory.clone(), watched.access.clone());
    Ok(Session { upgrade, store, memory, caller, access, _seat: seat })
}

impl Session {
    /// Answers calls until the command ends the connection.
    pub(crate) async fn serve(self) {
        let Ok(upgraded) = self.upgrade.await else { return };
        let peer = Peer { socket: BufReader::new(TokioIo::new(upgraded)) };
        let Self { store, memory, caller, access, .. } = self;
        let mut talk = Talk { peer, store, memory, caller, access, reader: None, writer: None };
        if let Err(error) = talk.answer_calls().await {
            tracing::debug!("a command's session broke off: {error}");
        }
    }
}

/// The command at the other end.
struct Peer {
    socket: BufReader<TokioIo<Upgraded>>,
}

impl Peer {
    /// The next call; `None` at the end.
    async fn next(&mut self) -> Result<Option<Call>> {
        let mut line = Vec::new();
        (&mut self.socket).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }

    /// The piece that follows a line.
    async fn piece(&mut self, length: u64) -> Result<Bytes> {
        let mut piece = Vec::with_capacity(length as usize);
        in_time((&mut self.socket).take(length).read_to_end(&mut piece)).await?;
        if (piece.len() as u64) < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(Bytes::from(piece)) }
    }

    async fn reply(&mut self, reply: &Reply, bytes: &[u8]) -> Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        in_time(async {
            self.socket.write_all(&line).await?;
            self.socket.write_all(bytes).await?;
            self.socket.flush().await
        })
        .await
    }

    /// Result of `work`. Meanwhile the command hears that the server is alive; if it has gone away, the work ends.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(TELL) => {}
            }
            self.reply(&Reply::Alive, &[]).await?;
        }
    }
}

/// The same, unless it takes so long that the command counts as hung. (SV-ASK-2)
async fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(STALL, work).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// A session under way.
struct Talk {
    peer: Peer,
    store: Arc<dyn ObjectStore>,
    memory: Arc<Memory>,
    caller: Caller,
    access: Option<AccessNotes>,
    reader: Option<Box<dyn ObjectReader>>,
    writer: Option<Writing>,
}

/// A put under way.
struct Writing {
    writer: Box<dyn ObjectWriter>,
    /// The object's name.
    object: String,
    noted: Noted,
}

impl Talk {
    async fn answer_calls(&mut self) -> Result<()> {
        loop {
            let next = self.peer.next();
            // The input of a put may be slow. A reader keeps a file from GC.
            let call = if self.writer.is_some() { next.await } else { in_time(next).await };
            let Some(call) = call? else { return Ok(()) };
            match call {
                Call::Read { at, length } => self.read(at, length).await?,
                call => {
                    let reply = self.answer(call).await?.unwrap_or_else(Reply::from);
                    self.peer.reply(&reply, &[]).await?;
                }
            }
        }
    }

    async fn answer(&mut self, call: Call) -> Result<std::result::Result<Reply, StoreError>> {
        let store = self.store.clone();
        Ok(match call {
            Call::Head { bucket, key } => self.peer.during(store.head(&bucket, &key)).await?.map(Reply::Object),
            Call::Delete { bucket, key } => {
                let noted = self.noted((Method::DELETE, "DeleteObject"), &bucket, &key);
                let deleted = self.peer.during(store.delete(&bucket, &key)).await?;
                noted.end(&deleted);
                deleted.map(|found| {
                    tracing::info!(object = shown(&bucket, &key), found, "a command deleted an object");
                    Reply::Deleted { found }
                })
            }
            Call::Open { bucket, key } => self.peer.during(store.open(&bucket, &key)).await?.map(|reader| {
                let info = reader.info().clone();
                self.reader = Some(reader);
                Reply::Object(info)
            }),
            Call::Put { bucket, key, size } => {
                let noted = self.noted((Method::PUT, "PutObject"), &bucket, &key);
                match self.peer.during(store.begin_put(&bucket, &key)).await? {
                    Ok(mut writer) => {
                        size.into_iter().for_each(|size| writer.expect(size));
                        self.writer = Some(Writing { writer, object: shown(&bucket, &key), noted });
                        Ok(Reply::Ready)
                    }
                    Err(error) => noted.failed(error),
                }
            }
            Call::Piece { length } => self.piece(length).await?,
            Call::Commit { etag, metadata } => match self.writer.take() {
                None => Err(nonsense("a commit without a put")),
                Some(Writing { writer, object, noted }) => {
                    let commit = Commit { etag, metadata, ..Commit::default() };
                    let stored = self.peer.during(writer.commit(commit)).await?;
                    noted.end(&stored);
                    stored.map(|info| {
                        tracing::info!(object, size = info.size, "a command stored an object");
                        Reply::Object(info)
                    })
                }
            },
            Call::Read { .. } => Err(nonsense("a read has bytes for a reply")),
        })
    }

    fn noted(&self, operation: (Method, &str), bucket: &str, key: &str) -> Noted {
        Noted::begin(self.access.clone(), self.caller, operation, (bucket, key))
    }

    async fn piece(&mut self, length: u64) -> Result<std::result::Result<Reply, StoreError>> {
        if length > PIECE_BYTES_MAX {
            return Err(Error::new(ErrorKind::InvalidData, "a piece that is too long"));
        }
        let (peer, memory) = (&mut self.peer, &self.memory);
        let reserved = peer.during(memory.take_all(length as usize)).await?;
        let piece = peer.piece(length).await?;
        let Some(writing) = &mut self.writer else { return Ok(Err(nonsense("a piece without a put"))) };
        writing.noted.received(length);
        let written = peer.during(writing.writer.write(piece)).await?;
        drop(reserved);
        match written {
            Ok(()) => Ok(Ok(Reply::Ready)),
            Err(error) => Ok(match self.writer.take() {
                Some(writing) => writing.noted.failed(error),
                None => Err(error),
            }),
        }
    }

    async fn read(&mut self, at: u64, length: u64) -> Result<()> {
        let length = length.min(PIECE_BYTES_MAX);
        let reserved = self.peer.during(self.memory.take_all(length as usize)).await?;
        let read = match &self.reader {
            Some(reader) if at.checked_add(length).is_some_and(|end| end <= reader.info().size) => {
                self.peer.during(reader.read(at, length)).await?
            }
            Some(_) => Err(nonsense("a read behind the object's end")),
            None => Err(nonsense("a read without an open object")),
        };
        match read {
            Ok(bytes) => self.peer.reply(&Reply::Piece { length: bytes.len() as u64 }, &bytes).await?,
            Err(error) => self.peer.reply(&error.into(), &[]).await?,
        }
        drop(reserved);
        Ok(())
    }
}

fn shown(bucket: &str, key: &str) -> String {
    format!("{}/{}", printable(bucket.as_bytes()), printable(key.as_bytes()))
}

fn nonsense(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, format!("the call makes no sense: {what}"))
}
