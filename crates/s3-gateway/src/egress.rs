//! From the store to an answer's body: verified pieces, the next one read while the present one is sent.

use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body::{Body as HttpBody, Frame, SizeHint};
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, StdError, s3_error};
use shingle_store_api::{ObjectReader, StoreError, StoreFuture};

use crate::errors;
use crate::options::PIECE_BYTES;

/// Pieces being read beyond the one being sent.
const AHEAD: usize = 1;

/// A body that yields `range` of what `reader` reads. Its first piece is read before this returns, so that what cannot
/// be read at all is an error and not a broken body.
///
/// # Errors
/// What the store says of the first piece.
pub(crate) async fn body(reader: Box<dyn ObjectReader>, range: Range<u64>) -> S3Result<StreamingBlob> {
    let mut body =
        ReadBody { reader: reader.into(), next: range.start, end: range.end, left: 0, pieces: VecDeque::new() };
    body.left = range.end.saturating_sub(range.start);
    if body.left <= PIECE_BYTES as u64 {
        // Small objects, the many: one piece that needs no stream.
        let whole = if body.left == 0 { Bytes::new() } else { body.read_piece().await.map_err(errors::of_store)? };
        if whole.len() as u64 != body.left {
            return Err(s3_error!(InternalError, "the store gave {} bytes of {}", whole.len(), body.left));
        }
        return Ok(StreamingBlob::from(Body::from(whole)));
    }
    let first = body.read_piece().await.map_err(errors::of_store)?;
    body.pieces.push_front(async move { Ok(first) }.boxed());
    Ok(StreamingBlob::from(Body::http_body_unsync(body)))
}

/// The pieces of a range in order.
struct ReadBody {
    reader: Arc<dyn ObjectReader>,
    /// Where the next piece to ask for begins.
    next: u64,
    end: u64,
    /// Bytes not yet yielded.
    left: u64,
    pieces: VecDeque<StoreFuture<'static, Bytes>>,
}

impl ReadBody {
    fn read_piece(&mut self) -> StoreFuture<'static, Bytes> {
        let (reader, offset) = (self.reader.clone(), self.next);
        let length = (self.end - self.next).min(PIECE_BYTES as u64);
        self.next += length;
        async move { reader.read(offset, length).await }.boxed()
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
        while this.pieces.len() <= AHEAD && this.next < this.end {
            let piece = this.read_piece();
            this.pieces.push_back(piece);
        }
        let Some(front) = this.pieces.front_mut() else {
            return Poll::Ready(None);
        };
        let front = front.poll_unpin(context);
        if front.is_pending() {
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
            let mut stream = body(counting(u64::MAX), range.clone()).await.unwrap();
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
        let error = body(counting(3), 0..4 << 20).await.err().unwrap();
        assert_eq!(error.code().as_str(), "InternalError");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_ends_with_an_error() {
        let mut stream = body(counting(3 << 20), 0..5 << 20).await.unwrap();
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
}
