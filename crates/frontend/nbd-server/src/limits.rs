//! Options of a server, and limits for its clients.

use std::time::Duration;

use crate::tls::Tls;
use crate::wire::REQUEST_BYTES_MAX;

/// Options of a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Limits for clients.
    pub limits: Limits,
    /// Certificates; without them there is no TLS.
    pub tls: Option<Tls>,
}

/// Limits for clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time. A further one has the seat of that which is longest in its handshake, or is closed at once.
    pub connections_max: usize,
    /// Connections to one export at a time, with those that ended and have requests in the store still. Further ones are refused.
    pub connections_per_export_max: usize,
    /// Requests of one connection at a time. Further ones wait in the socket.
    pub requests_max: usize,
    /// Bytes of data of one connection's requests and replies at a time: from 32 MiB, the largest request, to 512 MiB.
    pub bytes_max: u32,
    /// Longest time from a connection's start to its first request.
    pub handshake_timeout: Duration,
    /// Longest time without a byte of a request that was begun, or a byte taken of a reply. A client that has nothing to ask may be
    /// silent for as long as it likes. Also the longest time that a request waits for a place while none of those before it is answered.
    pub stall_timeout: Duration,
    /// Time that requests have to finish at shutdown.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 64,
            connections_per_export_max: 16,
            requests_max: 128,
            bytes_max: REQUEST_BYTES_MAX,
            handshake_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(120),
            shutdown_grace: Duration::from_secs(20),
        }
    }
}

impl Limits {
    /// Bytes that every request fits in, and that can be counted.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes_max.clamp(REQUEST_BYTES_MAX, 512 << 20)
    }

    /// Requests, as many as can be counted.
    pub(crate) fn requests(&self) -> u32 {
        u32::try_from(self.requests_max).unwrap_or(u32::MAX).clamp(1, 1 << 16)
    }
}
