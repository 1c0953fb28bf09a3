//! Test 11: the size of bands, to 64 KiB. (Dissertation, section 2.4.8.)
//!
//! A band is cleaned as a whole. So two marks are in the same band if the cleaning of the one cleans the other, too, and a search
//! for the first place that is not finds a band's end; a second search from there finds its size. On a drive that cleans while
//! idle the pause is as long as one cleaning takes, and half another; one that cleans only a full cache is made to by writing
//! one place over and over until a write waits.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::cleaning::{CleaningFound, shortest};
use crate::exam::native::{DECIDES, MARK_BLOCKS, MARK_STEP, is_native, mark};
use crate::exam::pace::CleaningPace;
use crate::exam::turn::Turn;
use crate::session::{Done, Session};
use crate::stats::is_unanimous;
use crate::target::MIB;

/// The smallest band.
const BAND_MIN: u64 = 4 * MIB;

/// The largest band.
const BAND_MAX: u64 = 512 * MIB;

/// Blocks of a write that fills a cache.
pub const FILL_BLOCKS: u64 = 16;

/// Such writes that are given together.
const PIECE: u64 = 8;

/// The most of them before a write waits for cleaning.
const FILL_MAX: usize = 64 << 10;

/// Tries of which most decide.
const TRIES: usize = 5;

/// Tries on either side of an end that confirm it.
const CONFIRMS: usize = 4;

/// Latency from which on a write has waited for cleaning, in milliseconds and in usual latencies.
const STALL_MS: f64 = 150.0;
const STALL_TIMES: f64 = 8.0;

/// Means by which a drive is made to clean one band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Forcing {
    /// By a pause.
    Pause(CleaningPace),
    /// By writing to the band until a write waits.
    Fill,
}

/// A band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// Its first block.
    pub start: u64,
    /// Its blocks.
    pub blocks: u64,
}

impl Forcing {
    /// The way that fits what is known of a drive's cleaning.
    pub fn of(cleaning: &CleaningFound) -> Self {
        cleaning.pace.value().map_or(Self::Fill, |&pace| Self::Pause(pace))
    }
}

/// Examines the first whole band behind `at`.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, at: u64) -> Done<Answer<Band>> {
    let at = at.max(1).next_multiple_of(MIB);
    let forcing = match local(session, turn, forcing, at)? {
        Some(forcing) => forcing,
        None => return Ok(Answer::cannot_tell("a mark was not clean after a pause of 15 s")),
    };
    let Some(start) = next_band(session, turn, forcing, at)? else {
        return Ok(Answer::cannot_tell("no end of a band within 512 MiB"));
    };
    let Some(end) = next_band(session, turn, forcing, start.next_multiple_of(MIB) + MIB)? else {
        return Ok(Answer::cannot_tell("no second end of a band within 512 MiB"));
    };
    if end - start < BAND_MIN {
        let kib = (end - start) * 4;
        return Ok(Answer::cannot_tell(format!("cleaning ends every {kib} KiB, which is less than any band")));
    }
    let sure = is_sure(session, turn, forcing, at, start)?
        && is_sure(session, turn, forcing, start.next_multiple_of(MIB) + MIB, end)?;
    Ok(Answer::known_if(Band { start, blocks: end - start }, sure))
}

/// True if marks right before a band's end and right behind it always fall to their sides.
fn is_sure(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, at: u64, end: u64) -> Done<bool> {
    let inside = (end - MARK_BLOCKS) / MARK_STEP * MARK_STEP;
    let outside = end.next_multiple_of(MARK_STEP);
    if outside + MARK_BLOCKS >= session.blocks() {
        return Ok(false);
    }
    let mut agree = 0;
    for _ in 0..CONFIRMS {
        agree += usize::from(is_same(session, turn, forcing, at, outside)? == Some(false));
        agree += usize::from(is_same(session, turn, forcing, at, inside)? == Some(true));
    }
    Ok(is_unanimous(agree, 2 * CONFIRMS))
}

/// The same with the pace of cleaning at that place.
fn local(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, at: u64) -> Done<Option<Forcing>> {
    let Forcing::Pause(pace) = forcing else { return Ok(Some(forcing)) };
    let one = shortest(session, turn, at, 1)?.filter(|one| *one > pace.quiet_ms);
    Ok(one.map(|one| Forcing::Pause(CleaningPace { band_ms: one - pace.quiet_ms, ..pace })))
}

