//! Times of the arm: seeks, the additional wait of writes, and of a command's way to the drive and back. None of the chapter's
//! tests, but a profile that reproduces the drive needs them.
//!
//! A read of a random place takes a seek, any part of a turn and a constant. So its mean, less half a turn, is the mean seek; where
//! all seeks are alike, so is the middle between its fast and its slow ones.

use serde::{Deserialize, Serialize};

use crate::exam::turn::Turn;
use crate::random::Random;
use crate::session::{Done, Session, latencies};
use crate::stats::{mean, median, quantile};
use crate::target::{Access, MIB, Taken};

/// Reads between the first and the last block.
const ENDS: u64 = 4_000;

/// Reads of random places, and reads to and fro between neighbouring tracks. Each waits for any part of a turn, and both seeks are
/// to be known within a twentieth of a millisecond: a queue picks what is near.
const MANY: u64 = 32_000;

/// Times of the arm, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mechanics {
    /// A command that the drive answers from its memory.
    pub overhead_ms: f64,
    /// Seek between neighbouring tracks.
    pub settle_ms: f64,
    /// Mean seek over random pairs of places.
    pub average_seek_ms: f64,
    /// Seek from the first to the last block.
    pub full_seek_ms: f64,
    /// Bandwidth from the drive's memory in MB/s; `None`: not seen.
    pub interface_mb_s: Option<f64>,
    /// Additional wait of a write for the arm; `None`: not examined, or not seen.
    #[serde(default)]
    pub write_settle_ms: Option<f64>,
    /// Distance from the fastest ones to the mean of all but a twentieth of commands that the drive answers from its memory: the host
    /// hears of some late. `None`: no such commands were seen.
    #[serde(default)]
    pub late_ms: Option<f64>,
    /// A write to another place than the one before, on a drive that appends them one by one; `None`: not examined.
    #[serde(default)]
    pub appended_write_ms: Option<f64>,
    /// One of many outstanding writes, on such a drive.
    #[serde(default)]
    pub queued_write_ms: Option<f64>,
}

/// Places of the reads to and fro.
const SETTLES: u64 = 15;

/// Reads of one block whose times show how late completions are.
const LATE: usize = 16_000;

/// Accesses to and fro between two places, and the distance of these in blocks: more than a zone with a cache of its own has, and no round
/// number, since data bands a round number apart may share a cache band.
const APPENDED: u64 = 4_000;
const WAITED: u64 = 16_000;
const APART: u64 = 66_667 * MIB;

/// Writes that are outstanding together, their number and that of their places, which are evenly spaced: no more bands are to be cleaned
/// afterwards.
const QUEUE: usize = 31;
const QUEUED: u64 = 18_600;
const PLACES: u64 = 1_024;

/// Seed of random places and pauses: a drive and its profile are to have the same.
const SEED: u64 = 1;

/// Examines them by reads.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn) -> Done<Mechanics> {
    let (overhead_ms, interface_mb_s) = memory(session, turn)?;
    let late_ms = late(session, turn)?;
    let blocks = session.blocks();
    let constant = overhead_ms + turn.block_ms;
    let seek = |middle: f64| (middle - turn.turn_ms / 2.0 - constant).max(0.1);
    let alike = |taken: &[f64]| seek((quantile(taken, 0.02) + quantile(taken, 0.98)) / 2.0);
    let mut random = Random::new(SEED);
    let places: Vec<u64> = (0..MANY).map(|_| random.below(blocks)).collect();
    let average_seek_ms = seek(mean(&latencies(&session.read_each(places)?)));
    let ends: Vec<u64> = (0..ENDS)
        .map(|number| {
            let near = session.random.below(4 * MIB);
            if number % 2 == 0 { near } else { blocks - 1 - near }
        })
        .collect();
    let full_seek_ms = alike(&latencies(&session.read_each(ends)?));
    let settle_ms = settle(session, turn, alike)?;
    Ok(Mechanics {
        overhead_ms,
        settle_ms,
        average_seek_ms,
        full_seek_ms,
        interface_mb_s,
        write_settle_ms: None,
        late_ms,
        appended_write_ms: None,
        queued_write_ms: None,
    })
}

/// Additional wait of writes to a drive that writes in place: ways to and fro between two places take as much longer than for reads.
/// `None`: they take no longer, as with a volatile cache, or the drive is too small.
///
/// # Errors
/// As [`Session::run`].
pub fn write_settle(session: &mut Session<'_>, turn: &Turn) -> Done<Option<f64>> {
    // So many blocks that hardly any is in the drive's memory.
    let within = |random: &mut Random, _| random.below(16 * MIB);
    let read = |session: &mut Session<'_>, at| session.read_each([at]);
    let read_ms = to_and_fro(session, turn, WAITED, read, within)?;
    let written_ms = to_and_fro(session, turn, WAITED, write, within)?;
    Ok(read_ms.zip(written_ms).map(|(read, written)| written - read).filter(|settle| *settle > 0.0))
}

