//! From the store to an answer's body.

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, StdError};
use shingle_runtime::memory::{Memory, SHARES};
use shingle_store_api::ObjectReader;

use crate::errors;
use crate::pieces::Pieces;

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
    if range.is_empty() {
        return Ok(StreamingBlob::from(Body::empty()));
    }
    let mut pieces = Pieces::new(reader, range, memory, SHARES);
    let body = match pieces.only().await.map_err(errors::of_store)? {
        // Small objects, the many: one piece that needs no stream.
        Some(only) => Body::from(Bytes::from_owner(only)),
        None => Body::http_body_unsync(ReadBody(pieces)),
    };
    Ok(StreamingBlob::from(body))
}

/// Pieces for a connection.
struct ReadBody(Pieces);

impl HttpBody for ReadBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(ready!(self.get_mut().0.poll_next(context)).map(|piece| match piece {
            Ok(piece) => Ok(Frame::data(Bytes::from_owner(piece))),
            Err(error) => {
                tracing::error!(kind = ?error.kind, "an object broke off while it was sent: {error}");
                Err(Box::new(error) as StdError)
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]
mod tests {
    use futures_util::{FutureExt, StreamExt};
    use shingle_store_api::{ObjectInfo, StoreError, StoreErrorKind, StoreFuture};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::options::PIECE_BYTES;
    use crate::pieces::SLOW;

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