/// The first block of the band behind that of `at`.
fn next_band(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, at: u64) -> Done<Option<u64>> {
    let last = session.blocks().saturating_sub(MARK_BLOCKS + 1) / MARK_STEP * MARK_STEP;
    let (mut inside, mut step) = (at, 4 * MIB);
    let mut outside = loop {
        let other = (at + step).min(last);
        match is_same(session, turn, forcing, at, other)? {
            Some(true) if other < last && step < BAND_MAX => (inside, step) = (other, 2 * step),
            Some(false) => break other,
            _ => return Ok(None),
        }
    };
    while outside - inside > MARK_STEP {
        let middle = (inside + outside) / 2 / MARK_STEP * MARK_STEP;
        // Few blocks decide once the end lies amid the mark.
        let tries = if outside - inside <= MARK_BLOCKS { TRIES } else { 1 };
        match most(session, turn, forcing, at, middle, tries)? {
            Some(true) => inside = middle,
            Some(false) => outside = middle,
            None => return Ok(None),
        }
    }
    // The middle one of a mark's blocks was the first in the other band.
    Ok(Some(outside + DECIDES))
}

/// The answer of most of so many tries of [`is_same`].
fn most(
    session: &mut Session<'_>,
    turn: &Turn,
    forcing: Forcing,
    at: u64,
    other: u64,
    tries: usize,
) -> Done<Option<bool>> {
    let mut same = 0;
    for _ in 0..tries {
        match is_same(session, turn, forcing, at, other)? {
            Some(is_same) => same += usize::from(is_same),
            None => return Ok(None),
        }
    }
    Ok(Some(2 * same > tries))
}

/// True if the cleaning of the band of `at` cleans the mark at `other`; `None`: nothing was cleaned.
fn is_same(session: &mut Session<'_>, turn: &Turn, forcing: Forcing, at: u64, other: u64) -> Done<Option<bool>> {
    match forcing {
        Forcing::Pause(pace) => {
            let marks = if other - at >= MARK_BLOCKS { vec![at, other] } else { vec![other] };
            if marks.len() == 1 {
                return Ok(Some(true));
            }
            mark(session, &marks)?;
            session.pause(pace.quiet_ms + 1.5 * pace.band_ms)?;
            let (one, two) = (is_native(session, turn, at)?, is_native(session, turn, other)?);
            // A mark may lie in two bands: all are cleaned before the next one's time is measured.
            session.pause(pace.quiet_ms + 6.0 * pace.band_ms)?;
            Ok((one || two).then_some(one && two))
        }
        Forcing::Fill => {
            mark(session, &[other])?;
            if fill(session, at)?.is_none() {
                return Ok(None);
            }
            Ok(Some(is_native(session, turn, other)?))
        }
    }
}

/// True of a write that waited for cleaning.
pub fn has_waited(latency_ms: f64, usual_ms: f64) -> bool {
    latency_ms > STALL_MS && latency_ms > STALL_TIMES * usual_ms
}

/// Writes to one place until one waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filled {
    /// Writes up to the one that waited, which included.
    pub writes: usize,
    /// Writes behind it.
    pub behind: usize,
    /// Milliseconds that it took.
    pub waited_ms: f64,
}

/// Writes a place over and over until a write waits. `None`: none waits.
///
/// # Errors
/// As [`Session::run`].
pub fn fill(session: &mut Session<'_>, at: u64) -> Done<Option<Filled>> {
    let mut usual = f64::INFINITY;
    let mut written = 0;
    while written < FILL_MAX {
        let places: Vec<u64> = (0..PIECE).map(|number| at + number % 4 * FILL_BLOCKS).collect();
        for (number, taken) in (1..).zip(session.write(1, FILL_BLOCKS, &places)?) {
            if has_waited(taken.ms(), usual) {
                return Ok(Some(Filled {
                    writes: written + number,
                    behind: places.len() - number,
                    waited_ms: taken.ms(),
                }));
            }
            usual = usual.min(taken.ms().max(0.1));
        }
        written += places.len();
    }
    Ok(None)
}
