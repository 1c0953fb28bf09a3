//! Data zones of a volume: their table, and their opening, ending and resetting.
//!
//! # Invariants
//! - TL-ZONE-1: `live` of a zone is the number of sectors whose place is in it, `kept` that of those which only snapshots have.
//! - TL-LIMIT-1: zones that streams have, take or leave are together no more than the drive allows to be open, or active, with one for the
//!   log, one for the volume's own cleaner, and one to spare. (`runs_that_begin_at_once_keep_to_the_limits`)
//! - TL-LIMIT-2: an opening gives back all zones that the drive has active and that nobody writes on.
//!   (`zones_that_nobody_writes_are_given_back_by_the_next_opening`)

mod change;
mod lifecycle;

use shingle_base::ZoneId;

pub(crate) use shingle_zone_kit::{Pin, Status, Vacated};

/// A volume's part of a zone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// Sectors in it that only snapshots have. (TL-ZONE-1)
    pub(crate) kept: u64,
    /// A checkpoint has all that was written in it.
    pub(crate) covered: bool,
}

/// A data zone.
pub(crate) type Zone = shingle_zone_kit::Zone<Own>;

/// All data zones.
pub(crate) type ZoneTable = shingle_zone_kit::ZoneTable<Own>;

/// Sectors in a zone are only a snapshot's from now on.
pub(crate) fn add_kept(zones: &mut ZoneTable, zone: ZoneId, sectors: u64) {
    if let Some(own) = zones.own_mut(zone) {
        own.kept += sectors;
    }
}

/// Sectors that only a snapshot had are to leave a zone.
pub(crate) fn take_kept(zones: &mut ZoneTable, zone: ZoneId, sectors: u64) {
    if let Some(own) = zones.own_mut(zone) {
        own.kept = own.kept.saturating_sub(sectors);
    }
}
