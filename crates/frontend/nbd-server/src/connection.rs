//! The transmission on a connection: requests come, orders go to the store's owner, replies go out in the order in which they are
//! ready.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncRead;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::export::{Answer, Call, Export, Held, Reply};
use crate::failure::Failure;
use crate::limits::Limits;
use crate::metrics::NbdMetrics;
use crate::reader::Reader;
use crate::request::{HEAD_BYTES, Request, Rules};
use crate::stream::Stream;
use crate::wire::REQUEST_BYTES_MAX;
use crate::writer::write_replies;

/// Requests that are told of a shutdown while earlier ones are under way. Later ones stay unread.
const TOLD_MAX: usize = 1024;
/// Time that a client has to close its side after a shutdown. Closing at once would make the kernel drop replies that it has not
/// taken yet, if requests of it were not read.
const LINGER: Duration = Duration::from_secs(1);

/// A connection to an export.
pub(crate) struct Connection {
    pub(crate) export: Export,
    /// The seat at the export.
    pub(crate) seat: Arc<OwnedSemaphorePermit>,
    pub(crate) rules: Rules,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<NbdMetrics>,
}

/// Reason for the end of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The client took its leave, or closed its side.
    Left,
    /// The server shuts down.
    Stopped,
}

/// The way of requests to their answers, within the limits of the connection.
struct Desk<'c> {
    connection: &'c Connection,
    replies: UnboundedSender<Reply>,
    places: Arc<Semaphore>,
    room: Arc<Semaphore>,
    /// Bytes of replies that the client took.
    sent: Arc<AtomicU64>,
}

impl Connection {
    /// Serves the client until it leaves, breaks the protocol, or stalls; or until `stopped` says so.
    pub(crate) async fn transmit(
        self,
        socket: Box<dyn Stream>,
        ahead: BytesMut,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<End> {
        let stall = self.limits.stall_timeout;
        let (reader, writer) = socket.halves();
        let mut reader = Reader::new(reader, ahead, stall, self.metrics.clone());
        let (replies, queue) = unbounded_channel();
        let sent = Arc::new(AtomicU64::new(0));
        // Aborted when this future ends.
        let mut writing = JoinSet::new();
        writing.spawn(write_replies(writer, queue, self.rules.structured, stall, self.metrics.clone(), sent.clone()));
        let places = Arc::new(Semaphore::new(self.limits.requests() as usize));
        let room = Arc::new(Semaphore::new(self.limits.bytes() as usize));
        let desk = Desk { connection: &self, replies, places, room, sent };
        let end = tokio::select! {
            end = desk.requests(&mut reader, &mut stopped) => end,
            written = writing.join_next() => return Err(broken(written)),
        };
        // Requests under way are answered, however the last one ended (NBD-ACK-1).
        let finishing = async {
            let stop = matches!(end, Ok(End::Stopped));
            desk.finish(stop.then_some(&mut reader)).await;
            drop(desk);
        };
        let finished = async {
            tokio::select! {
                () = finishing => {}
                written = writing.join_next() => return Err(broken(written)),
            }
            writing
                .join_next()
                .await
                .map_or(Ok(()), |written| written.unwrap_or_else(|lost| Err(io::Error::other(lost))))
        };
        match end {
            // A server that stops has a limit of its own.
            Ok(End::Stopped) => {
                finished.await?;
                let _ = timeout(LINGER, reader.skip_all()).await;
            }
            // The client may be gone, and the store may hang: nothing else would ever end the connection.
            _ => timeout(stall, finished).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?,
        }
        end
    }
}

/// The writer ended before the reader: the client takes no replies.
fn broken(written: Option<Result<io::Result<()>, tokio::task::JoinError>>) -> io::Error {
    match written {
        Some(Ok(Err(error))) => error,
        Some(Err(lost)) => io::Error::other(lost),
        Some(Ok(Ok(()))) | None => io::ErrorKind::BrokenPipe.into(),
    }
}

impl Desk<'_> {
    /// Takes requests until there are no more.
    async fn requests<R: AsyncRead + Unpin>(
        &self,
        reader: &mut Reader<R>,
        stopped: &mut watch::Receiver<bool>,
    ) -> io::Result<End> {
        loop {
            let head = tokio::select! {
                biased;
                // Its sender gone is an end, too.
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(End::Stopped),
                head = reader.head::<HEAD_BYTES>() => head?,
            };
            let Some(request) = next(head)? else { return Ok(End::Left) };
            self.take(request, reader, stopped).await?;
        }
    }

