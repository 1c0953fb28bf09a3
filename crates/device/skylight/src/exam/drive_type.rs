//! Test 1: is the drive shingled, and is its persistent cache of flash? (Dissertation, section 2.4.3.)
//!
//! Random writes to a conventional disk wait for any part of a turn. A shingled one logs them, each a fixed time after the last.
//! The writes stay within 8 MiB, so that a drive with a cache for each band has one of them at work. The decision is the width
//! of the middle half of the latencies as a share of a turn: half a turn or more where they vary.

use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::exam::turn::Turn;
use crate::session::{Done, Session, latencies};
use crate::stats::{bootstrap, median, middle_half};
use crate::target::MIB;

/// Writes.
const WRITES: usize = 400;

/// The region.
const REGION: u64 = 8 * MIB;

/// Share of a turn below which latencies are fixed, and above which they vary.
const FIXED_BELOW: f64 = 0.15;
const VARIES_ABOVE: f64 = 0.35;

/// Share of a turn below which no platter has taken a write.
const FLASH_BELOW: f64 = 0.15;

/// Type of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveType {
    /// Any block is written at its place.
    Conventional,
    /// Writes are logged on the platters.
    ShingledDiskCache,
    /// Writes are logged on flash.
    ShingledFlashCache,
}

/// Outcome of the test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveTypeFound {
    /// The type.
    pub drive_type: Answer<DriveType>,
    /// Latencies within 8 MiB, in milliseconds, in the order of writing.
    pub latencies_ms: Vec<f64>,
    /// Interval of the width of their middle half, as a share of a turn.
    pub width: (f64, f64),
}

/// Examines the type.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, turn: &Turn) -> Done<DriveTypeFound> {
    let region = REGION.min(session.blocks());
    let places = session.scattered(0, region, 1, WRITES);
    let taken = session.write(1, 1, &places)?;
    let latencies_ms = latencies(&taken);
    // The first one's arm comes from anywhere.
    let counted = latencies_ms.get(1..).unwrap_or_default();
    let width = bootstrap(counted, &mut session.random, |drawn| middle_half(drawn) / turn.turn_ms);
    let drive_type = if let Some(through) = session.through().filter(|_| width.0 <= VARIES_ABOVE) {
        Answer::cannot_tell(format!(
            "writes do not wait as a conventional disk's, but {through} lies between, whose own log looks the same: examine the drive itself"
        ))
    } else if median(counted) < FLASH_BELOW * turn.turn_ms && width.1 < FIXED_BELOW {
        Answer::tested(DriveType::ShingledFlashCache)
    } else if width.1 < FIXED_BELOW {
        Answer::tested(DriveType::ShingledDiskCache)
    } else if width.0 > VARIES_ABOVE {
        Answer::tested(DriveType::Conventional)
    } else {
        Answer::cannot_tell(format!(
            "the middle half of random writes is {:.2} to {:.2} of a turn wide: neither fixed nor as varying as a conventional disk's",
            width.0, width.1
        ))
    };
    Ok(DriveTypeFound { drive_type, latencies_ms, width })
}
