//! Partitions of a zoned drive: ranges of zones, each a drive of its own for one store, with a part of the drive's limits on open
//! and active zones.
//!
//! **Owns** the table of partitions, in zones at the drive's start. **Knows nothing of** the stores.

mod format;
mod partition;
mod plan;
mod table;
mod zones;

pub use format::{ENGINE, parse_superblock, parse_table};
pub use partition::{NAME_MAX, Partition, is_name};
pub use plan::Wanted;
pub use table::{PartitionTable, free_zones, look};
