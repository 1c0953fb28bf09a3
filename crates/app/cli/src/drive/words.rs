//! Zones in words, as blkzone has them.

use shingle_zoned::{ZoneInfo, ZoneState};

/// The condition's abbreviation, as blkzone prints it.
pub(super) fn abbreviation(state: ZoneState) -> &'static str {
    match state {
        ZoneState::NotWritePointer => "nw",
        ZoneState::Empty => "em",
        ZoneState::ImplicitOpen => "oi",
        ZoneState::ExplicitOpen => "oe",
        ZoneState::Closed => "cl",
        ZoneState::Full => "fu",
        ZoneState::ReadOnly => "ro",
        ZoneState::Offline => "ol",
    }
}

/// The zone's type, as blkzone prints it. A conventional zone stays one when it goes read-only or offline.
pub(super) fn zone_type(zone: &ZoneInfo, conventional_zones: u32) -> &'static str {
    if zone.zone.0 < conventional_zones { "CONVENTIONAL" } else { "SEQ_WRITE_REQUIRED" }
}
