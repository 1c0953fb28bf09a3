//! Patience with a peer: a timer that starts when nothing moves and is forgotten when something does, and a socket
//! whose writes wear it out.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::metrics::GatewayMetrics;

/// A timer that runs only while something is waited for.
pub(crate) struct Patience {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, timer: None }
    }

    /// Something moved.
    pub(crate) fn renew(&mut self) {
        self.timer = None;
    }

    /// Ready once this was polled, without [`Patience::renew`], for the time of the limit.
    pub(crate) fn poll_worn_out(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.limit)));
        timer.as_mut().poll(context)
    }
}

/// A client's socket: counts bytes, and fails a write that the client does not take for too long. A client that asks
/// for an object and does not read it would else hold the object's space for ever.
pub(crate) struct Socket<S> {
    socket: S,
    patience: Patience,
    metrics: Arc<GatewayMetrics>,
}

impl<S> Socket<S> {
    pub(crate) fn new(socket: S, stall: Duration, metrics: Arc<GatewayMetrics>) -> Self {
        Self { socket, patience: Patience::new(stall), metrics }
    }

    fn wrote(&mut self, context: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match result {
            Poll::Pending => {
                ready!(self.patience.poll_worn_out(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client took nothing for too long")))
            }
            Poll::Ready(result) => {
                self.patience.renew();
                if let Ok(bytes) = result {
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
