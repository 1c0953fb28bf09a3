//! Sockets of clients, of whatever kind.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// Silence after which the kernel asks a peer whether it is still there. One that vanished would keep its seat for ever, since an
/// idle client is a good one.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A connection's socket, which becomes two halves for two tasks.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The half to read, and the one to write.
    fn halves(self: Box<Self>) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
}

impl Stream for TcpStream {
    fn halves(self: Box<Self>) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (reader, writer) = self.into_split();
        (Box::new(reader), Box::new(writer))
    }
}

impl Stream for UnixStream {
    fn halves(self: Box<Self>) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (reader, writer) = self.into_split();
        (Box::new(reader), Box::new(writer))
    }
}

impl Stream for TlsStream<Box<dyn Stream>> {
    fn halves(self: Box<Self>) -> (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) {
        let (reader, writer) = tokio::io::split(*self);
        (Box::new(reader), Box::new(writer))
    }
}

/// Sets a TCP socket up for requests and replies.
pub(crate) fn prepare(socket: &TcpStream) -> io::Result<()> {
    // Replies are written together by us; waiting to join them only adds latency.
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    Ok(sockopt::set_tcp_keepintvl(socket, KEEPALIVE / 4)?)
}
