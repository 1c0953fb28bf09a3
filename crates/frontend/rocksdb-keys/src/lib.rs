//! Metadata of objects on zones in RocksDB. (Dissertation, section 5.7.1.)
//!
//! `shingle` does not need RocksDB: a store whose metadata are in it loads `libshingle_rocksdb.so` (`bindings/rocksdb`), which links it. The
//! library reaches the files of the metadata, which the store's thread owns, through a pair of sockets, as other processes reach those of a
//! database. RocksDB's threads may wait for that thread, and it never waits for them.
//!
//! **Owns** the way to the library, and the order of batches. **Knows nothing of** the keys' meaning.
//!
//! # Invariants
//! - RKK-LOAD-1: functions of the library are called only as long as it is loaded, and only if it says the version of this build.
//! - RKK-ORDER-1: batches are written in the order of their calls; those that come while one is written become one (BLU-KV-1).
//! - RKK-READ-1: calls of the database have threads of their own. However many they are, they take none of those that the drive's reads need, which
//!   the calls wait for.
//! - RKK-END-1: nothing of the library runs on the store's thread. No database is closed there, nor beside the end of the process.
//!   (`a_database_that_nobody_takes_is_not_closed_on_the_thread_that_asked_for_it`)

mod elsewhere;
// Functions of a library, found by their names. Each block says why it may call them.
#[allow(unsafe_code)]
mod library;
mod readers;
mod store;
mod writer;

pub use library::LoadError;
pub use store::{RocksKeys, with_rocksdb};
