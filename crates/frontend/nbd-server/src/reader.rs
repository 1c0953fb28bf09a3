//! The bytes of a client, with a bound on the time that they may take.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::metrics::NbdMetrics;

/// Bytes read ahead: many small requests in one system call.
const AHEAD_BYTES: usize = 32 << 10;

/// A client's bytes, in order.
pub(crate) struct Reader<R> {
    socket: R,
    ahead: BytesMut,
    /// Longest wait for the next byte of a message that was begun.
    stall: Duration,
    metrics: Arc<NbdMetrics>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(crate) fn new(socket: R, ahead: BytesMut, stall: Duration, metrics: Arc<NbdMetrics>) -> Self {
        Self { socket, ahead, stall, metrics }
    }

    /// A full buffer is left to the data that was cut from it.
    fn make_room(&mut self) {
        if self.ahead.capacity() - self.ahead.len() < AHEAD_BYTES / 8 {
            self.ahead.reserve(AHEAD_BYTES);
        }
    }

    /// The socket, for writing.
    pub(crate) fn socket(&mut self) -> &mut R {
        &mut self.socket
    }

    /// The socket, and the bytes that were read from it and not taken.
    pub(crate) fn into_parts(self) -> (R, BytesMut) {
        (self.socket, self.ahead)
    }

    /// The next message's first `N` bytes; `None` if the client closes instead. Nothing is lost if this is given up, and a client
    /// may be silent before it for any time.
    pub(crate) async fn head<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        loop {
            if let Some(bytes) = self.ahead.first_chunk().copied() {
                let _ = self.ahead.split_to(N);
                return Ok(Some(bytes));
            }
            let begun = !self.ahead.is_empty();
            self.make_room();
            let reading = self.socket.read_buf(&mut self.ahead);
            let read = if begun { in_time(self.stall, reading).await? } else { reading.await? };
            self.metrics.received_bytes.fetch_add(read as u64, Relaxed);
            if read == 0 {
                return if self.ahead.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }
    /// The next `length` bytes, not copied: those that were read ahead, and the rest.
    pub(crate) async fn data(&mut self, length: usize) -> io::Result<Vec<Bytes>> {
        let ahead = self.ahead.split_to(length.min(self.ahead.len())).freeze();
        let mut rest = BytesMut::with_capacity(length - ahead.len());
        let missing = length - ahead.len();
        while rest.len() < missing {
            // The socket's buffer has the rest's length, so no byte of the next request gets in.
            let mut into = (&mut self.socket).take((missing - rest.len()) as u64);
            let read = in_time(self.stall, into.read_buf(&mut rest)).await?;
            self.metrics.received_bytes.fetch_add(read as u64, Relaxed);
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok([ahead, rest.freeze()].into_iter().filter(|piece| !piece.is_empty()).collect())
    }

    /// Passes over the next `length` bytes.
    pub(crate) async fn skip(&mut self, length: usize) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            left -= self.data(left.min(AHEAD_BYTES)).await?.iter().map(Bytes::len).sum::<usize>();
        }
        Ok(())
    }

    /// Passes over all bytes until the client closes.
    pub(crate) async fn skip_all(&mut self) -> io::Result<()> {
        self.ahead.clear();
        loop {
            self.make_room();
            if self.socket.read_buf(&mut self.ahead).await? == 0 {
                return Ok(());
            }
            self.ahead.clear();
        }
    }
}

/// The result of `transfer`, unless it takes too long.
pub(crate) async fn in_time<T>(limit: Duration, transfer: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let stalled = |_| io::Error::new(io::ErrorKind::TimedOut, "the client neither sent nor took a byte for too long");
    timeout(limit, transfer).await.map_err(stalled)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    fn reader<R: AsyncRead + Unpin>(socket: R) -> Reader<R> {
        Reader::new(socket, BytesMut::new(), Duration::from_secs(60), Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn messages_come_whole_in_whatever_pieces_they_are_sent() {
        let (mut client, server) = tokio::io::duplex(7);
        let mut reader = reader(server);
        let bytes: Vec<u8> = (0..200).collect();
        let sent = bytes.clone();
        let sending = async move { client.write_all(&sent).await.unwrap() };
        let reading = async {
            assert_eq!(reader.head().await.unwrap(), Some([0, 1, 2, 3]));
            let data = reader.data(100).await.unwrap();
            assert_eq!(data.concat(), bytes[4..104]);
            reader.skip(90).await.unwrap();
            assert_eq!(reader.head().await.unwrap(), Some([194, 195, 196, 197]));
            // The client has gone in the middle of a head.
            let broken = reader.head::<4>().await.unwrap_err();
            assert_eq!(broken.kind(), io::ErrorKind::UnexpectedEof);
        };
        tokio::join!(sending, reading);
    }

    #[tokio::test(start_paused = true)]
    async fn data_that_was_read_ahead_is_not_copied() {
        let mut reader = reader(&b"headDATAnext"[..]);
        assert_eq!(reader.head().await.unwrap(), Some(*b"head"));
        let ahead = reader.ahead.as_ptr();
        let data = reader.data(4).await.unwrap();
        assert_eq!((data.len(), data[0].as_ptr()), (1, ahead));
        assert_eq!(reader.head().await.unwrap(), Some(*b"next"));
        assert_eq!(reader.head::<4>().await.unwrap(), None);
    }

    /// NBD-SAFE-2.
    #[tokio::test(start_paused = true)]
    async fn silence_is_borne_between_messages_and_not_inside_them() {
        let (mut client, server) = tokio::io::duplex(64);
        let mut reader = reader(server);
        let day = Duration::from_secs(24 * 60 * 60);
        assert!(timeout(day, reader.head::<4>()).await.is_err());
        client.write_all(b"ab").await.unwrap();
        assert_eq!(reader.head::<4>().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        client.write_all(b"cdef").await.unwrap();
        assert_eq!(reader.head().await.unwrap(), Some(*b"abcd"), "nothing was lost");
        assert_eq!(reader.data(9).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
