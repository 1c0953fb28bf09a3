//! Zones that are kept free, and for whom.
//!
//! # Invariants
//! - TL-ROOM-1: writers leave [`COPY_RESERVE`] zones to copies, and controllers one to the volume's own cleaner, so that this can go on
//!   however full the drive is.

use std::time::Duration;

/// The longest time for which writers wait for a controller.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Free zones that writers leave to copies.
pub(crate) const COPY_RESERVE: u32 = 2;

/// Free zones that controllers leave to the volume's own cleaner.
pub(crate) const CLEANER_RESERVE: u32 = 1;

/// The least number of free zones before cleaning ends.
pub const FREE_MIN: u32 = COPY_RESERVE + 2;
