//! Test 13: does power that fails amid a sequential write tear blocks that were written long ago? (Dissertation, section 2.4.11.)
//!
//! The target has to cut the drive's power, which modelled drives alone can do.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::session::{Done, Session};
use crate::target::{Access, MIB};

/// Power cuts.
const CUTS: u64 = 8;

/// MiB written before each.
const WRITTEN: u64 = 1_500;

/// Blocks before and behind the last write that are read: a volatile cache may hold the last 100 MiB and more.
const BEFORE: u64 = 40_000;
const BEHIND: u64 = 12_000;

/// Blocks of a read.
const READ: u64 = 8;

/// Blocks that power failures tore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// Power cuts.
    pub cuts: u64,
    /// Of these, such as made blocks unreadable.
    pub torn: u64,
    /// The most blocks that one of them made unreadable.
    pub blocks_max: u64,
    /// All were readable again once they had been written.
    pub mended: bool,
}

/// Examines torn writes.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>) -> Done<Answer<Torn>> {
    if !session.set_volatile_cache(true)? {
        session.set_volatile_cache(false)?;
        return Ok(Answer::cannot_tell("the drive has no volatile cache, or it cannot be turned on"));
    }
    let found = cuts(session);
    session.set_volatile_cache(false)?;
    found
}

fn cuts(session: &mut Session<'_>) -> Done<Answer<Torn>> {
    let mut found = Torn { cuts: CUTS, torn: 0, blocks_max: 0, mended: true };
    let step = (session.blocks() - (WRITTEN + 64) * MIB) / CUTS;
    for cut in 0..CUTS {
        let at = cut * step / MIB * MIB;
        let written = WRITTEN + session.random.below(48);
        let writes: Vec<Access> = (0..written).map(|number| Access::write(at + number * MIB, MIB)).collect();
        session.run(1, &writes)?;
        if !session.cut_power()? {
            return Ok(Answer::cannot_tell("the drive's power cannot be cut from here"));
        }
        let crash = at + written * MIB;
        let reads: Vec<Access> =
            (crash - BEFORE..crash + BEHIND).step_by(READ as usize).map(|at| Access::read(at, READ)).collect();
        let bad: Vec<u64> = reads
            .iter()
            .zip(session.run(4, &reads)?)
            .filter(|(_, taken)| taken.unreadable)
            .map(|(read, _)| read.at)
            .collect();
        if bad.is_empty() {
            continue;
        }
        found.torn += 1;
        found.blocks_max = found.blocks_max.max(bad.len() as u64 * READ);
        let writes: Vec<Access> = bad.iter().map(|&at| Access::write(at, READ)).collect();
        session.run(1, &writes)?;
        let again: Vec<Access> = bad.iter().map(|&at| Access::read(at, READ)).collect();
        found.mended &= session.run(1, &again)?.iter().all(|taken| !taken.unreadable);
    }
    Ok(Answer::known(found))
}
