//! The metadata log: a journal and checkpoints over a few zones. (SMRstore, section 5.6.)
//!
//! **Owns** the metazones it was given; nobody else writes or resets them. **Knows nothing of** the meaning of journal
//! entries and checkpoint parts.
//!
//! Journal entries and checkpoint parts share one queue and one stream of records, so that a checkpoint is written while
//! the journal goes on. Each log record has a position; positions have no gaps.
//!
//! # Invariants
//! - RC-LOG-1: an entry is acknowledged once it is durable, and so are all entries before it.
//! - RC-LOG-2: recovery yields the newest complete checkpoint and every journal entry behind its start, in order, none twice:
//!   a missing position in front of a later one is damage, never passed over.
//! - RC-LOG-3: zones from the newest complete checkpoint's start on are never reset.
//! - RC-LOG-4: a checkpoint can always be written: the journal is refused before it takes the zones a checkpoint needs.
//! - RC-LOG-5: a write begins once all before it are durable. So a power cut spoils the last one alone, of which any
//!   blocks may be lost; a spoiled write counts as a whole or not at all; and nothing is written behind it in its zone.
//!   The next zone gives its first position, once its first write is whole: records of older zones from there on do not count.
//! - RC-LOG-6: a zone is left by a link to the next, or full without one; the oldest is reset first. So the loss of the
//!   newest zone is noticed, and a zone that cannot be read does no harm if the log provably ends elsewhere. One that is read-only or offline is left
//!   as it is, on the word of a report or of a command's error. `a_zone_that_turns_read_only_is_left_even_if_reports_fail`.
//! - RC-LOG-7: any one block of a write can be lost, unreadable or rotten, head and parity included.
//! - RC-LOG-8: while the file system that holds an emulated drive is full the log waits, and goes on by itself: no entry is
//!   refused that took its place, and no zone counts as bad. `a_log_waits_for_room_on_a_full_host`.
//! - RC-LOG-9: a checkpoint that was never complete uses up no zone, however often the power fails: zones at the log's end
//!   that hold nothing else are reset before the log goes on, the newest first, and it goes on where it did before
//!   them. The log goes on behind one that the drive does not reset.

mod dump;
mod error;
mod format;
mod log;
mod opening;
pub mod parse;
mod reader;
mod recover;
mod write;
mod zones;

pub use dump::{LogRecord, dump};
pub use error::MetaLogError;
pub use format::parse_journal;
pub use log::{CheckpointWriter, MetaLog, room_for_checkpoint};
pub use opening::{Entry, META_ZONES_MIN, MetaLogConfig, Recovered};
