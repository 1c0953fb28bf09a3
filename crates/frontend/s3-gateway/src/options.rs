//! Options of a gateway, and the limits of the protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use shingle_runtime::memory::Memory;

use crate::access_log::AccessLog;

/// A pair of keys that may do everything.
#[derive(Clone)]
pub struct Credentials {
    /// The public half: names the pair.
    pub access_key: String,
    /// The secret half: signs requests.
    pub secret_key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}

/// Options of a gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// The region it says it is in. Requests signed for another one are served all the same.
    pub region: String,
    /// Keys whose requests are served; all others are refused.
    pub credentials: Vec<Credentials>,
    /// If given, requests to `BUCKET.domain` are for that bucket (virtual-hosted style); otherwise only paths name
    /// buckets.
    pub domain: Option<String>,
    /// Limits for clients.
    pub limits: Limits,
    /// Receives a note of each request; `None` = no access log.
    pub access: Option<Arc<dyn AccessLog>>,
}

/// Limits for clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait until one ends, or has been silent for a second and is closed for them.
    pub connections_max: usize,
    /// Longest time for a connection to send a request's head, or to be idle before one.
    pub head_timeout: Duration,
    /// Longest time for a connection without a byte in the direction that is due.
    pub stall_timeout: Duration,
    /// Bytes a second that a client has to take of an answer, over the time of `stall_timeout`; time in which it is not waited
    /// for does not count. 0: any.
    pub reader_rate_min: u64,
    /// Bytes a second that a client has to send of a body, reckoned in the same way.
    pub writer_rate_min: u64,
    /// Time that requests have to finish at shutdown.
    pub shutdown_grace: Duration,
    /// The largest object of one PUT, and the largest part.
    pub put_bytes_max: u64,
    /// The least size of a part other than the last.
    pub part_bytes_min: u64,
    /// Memory for bodies that wait: for clients to take or send more of them. Made for `connections_max` users.
    pub memory: Arc<Memory>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: "us-east-1".to_owned(),
            credentials: Vec::new(),
            domain: None,
            limits: Limits::default(),
            access: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            head_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(60),
            reader_rate_min: 16 << 10,
            writer_rate_min: 16 << 10,
            shutdown_grace: Duration::from_secs(20),
            put_bytes_max: 5 << 30,
            part_bytes_min: 5 << 20,
            memory: Memory::new(1 << 30, 1024),
        }
    }
}

/// The largest object in parts: S3's 10,000 parts of at most 5 GiB, capped at 50 TB.
pub(crate) const OBJECT_BYTES_MAX: u64 = 50_000_000_000_000;
/// Part numbers are 1 to this.
pub(crate) const PARTS_MAX: u32 = 10_000;
/// Keys, parts and uploads in one page of a listing, and keys in one `DeleteObjects`.
pub(crate) const PAGE_MAX: usize = 1000;
/// Names and values of user metadata together.
pub(crate) const USER_METADATA_BYTES_MAX: usize = 2048;
/// A request's headers together.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of a request.
pub(crate) const HEADERS_MAX: usize = 100;
/// A request's target: a key of 1,024 bytes, each escaped, with a presigned query.
pub(crate) const TARGET_BYTES_MAX: usize = 16 << 10;
/// A body that is XML: 10,000 parts with their checksums.
pub(crate) const XML_BYTES_MAX: usize = 4 << 20;
/// A signed chunk of a streamed body, which is held until its signature is checked.
pub(crate) const SIGNED_CHUNK_BYTES_MAX: u64 = 8 << 20;
/// Bytes handed to and asked from the store at a time.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
