//! From the store to an answer's body: verified pieces, the next one read while the present one is sent.
//!
//! A piece takes memory until the client has taken it. So a slow client, and any client if memory is short, gets small
//! pieces, out of a share of its own.
//!
//! # Invariants
//! - GW-BODY-1: a body holds at most as many pieces as a user of [`Memory`] has shares, those that the connection has not sent yet included.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, StdError, s3_error};
use shingle_runtime::memory::{Memory, Reservation, SHARES};
use shingle_store_api::{ObjectReader, StoreError, StoreFuture};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::errors;
use crate::options::PIECE_BYTES;

/// Pieces being read beyond the one being sent.
const AHEAD: usize = 1;

/// A client that takes longer than this for a piece is slow.
const SLOW: Duration = Duration::from_secs(1);

/// A body that yields `range` of what `reader` reads. Its first piece is read before this returns, so that what cannot
/// be read at all is an error and not a broken body.
///
/// # Errors
/// The store's error for the first piece.
pub(crate) async fn body(
    reader: Box<dyn ObjectReader>,
    range: Range<u64>,
    memory: Arc<Memory>,
) -> S3Result<StreamingBlob> {
    let left = range.end.saturating_sub(range.start);
    if left == 0 {
        return Ok(StreamingBlob::from(Body::empty()));
    }
    let mut body = ReadBody {
        reader: reader.into(),
        next: range.start,
        end: range.end,
        left,
        pieces: VecDeque::new(),
        memory,
        places: Arc::new(Semaphore::new(SHARES)),
        awaited: None,
        yielded: None,
        slow: false,
        reading: false,
    };
    let place = body.places.clone().acquire_owned().await.ok();
    let first = body.read_piece(place).await.map_err(errors::of_store)?;
    if body.next == body.end {
        // Small objects, the many: one piece that needs no stream.
        if first.len() as u64 != left {
            return Err(s3_error!(InternalError, "the store gave {} bytes of {left}", first.len()));
        }
        return Ok(StreamingBlob::from(Body::from(first)));
    }
    body.pieces.push_front(async move { Ok(first) }.boxed());
    Ok(StreamingBlob::from(Body::http_body_unsync(body)))
}

/// The pieces of a range in order.
struct ReadBody {
    reader: Arc<dyn ObjectReader>,
    /// Offset of the next piece to ask for.
    next: u64,
    end: u64,
    /// Bytes not yet yielded.
    left: u64,
    pieces: VecDeque<StoreFuture<'static, Bytes>>,
    memory: Arc<Memory>,
    /// For pieces that the client has not taken. (GW-BODY-1)
    places: Arc<Semaphore>,
    /// The place of the next piece, while there is none.
    awaited: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    /// When the last piece was given to the connection.
    yielded: Option<Instant>,
    /// The client took long for the last piece.
    slow: bool,
    /// The store is waited for, and not the client.
    reading: bool,
}

/// A piece, and the memory that it takes until it is dropped.
struct Piece {
    bytes: Bytes,
    _memory: Reservation,
    _place: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl ReadBody {
    fn read_piece(&mut self, place: Option<OwnedSemaphorePermit>) -> StoreFuture<'static, Bytes> {
        let (reader, offset) = (self.reader.clone(), self.next);
        let most = if self.slow { PIECE_BYTES.min(self.memory.share()) } else { PIECE_BYTES };
        let memory = self.memory.take(most.min(usize::try_from(self.end - self.next).unwrap_or(most)));
        let length = memory.bytes() as u64;
        self.next += length;
        async move {
            let bytes = reader.read(offset, length).await?;
            Ok(Bytes::from_owner(Piece { bytes, _memory: memory, _place: place }))
        }
        .boxed()
    }

    /// Begins the reads that there are places for.
    fn read_ahead(&mut self, context: &mut Context<'_>) {
        while self.pieces.len() <= AHEAD && self.next < self.end {
            let places = &self.places;
            let awaited = self.awaited.get_or_insert_with(|| places.clone().acquire_owned().map(Result::ok).boxed());
            let Poll::Ready(place) = awaited.poll_unpin(context) else { return };
            self.awaited = None;
            let piece = self.read_piece(place);
            self.pieces.push_back(piece);
        }
    }
}

