//! Other stores, to measure the project's own against.
//!
//! Each is a [`ChunkTarget`](crate::rig::target::ChunkTarget) that decides the places of blocks and the commands to the
//! drive, and keeps no bytes. Both model Pangu's chunkserver on a file system: a chunk is a file, opened with
//! `O_DIRECT`. (SMRstore, section 2.1.)

mod disk;
pub mod ext4;
pub mod f2fs;
mod frame;
