//! Journal entries: does the drive gather writes, in entries of which sizes, and how often does it merge its map? (Dissertation,
//! section 2.4.3, Figures 2.4 and 2.7.)
//!
//! Writes that are outstanding together end together where the drive gathers them. From one burst to the next it takes as many
//! half turns as the entry is long, which grows by one where the data needs one more: a search among sizes of bursts finds that
//! place to a block. A single write that takes far longer than its neighbours, at equal distances, is a merge of the map.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::turn::Turn;
use crate::session::{Done, Session, latencies};
use crate::stats::{is_unanimous, median};
use crate::target::Taken;

/// Region of the writes: a GiB, so that few bands have to be cleaned afterwards.
const REGION: u64 = 1 << 18;

/// Writes of a burst.
const BURST: usize = 16;

/// Blocks of each write whose burst shows that the drive gathers.
const TOGETHER_BLOCKS: u64 = 16;

/// Bursts of a size.
const BURSTS: usize = 7;

/// The most blocks of a write.
const WRITE_MAX: u64 = 2048;

/// Writes in which three merges have to be seen.
const WRITES_MAX: usize = 4_000;

/// Distance of a time from a multiple of half a turn, as a share of it, that is none.
const NEAR: f64 = 0.2;

/// Entries of a drive that gathers writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entries {
    /// Half turns of an entry with one block of data.
    pub half_turns: u32,
    /// Blocks of data by which an entry grows by half a turn; `None`: not found.
    pub quantum_blocks: Option<u64>,
    /// The most blocks of data in one entry, to a sixteenth of its size or better; `None`: not found.
    pub entry_max_blocks: Option<u64>,
}

/// Merges of the map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merges {
    /// Entries from one to the next.
    pub every: u32,
    /// Milliseconds by which the entry behind it is late.
    pub late_ms: f64,
}

/// Outcome of the examination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalFound {
    /// Latencies of single blocks, one at a time, in milliseconds.
    pub single_ms: Vec<f64>,
    /// Entries; an inner `None`: the drive gathers no writes.
    pub entries: Answer<Option<Entries>>,
    /// Merges; an inner `None`: there are none.
    pub merges: Answer<Option<Merges>>,
    /// Size of 31 writes in KiB and milliseconds from one burst of them to the next.
    pub by_size_ms: Vec<(u64, f64)>,
}

/// Examines entries and merges.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn) -> Done<JournalFound> {
    let entries = entries(session, turn)?;
    let (single_ms, merges) = merges(session)?;
    // Without entries there is no map of them: writes that are late at unequal distances are late for another reason.
    let merges = if entries.value() == Some(&None) { Answer::known(None) } else { merges };
    let mut by_size_ms = Vec::new();
    for kib in (4..=256u64).step_by(4).filter(|kib| *kib <= 96 || kib % 32 == 0) {
        let bursts = bursts(session, 31, kib / 4)?;
        by_size_ms.push((kib, median(&intervals_of(&bursts))));
    }
    Ok(JournalFound { single_ms, entries, merges, by_size_ms })
}

/// Bursts of so many writes of so many blocks each at random places.
fn bursts(session: &mut Session<'_>, writes: usize, blocks: u64) -> Done<Vec<Vec<Taken>>> {
    let region = REGION.min(session.blocks());
    let places = session.scattered(0, region, blocks, writes * (BURSTS + 1));
    places.chunks(writes).map(|burst| session.write(writes, blocks, burst)).collect()
}

fn end(burst: &[Taken]) -> u64 {
    burst.iter().map(|taken| taken.ended).max().unwrap_or(0)
}

/// Milliseconds from the end of each burst to that of the next.
fn intervals_of(bursts: &[Vec<Taken>]) -> Vec<f64> {
    bursts.windows(2).map(|two| (end(&two[1]) - end(&two[0])) as f64 / 1e6).collect()
}

/// Bursts that end as one.
fn together(bursts: &[Vec<Taken>], turn: &Turn) -> usize {
    let together = bursts.iter().filter(|burst| {
        let first = burst.iter().map(|taken| taken.ended).min().unwrap_or(0);
        (end(burst) - first) as f64 / 1e6 < turn.turn_ms / 8.0
    });
    together.count()
}

/// True if most bursts end as one.
fn ends_together(bursts: &[Vec<Taken>], turn: &Turn) -> bool {
    2 * together(bursts, turn) > bursts.len()
}

