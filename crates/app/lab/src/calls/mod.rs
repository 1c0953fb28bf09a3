//! Recorded calls of a program to its file system: what RocksDB asked for, what its threads worked, and what they waited for.
//!
//! [`record`] is a recording (docs/formats/file-calls.md), [`order`] what its calls depend on, [`play`] makes them again on any
//! [`Files`](target::Files), and [`own`] is the one that is built in.

pub mod order;
pub mod own;
pub mod play;
pub mod read;
pub mod record;
pub mod target;
