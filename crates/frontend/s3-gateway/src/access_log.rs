//! The access log that a gateway writes to, as its owner gives it.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use hyper::Method;

/// Takes note of requests that were answered. Called on the threads of connections: it must not wait.
pub trait AccessLog: Send + Sync + fmt::Debug {
    /// A request is over.
    fn note(&self, access: Access);
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Access {
    /// When its head had come.
    pub time: SystemTime,
    /// As in the answer's `x-amz-request-id`.
    pub id: String,
    /// Address of the client.
    pub peer: IpAddr,
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
