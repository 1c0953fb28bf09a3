//! Other stores, to measure the project's own against.
//!
//! Each store of chunks is a [`ChunkTarget`](crate::rig::target::ChunkTarget) that decides the places of blocks and the commands to the
//! drive, and keeps no bytes. Both model Pangu's chunkserver on a file system: a chunk is a file, opened with
//! `O_DIRECT`. (SMRstore, section 2.1.)
//!
//! [`ext4_files`] is a file system under programs, with its page cache, on any block store. [`zdm`] and [`dm_zoned`] take blocks in any order: the translation layers that FSTL names. [`raw_objects`] is BlueStore on a drive without zones.

mod disk;
pub mod dm_zoned;
pub mod ext4;
pub mod ext4_files;
pub mod f2fs;
mod frame;
#[cfg(test)]
mod model;
pub mod raw_objects;
pub mod zdm;
mod zones;
