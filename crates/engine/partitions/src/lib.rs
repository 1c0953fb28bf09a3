//! Partitions of a zoned drive: ranges of zones, each a drive of its own for one store, with a part of the drive's limits on open
//! and active zones.
//!
//! **Owns** the table of partitions, in zones at the drive's start. **Knows nothing of** the stores.

mod format;
mod plan;
mod table;

pub use format::{ENGINE, NAME_MAX, is_name, parse_superblock, parse_table};
pub use plan::{Partition, Wanted};
pub use table::{PartitionTable, free_zones, look};
