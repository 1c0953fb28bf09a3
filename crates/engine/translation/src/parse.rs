//! The volume's parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use crate::format::{Entry, Part, Superblock};

/// The volume's part of a superblock.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_some_and(|block| block.encode() == bytes)
}

/// A journal entry.
pub fn journal_entry(bytes: &[u8]) -> bool {
    Entry::decode(bytes).is_some_and(|entry| entry.encode() == bytes)
}

/// A part of a checkpoint.
pub fn checkpoint_part(bytes: &[u8]) -> bool {
    Part::decode(bytes).is_some()
}
