//! Tests 3 to 5: does the drive clean its cache while it is idle, after how long a pause, how fast, and in which order?
//! (Dissertation, sections 2.4.5 and 2.4.9.)
//!
//! A region is fragmented as for Test 2. Blocks read at the pace of a turn are at their places. If more are so after a pause
//! than at once (rank test), the drive has cleaned. The shortest pause that cleans is quiet time and cleaning together; the same
//! in several pauses has the quiet time in it several times, which gives both.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::cache_location::{REGION, fragment};
use crate::exam::native::{MARK_BLOCKS, is_native, mark};
use crate::exam::pace::CleaningPace;
use crate::exam::rereads::{self, Rereads};
use crate::exam::turn::Turn;
use crate::session::{Done, Session, intervals};
use crate::stats::{CONFIDENCE, median, rank_test};
use crate::target::MIB;

/// Pauses after which an aggressive drive has begun to clean, in milliseconds.
const PAUSES_MS: [f64; 3] = [5_000.0, 20_000.0, 60_000.0];

/// The same for a small mark, in the end.
const LONG_MS: f64 = 60_000.0;

/// Share of blocks that are read at the pace of a turn, above which a region is clean.
const CLEAN_ABOVE: f64 = 0.9;

/// Parts in which a pause is taken, to tell quiet time from cleaning.
const PARTS: u32 = 4;

/// Precision of pauses, in milliseconds.
const PRECISION_MS: f64 = 4.0;

/// Searches of a pause, unless one is confirmed before.
const SEARCHES: u32 = 3;

/// Marks of the test of order, the share of them that is to be cleaned, and tries.
const MARKS: usize = 24;
const SHARE: f64 = 0.4;
const ORDER_TRIES: u32 = 4;

/// Type of cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleaningType {
    /// While the drive is idle.
    Aggressive,
    /// Not before the cache is full.
    Lazy,
}

/// Order of cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleaningOrder {
    /// Bands of the oldest writes first.
    OldestFirst,
    /// Bands of the lowest addresses first.
    LowestFirst,
}

/// Outcome of the tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CleaningFound {
    /// The type.
    pub cleaning: Answer<CleaningType>,
    /// The pace, on a drive that cleans while idle.
    pub pace: Answer<CleaningPace>,
    /// The order, on such a drive.
    pub order: Answer<CleaningOrder>,
    /// Milliseconds from each read to the next, of a region that was fragmented: at once, and after the longest pause.
    pub intervals_ms: [Vec<f64>; 2],
    /// Blocks that were read again in the order of writing, on a drive of known pace.
    #[serde(default)]
    pub rereads: Option<Rereads>,
}

/// Examines type, pace and order.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn) -> Done<CleaningFound> {
    let at = session.blocks() / 2 / MIB * MIB + MIB;
    let (cleaning, intervals_ms) = cleaning_type(session, turn, at)?;
    let none = || format!("cleaning was not seen within {:.0} s of quiet", PAUSES_MS[2] / 1e3);
    if cleaning.value() != Some(&CleaningType::Aggressive) {
        let (pace, order) = (Answer::cannot_tell(none()), Answer::cannot_tell(none()));
        return Ok(CleaningFound { cleaning, pace, order, intervals_ms, rereads: None });
    }
    let pace = pace(session, turn, at)?;
    let (order, rereads) = match pace.value() {
        Some(&pace) => (order(session, turn, &pace)?, Some(rereads::examine(session, &pace)?)),
        None => (Answer::cannot_tell("the pace of cleaning is not known"), None),
    };
    Ok(CleaningFound { cleaning, pace, order, intervals_ms, rereads })
}

fn read_region(session: &mut Session<'_>, at: u64) -> Done<Vec<f64>> {
    Ok(intervals(&session.read_each((0..REGION).rev().map(|number| at + number))?))
}

fn cleaning_type(session: &mut Session<'_>, turn: &Turn, at: u64) -> Done<(Answer<CleaningType>, [Vec<f64>; 2])> {
    let at_pace = |intervals: &[f64]| -> Vec<f64> {
        intervals.iter().map(|&between| if turn.precedes(between) { 1.0 } else { 0.0 }).collect()
    };
    fragment(session, at)?;
    let before = read_region(session, at)?;
    let mut after = Vec::new();
    for pause in PAUSES_MS {
        fragment(session, at)?;
        session.pause(pause)?;
        after = read_region(session, at)?;
        let (early, late) = (at_pace(&before), at_pace(&after));
        let share = late.iter().sum::<f64>() / late.len() as f64;
        if share > CLEAN_ABOVE && rank_test(&early, &late) < 1.0 - CONFIDENCE {
            return Ok((Answer::tested(CleaningType::Aggressive), [before, after]));
        }
    }
    let share = |list: &[f64]| at_pace(list).iter().sum::<f64>() / list.len() as f64;
    let answer = if share(&before) > CLEAN_ABOVE {
        Answer::cannot_tell("a fragmented region is read at the pace of a turn from the start")
    } else if (share(&after) - share(&before)).abs() < 0.25 {
        Answer::known(CleaningType::Lazy)
    } else {
        Answer::cannot_tell("a pause makes some reads come at the pace of a turn, and not all")
    };
    Ok((answer, [before, after]))
}

