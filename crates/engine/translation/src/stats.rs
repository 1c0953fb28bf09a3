//! Counters of a volume.

/// Counters of a volume since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sectors that callers wrote.
    pub sectors_written: u64,
    /// Sectors that callers read.
    pub sectors_read: u64,
    /// Sectors that cleaning copied.
    pub sectors_copied: u64,
    /// Blocks written for callers: pairs and zone heads.
    pub blocks_written: u64,
    /// Blocks written for copies.
    pub blocks_copied: u64,
    /// Pairs written for callers.
    pub pairs: u64,
    /// Zones that were emptied by copying.
    pub cleaned: u64,
    /// Extents fewer by gathering: joined with their neighbours because the map had more than its limit.
    pub extents_joined: u64,
    /// Zones that became free.
    pub freed: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

impl Counters {
    /// Bytes written to data zones for each byte that callers wrote; 0 before they wrote any.
    pub fn write_amplification(&self, sector_bytes: u64) -> f64 {
        let blocks = self.blocks_written + self.blocks_copied;
        let written = self.sectors_written * sector_bytes;
        if written == 0 { 0.0 } else { blocks as f64 * shingle_base::BLOCK_SIZE as f64 / written as f64 }
    }
}

/// A volume at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeStats {
    /// Since it was opened.
    pub counters: Counters,
    /// Sectors that hold data.
    pub sectors_mapped: u64,
    /// Those of them that only snapshots have.
    pub sectors_kept: u64,
    /// Snapshots.
    pub snapshots: u32,
    /// Extents of all maps.
    pub extents: u64,
    /// Bytes of memory of the maps.
    pub map_bytes: u64,
    /// Data zones.
    pub zones: u32,
    /// Free ones.
    pub zones_free: u32,
    /// Ones that can be written no more, or not read.
    pub zones_broken: u32,
}
