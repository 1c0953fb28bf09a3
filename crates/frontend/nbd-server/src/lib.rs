//! NBD over block stores: the protocol of network block devices, as the kernel's client, QEMU and libnbd speak it.
//!
//! **Owns** sockets, the protocol's bytes, and the limits for clients. **Knows nothing of** volumes, engines and drives: it sees a
//! [`BlockStore`] on the thread of its owner, and reaches it through a [`Desk`].
//!
//! A connection is haggled over first (`handshake`, `haggle`), then it has one export (`connection`). A task reads its requests
//! (`reader`, `request`), the store's owner does them (`execute`, `edges`), another task writes the replies (`reply`, `writer`). A block trace
//! of them can be kept (`recording`).
//!
//! # Invariants
//! - NBD-SAFE-1: no bytes of a client make the server panic, and none make it take memory out of proportion. (`haggle`, `request`)
//! - NBD-SAFE-2: a client holds at most its own share of memory, requests and time: one that sends or takes nothing blocks no other.
//! - NBD-ORD-1: a flush covers every write that was answered before it was sent, on whatever connection.
//! - NBD-ORD-2: a request with FUA is answered once it survives a power cut.
//! - NBD-ACK-1: every request that was read whole is answered once, unless its client is gone or takes no replies: at a
//!   disconnection, at a shutdown, and if the owner of the store goes away.
//! - NBD-EDGE-1: a write of less than a sector changes its own bytes, and undoes no other write that was answered.
//! - NBD-EDGE-2: one write of the store, with reads of its edges, is the most that is done alone: zeros of any length keep no other from writing.
//! - NBD-TLS-1: where TLS is required, nothing of any export is told or served before it; nothing that was said before it holds
//!   afterwards.
//! - NBD-RO-1: no request to a read-only export reaches a store's writes, trims or zeros.
//!
//! [`BlockStore`]: shingle_store_api::BlockStore
//! [`Desk`]: shingle_runtime::owner::Desk

mod connection;
mod edges;
mod execute;
mod export;
mod face;
mod failure;
mod fields;
mod haggle;
mod handshake;
mod limits;
mod listener;
mod metrics;
mod option;
pub mod parse;
mod reader;
mod recording;
mod reply;
mod request;
mod server;
mod stream;
mod tls;
mod wire;
mod writer;

pub use export::Export;
pub use face::About;
pub use limits::{Limits, Options};
pub use listener::Listener;
pub use metrics::{CommandMetrics, LATENCY_BOUNDS_S, NbdMetrics};
pub use recording::Recording;
pub use server::{Served, Server};
pub use tls::{Tls, TlsUse};
