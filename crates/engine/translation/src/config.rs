//! Parameters of a volume: those it is made with, and those of an opening.

use shingle_base::StoreId;

use crate::room::FREE_MIN;

/// Parameters of a new volume. All are fixed then.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Bytes that the volume has, rounded down to whole sectors; `None` = nine tenths of what its zones hold.
    pub size_bytes: Option<u64>,
    /// Bytes of a sector: 512 or 4,096.
    pub sector_bytes: u64,
    /// Zones of checkpoints and journal; `None` = as many as the largest map takes.
    pub metazones: Option<u32>,
    /// Formats also a drive that holds a store, or data.
    pub force: bool,
    /// Identity of the volume; `None` = a random one.
    pub store: Option<StoreId>,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self { size_bytes: None, sector_bytes: 4096, metazones: None, force: false, store: None }
    }
}

/// Parameters of an opening.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Zones that are free before cleaning ends; at least [`FREE_MIN`](crate::FREE_MIN).
    pub low_water: u32,
    /// Zones that recovery reads at a time.
    pub recovery_depth: u32,
    /// Goes on where an opening is refused, because names of sectors cannot be read: those sectors may then read as they were
    /// before they were last written. The report says which blocks they are.
    pub accept_loss: bool,
    /// Memory of the volume's own map, above which its extents are joined by copying; at least 64 B for each MiB of the volume are allowed. `None` =
    /// any. (TL-MEM-1)
    pub map_bytes: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self { low_water: FREE_MIN, recovery_depth: 8, accept_loss: false, map_bytes: None }
    }
}
