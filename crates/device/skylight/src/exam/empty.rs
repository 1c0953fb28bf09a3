//! An empty cache, which many examinations begin with.

use crate::exam::native::{is_native, mark};
use crate::exam::pace::CleaningPace;
use crate::exam::turn::Turn;
use crate::session::{Done, Session};
use crate::target::MIB;

/// Longest wait for an empty cache, in pauses of a minute: a day.
const EMPTY_MAX: u32 = 24 * 60;

/// Empties the cache: by an erase, or by waiting until the last of its writes is clean. `false`: it is not empty.
///
/// # Errors
/// As [`Session::run`].
pub fn empty(session: &mut Session<'_>, turn: &Turn, pace: Option<&CleaningPace>) -> Done<bool> {
    if session.erase()? {
        return Ok(true);
    }
    let Some(pace) = pace else { return Ok(false) };
    let last = (session.blocks() - 4 * MIB) / MIB * MIB;
    mark(session, &[last])?;
    for _ in 0..EMPTY_MAX {
        session.pause(pace.quiet_ms + 60_000.0)?;
        if is_native(session, turn, last)? {
            return Ok(true);
        }
    }
    Ok(false)
}
