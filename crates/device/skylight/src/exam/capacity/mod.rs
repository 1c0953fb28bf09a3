//! Tests 6 to 10: the size of the persistent cache, its map, and its organisation. (Dissertation, sections 2.4.6 and 2.4.7.)
//!
//! Random writes go on until cleaning holds them up. Three organisations show in three ways: a log that gathers writes is full
//! everywhere at once; a cache band of a few data bands is full after writes to one place alone; the cache of a zone after
//! writes to that zone.

mod found;
mod log;
mod sets;
mod zones;

pub use found::{Cache, CapacityFound, Fill};
pub(crate) use zones::mix_share;

use crate::answer::Answer;
use crate::exam::bands::Band;
use crate::exam::journal::JournalFound;
use crate::exam::pace::CleaningPace;
use crate::exam::turn::Turn;
use crate::session::{Done, Session};

/// Examines the cache of a drive that writes to one.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(
    session: &mut Session<'_>,
    turn: &Turn,
    pace: Option<&CleaningPace>,
    journal: &JournalFound,
    band: &Band,
) -> Done<CapacityFound> {
    match (journal.entries.value(), pace) {
        (Some(Some(entries)), _) => log::examine(session, turn, pace, entries),
        (Some(None), None) => sets::examine(session, band),
        (Some(None), Some(pace)) => zones::examine(session, turn, pace, band),
        (None, _) => {
            let cache = Answer::cannot_tell("it is not known whether the drive gathers writes");
            Ok(CapacityFound { cache, fills: Vec::new(), repeats: Vec::new() })
        }
    }
}
