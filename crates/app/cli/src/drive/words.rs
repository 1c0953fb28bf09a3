//! Zones in words, as blkzone has them, and tables.

use shingle_zoned::{ZoneInfo, ZoneState};

use crate::failure::Outcome;
use crate::output;

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

/// Rows of a table, the first of them its head, each column as wide as it needs; those of `figures` to the right.
pub(super) fn print_columns<const N: usize>(rows: &[[String; N]], figures: std::ops::Range<usize>) -> Outcome {
    let mut widths = [0; N];
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = text.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (text, width))| {
            if figures.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        let cells: Vec<_> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    output::print(&rows.iter().map(line).collect::<String>())
}