/// True if a mark is clean after so many pauses of that length, with a read between them.
fn cleans(session: &mut Session<'_>, turn: &Turn, at: u64, pauses: u32, ms: f64) -> Done<bool> {
    mark(session, &[at])?;
    for _ in 0..pauses {
        session.pause(ms)?;
        session.read_each([at + 4 * MIB])?;
    }
    let clean = is_native(session, turn, at)?;
    if !clean {
        session.pause(LONG_MS / 4.0)?;
    }
    Ok(clean)
}

/// The answer of two of three tries of [`cleans`]: a block in the cache may by chance be read at the pace of a turn.
fn mostly_cleans(session: &mut Session<'_>, turn: &Turn, at: u64, pauses: u32, ms: f64) -> Done<bool> {
    let one = cleans(session, turn, at, pauses, ms)?;
    Ok(if one == cleans(session, turn, at, pauses, ms)? { one } else { cleans(session, turn, at, pauses, ms)? })
}

/// The shortest of so many equal pauses that cleans a mark, in milliseconds: a search that a little more and a little less confirm.
pub(crate) fn shortest(session: &mut Session<'_>, turn: &Turn, at: u64, pauses: u32) -> Done<Option<f64>> {
    let mut found = 0.0;
    for _ in 0..SEARCHES {
        let (mut short, mut long) = (0.0, LONG_MS / 4.0);
        if !cleans(session, turn, at, pauses, long)? {
            return Ok(None);
        }
        while long - short > PRECISION_MS {
            let middle = (short + long) / 2.0;
            if mostly_cleans(session, turn, at, pauses, middle)? { long = middle } else { short = middle }
        }
        found = (short + long) / 2.0;
        let less = (found - 4.0 * PRECISION_MS).max(0.0);
        if mostly_cleans(session, turn, at, pauses, found + 4.0 * PRECISION_MS)?
            && !mostly_cleans(session, turn, at, pauses, less)?
        {
            break;
        }
    }
    Ok(Some(found))
}

/// The pace at two places: a mark that happens to lie in two bands is cleaned twice, so that the shorter time is a band's.
fn pace(session: &mut Session<'_>, turn: &Turn, at: u64) -> Done<Answer<CleaningPace>> {
    let other = session.blocks() / 8 * 3 / MIB * MIB + MIB;
    let (one, two) = (pace_at(session, turn, at)?, pace_at(session, turn, other)?);
    Ok(match (one.value(), two.value()) {
        (Some(first), Some(second)) if second.band_ms < first.band_ms => two,
        (None, Some(_)) => two,
        _ => one,
    })
}

fn pace_at(session: &mut Session<'_>, turn: &Turn, at: u64) -> Done<Answer<CleaningPace>> {
    let parts = f64::from(PARTS);
    let (Some(one), Some(part)) = (shortest(session, turn, at, 1)?, shortest(session, turn, at, PARTS)?) else {
        return Ok(Answer::cannot_tell("a mark of three blocks was not clean after 15 s"));
    };
    let quiet_ms = (parts * part - one) / (parts - 1.0);
    if !(0.0..one).contains(&quiet_ms) {
        return Ok(Answer::cannot_tell("cleaning does not go on where an access has interrupted it"));
    }
    Ok(Answer::known(CleaningPace { quiet_ms, band_ms: one - quiet_ms }))
}

/// Marks far from each other, a pause in which some are cleaned, and a rank test: are these the oldest, or the lowest? If hardly any
/// are cleaned, or hardly any are left, another pause.
fn order(session: &mut Session<'_>, turn: &Turn, pace: &CleaningPace) -> Done<Answer<CleaningOrder>> {
    let step = session.blocks() / (MARKS as u64 + 1);
    let mut share = SHARE;
    let mut cleaned = 0;
    for _ in 0..ORDER_TRIES {
        let mut places: Vec<u64> = (1..=MARKS as u64).map(|number| number * step).collect();
        session.random.shuffle(&mut places);
        mark(session, &places)?;
        session.pause(pace.quiet_ms + pace.band_ms * MARKS as f64 * share)?;
        let mut marks = Vec::new();
        for (age, &at) in places.iter().enumerate() {
            marks.push((age as f64, at as f64, is_native(session, turn, at)?));
        }
        session.pause(pace.quiet_ms + pace.band_ms * MARKS as f64 * 3.0)?;
        cleaned = marks.iter().filter(|mark| mark.2).count();
        match (comes_first(&marks, |mark| mark.0), comes_first(&marks, |mark| mark.1)) {
            (true, false) => return Ok(Answer::tested(CleaningOrder::OldestFirst)),
            (false, true) => return Ok(Answer::tested(CleaningOrder::LowestFirst)),
            _ => {}
        }
        if cleaned < MARKS / 4 {
            share *= 2.0;
        } else if cleaned > MARKS * 3 / 4 {
            share /= 2.0;
        }
    }
    let reason = format!("{cleaned} of {MARKS} bands were cleaned, neither the oldest nor the lowest");
    Ok(Answer::cannot_tell(reason))
}

/// A mark's age, its place, and whether it is clean.
type Seen = (f64, f64, bool);

/// True if marks of low rank are the clean ones.
fn comes_first(marks: &[Seen], rank: fn(&Seen) -> f64) -> bool {
    let of = |clean: bool| -> Vec<f64> { marks.iter().filter(|mark| mark.2 == clean).map(rank).collect() };
    let (clean, left) = (of(true), of(false));
    let enough = clean.len().min(left.len()) >= 3;
    enough && rank_test(&clean, &left) < 1.0 - CONFIDENCE && median(&clean) < median(&left)
}

const _: () = assert!(MARK_BLOCKS < 4 * MIB);
