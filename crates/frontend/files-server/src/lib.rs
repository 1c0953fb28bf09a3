//! Files of a zoned drive for many threads and processes.
//!
//! The files of a drive have one owner, a thread of the process that opened the drive first. All others reach it by [calls](Call):
//! threads of that process through a queue, other processes through a socket that has the drive's name and no file. So a database can be
//! looked at while another process writes it, and databases of several processes share one drive.
//!
//! [`Files`] is what programs use: its calls block, may come from any thread, and look the same on both ways.
//!
//! **Owns** the calls, both ways to the owner, and the cache of tables. **Knows nothing of** databases.
//!
//! # Invariants
//! - FS-ORDER-1: calls of one process reach the files in their order, so a read sees each append that was flushed before.
//! - FS-ORDER-2: flushes that lie in the queue of the owner's process are in the files before the call of another process: it sees each flush
//!   that had returned.
//! - FS-ANSWER-1: each call is answered, or fails once the owner has ended. Appends without a sync may be lost then, and no others.
//! - FS-CACHE-1: the cache holds bytes of tables that were verified, or that this process wrote; a place of a table that was read never gets other bytes.
//! - FS-PEER-1: the socket serves the owner's user, and root.
//! - FS-PEER-2: a process asks no owner that could not have opened the drive.
//! - FS-END-1: files and locks of a process are let go when it ends, however it ends.
//! - FS-END-2: a drive whose files are being closed, or have stopped, is free once that has ended, and until then nobody new is served.
//!
//! Modules `tail` and `session` state FS-TAIL, FS-ROOM and FS-HOLE.

mod address;
mod awake;
mod cache;
mod client;
mod files;
mod frame;
mod fresh;
mod half;
mod left;
mod link;
mod local;
mod open;
mod opener;
mod outbox;
mod owner;
mod peer;
mod reader;
mod remote;
mod resume;
mod service;
mod session;
mod tail;
mod wire;
mod writer;

pub use cache::Caching;
pub use files::{DirEntry, Files, Lock};
pub use link::{Answering, Link};
pub use open::{OpenFiles, files_of_socket, open_files};
pub use opener::{OpenError, Opener};
pub use reader::{Pending, Reader};
pub use resume::resume_logs;
pub use service::serve_socket;
pub use wire::{About, Call, Reply, Room, Then, error_number};
pub use writer::Writer;