/// Seek over two to four tracks: at several places, since the surface changes between them at some.
fn settle(session: &mut Session<'_>, turn: &Turn, alike: impl Fn(&[f64]) -> f64) -> Done<f64> {
    let track = turn.track_blocks.unwrap_or(MIB);
    let mut seeks = Vec::new();
    for place in 1..=SETTLES {
        let at = session.blocks() / 4 + session.blocks() / 2 / SETTLES * place;
        let near: Vec<u64> =
            (0..MANY / SETTLES).map(|number| at + number % 2 * 2 * track + session.random.below(track)).collect();
        seeks.push(alike(&latencies(&session.read_each(near)?)));
    }
    Ok(median(&seeks))
}

/// Milliseconds of a write to another place than the one before, on a drive that appends writes in several places: the way of the arm and
/// the wait of writes, and half a turn. `None`: the drive is too small.
///
/// # Errors
/// As [`Session::run`].
pub fn appended_write(session: &mut Session<'_>, turn: &Turn) -> Done<Option<f64>> {
    to_and_fro(session, turn, APPENDED, write, |_, number| number)
}

fn write(session: &mut Session<'_>, at: u64) -> Done<Vec<Taken>> {
    session.write(1, 1, &[at])
}

/// The middle of single accesses to and fro between two places, each at a block that is given by chance or by its number. They come at any part of a
/// turn, so that the fastest and the slowest ones have the way of the arm and half a turn in their middle.
fn to_and_fro(
    session: &mut Session<'_>,
    turn: &Turn,
    count: u64,
    access: fn(&mut Session<'_>, u64) -> Done<Vec<Taken>>,
    block: impl Fn(&mut Random, u64) -> u64,
) -> Done<Option<f64>> {
    let at = session.blocks() / 5 * 2 / MIB * MIB;
    if at + APART + 16 * MIB > session.blocks() {
        return Ok(None);
    }
    let mut random = Random::new(SEED);
    let mut taken = Vec::new();
    for number in 0..count {
        session.pause(turn.turn_ms * random.share())?;
        let block = at + number % 2 * APART + block(&mut random, number / 2);
        taken.extend(latencies(&access(session, block)?));
    }
    Ok(Some((quantile(&taken, 0.02) + quantile(&taken, 0.98)) / 2.0))
}

/// Milliseconds of one of many outstanding single writes all over a drive, in the median. On one that appends them in several places
/// these lie at some angles to each other, which stay as they are and make the queue faster or slower.
///
/// # Errors
/// As [`Session::run`].
pub fn queued_write(session: &mut Session<'_>) -> Done<f64> {
    let mut random = Random::new(SEED);
    let step = (session.blocks() - QUEUED) / PLACES;
    let writes: Vec<u64> = (0..QUEUED).map(|number| random.below(PLACES) * step + number).collect();
    Ok(median(&latencies(&session.write(QUEUE, 1, &writes)?)))
}

/// Distance from the fastest reads from the drive's memory to the mean of all but the slowest.
///
/// # Errors
/// As [`Session::run`].
pub fn late(session: &mut Session<'_>, turn: &Turn) -> Done<Option<f64>> {
    let at = session.blocks() / 2 / MIB * MIB;
    let taken = latencies(&session.read_each(std::iter::repeat_n(at, LATE))?);
    let from_memory = median(&taken) < turn.turn_ms / 8.0;
    let slowest = quantile(&taken, 0.95);
    let most: Vec<f64> = taken.iter().copied().filter(|ms| *ms <= slowest).collect();
    Ok(from_memory.then(|| mean(&most) - quantile(&taken, 0.02)))
}

/// Reads of what was just read come from the drive's memory.
///
/// # Errors
/// As [`Session::run`].
pub(crate) fn memory(session: &mut Session<'_>, turn: &Turn) -> Done<(f64, Option<f64>)> {
    let at = session.blocks() / 2 / MIB * MIB;
    let again = |session: &mut Session<'_>, blocks: u64| -> Done<f64> {
        let mut taken = Vec::new();
        for number in 0..24 {
            let read = Access::read(at + number * MIB, blocks);
            // The arm leaves in between, so that nothing is left of its look-ahead.
            let reads = [read, Access::read(at + (4096 + number) * MIB, 1), read];
            taken.extend(session.run(1, &reads)?.last().map(|taken| taken.ms()));
        }
        Ok(median(&taken))
    };
    let (small, large) = (again(session, 1)?, again(session, 128)?);
    if small > turn.turn_ms / 8.0 {
        return Ok((0.1, None));
    }
    let interface = (large - small > 0.01 && large < turn.turn_ms / 4.0).then(|| 127.0 * 4.096 / (large - small));
    Ok((small, interface))
}
