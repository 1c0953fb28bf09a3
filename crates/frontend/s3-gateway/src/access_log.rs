//! The access log that a gateway writes to, as its owner gives it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use hyper::Method;

/// Takes note of requests that were answered. Called on the threads of connections: it must not wait.
pub trait AccessLog: Send + Sync + fmt::Debug {
    /// A request is over.
    fn note(&self, access: Access);
}

/// Origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The address of a client.
    Address(IpAddr),
    /// A process on this machine, which asked through a socket of the file system.
    Process {
        /// Its user.
        uid: u32,
        /// Its number, where the system tells.
        pid: Option<i32>,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process { uid, pid: Some(pid) } => write!(f, "uid={uid} pid={pid}"),
            Self::Process { uid, pid: None } => write!(f, "uid={uid}"),
        }
    }
}

/// Source of requests' ids: none is given twice, also after a restart.
#[derive(Clone, Debug)]
pub struct RequestIds(Arc<AtomicU64>);

impl RequestIds {
    /// Begins at the time `now`, which is past all that were given before.
    pub(crate) fn from(now: SystemTime) -> Self {
        let since = now.duration_since(SystemTime::UNIX_EPOCH);
        Self(Arc::new(AtomicU64::new(since.map_or(0, |since| since.as_nanos() as u64))))
    }

    /// A new one.
    pub fn fresh(&self) -> String {
        format!("{:016X}", self.0.fetch_add(1, Relaxed))
    }
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Access {
    /// When its head had come.
    pub time: SystemTime,
    /// As in the answer's `x-amz-request-id`.
    pub id: String,
    /// The client.
    pub peer: Peer,
    /// Access key that the request names. The status shows if it is known and the signature right.
    pub key_id: Option<String>,
    /// The HTTP method.
    pub method: Method,
    /// The operation of S3, with bucket and key, where the request got so far.
    pub operation: Option<String>,
    /// The bucket, if the operation has one.
    pub bucket: Option<String>,
    /// The key, if the operation has one.
    pub key: Option<String>,
    /// The path, escaped as it came, where the operation is not known.
    pub path: Option<String>,
    /// The HTTP status.
    pub status: u16,
    /// The code of S3's error, if the answer says it.
    pub error: Option<String>,
    /// Bytes of the request's body that were read.
    pub received_bytes: u64,
    /// Bytes of the answer's body that were handed to the connection.
    pub sent_bytes: u64,
    /// The answer's body was handed over to its end.
    pub whole: bool,
    /// Time from the request's head to the answer's end.
    pub took: Duration,
}

impl Access {
    /// A request that has just begun: nothing is known but its origin.
    pub fn begun(time: SystemTime, id: String, peer: Peer, method: Method) -> Self {
        Self {
            time,
            id,
            peer,
            key_id: None,
            method,
            operation: None,
            bucket: None,
            key: None,
            path: None,
            status: 0,
            error: None,
            received_bytes: 0,
            sent_bytes: 0,
            whole: false,
            took: Duration::ZERO,
        }
    }
}