impl HttpBody for ReadBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        if !this.reading {
            this.slow = this.yielded.is_some_and(|yielded| yielded.elapsed() > SLOW);
        }
        this.read_ahead(context);
        let Some(front) = this.pieces.front_mut() else {
            return if this.next < this.end { Poll::Pending } else { Poll::Ready(None) };
        };
        let front = front.poll_unpin(context);
        this.reading = front.is_pending();
        if this.reading {
            // The pieces behind are begun now: a store starts on a read when it is first polled.
            for index in 1..this.pieces.len() {
                if let Some(piece) = this.pieces.get_mut(index)
                    && let Poll::Ready(result) = piece.poll_unpin(context)
                {
                    *piece = std::future::ready(result).boxed();
                }
            }
        }
        let piece: Result<Bytes, StoreError> = ready!(front);
        this.pieces.pop_front();
        if let Some(next) = this.pieces.front_mut()
            && let Poll::Ready(result) = next.poll_unpin(context)
        {
            *next = std::future::ready(result).boxed();
        }
        this.yielded = Some(Instant::now());
        Poll::Ready(Some(match piece {
            Ok(data) => {
                this.left = this.left.saturating_sub(data.len() as u64);
                Ok(Frame::data(data))
            }
            Err(error) => {
                tracing::error!(kind = ?error.kind, "an object broke off while it was sent: {error}");
                this.next = this.end;
                this.pieces.clear();
                Err(Box::new(error))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use shingle_store_api::{ObjectInfo, StoreErrorKind};

    /// Yields the low byte of each offset, and fails at one.
    struct Counting {
        info: ObjectInfo,
        fails_at: u64,
    }

    impl ObjectReader for Counting {
        fn info(&self) -> &ObjectInfo {
            &self.info
        }

        fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
            let fails = (offset..offset + length).contains(&self.fails_at);
            async move {
                if fails {
                    return Err(StoreError::new(StoreErrorKind::Corrupt, "a slice failed its check"));
                }
                Ok((offset..offset + length).map(|at| at as u8).collect())
            }
            .boxed()
        }
    }

    fn counting(fails_at: u64) -> Box<Counting> {
        let info = ObjectInfo {
            key: String::new(),
            size: 10 << 20,
            etag: String::new(),
            modified_unix_ns: 0,
            version: 0,
            metadata: Default::default(),
            part_sizes: Vec::new(),
            class: None,
        };
        Box::new(Counting { info, fails_at })
    }

    #[tokio::test]
    async fn every_range_comes_whole_and_in_order() {
        let mib = 1 << 20;
        for range in [0..0, 0..1, 5..mib, 1..mib + 1, 7..mib + 9, 3..5 * mib + 1, 9 * mib..10 * mib] {
            let mut stream = body(counting(u64::MAX), range.clone(), Memory::unbounded()).await.unwrap();
            let mut at = range.start;
            while let Some(piece) = stream.next().await {
                let piece = piece.unwrap();
                assert!(piece.len() <= PIECE_BYTES);
                assert!(piece.iter().enumerate().all(|(i, byte)| *byte == (at + i as u64) as u8));
                at += piece.len() as u64;
            }
            assert_eq!(at, range.end);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_an_error_before_the_answer() {
        let error = body(counting(3), 0..4 << 20, Memory::unbounded()).await.err().unwrap();
        assert_eq!(error.code().as_str(), "InternalError");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_ends_with_an_error() {
        let mut stream = body(counting(3 << 20), 0..5 << 20, Memory::unbounded()).await.unwrap();
        let mut pieces = 0;
        let failed = loop {
            match stream.next().await {
                Some(Ok(_)) => pieces += 1,
                Some(Err(error)) => break error.to_string(),
                None => panic!("ended as if it were whole"),
            }
        };
        assert_eq!((pieces, failed.as_str()), (3, "a slice failed its check"));
        assert!(stream.next().await.is_none());
    }

    /// GW-BODY-1: pieces that the client has not taken are counted; small ones, once there is little memory or it is slow.
    #[tokio::test(start_paused = true)]
    async fn who_takes_little_holds_little() {
        let memory = Memory::new(12 << 20, 16);
        assert_eq!(memory.share(), 128 << 10);
        let mut readers = Vec::new();
        for _ in 0..16 {
            let mut stream = body(counting(u64::MAX), 0..10 << 20, memory.clone()).await.unwrap();
            // As a connection does, which gathers what it cannot send.
            let mut taken = Vec::new();
            while let Some(piece) = stream.next().now_or_never() {
                taken.push(piece.unwrap().unwrap());
            }
            assert_eq!(taken.len(), SHARES);
            readers.push((stream, taken));
        }
        let held: usize = readers.iter().flat_map(|(_, taken)| taken).map(Bytes::len).sum();
        assert!(held <= 12 << 20, "{held} bytes");
        assert_eq!(memory.common_used(), 6 << 20);
        assert!(readers[8].1.iter().all(|piece| piece.len() == 128 << 10));
        // There is plenty now, but not for one that took two seconds.
        readers.truncate(9);
        let (mut stream, mut taken) = readers.pop().unwrap();
        readers.clear();
        assert_eq!(memory.common_used(), 0);
        taken.clear();
        tokio::time::sleep(2 * SLOW).await;
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 128 << 10);
        // It was quick this time.
        stream.next().await.unwrap().unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().len(), PIECE_BYTES);
    }
}