fn entries(session: &mut Session<'_>, turn: &Turn) -> Done<Answer<Option<Entries>>> {
    // A drive that appends writes one by one takes some milliseconds for these, and ends each as it is written.
    let seen = bursts(session, BURST, TOGETHER_BLOCKS)?;
    let as_one = together(&seen, turn);
    if 2 * as_one <= seen.len() {
        return Ok(Answer::known_if(None, is_unanimous(seen.len() - as_one, seen.len())));
    }
    let between = median(&intervals_of(&bursts(session, BURST, 1)?));
    if between < turn.turn_ms * 0.9 {
        return Ok(Answer::known(None));
    }
    let half = turn.turn_ms / 2.0;
    let steps = between / half;
    if (steps - steps.round()).abs() > NEAR {
        return Ok(Answer::cannot_tell(format!(
            "bursts end together, {steps:.2} half turns apart, which is no whole number"
        )));
    }
    let half_turns = steps.round() as u32;
    let quantum_blocks = quantum(session, turn, half_turns)?;
    let entry_max_blocks = entry_max(session, turn)?;
    let entries = Entries { half_turns, quantum_blocks, entry_max_blocks };
    Ok(Answer::known_if(Some(entries), is_unanimous(as_one, seen.len())))
}

/// The most blocks with which an entry has so many half turns: a burst of fifteen writes of equal size, and a rest.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn quantum(session: &mut Session<'_>, turn: &Turn, half_turns: u32) -> Done<Option<u64>> {
    let grows = |session: &mut Session<'_>, blocks: u64| -> Done<bool> {
        let each = (blocks / BURST as u64).max(1);
        let rest = blocks - each * (BURST as u64 - 1);
        let region = REGION.min(session.blocks());
        let places = session.scattered(0, region, each.max(rest), BURST * (BURSTS + 1));
        let mut ends = Vec::new();
        for burst in places.chunks(BURST) {
            ends.push(session.write_sized(BURST, burst, |number| if number == 0 { rest } else { each })?);
        }
        Ok(median(&intervals_of(&ends)) > (f64::from(half_turns) + 0.5) * turn.turn_ms / 2.0)
    };
    let (mut fits, mut grown) = (BURST as u64, 8192);
    if grows(session, fits)? || !grows(session, grown)? {
        return Ok(None);
    }
    while grown - fits > 1 {
        let middle = (fits + grown) / 2;
        if grows(session, middle)? { grown = middle } else { fits = middle }
    }
    Ok(Some(fits))
}

/// The most blocks that end together.
fn entry_max(session: &mut Session<'_>, turn: &Turn) -> Done<Option<u64>> {
    let (mut fits, mut too_large) = (1, WRITE_MAX);
    let writes = BURST as u64;
    if ends_together(&bursts(session, BURST, too_large)?, turn) {
        return Ok(None);
    }
    while too_large - fits > 1 {
        let middle = (fits + too_large) / 2;
        if ends_together(&bursts(session, BURST, middle)?, turn) { fits = middle } else { too_large = middle }
    }
    Ok(Some(writes * (fits + too_large) / 2))
}

/// Writes blocks one at a time until three merges are seen.
pub(crate) fn merges(session: &mut Session<'_>) -> Done<(Vec<f64>, Answer<Option<Merges>>)> {
    let mut single_ms: Vec<f64> = Vec::new();
    while single_ms.len() < WRITES_MAX {
        let region = REGION.min(session.blocks());
        let places = session.scattered(0, region, 1, 400);
        single_ms.extend(latencies(&session.write(1, 1, &places)?));
        let normal = median(&single_ms);
        let late: Vec<usize> = (1..single_ms.len()).filter(|&at| single_ms[at] > 2.5 * normal).collect();
        let steps: Vec<usize> = late.windows(2).map(|two| two[1] - two[0]).collect();
        if let Some(&every) = steps.first().filter(|_| steps.len() >= 2) {
            let late_ms: Vec<f64> = late.iter().map(|&at| single_ms[at] - normal).collect();
            let merges = Merges { every: every as u32, late_ms: median(&late_ms) };
            let answer = if steps.iter().all(|&step| step == every) {
                Answer::known(Some(merges))
            } else {
                Answer::cannot_tell(format!("late writes come at unequal distances: {steps:?}"))
            };
            return Ok((single_ms, answer));
        }
    }
    Ok((single_ms, Answer::known(None)))
}
