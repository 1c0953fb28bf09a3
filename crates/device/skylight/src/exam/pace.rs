//! The pace at which a drive cleans.

use serde::{Deserialize, Serialize};

/// Pace of cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CleaningPace {
    /// Quiet time before the drive cleans, in milliseconds.
    pub quiet_ms: f64,
    /// Time of cleaning a band with a few blocks in the cache, in milliseconds.
    pub band_ms: f64,
}
