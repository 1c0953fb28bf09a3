//! The replies to a client, written as they come.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::export::{Held, Reply};
use crate::metrics::NbdMetrics;
use crate::reader::in_time;
use crate::reply::encode;

/// Replies that are written together.
const TOGETHER: usize = 64;

/// Writes replies until nobody sends more, then closes the client's side. Replies that come together go out together. `sent` counts
/// their bytes.
pub(crate) async fn write_replies(
    mut socket: impl AsyncWrite + Unpin,
    mut replies: UnboundedReceiver<Reply>,
    structured: bool,
    stall: Duration,
    metrics: Arc<NbdMetrics>,
    sent: Arc<AtomicU64>,
) -> io::Result<()> {
    let mut bytes = Pieces::default();
    let mut held: Vec<Held> = Vec::new();
    while let Some(first) = replies.recv().await {
        let mut next = Some(first);
        while let Some(Reply { cookie, outcome, held: part }) = next {
            encode(cookie, outcome, structured, &mut bytes.0);
            held.push(part);
            next = if held.len() < TOGETHER { replies.try_recv().ok() } else { None };
        }
        while bytes.has_remaining() {
            let written = in_time(stall, socket.write_buf(&mut bytes)).await?;
            metrics.sent_bytes.fetch_add(written as u64, Relaxed);
            sent.fetch_add(written as u64, Relaxed);
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        in_time(stall, socket.flush()).await?;
        held.clear();
    }
    in_time(stall, socket.shutdown()).await
}

/// Pieces of bytes as one buffer, without an empty one.
#[derive(Default)]
struct Pieces(VecDeque<Bytes>);

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn has_remaining(&self) -> bool {
        !self.0.is_empty()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let pairs = into.iter_mut().zip(&self.0);
        pairs.map(|(slot, piece)| *slot = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(front) = self.0.front_mut() {
            if count < front.len() {
                return front.advance(count);
            }
            count -= front.len();
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_buffer() {
        let mut pieces = Pieces([&b"abc"[..], b"de", b"f"].map(Bytes::from_static).into());
        assert_eq!(pieces.remaining(), 6);
        pieces.advance(4);
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(pieces.chunks_vectored(&mut slices), 2);
        assert_eq!((&*slices[0], &*slices[1], pieces.chunk()), (&b"e"[..], &b"f"[..], &b"e"[..]));
        pieces.advance(2);
        assert!(!pieces.has_remaining() && pieces.chunk().is_empty());
    }
}
