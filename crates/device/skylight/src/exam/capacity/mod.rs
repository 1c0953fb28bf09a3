//! Tests 6 to 10: the size of the persistent cache, its map, and its organisation. (Dissertation, sections 2.4.6 and 2.4.7.)
//!
//! Random writes go on until cleaning holds them up. Three organisations show in three ways: a log that gathers writes is full
//! everywhere at once; a cache band of a few data bands is full after writes to one place alone; the cache of a zone after
//! writes to that zone.

mod log;
mod sets;
mod zones;

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::bands::{Band, has_waited};
use crate::exam::cleaning::CleaningPace;
use crate::exam::journal::JournalFound;
use crate::exam::turn::Turn;
use crate::session::{Done, Session};

/// Random writes until cleaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Size of a write, in KiB.
    pub kib: u64,
    /// Writes outstanding.
    pub depth: usize,
    /// Writes before cleaning held one up; `None`: it did not.
    pub writes: Option<u64>,
    /// Latencies in milliseconds of one in so many writes.
    pub latencies_ms: Vec<f64>,
    /// That number.
    pub one_in: usize,
}

/// A persistent cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "organisation")]
pub enum Cache {
    /// One log of journal entries.
    Log {
        /// Blocks of the host's data that its entries have room for.
        data_blocks: u64,
        /// Blocks that pass the head while it is filled by single blocks, out-of-band data included.
        raw_blocks: u64,
        /// Extents in its map; `None`: the room for data is always full before.
        map_extents: Option<u64>,
        /// Room comes back from the log's end, as stale entries, and not in place.
        circular: Option<bool>,
    },
    /// Cache bands that data bands share by their number.
    Sets {
        /// Blocks of a cache band.
        set_blocks: u64,
        /// Cache bands.
        sets: u64,
    },
    /// Zones of the drive, each with a cache of its own.
    Zones {
        /// Blocks of a zone's cache before writes wait.
        cache_blocks: u64,
        /// Blocks of a zone.
        zone_blocks: u64,
        /// Share of the time that cleaning takes from writers from the start; zero: none.
        mix_share: f64,
    },
}

impl Cache {
    /// Blocks of the host's data that all of it takes.
    pub fn blocks(&self, drive_blocks: u64) -> u64 {
        match *self {
            Self::Log { data_blocks, .. } => data_blocks,
            Self::Sets { set_blocks, sets } => set_blocks * sets,
            Self::Zones { cache_blocks, zone_blocks, .. } => {
                (cache_blocks as f64 * drive_blocks as f64 / zone_blocks.max(1) as f64) as u64
            }
        }
    }
}

/// Outcome of the tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityFound {
    /// The cache.
    pub cache: Answer<Cache>,
    /// The fills, in order.
    pub fills: Vec<Fill>,
    /// Latencies in milliseconds of Tests 9 and 10, of one in so many writes each.
    pub repeats: Vec<Fill>,
}

/// Examines the cache of a drive that writes to one.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(
    session: &mut Session<'_>,
    turn: &Turn,
    pace: Option<&CleaningPace>,
    journal: &JournalFound,
    band: &Band,
) -> Done<CapacityFound> {
    match (journal.entries.value(), pace) {
        (Some(Some(entries)), _) => log::examine(session, turn, pace, entries),
        (Some(None), None) => sets::examine(session, band),
        (Some(None), Some(pace)) => zones::examine(session, turn, pace, band),
        (None, _) => {
            let cache = Answer::cannot_tell("it is not known whether the drive gathers writes");
            Ok(CapacityFound { cache, fills: Vec::new(), repeats: Vec::new() })
        }
    }
}

/// True if a write of a list waited for cleaning.
fn any_waited(latencies_ms: impl IntoIterator<Item = f64>, usual_ms: f64) -> bool {
    latencies_ms.into_iter().any(|latency| has_waited(latency, usual_ms))
}
