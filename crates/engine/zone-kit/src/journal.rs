//! Room in an engine's journal: checkpoints make it, and a log with few zones left may ask for them for ever.
//!
//! **Owns** the number of checkpoints that are tried. **Knows nothing of** the log, of entries, or of what a checkpoint writes.
//!
//! # Invariants
//! - ZK-JOURNAL-1: a journal for which no checkpoint makes room is told of after a few, whatever the log asks for.

use std::cell::Cell;

/// Checkpoints that are tried for room in the journal: entries of others may take the room that one has made.
const ROOM_TRIES: u32 = 4;

/// Checkpoints that are written without an entry between them.
const IDLE_MAX: u32 = 2;

/// Checkpoints of an engine, as far as they are for its journal.
#[derive(Debug, Default)]
pub struct JournalRoom {
    /// Checkpoints since the last entry.
    idle: Cell<u32>,
}

impl JournalRoom {
    /// An entry was journaled.
    pub fn note_entry(&self) {
        self.idle.set(0);
    }

    /// A checkpoint is complete.
    pub fn note_checkpoint(&self) {
        self.idle.update(|idle| idle.saturating_add(1));
    }

    /// False where a checkpoint makes no room that the last ones did not: also if the log asks for one.
    pub fn may_grow(&self) -> bool {
        self.idle.get() < IDLE_MAX
    }

    /// Has checkpoints written until the journal takes entries. False if it does not after some. (ZK-JOURNAL-1)
    ///
    /// # Errors
    /// Those of a checkpoint.
    pub async fn make<E>(
        &self,
        has_room: impl Fn() -> bool,
        checkpoint: impl AsyncFn() -> Result<(), E>,
    ) -> Result<bool, E> {
        for _ in 0..ROOM_TRIES {
            if has_room() {
                return Ok(true);
            }
            checkpoint().await?;
        }
        Ok(has_room())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// ZK-JOURNAL-1.
    #[test]
    fn a_journal_for_which_nothing_makes_room_is_told_of() {
        let (room, written) = (JournalRoom::default(), Cell::new(0));
        let checkpoint = async || {
            written.set(written.get() + 1);
            room.note_checkpoint();
            Ok::<_, ()>(())
        };
        assert_eq!(room.make(|| written.get() == 3, checkpoint).now_or_never(), Some(Ok(true)));
        assert_eq!((written.replace(0), room.may_grow()), (3, false));
        assert_eq!(room.make(|| false, checkpoint).now_or_never(), Some(Ok(false)));
        assert_eq!(written.get(), ROOM_TRIES);
        room.note_entry();
        assert!(room.may_grow());
        assert_eq!(room.make(|| false, async || Err(7)).now_or_never(), Some(Err(7)));
    }
}
