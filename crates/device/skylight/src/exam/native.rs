//! Question of many examinations: are some blocks at their own place in their band, or in a cache?
//!
//! A block at its place is read a turn after the block before it, and the block behind it a turn later. From a cache it comes
//! at some other time, but for accidents; so three blocks vote, of which no two lie at the same angle.

use crate::exam::turn::Turn;
use crate::session::{Done, Session, intervals};

/// Places of a mark's blocks from its first on. The middle one decides where a band ends amid them.
pub const MARK: [u64; 3] = [0, 37, 101];

/// Blocks from a mark's start to its end.
pub const MARK_BLOCKS: u64 = 104;

/// Writes a mark at each place, all its blocks at once.
///
/// # Errors
/// As [`Session::run`].
pub fn mark(session: &mut Session<'_>, places: &[u64]) -> Done<()> {
    for at in places {
        session.write(MARK.len(), 1, &MARK.map(|offset| at + offset))?;
    }
    Ok(())
}

/// True if most blocks of the mark at `at`, which is not zero, are at their places.
///
/// # Errors
/// As [`Session::run`].
pub fn is_native(session: &mut Session<'_>, turn: &Turn, at: u64) -> Done<bool> {
    let taken = session.read_each(MARK.iter().flat_map(|offset| (0..3).map(move |step| at + offset + step - 1)))?;
    let native = taken.chunks(3).filter(|three| intervals(three).iter().all(|&between| turn.follows(between))).count();
    Ok(native >= 2)
}
