//! Patience with a peer: time that waiting uses up and bytes give back their share of; and a socket whose writes use it.
//!
//! # Invariants
//! - GW-PACE-1: a client that takes or sends fewer bytes than the least rate is ended, in whatever pieces they come, and one that
//!   moves more is not, as long as it never moves nothing for the whole limit.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::metrics::GatewayMetrics;
use crate::options::Limits;
use crate::seats::Seat;

/// Time that a peer may be waited for: waiting uses it up, and bytes give back the time that they may take at the least rate;
/// so does time in which nothing was waited for. (GW-PACE-1)
pub(crate) struct Pace {
    limit: Duration,
    /// Bytes a second; with 0, any byte gives back all.
    rate_min: u64,
    left: Duration,
    /// Start of its present state: waiting, if there is a timer.
    since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    /// `limit` of time, and `rate_min` bytes a second.
    pub(crate) fn new(limit: Duration, rate_min: u64) -> Self {
        Self { limit, rate_min, left: limit, since: Instant::now(), timer: None }
    }

    /// Bytes moved.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if self.timer.take().is_some() {
            let now = Instant::now();
            self.left = self.left.saturating_sub(now - self.since);
            self.since = now;
        }
        // A rate of 0 counts as a tiny one: any byte then gives back all the time. A quotient too large for a
        // `Duration` is above the limit.
        let worth = Duration::try_from_secs_f64(bytes as f64 / (self.rate_min as f64).max(1e-9)).unwrap_or(self.limit);
        self.left = self.limit.min(self.left.saturating_add(worth));
    }

    /// Ready once the time is used up.
    pub(crate) fn poll_worn_out(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            let now = Instant::now();
            self.left = self.limit.min(self.left + (now - self.since));
            self.since = now;
            self.timer = Some(Box::pin(tokio::time::sleep(self.left)));
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }
}

/// A client's socket: counts bytes, and fails a write that the client does not take for too long, or too little of. A client
/// that asks for an object and does not read it would else hold the object's space for ever.
pub(crate) struct Socket<S> {
    socket: S,
    pace: Pace,
    metrics: Arc<GatewayMetrics>,
    /// Told while a write waits.
    seat: Option<Arc<Seat>>,
    waits: bool,
}

impl<S> Socket<S> {
    pub(crate) fn new(socket: S, limits: &Limits, metrics: Arc<GatewayMetrics>, seat: Option<Arc<Seat>>) -> Self {
        let pace = Pace::new(limits.stall_timeout, limits.reader_rate_min);
        Self { socket, pace, metrics, seat, waits: false }
    }

    fn wrote(&mut self, context: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.waits != result.is_pending() {
            self.waits = result.is_pending();
            self.seat.iter().for_each(|seat| seat.writing(self.waits));
        }
        match result {
            Poll::Pending => {
                ready!(self.pace.poll_worn_out(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client took too little for too long")))
            }
            Poll::Ready(result) => {
                if let Ok(bytes) = result {
                    self.pace.moved(bytes);
                    self.metrics.sent_bytes.fetch_add(bytes as u64, Relaxed);
                }
                Poll::Ready(result)
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let result = Pin::new(&mut this.socket).poll_read(context, into);
        this.metrics.received_bytes.fetch_add((into.filled().len() - before) as u64, Relaxed);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write(context, data);
        this.wrote(context, result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write_vectored(context, data);
        this.wrote(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Sends 4 MiB to a client that reads `bytes` every `pause`: the result, and the time it took.
    async fn sent(limits: Limits, bytes: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (mut client, server) = tokio::io::duplex(64 << 10);
        let mut socket = Socket::new(server, &limits, Arc::default(), None);
        let began = Instant::now();
        let reading = async {
            let mut piece = vec![0; bytes];
            loop {
                tokio::time::sleep(pause).await;
                client.read_exact(&mut piece).await.unwrap();
            }
        };
        let result = tokio::select! {
            result = socket.write_all(&[7; 4 << 20]) => result,
            () = reading => unreachable!(),
        };
        (result, began.elapsed())
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// GW-PACE-1.
    #[tokio::test(start_paused = true)]
    async fn who_takes_less_than_the_least_rate_is_ended() {
        // A byte in 59 s, nothing, half of the rate.
        for (bytes, pause, longest) in [(1, 59, 61), (1, 1 << 30, 60), (8 << 10, 1, 130)] {
            let (result, took) = sent(Limits::default(), bytes, seconds(pause)).await;
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!(took <= seconds(longest), "{bytes} bytes in {pause} s were borne for {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_to_the_rate_or_has_none_to_keep_to_goes_on() {
        for (bytes, pause) in [(17 << 10, 1), (64 << 10, 3)] {
            sent(Limits::default(), bytes, seconds(pause)).await.0.unwrap();
        }
        let limits = Limits { reader_rate_min: 0, ..Limits::default() };
        let (result, took) = sent(limits, 1 << 10, seconds(50)).await;
        result.unwrap();
        assert!(took > seconds(24 * 60 * 60), "{took:?}");
    }
}
