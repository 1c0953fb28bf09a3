//! From the store to an answer's body: verified pieces, the next one read while the present one is sent.
//!
//! A piece takes memory until the client has taken it. So a slow client, and any client if memory is short, gets small
//! pieces, out of a share of its own. A piece for which the store takes long has no memory until it is there (RT-MEM-3).
//!
//! # Invariants
//! - GW-BODY-1: a body holds at most as many pieces as a user of [`Memory`] has shares, those that the connection has not sent yet included.
//! - GW-BODY-2: a piece on its way has memory, unless it is late and the connection waits for it: then it takes some in the moment when it is there.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, StdError};
use shingle_runtime::memory::{Incoming, Memory, Reservation, SHARES};
use shingle_store_api::{ObjectReader, StoreError, StoreErrorKind, StoreFuture};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

use crate::errors;
use crate::options::PIECE_BYTES;

/// Pieces being read beyond the one being sent.
const AHEAD: usize = 1;

/// A client that takes longer than this for a piece is slow, and a piece for which the store does is late.
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
    let mut first = body.begin_piece(place);
    let bytes = poll_fn(|context| first.poll(context)).await.map_err(errors::of_store)?;
    body.next = range.start + bytes.len() as u64;
    if body.next == body.end {
        // Small objects, the many: one piece that needs no stream.
        return Ok(StreamingBlob::from(Body::from(bytes)));
    }
    first.there = Some(Ok(bytes));
    body.pieces.push_front(first);
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
    pieces: VecDeque<Coming>,
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

/// A piece on its way from the store.
struct Coming {
    /// Its offset in the object.
    at: u64,
    bytes: Incoming<StoreFuture<'static, Bytes>, Pin<Box<Sleep>>>,
    place: Option<OwnedSemaphorePermit>,
    /// It is there, but nobody has taken it.
    there: Option<Result<Bytes, StoreError>>,
}

impl Coming {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, StoreError>> {
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
        Poll::Ready(Ok(Bytes::from_owner(Piece { bytes: kept, _memory: memory, _place: self.place.take() })))
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

impl ReadBody {
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
        while self.pieces.len() <= AHEAD && self.next < self.end {
            let places = &self.places;
            let awaited = self.awaited.get_or_insert_with(|| places.clone().acquire_owned().map(Result::ok).boxed());
            let Poll::Ready(place) = awaited.poll_unpin(context) else { return };
            self.awaited = None;
            let piece = self.begin_piece(place);
            self.pieces.push_back(piece);
        }
    }

    /// Goes on with the piece that the connection gets next, unless there is a gap before it, or no memory for it. (GW-BODY-2)
    fn keep_next(&mut self, context: &mut Context<'_>) {
        let at = self.end - self.left;
        if let Some(next) = self.pieces.front_mut() {
            next.go_on(context);
            if next.at == at && next.hold() {
                return;
            }
        }
        self.pieces.clear();
        self.next = at;
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
        let front = front.poll(context);
        this.reading = front.is_pending();
        if this.reading {
            // The pieces behind are begun now: a store starts on a read when it is first polled.
            this.pieces.iter_mut().skip(1).for_each(|piece| piece.go_on(context));
        }
        let piece: Result<Bytes, StoreError> = ready!(front);
        this.pieces.pop_front();
        this.yielded = Some(Instant::now());
        Poll::Ready(Some(match piece {
            Ok(data) => {
                this.left = this.left.saturating_sub(data.len() as u64);
                this.keep_next(context);
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

    /// Answers when it is told to.
    struct Slow {
        info: ObjectInfo,
        reads: Arc<Semaphore>,
    }

    impl ObjectReader for Slow {
        fn info(&self) -> &ObjectInfo {
            &self.info
        }

        fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
            async move {
                self.reads.acquire().await.unwrap().forget();
                Ok((offset..offset + length).map(|at| at as u8).collect())
            }
            .boxed()
        }
    }

    fn is(piece: &[u8], at: usize) -> bool {
        piece.iter().enumerate().all(|(i, byte)| *byte == (at + i) as u8)
    }

    /// RT-MEM-3, GW-BODY-2: many wait for a slow drive, and the memory is everybody else's.
    #[tokio::test(start_paused = true)]
    async fn who_waits_for_the_store_leaves_the_memory_to_others() {
        let (memory, mib) = (Memory::new(12 << 20, 16), 1 << 20);
        let reads = Arc::new(Semaphore::new(0));
        let slow = |to: u64| {
            let reader = Box::new(Slow { info: counting(0).info, reads: reads.clone() });
            tokio::spawn(body(reader, 0..to, memory.clone()))
        };
        let waiting: Vec<_> = (0..8).map(|_| slow(mib)).collect();
        tokio::time::sleep(SLOW / 2).await;
        assert_eq!(memory.common_used(), 6 << 20);
        tokio::time::sleep(SLOW).await;
        assert_eq!(memory.common_used(), 0);
        let mut others = body(counting(u64::MAX), 0..10 << 20, memory.clone()).await.unwrap();
        assert_eq!(others.next().await.unwrap().unwrap().len(), PIECE_BYTES);
        drop(others);
        // All are answered at once: as many as there is memory for whole, the others by and by.
        reads.add_permits(100);
        for (number, waiting) in waiting.into_iter().enumerate() {
            let mut stream = waiting.await.unwrap().unwrap();
            let (mut at, mut pieces) = (0, 0);
            while let Some(piece) = stream.next().await {
                let piece = piece.unwrap();
                assert!(is(&piece, at), "byte {at} of {number}");
                (at, pieces) = (at + piece.len(), pieces + 1);
            }
            assert_eq!((at, pieces > 1), (PIECE_BYTES, number >= 6), "{pieces} pieces of {number}");
        }
        assert_eq!(memory.used(), 0);
    }

    /// GW-BODY-2: the piece behind one that came late is reserved for again, or read again when it is wanted.
    #[tokio::test(start_paused = true)]
    async fn no_late_piece_comes_without_memory() {
        let (memory, mib) = (Memory::new(12 << 20, 16), PIECE_BYTES);
        for full in [false, true] {
            let reads = Arc::new(Semaphore::new(1));
            let reader = Box::new(Slow { info: counting(0).info, reads: reads.clone() });
            let mut stream = body(reader, 0..4 << 20, memory.clone()).await.unwrap();
            // The second piece is behind the first, the third behind the second.
            let first = stream.next().await.unwrap().unwrap();
            let second = tokio::spawn(async move { (stream.next().await.unwrap().unwrap(), stream) });
            tokio::time::sleep(2 * SLOW).await;
            assert_eq!(memory.used(), mib as u64);
            let others = memory.take(if full { 5 << 20 } else { 0 });
            reads.add_permits(1);
            let (second, mut stream) = second.await.unwrap();
            assert!(is(&second, mib));
            let held = if full { memory.share() } else { 2 * mib };
            assert_eq!(memory.used() as usize, others.bytes() + mib + held);
            // The client does not take it, and the store answers.
            reads.add_permits(10);
            tokio::time::sleep(SLOW).await;
            assert_eq!(memory.used() as usize, others.bytes() + mib + held);
            drop((first, others));
            let mut at = mib + second.len();
            while let Some(piece) = stream.next().await {
                let piece = piece.unwrap();
                assert!(is(&piece, at), "byte {at}");
                at += piece.len();
            }
            assert_eq!(at, 4 << 20);
        }
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
