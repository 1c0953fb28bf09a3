//! S3 over a store: signatures, limits, checksums and ETags of the protocol, on top of any [`ObjectStore`].
//!
//! **Owns** the HTTP connections, what S3 says about requests and answers, and the names under which S3's headers are
//! kept in an object's metadata. **Knows nothing of** engines, drives, or where bytes lie: it sees `store-api` alone.
//! The protocol's shapes and its signatures are crate `s3s`'s; what that leaves open is closed here (`guard`,
//! `framing`; see `docs/decisions/0007-s3-adapter.md`).
//!
//! # Invariants
//! - GW-S3-1: no request that changes or reads anything is served without a valid signature of version 4.
//! - GW-S3-2: an object is committed only after its whole body came and every length, digest and checksum that the client
//!   stated was found true.
//! - GW-S3-3: a request holds at most a few MiB, whatever its body's length or framing.
//! - GW-S3-4: parameters and headers without an effect here are refused (`NotImplemented`), never silently ignored.
//!
//! [`ObjectStore`]: shingle_store_api::ObjectStore

mod access;
mod access_log;
mod checksums;
mod conditions;
mod digests;
mod egress;
mod errors;
mod framing;
mod guard;
mod headers;
mod hex;
mod host;
mod ingest;
mod keys;
mod md5;
mod metrics;
mod multipart_checksums;
mod operations;
mod options;
pub mod parse;
mod percent;
mod pieces;
mod ranges;
pub mod reference;
mod request_body;
mod seats;
mod serve;
mod service;
mod signing_date;
mod stall;
mod whole;
mod xml;
mod xml_body;

pub use access_log::{Access, AccessLog, Peer, RequestIds};
pub use digests::EntityTag;
pub use errors::told_of;
pub use host::is_domain;
pub use metrics::{GatewayMetrics, LATENCY_BOUNDS_S, MethodMetrics};
pub use options::{Credentials, Limits, Options};
pub use serve::{Gateway, Served};
