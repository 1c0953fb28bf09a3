//! Zones of the drive with a cache each: writes to one zone fill its cache, and the first place whose writes are not held up then
//! is in another zone.

use super::found::{Cache, CapacityFound, Fill, any_waited};
use crate::answer::Answer;
use crate::exam::bands::{Band, FILL_BLOCKS, has_waited};
use crate::exam::empty::empty;
use crate::exam::pace::CleaningPace;
use crate::exam::turn::Turn;
use crate::session::{Done, Session, latencies};
use crate::stats::{mean, median, quantile};
use crate::target::Nanos;

/// Region whose writes fill the cache of one zone: 8 GiB, or an eighth of the drive.
const REGION: u64 = 8 << 18;

/// Share of the writes that are left when a place is tried; the try has twice as many.
const LEFT: usize = 20;

/// Writes given together.
const PIECE: usize = 8;

/// Writes outstanding in a fill that leaves cleaning no time.
const QUEUE: usize = 31;

/// Such fills.
const FILLS: u32 = 3;

/// Tries of a fill that was held up too early.
const TRIES: u32 = 4;

/// The most writes.
const WRITES_MAX: usize = 1 << 20;

/// Share of the time from which on cleaning is mixed with writes.
const MIXES_FROM: f64 = 0.1;

pub(super) fn examine(session: &mut Session<'_>, turn: &Turn, pace: &CleaningPace, band: &Band) -> Done<CapacityFound> {
    let none =
        |reason: &str| CapacityFound { cache: Answer::cannot_tell(reason), fills: Vec::new(), repeats: Vec::new() };
    if !empty(session, turn, Some(pace))? {
        return Ok(none("the cache cannot be emptied"));
    }
    let (held, taken) = until_held_up(session, WRITES_MAX)?;
    let Some((writes, waited_ms)) = held else { return Ok(none("writes to 8 GiB were never held up")) };
    let mix_share = share_of(&taken[..writes]);
    let mixes = mix_share > 0.0;
    let mut room = writes;
    // A band that cleaning is about to write is one less, and the fill may end between two of these.
    for _ in 0..if mixes { FILLS } else { 0 } {
        empty(session, turn, Some(pace))?;
        room = room.min(at_once(session, writes)?.unwrap_or(writes));
    }
    let full = Full { writes: room, mixes, usual_ms: median(&taken), band };
    let (mut inside, mut outside) = (REGION.min(session.blocks() / 8), session.blocks() - full.tries() * FILL_BLOCKS);
    if full.holds_up(session, turn, pace, outside)? {
        inside = session.blocks();
        outside = inside;
    }
    while outside - inside > band.blocks {
        let middle = (inside + outside) / 2;
        if full.holds_up(session, turn, pace, middle)? { inside = middle } else { outside = middle }
    }
    // Zones are whole bands.
    let zone_blocks = (outside as f64 / band.blocks as f64).floor() as u64 * band.blocks;
    let fill = Fill {
        kib: FILL_BLOCKS * 4,
        depth: 1,
        writes: Some(writes as u64),
        held_ms: Some(waited_ms),
        tested: false,
        latencies_ms: taken,
        one_in: 1,
    };
    let cache = Cache::Zones { cache_blocks: room as u64 * FILL_BLOCKS, zone_blocks, mix_share };
    Ok(CapacityFound { cache: Answer::known(cache), fills: vec![fill], repeats: Vec::new() })
}

/// Writes before all were held up of many outstanding ones: so fast that cleaning, which is mixed with them, makes no room meanwhile.
/// `None`: they never were. (A single one may wait longer, for a turn that suits none but it.)
fn at_once(session: &mut Session<'_>, most: usize) -> Done<Option<usize>> {
    let region = REGION.min(session.blocks() / 8);
    let places = session.scattered(0, region, FILL_BLOCKS, most);
    let mut written = 0;
    for piece in places.chunks(PIECE * QUEUE) {
        let mut last = session.now();
        let mut ends: Vec<Nanos> = session.write(QUEUE, FILL_BLOCKS, piece)?.iter().map(|taken| taken.ended).collect();
        ends.sort_unstable();
        for end in ends {
            if has_waited((end - last.min(end)) as f64 / 1e6, 0.0) {
                return Ok(Some(written));
            }
            (last, written) = (end, written + 1);
        }
    }
    Ok(None)
}

/// Share of the time that cleaning takes from writers; zero: none that is seen.
fn share_of(taken_ms: &[f64]) -> f64 {
    let share = 1.0 - quantile(taken_ms, 0.1) / mean(taken_ms);
    if share > MIXES_FROM { share } else { 0.0 }
}

/// That share of a drive whose cache is empty; `None`: its writes are never held up.
pub(crate) fn mix_share(session: &mut Session<'_>) -> Done<Option<f64>> {
    let (held, taken) = until_held_up(session, WRITES_MAX)?;
    Ok(held.map(|(writes, _)| share_of(&taken[..writes])))
}

/// Writes before the one that waited, and the milliseconds that it took.
type Held = Option<(usize, f64)>;

/// Writes different places at the drive's start until one is held up, or so many are written: the number before that one and its
/// milliseconds, and those of the others.
fn until_held_up(session: &mut Session<'_>, most: usize) -> Done<(Held, Vec<f64>)> {
    let region = REGION.min(session.blocks() / 8);
    let places = session.scattered(0, region, FILL_BLOCKS, most);
    let mut taken: Vec<f64> = Vec::new();
    let mut usual = f64::INFINITY;
    for piece in places.chunks(PIECE) {
        for latency in latencies(&session.write(1, FILL_BLOCKS, piece)?) {
            if has_waited(latency, usual) {
                return Ok((Some((taken.len(), latency)), taken));
            }
            usual = usual.min(latency.max(0.1));
            taken.push(latency);
        }
    }
    Ok((None, taken))
}

/// The first zone's cache.
struct Full<'a> {
    /// Writes that it takes.
    writes: usize,
    /// Cleaning is mixed with writes to it.
    mixes: bool,
    /// A write that is not held up, one at a time.
    usual_ms: f64,
    band: &'a Band,
}

impl Full<'_> {
    /// Writes of a try: twice what is left, and a band, by which the cache is now larger and now smaller where cleaning is mixed.
    fn tries(&self) -> u64 {
        let band = if self.mixes { self.band.blocks / FILL_BLOCKS } else { 0 };
        (2 * (self.writes / LEFT) + PIECE) as u64 + band
    }

    /// True if writes to a place are held up by those that have nearly filled the cache.
    fn holds_up(&self, session: &mut Session<'_>, turn: &Turn, pace: &CleaningPace, at: u64) -> Done<bool> {
        for _ in 0..TRIES {
            empty(session, turn, Some(pace))?;
            let most = self.writes - self.writes / LEFT;
            let held_up =
                if self.mixes { at_once(session, most)?.is_some() } else { until_held_up(session, most)?.0.is_some() };
            if !held_up {
                break;
            }
        }
        let places: Vec<u64> = (0..self.tries()).map(|number| at + number * FILL_BLOCKS).collect();
        Ok(any_waited(latencies(&session.write(1, FILL_BLOCKS, &places)?), self.usual_ms))
    }
}
