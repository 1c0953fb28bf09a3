//! What others did: stores to measure the project's own against.
//!
//! Each is a [`ChunkTarget`](crate::target::ChunkTarget) that decides where blocks go and which commands a drive gets,
//! and keeps no bytes. Both come as Pangu's chunkserver uses a file system: a chunk is a file, opened with `O_DIRECT`.
//! (SMRstore, section 2.1.)

mod disk;
pub mod ext4;
pub mod f2fs;
mod frame;
