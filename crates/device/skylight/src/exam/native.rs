//! Question of many examinations: are some blocks at their own place in their band, or in a cache?
//!
//! A block at its place is read a turn after the block behind it, less the time of a block; in this order no look-ahead has it. From a cache it comes at some other time, but for accidents; so
//! five blocks vote, of which no two lie at the same angle.
//!
//! Accidents are not always independent: a drive that cleans has just read the band, and answers for the block behind from its
//! memory. Then the turn is that from one block in the cache to the next, which lies right behind it. Such pairs have no vote.

use crate::exam::turn::Turn;
use crate::session::{Done, Session, intervals};
use crate::target::Taken;

/// Blocks of which places of marks are multiples, so that the block behind one of a mark's is in no other mark.
pub const MARK_STEP: u64 = 16;

/// Places of a mark's blocks from its first on.
pub const MARK: [u64; 5] = [0, 37, 96, 165, 263];

/// Place of the block that decides where a band ends amid a mark.
pub const DECIDES: u64 = MARK[2];

/// Blocks from a mark's start to its end.
pub const MARK_BLOCKS: u64 = 264;

/// Blocks in whose time a read ends that the drive's memory answers. The nearest two reads of a mark are further apart.
const MEMORY_BLOCKS: f64 = 20.0;

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

/// True if most blocks of the mark at `at` are at their places.
///
/// # Errors
/// As [`Session::run`].
pub fn is_native(session: &mut Session<'_>, turn: &Turn, at: u64) -> Done<bool> {
    let taken = session.read_each(MARK.iter().flat_map(|offset| [at + offset + 1, at + offset]))?;
    let from_platter = |behind: &Taken| behind.ms() > MEMORY_BLOCKS * turn.block_ms;
    let native = taken.chunks(2).filter(|two| from_platter(&two[0]) && turn.precedes(intervals(two)[0])).count();
    Ok(2 * native > MARK.len())
}
