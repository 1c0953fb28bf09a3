//! Outcome of the tests of the persistent cache.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::bands::has_waited;

/// Random writes until cleaning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Size of a write, in KiB.
    pub kib: u64,
    /// Writes outstanding.
    pub depth: usize,
    /// Writes before cleaning held one up; `None`: it did not.
    pub writes: Option<u64>,
    /// Milliseconds in which one of the writes that were held up ended, in the mean.
    #[serde(default)]
    pub held_ms: Option<f64>,
    /// Writes behind that place take longer than those before it (rank test).
    #[serde(default)]
    pub tested: bool,
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

/// True if a write of a list waited for cleaning.
pub(super) fn any_waited(latencies_ms: impl IntoIterator<Item = f64>, usual_ms: f64) -> bool {
    latencies_ms.into_iter().any(|latency| has_waited(latency, usual_ms))
}
