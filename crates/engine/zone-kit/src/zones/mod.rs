//! Zones of an engine: their table, and who reads in them.

mod pins;
mod table;
#[cfg(test)]
mod tests;
mod zone;

pub use pins::Pin;
pub use table::{Vacated, Written, ZoneTable};
pub use zone::{Reset, Status, Zone};
