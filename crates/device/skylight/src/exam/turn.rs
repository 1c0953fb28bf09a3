//! Time of a turn, and of a block under the head: reads of single blocks, each some blocks before the last.
//!
//! From a read's end to the next one's the platter turns once, less the blocks between them. So the intervals of several
//! strides lie on a line: its value at zero is the turn, its slope a block's time. Going backwards, no read finds its block in
//! the drive's memory. A drive without platters has no such line.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::surface::{rate, rate_over};
use crate::session::{Done, Session, intervals};
use crate::stats::{line, median, spread};
use crate::target::BLOCK;

/// Blocks from the start of one read back to that of the next: few of a track, or half of them would cross to another one, and take less.
const STRIDES: [u64; 6] = [2, 16, 32, 48, 56, 64];

/// Reads at each stride.
const READS: u64 = 100;

/// Reads of one block before the other, which find the changes of tracks.
const TRACK_READS: u64 = 4_000;

/// MiB read in order for the time of a change: so many tracks that one change more or less is nothing.
const CHANGES_MIB: u64 = 192;

/// Share of the distances between changes of tracks that are whole tracks.
const REGULAR: f64 = 0.75;

/// Blocks before the place of the examination that it needs.
const BEFORE: u64 = 65_536;

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
    /// Milliseconds between the last block of a track and the first one of the next, which cover the change; zero: not known.
    pub track_change_ms: f64,
    /// Blocks of a track there; `None`: not known.
    pub track_blocks: Option<u64>,
}

impl Turn {
    /// Distance from an expected interval that is no accident, in milliseconds.
    pub fn tolerance_ms(&self) -> f64 {
        (0.0025 * self.turn_ms).max(6.0 * self.spread_ms)
    }

    /// True if a block was read as one is that lies right before the block read before it.
    pub fn precedes(&self, interval_ms: f64) -> bool {
        let early = self.turn_ms - self.block_ms - interval_ms;
        let near = |early: f64| early.abs() <= self.tolerance_ms() + self.block_ms;
        near(early) || near(early - self.track_change_ms)
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
        let first = at.saturating_sub(number as u64 * 16_384).max(READS * stride);
        let taken = session.read_each((0..READS).map(|step| first - step * stride))?;
        let between = intervals(&taken);
        points.push((stride as f64, median(&between[1..])));
        spreads.push(spread(&between[1..]));
    }
    let (slope, turn_ms) = line(&points);
    if !(TURNS.0..=TURNS.1).contains(&turn_ms) {
        return Ok(Answer::cannot_tell(format!(
            "single reads in descending order take {:.3} ms, which is no turn of a disk",
            points[0].1
        )));
    }
    let stray = points.iter().map(|&(stride, between)| (between - turn_ms - slope * stride).abs()).fold(0.0, f64::max);
    if stray > STRAY_MAX * turn_ms || slope >= 0.0 {
        return Ok(Answer::cannot_tell("single reads in descending order do not come at the pace of a turn"));
    }
    let (track_change_ms, track_blocks) = (0.0, None);
    let turn = Turn { turn_ms, block_ms: -slope, spread_ms: median(&spreads), track_change_ms, track_blocks };
    Ok(Answer::known(tracks(session, turn, at)?))
}

/// Adds what is found of tracks: as single reads show it, or else what the sequential rate tells.
fn tracks(session: &mut Session<'_>, turn: Turn, at: u64) -> Done<Turn> {
    match seen_tracks(session, turn, at)? {
        Some(seen) => changes_by_rate(session, seen, at),
        None => tracks_by_rate(session, turn, at),
    }
}

/// The same tracks with the time of a change that the sequential rate tells: from many changes, where single ones were seen.
fn changes_by_rate(session: &mut Session<'_>, seen: Turn, at: u64) -> Done<Turn> {
    let Some(track) = seen.track_blocks else { return Ok(seen) };
    let track_ms = (track * BLOCK) as f64 / (rate_over(session, at, CHANGES_MIB)? * 1e3);
    let change = track_ms - seen.turn_ms;
    let agrees = (change - seen.track_change_ms).abs() < seen.tolerance_ms();
    Ok(if agrees { Turn { track_change_ms: change, ..seen } } else { seen })
}

/// A sequential read takes a turn and a change for each track, and blocks pass the head for a turn of it.
fn tracks_by_rate(session: &mut Session<'_>, turn: Turn, at: u64) -> Done<Turn> {
    let track = turn.turn_ms / turn.block_ms;
    let track_ms = track * BLOCK as f64 / (rate(session, at)? * 1e3);
    let change = track_ms - turn.turn_ms;
    let can_be = (0.0..turn.turn_ms / 4.0).contains(&change);
    Ok(if can_be { Turn { track_change_ms: change, track_blocks: Some(track as u64), ..turn } } else { turn })
}

/// Of reads of one block before the other, those that are early lie a track apart. Single completions that the host hears of
/// late make others early: they are few, and not early by as much as most.
fn seen_tracks(session: &mut Session<'_>, turn: Turn, at: u64) -> Done<Option<Turn>> {
    let between = intervals(&session.read_each((0..TRACK_READS).map(|number| at - number))?);
    let early_by = |number: usize| (turn.turn_ms - turn.block_ms - between[number]).rem_euclid(turn.turn_ms);
    let early: Vec<usize> = (1..between.len()).filter(|&number| !turn.precedes(between[number])).collect();
    let changes: Vec<f64> =
        early.iter().map(|&number| early_by(number)).filter(|by| *by < turn.turn_ms / 2.0).collect();
    // The most that are early by the same: others are so by chance, each by another time.
    let like = |by: f64| changes.iter().filter(|other| (**other - by).abs() <= turn.tolerance_ms()).count();
    let Some(&change) = changes.iter().max_by_key(|by| like(**by)) else { return Ok(None) };
    let same: Vec<usize> =
        early.into_iter().filter(|&number| (early_by(number) - change).abs() <= turn.tolerance_ms()).collect();
    let steps: Vec<f64> = same.windows(2).map(|two| (two[1] - two[0]) as f64).collect();
    let track = median(&steps);
    let whole = |step: &&f64| (**step / track - (**step / track).round()).abs() < 0.05;
    let is_regular = steps.len() >= 2 && steps.iter().filter(whole).count() as f64 >= REGULAR * steps.len() as f64;
    let change = median(&same.iter().map(|&number| early_by(number)).collect::<Vec<_>>());
    Ok(is_regular.then_some(Turn { track_change_ms: change, track_blocks: Some(track as u64), ..turn }))
}

/// Examines it at three places, since one may lie in a cache or on rewritten tracks.
///
/// # Errors
/// As [`Session::run`].
pub fn of_drive(session: &mut Session<'_>) -> Done<Answer<Turn>> {
    let blocks = session.blocks();
    let mut answer = Answer::cannot_tell("the drive is smaller than 1 GiB");
    if blocks < 4 * BEFORE {
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
