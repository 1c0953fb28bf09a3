//! The server from outside: a client of the tests' own, against a store in memory.

#![expect(clippy::disallowed_methods, reason = "clients live on tokio's threads and clock, outside simulations")]

mod bytes_access;
mod client;
mod connections;
mod contract;
mod handshake;
mod harness;
mod recording;
mod remote;
mod requests;
mod shutdown;
mod store;
mod tls;