    /// Takes a request with its data, once there is room for it.
    async fn take<R: AsyncRead + Unpin>(
        &self,
        request: Request,
        reader: &mut Reader<R>,
        stopped: &mut watch::Receiver<bool>,
    ) -> io::Result<()> {
        let Some(place) = self.permit(&self.places, 1, stopped).await? else {
            return self.tell_of_shutdown(request, reader).await;
        };
        let order = self.connection.rules.judge(&request);
        let (data_bytes, held_bytes) = (request.data_bytes() as usize, request.held_bytes());
        let order = match order {
            Ok(order) => order,
            Err(failure) => {
                reader.skip(data_bytes).await?;
                self.answer(request, self.held(place, None)).give(Err(failure));
                return Ok(());
            }
        };
        let Some(room) = self.permit(&self.room, held_bytes, stopped).await? else {
            return self.tell_of_shutdown(request, reader).await;
        };
        let data = reader.data(data_bytes).await?;
        let answer = self.answer(request, self.held(place, room)).noted(self.connection.export.note(order));
        self.connection.export.begin(Call { order, data, answer }).await;
        Ok(())
    }

    /// So many permits, once there are as many; none are needed for nothing. `None`: the server shuts down.
    ///
    /// # Errors
    /// `TimedOut`: the store answers none of the requests before, and the client may be gone.
    async fn permit(
        &self,
        of: &Arc<Semaphore>,
        count: u32,
        stopped: &mut watch::Receiver<bool>,
    ) -> io::Result<Option<Option<OwnedSemaphorePermit>>> {
        if count == 0 {
            return Ok(Some(None));
        }
        let mut granted = pin!(of.clone().acquire_many_owned(count));
        loop {
            let sent = self.sent.load(Relaxed);
            tokio::select! {
                biased;
                // It is never closed.
                granted = timeout(self.connection.limits.stall_timeout, granted.as_mut()) => match granted {
                    Ok(granted) => return Ok(Some(granted.ok())),
                    // A client that takes its replies slowly makes room in the end.
                    Err(_) if self.sent.load(Relaxed) > sent => {}
                    Err(late) => return Err(late.into()),
                },
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(None),
            }
        }
    }

    /// Passes over a request that was begun when the server shut down.
    async fn tell_of_shutdown<R: AsyncRead + Unpin>(&self, request: Request, reader: &mut Reader<R>) -> io::Result<()> {
        reader.skip(request.data_bytes() as usize).await?;
        self.answer(request, Held::default()).give(Err(Failure::shutdown()));
        Ok(())
    }

    fn held(&self, place: Option<OwnedSemaphorePermit>, room: Option<OwnedSemaphorePermit>) -> Held {
        Held::new(place, room, self.connection.seat.clone())
    }

    fn answer(&self, request: Request, held: Held) -> Answer {
        Answer::new(request, self.replies.clone(), held, self.connection.metrics.clone())
    }

    /// Completes when all replies are written. Until then, further requests are told that the server shuts down, if there is a
    /// reader.
    async fn finish<R: AsyncRead + Unpin>(&self, reader: Option<&mut Reader<R>>) {
        let telling = async {
            let Some(reader) = reader else { return };
            for _ in 0..TOLD_MAX {
                let Some(request) = reader.head().await.and_then(next).ok().flatten() else { return };
                if reader.skip(request.data_bytes() as usize).await.is_err() {
                    return;
                }
                self.answer(request, Held::default()).give(Err(Failure::shutdown()));
            }
        };
        let written = self.places.acquire_many(self.connection.limits.requests());
        tokio::select! {
            biased;
            _ = written => {}
            () = async { telling.await; std::future::pending().await } => {}
        }
    }
}

/// The request that begins with `head`; `None` if the client leaves.
fn next(head: Option<[u8; HEAD_BYTES]>) -> io::Result<Option<Request>> {
    let Some(head) = head else { return Ok(None) };
    let invalid = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words);
    let request = Request::parse(&head).ok_or_else(|| invalid("no request begins so"))?;
    // Passing over it would cost the client nothing, and us its bytes.
    if request.data_bytes() > REQUEST_BYTES_MAX {
        return Err(invalid("a write of more than 32 MiB"));
    }
    Ok(Some(request).filter(|request| !request.disconnects()))
}
