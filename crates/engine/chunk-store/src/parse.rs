//! The store's parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use crate::format::{CheckpointPart, JournalEntry, Superblock};

/// The engine's part of a superblock.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::decode(bytes).is_some()
}

/// A journal entry.
pub fn journal_entry(bytes: &[u8]) -> bool {
    JournalEntry::decode(bytes).is_some()
}

/// A part of a checkpoint.
pub fn checkpoint_part(bytes: &[u8]) -> bool {
    CheckpointPart::decode(bytes).is_some()
}
