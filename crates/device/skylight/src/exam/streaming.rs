//! Test 15 of chapter 3: from which length on does a sequential write go to its bands directly?
//!
//! The dissertation's camera saw where the arm is. Here a fingerprint of pairs of reads tells whether the blocks are at their own
//! places right after the write: they are if it was streamed. The volatile cache is on for this test.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::mapping::{PAIRS, difference, fingerprint};
use crate::exam::turn::Turn;
use crate::session::{Done, Session};
use crate::stats::is_unanimous;
use crate::target::{Access, MIB};

/// The longest write, in MiB.
const LONGEST: u64 = 128;

/// Blocks from one place of the test to the next.
const STEP: u64 = 512 * MIB;

/// Tries of the shortest stream, and of the longest write that is none, that confirm it.
const CONFIRMS: usize = 4;

/// Streaming of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "streams")]
pub enum Streaming {
    /// Sequential writes from so many MiB on go to their bands directly.
    From {
        /// The shortest that does, in MiB.
        mib: u64,
    },
    /// None of up to 128 MiB does.
    Never,
}

/// Examines streaming.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn) -> Done<Answer<Streaming>> {
    if !session.set_volatile_cache(true)? {
        session.set_volatile_cache(false)?;
        return Ok(Answer::cannot_tell("the drive has no volatile cache, or it cannot be turned on"));
    }
    let found = search(session, turn);
    session.set_volatile_cache(false)?;
    found
}

fn search(session: &mut Session<'_>, turn: &Turn) -> Done<Answer<Streaming>> {
    let mut at = session.blocks() / 3 / MIB * MIB;
    let mut streams = |session: &mut Session<'_>, mib: u64| {
        at += STEP;
        is_native_after(session, turn, at, mib)
    };
    if !streams(session, LONGEST)? {
        return Ok(Answer::known(Streaming::Never));
    }
    let (mut short, mut long) = (0, LONGEST);
    while long - short > 1 {
        let middle = (short + long) / 2;
        if streams(session, middle)? { long = middle } else { short = middle }
    }
    let mut agree = 0;
    for _ in 0..CONFIRMS {
        agree += usize::from(streams(session, long)?);
        agree += usize::from(short == 0 || !streams(session, short)?);
    }
    Ok(Answer::known_if(Streaming::From { mib: long }, is_unanimous(agree, 2 * CONFIRMS)))
}

/// True if the blocks of a sequential write of so many MiB are at the same places as before.
fn is_native_after(session: &mut Session<'_>, turn: &Turn, at: u64, mib: u64) -> Done<bool> {
    let (reference, step) = (at - 4 * MIB, (mib * MIB - 1) / PAIRS);
    let before = fingerprint(session, reference, at, step)?;
    let writes: Vec<Access> =
        (0..mib).map(|number| Access::write(at + number * MIB, MIB)).chain([Access::flush()]).collect();
    session.run(1, &writes)?;
    let after = fingerprint(session, reference, at, step)?;
    Ok(difference(&before, &after, turn) <= turn.tolerance_ms())
}
