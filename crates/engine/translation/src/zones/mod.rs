//! Data zones of a volume: their table, and their opening, ending and resetting.

mod lifecycle;
mod table;

pub(crate) use table::{Status, Zone, ZoneTable};
