//! Loads of the dissertation's figures, for the comparison of a drive with the profile that was emitted for it.

use crate::session::{Done, Session, latencies};
use crate::stats::{median, quantile};

/// Writes of the first load.
const SINGLE: usize = 2_000;

/// Writes of each of the others.
const QUEUED: usize = 31 * 300;

/// Draws of a load, all from an empty drive: medians of single draws for the same drive differ by up to 5 %.
const DRAWS: usize = 4;

/// Latencies of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// Median and 99th percentile, in milliseconds.
    pub median_ms: f64,
    /// The latter.
    pub p99_ms: f64,
}

/// The loads of Figures 2.4 and 2.15: single blocks at random in the first GiB, one at a time; and 4, 64, 128 and 256 KiB at random
/// over the drive, 31 at a time.
///
/// # Errors
/// As [`Session::run`].
pub fn run(session: &mut Session<'_>) -> Done<Vec<Load>> {
    let mut loads = Vec::new();
    for (blocks, depth, count) in
        [(1, 1, SINGLE), (1, 31, QUEUED), (16, 31, QUEUED), (32, 31, QUEUED), (64, 31, QUEUED)]
    {
        let region = if depth == 1 { session.blocks().min(1 << 18) } else { session.blocks() };
        let mut taken = Vec::new();
        for _ in 0..DRAWS {
            let places = session.scattered(0, region, blocks, count);
            taken.extend(latencies(&session.write(depth, blocks, &places)?));
            session.erase()?;
        }
        let name = format!("{} KiB, {depth} outstanding", blocks * 4);
        loads.push(Load { name, median_ms: median(&taken), p99_ms: quantile(&taken, 0.99) });
    }
    Ok(loads)
}
