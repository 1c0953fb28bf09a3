//! A log of journal entries: room for data, map, and the way in which room comes back.
//!
//! Merges of the map make single windows of writes slow; cleaning makes all of them slow from some write on. That write is the
//! change point of the logarithms of the intervals around the first two slow windows; a rank test tells whether those behind it are longer.

use super::found::{Cache, CapacityFound, Fill};
use crate::answer::Answer;
use crate::exam::empty::empty;
use crate::exam::journal::Entries;
use crate::exam::pace::CleaningPace;
use crate::exam::turn::Turn;
use crate::session::{Done, Session, intervals, latencies};
use crate::stats::{CONFIDENCE, change_point, median, rank_test};
use crate::target::Taken;

/// Writes of a window, for each that is outstanding.
const WINDOW: usize = 64;

/// The same where several are outstanding.
const WINDOW_BURSTS: usize = 2;

/// Times of a usual window that a slow one takes.
const SLOW: f64 = 2.5;

/// The most writes of a fill.
const WRITES_MAX: usize = 4 << 20;

/// Latencies that are kept of a fill.
const KEPT: usize = 2_000;

/// Sizes in blocks and depths of the fills. (Table 2.2.)
const FILLS: [(u64, usize); 5] = [(1, 1), (1, 31), (16, 31), (32, 31), (64, 31)];

/// Two counts are the same up to this factor.
const SAME: f64 = 1.03;

/// Share of the writes that fill the log which the pool of Tests 9 and 10 has.
const POOL: f64 = 0.43;

pub(super) fn examine(
    session: &mut Session<'_>,
    turn: &Turn,
    pace: Option<&CleaningPace>,
    entries: &Entries,
) -> Done<CapacityFound> {
    let mut fills = Vec::new();
    for (blocks, depth) in FILLS {
        if !empty(session, turn, pace)? {
            return Ok(unknown("the cache cannot be emptied", fills));
        }
        let slots = session.blocks() / blocks;
        fills.push(until_slow(session, depth, blocks, WRITES_MAX, |session, _| session.random.below(slots) * blocks)?);
    }
    let [Some(single), Some(small), Some(_), Some(_), Some(large)] = [0, 1, 2, 3, 4].map(|at: usize| fills[at].writes)
    else {
        return Ok(unknown("random writes were not held up by cleaning", fills));
    };
    let Some(quantum) = entries.quantum_blocks else {
        return Ok(unknown("the size of journal entries is not known", fills));
    };
    // The first fill takes a quantum of data with each write, unless the map is full before.
    let map_is_first = (small as f64) < single as f64 * SAME;
    let data_blocks = if map_is_first { large * FILLS[4].0 } else { single * quantum };
    let large_blocks = large * FILLS[4].0;
    let map_extents = (small * FILLS[1].0 < data_blocks).then_some(small);
    let raw_blocks = single * quantum * u64::from(entries.half_turns);
    let (circular, repeats) = circular(session, turn, pace, single)?;
    // Entries of many blocks waste less, so that both bounds lie close together.
    let cache = if large_blocks as f64 > data_blocks as f64 * 1.1 {
        Answer::cannot_tell(format!(
            "{large_blocks} blocks in large writes, {data_blocks} in single ones: which bounds it?"
        ))
    } else {
        Answer::known_if(
            Cache::Log { data_blocks, raw_blocks, map_extents, circular },
            fills.iter().all(|fill| fill.tested),
        )
    };
    Ok(CapacityFound { cache, fills, repeats })
}

fn unknown(reason: &str, fills: Vec<Fill>) -> CapacityFound {
    CapacityFound { cache: Answer::cannot_tell(reason), fills, repeats: Vec::new() }
}

/// Writes until most of them are slow; `place` gives the place of each.
fn until_slow(
    session: &mut Session<'_>,
    depth: usize,
    blocks: u64,
    most: usize,
    mut place: impl FnMut(&mut Session<'_>, usize) -> u64,
) -> Done<Fill> {
    let window = if depth == 1 { WINDOW } else { depth * WINDOW_BURSTS };
    let (mut taken, mut usual, mut slow): (Vec<Taken>, Vec<f64>, usize) = (Vec::new(), Vec::new(), 0);
    while slow < 2 && taken.len() < most {
        let from = taken.len();
        let places: Vec<u64> = (from..from + window).map(|number| place(session, number)).collect();
        let began = session.now();
        taken.extend(session.write(depth, blocks, &places)?);
        let time = (session.now() - began) as f64;
        if usual.len() >= 8 && time > SLOW * median(&usual) {
            slow += 1;
        } else {
            slow = 0;
            if usual.len() < 33 {
                usual.push(time);
            }
        }
    }
    let change = (slow >= 2).then(|| {
        let from = taken.len().saturating_sub(4 * window);
        // By bursts, since the writes of one end together.
        let ends: Vec<Taken> = taken[from..].chunks(depth).filter_map(|burst| burst.last().copied()).collect();
        let logs: Vec<f64> = intervals(&ends).iter().map(|between| between.max(1e-3).ln()).collect();
        let at = change_point(&logs).unwrap_or(0);
        let tested = rank_test(&logs[..at], &logs[at..]) < 1.0 - CONFIDENCE;
        ((from + (at + 1) * depth) as u64, tested)
    });
    let (writes, tested) = (change.map(|(writes, _)| writes), change.is_some_and(|(_, tested)| tested));
    let held_ms = writes.and_then(|writes| taken.get(writes as usize..)).filter(|held| !held.is_empty()).map(|held| {
        let (first, last) = (&held[0], &held[held.len() - 1]);
        (last.ended.saturating_sub(first.begun)) as f64 / 1e6 / held.len() as f64
    });
    let one_in = taken.len().div_ceil(KEPT).max(1);
    let latencies_ms = latencies(&taken).into_iter().step_by(one_in).collect();
    Ok(Fill { kib: blocks * 4, depth, writes, held_ms, tested, latencies_ms, one_in })
}

/// Tests 9 and 10: three rounds of the same blocks find only stale entries where the log comes round; blocks drawn from them do
/// not, but were they overwritten in place there would be room.
fn circular(
    session: &mut Session<'_>,
    turn: &Turn,
    pace: Option<&CleaningPace>,
    single: u64,
) -> Done<(Option<bool>, Vec<Fill>)> {
    let count = (single as f64 * POOL) as u64;
    let blocks = session.blocks();
    let pool: Vec<u64> = (0..count).map(|_| session.random.below(blocks)).collect();
    if !empty(session, turn, pace)? {
        return Ok((None, Vec::new()));
    }
    let rounds = until_slow(session, 1, 1, 3 * pool.len(), |_, number| pool[number % pool.len()])?;
    empty(session, turn, pace)?;
    let most = (single as f64 * 1.2) as usize;
    let drawn = until_slow(session, 1, 1, most, |session, _| pool[session.random.below(count) as usize])?;
    let circular = match (rounds.writes, drawn.writes) {
        (None, Some(_)) => Some(true),
        (None, None) => Some(false),
        _ => None,
    };
    Ok((circular, vec![rounds, drawn]))
}
