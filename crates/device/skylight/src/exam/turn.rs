//! Time of a turn, and of a block under the head: reads of single blocks, each some blocks before the last.
//!
//! From a read's end to the next one's the platter turns once, less the blocks between them. So the intervals of several
//! strides lie on a line: its value at zero is the turn, its slope a block's time. Going backwards, no read finds its block in
//! the drive's memory. A drive without platters has no such line.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::session::{Done, Session, intervals};
use crate::stats::{line, median, spread};

/// Blocks from the start of one read back to that of the next.
const STRIDES: [u64; 6] = [2, 16, 32, 48, 64, 96];

/// Reads at each stride.
const READS: u64 = 25;

/// Shortest and longest turn of a disk, in milliseconds: 15,000 and 3,600 turns a minute.
const TURNS: (f64, f64) = (3.9, 16.8);

/// The most that intervals stray from the line, as a share of a turn.
const STRAY_MAX: f64 = 0.02;

/// A disk's turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Milliseconds of a turn.
    pub turn_ms: f64,
    /// Milliseconds in which a block passes the head, at the place of the examination.
    pub block_ms: f64,
    /// Spread of an interval, in milliseconds.
    pub spread_ms: f64,
}

impl Turn {
    /// Distance from an expected interval that is no accident, in milliseconds.
    pub fn tolerance_ms(&self) -> f64 {
        (0.01 * self.turn_ms).max(6.0 * self.spread_ms)
    }

    /// True if a block was read a turn after the one before it on the platter.
    pub fn follows(&self, interval_ms: f64) -> bool {
        (interval_ms - self.turn_ms).abs() <= self.tolerance_ms() + 2.0 * self.block_ms
    }
}

/// Examines the turn at a place with some blocks before it.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, at: u64) -> Done<Answer<Turn>> {
    let mut points = Vec::new();
    let mut spreads = Vec::new();
    for (number, stride) in STRIDES.into_iter().enumerate() {
        let first = at.saturating_sub(number as u64 * 8192).max(READS * stride);
        let taken = session.read_each((0..READS).map(|step| first - step * stride))?;
        let between = intervals(&taken);
        points.push((stride as f64, median(&between[1..])));
        spreads.push(spread(&between[1..]));
    }
    let (slope, turn_ms) = line(&points);
    if !(TURNS.0..=TURNS.1).contains(&turn_ms) {
        return Ok(Answer::cannot_tell(format!(
            "single reads in descending order take {:.2} ms, which is no turn of a disk",
            points[0].1
        )));
    }
    let stray = points.iter().map(|&(stride, between)| (between - turn_ms - slope * stride).abs()).fold(0.0, f64::max);
    if stray > STRAY_MAX * turn_ms || slope >= 0.0 {
        return Ok(Answer::cannot_tell("single reads in descending order do not come at the pace of a turn"));
    }
    Ok(Answer::known(Turn { turn_ms, block_ms: -slope, spread_ms: median(&spreads) }))
}

/// Examines it at three places, since one may lie in a cache or on rewritten tracks.
///
/// # Errors
/// As [`Session::run`].
pub fn of_drive(session: &mut Session<'_>) -> Done<Answer<Turn>> {
    let blocks = session.blocks();
    let mut answer = Answer::cannot_tell("the drive is smaller than 256 MiB");
    if blocks < 65_536 {
        return Ok(answer);
    }
    for share in [3, 5, 6] {
        answer = examine(session, blocks / 8 * share)?;
        if answer.value().is_some() {
            break;
        }
    }
    Ok(answer)
}
