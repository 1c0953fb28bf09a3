//! The pieces of a reader in order, the next one read while the present one is on its way: for an answer's body, and for a copy.
//!
//! A piece takes memory until it is dropped. So a slow taker, and any if memory is short, gets small pieces, out of a share of its
//! own. A piece for which the store takes long has no memory until it is there (RT-MEM-3).
//!
//! **Knows nothing of** HTTP, and of those who take the pieces.
//!
//! # Invariants
//! - GW-BODY-1: bodies and copies hold as many pieces as they were given places for, at most as many as a user of [`Memory`] has
//!   shares, those that are not sent or written yet included.
//! - GW-BODY-2: a piece on its way has memory, unless it is late and its taker waits for it: then it takes some in the moment when it is there.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_runtime::memory::{Incoming, Memory, Reservation};
use shingle_store_api::{ObjectReader, StoreError, StoreErrorKind, StoreFuture, StoreResult};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::options::PIECE_BYTES;

/// Pieces being read beyond the one that is taken.
const AHEAD: usize = 1;

/// A taker that needs longer than this for a piece is slow, and a piece for which the store does is late.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// The pieces of a range in order.
pub(crate) struct Pieces {
    reader: Arc<dyn ObjectReader>,
    /// Offset of the next piece to ask for.
    next: u64,
    end: u64,
    /// Bytes not yet yielded.
    left: u64,
    coming: VecDeque<Coming>,
    memory: Arc<Memory>,
    /// For pieces that nobody has dropped. (GW-BODY-1)
    places: Arc<Semaphore>,
    /// The place of the next piece, while there is none.
    awaited: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    /// When the last piece was yielded.
    yielded: Option<Instant>,
    /// The taker needed long for the last piece.
    slow: bool,
    /// The store is waited for, and not the taker.
    reading: bool,
}

/// A piece, and the memory that it takes until it is dropped.
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    _memory: Reservation,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A piece on its way from the store.
struct Coming {
    /// Its offset in the object.
    at: u64,
    bytes: Incoming<StoreFuture<'static, Bytes>, Pin<Box<Sleep>>>,
    place: Option<OwnedSemaphorePermit>,
    /// It is there, but nobody has taken it.
    there: Option<StoreResult<Piece>>,
}

impl Coming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<StoreResult<Piece>> {
        if let Some(there) = self.there.take() {
            return Poll::Ready(there);
        }
        let want = self.bytes.want();
        let (bytes, memory) = ready!(self.bytes.poll_unpin(context));
        let bytes = bytes?;
        if bytes.len() != want {
            let text = format!("the store gave {} bytes of {want}", bytes.len());
            return Poll::Ready(Err(StoreError::new(StoreErrorKind::Corrupt, text)));
        }
        let kept = match bytes.get(..memory.bytes()) {
            Some(kept) if kept.len() < want => Bytes::copy_from_slice(kept),
            _ => bytes,
        };
        Poll::Ready(Ok(Piece { bytes: kept, _memory: memory, _place: self.place.take() }))
    }

    /// Begins the read, and keeps what is there.
    fn go_on(&mut self, context: &mut Context<'_>) {
        if self.there.is_none()
            && let Poll::Ready(there) = self.poll(context)
        {
            self.there = Some(there);
        }
    }

    /// True if it has memory while nobody waits for it.
    fn hold(&mut self) -> bool {
        self.there.is_some() || self.bytes.hold()
    }
}

impl Pieces {
    /// Of `range`, with `places` for pieces that are there or on their way.
    pub(crate) fn new(reader: Box<dyn ObjectReader>, range: Range<u64>, memory: Arc<Memory>, places: usize) -> Self {
        Self {
            reader: reader.into(),
            next: range.start,
            end: range.end,
            left: range.end.saturating_sub(range.start),
            coming: VecDeque::new(),
            memory,
            places: Arc::new(Semaphore::new(places)),
            awaited: None,
            yielded: None,
            slow: false,
            reading: false,
        }
    }

    /// Bytes that are not yielded yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Waits for the first piece. It is the answer if there is no other; else it is yielded first.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn only(&mut self) -> StoreResult<Option<Piece>> {
        let start = self.next;
        let place = self.places.clone().acquire_owned().await.ok();
        let mut first = self.begin_piece(place);
        let piece = poll_fn(|context| first.poll(context)).await?;
        self.next = start + piece.bytes.len() as u64;
        if self.next == self.end {
            self.left = 0;
            return Ok(Some(piece));
        }
        first.there = Some(Ok(piece));
        self.coming.push_front(first);
        Ok(None)
    }

    /// The next piece; `None` behind the last. After an error there is none.
    pub(crate) async fn next(&mut self) -> Option<StoreResult<Piece>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Pieces::next`].
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<StoreResult<Piece>>> {
        if !self.reading {
            self.slow = self.yielded.is_some_and(|yielded| yielded.elapsed() > SLOW);
        }
        self.read_ahead(context);
        let Some(front) = self.coming.front_mut() else {
            return if self.next < self.end { Poll::Pending } else { Poll::Ready(None) };
        };
        let front = front.poll(context);
        self.reading = front.is_pending();
        if self.reading {
            // The pieces behind are begun now: a store starts on a read when it is first polled.
            self.coming.iter_mut().skip(1).for_each(|piece| piece.go_on(context));
        }
        let piece = ready!(front);
        self.coming.pop_front();
        self.yielded = Some(Instant::now());
        match &piece {
            Ok(piece) => {
                self.left = self.left.saturating_sub(piece.bytes.len() as u64);
                self.keep_next(context);
            }
            Err(_) => {
                self.next = self.end;
                self.coming.clear();
            }
        }
        Poll::Ready(Some(piece))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a front end lives on tokio's threads and clock, outside simulations"
    )]
    fn begin_piece(&mut self, place: Option<OwnedSemaphorePermit>) -> Coming {
        let (reader, at) = (self.reader.clone(), self.next);
        let most = if self.slow { PIECE_BYTES.min(self.memory.share()) } else { PIECE_BYTES };
        let want = most.min(usize::try_from(self.end - at).unwrap_or(most));
        let late = Box::pin(tokio::time::sleep(SLOW));
        let read = |want| async move { reader.read(at, want as u64).await }.boxed();
        let bytes = Incoming::new(self.memory.clone(), want, late, read);
        self.next += bytes.want() as u64;
        Coming { at, bytes, place, there: None }
    }

    /// Begins the reads that there are places for.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        while self.coming.len() <= AHEAD && self.next < self.end {
            let places = &self.places;
            let awaited = self.awaited.get_or_insert_with(|| places.clone().acquire_owned().map(Result::ok).boxed());
            let Poll::Ready(place) = awaited.poll_unpin(context) else { return };
            self.awaited = None;
            let piece = self.begin_piece(place);
            self.coming.push_back(piece);
        }
    }

    /// Goes on with the piece that is taken next, unless there is a gap before it, or no memory for it. (GW-BODY-2)
    fn keep_next(&mut self, context: &mut Context<'_>) {
        let at = self.end - self.left;
        if let Some(next) = self.coming.front_mut() {
            next.go_on(context);
            if next.at == at && next.hold() {
                return;
            }
        }
        self.coming.clear();
        self.next = at;
    }
}
