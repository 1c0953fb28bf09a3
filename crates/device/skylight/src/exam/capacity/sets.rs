//! Cache bands that data bands share by their number: writes to one place fill one of them, and the next data band of the same
//! cache band is the first to whose writes it then has no room.

use super::found::{Cache, CapacityFound, Fill};
use crate::answer::Answer;
use crate::exam::bands::{Band, FILL_BLOCKS, fill, has_waited};
use crate::session::{Done, Session, latencies};
use crate::stats::median;

/// The most data bands that are tried.
const BANDS_MAX: u64 = 1 << 17;

/// Data bands that are tried at once.
const PIECE: u64 = 64;

pub(super) fn examine(session: &mut Session<'_>, band: &Band) -> Done<CapacityFound> {
    let at = band.start;
    let (Some(first), Some(second)) = (fill(session, at)?, fill(session, at)?) else {
        let cache =
            Answer::cannot_tell("writes to one place are never held up, and the drive does not clean while idle");
        return Ok(CapacityFound { cache, fills: Vec::new(), repeats: Vec::new() });
    };
    let writes = first.behind + second.writes;
    let latencies_ms = Vec::new();
    let one = Fill {
        kib: FILL_BLOCKS * 4,
        depth: 1,
        writes: Some(writes as u64),
        held_ms: Some(second.waited_ms),
        tested: false,
        latencies_ms,
        one_in: 1,
    };
    let set_blocks = writes as u64 * FILL_BLOCKS;
    let cache = match sets(session, band, writes, second.behind)? {
        Some(sets) => Answer::known(Cache::Sets { set_blocks, sets }),
        None => Answer::cannot_tell(format!(
            "a cache band of {set_blocks} blocks was found, and no second data band that uses it"
        )),
    };
    Ok(CapacityFound { cache, fills: vec![one], repeats: Vec::new() })
}

/// Fills a cache band to its last block; after the last fill it has `behind` writes and the one that waited.
fn fill_up(session: &mut Session<'_>, at: u64, writes: usize, behind: usize) -> Done<f64> {
    let places: Vec<u64> = (behind + 1..writes).map(|number| at + number as u64 % 4 * FILL_BLOCKS).collect();
    Ok(median(&latencies(&session.write(1, FILL_BLOCKS, &places)?)).max(1.0))
}

/// The number of cache bands: the distance of the next data band with the same one.
fn sets(session: &mut Session<'_>, band: &Band, writes: usize, mut behind: usize) -> Done<Option<u64>> {
    let last = ((session.blocks() - band.start) / band.blocks).saturating_sub(1).min(BANDS_MAX);
    let mut next = 1;
    while next <= last {
        let usual = fill_up(session, band.start, writes, behind)?;
        let mut candidate = None;
        while next <= last && candidate.is_none() {
            let tried: Vec<u64> = (next..=last.min(next + PIECE)).collect();
            let places: Vec<u64> = tried.iter().map(|number| band.start + number * band.blocks).collect();
            let taken = session.write(1, FILL_BLOCKS, &places)?;
            candidate =
                tried.iter().zip(taken).find(|(_, taken)| has_waited(taken.ms(), usual)).map(|(&number, _)| number);
            next = candidate.unwrap_or(next + PIECE) + 1;
        }
        let Some(candidate) = candidate else { return Ok(None) };
        // Another cache band may have been full by chance: it waits again after a second fill only if it is the same.
        let Some(filled) = fill(session, band.start)? else { return Ok(None) };
        let usual = fill_up(session, band.start, writes, filled.behind)?;
        let again = session.write(1, FILL_BLOCKS, &[band.start + candidate * band.blocks + FILL_BLOCKS])?;
        if again.iter().any(|taken| has_waited(taken.ms(), usual)) {
            return Ok(Some(candidate));
        }
        match fill(session, band.start)? {
            Some(filled) => behind = filled.behind,
            None => return Ok(None),
        }
    }
    Ok(None)
}
