//! The files' parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use crate::format::{Superblock, decode, encode};

/// The files' part of a superblock.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_some_and(|block| block.encode() == bytes)
}

/// Operations of a journal entry, or of a part of a checkpoint.
pub fn operations(bytes: &[u8]) -> bool {
    decode(bytes).is_some_and(|ops| decode(&encode(&ops)).as_deref() == Some(&ops))
}
