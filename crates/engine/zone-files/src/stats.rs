//! The files in numbers.

/// Counters since the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of files that were written.
    pub bytes_written: u64,
    /// Blocks that were written for them.
    pub blocks_written: u64,
    /// Commands that wrote them.
    pub writes: u64,
    /// Bytes that were copied by cleaning.
    pub bytes_copied: u64,
    /// Blocks that were written for copies.
    pub blocks_copied: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Zones that were emptied by copying.
    pub cleaned: u64,
    /// Zones that became free.
    pub freed: u64,
    /// Journal entries.
    pub entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Syncs that were asked for.
    pub syncs: u64,
}

/// The files in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesStats {
    /// Counters since the opening.
    pub counters: Counters,
    /// Files.
    pub files: u64,
    /// Directories, but for the root.
    pub directories: u64,
    /// Extents of all files.
    pub extents: u64,
    /// Bytes of data zones.
    pub capacity_bytes: u64,
    /// Bytes of blocks that files need.
    pub live_bytes: u64,
    /// Bytes that can still be written, once zones are cleaned.
    pub free_bytes: u64,
    /// Data zones.
    pub zones: u32,
    /// Data zones that are free.
    pub zones_free: u32,
    /// Data zones that are open.
    pub zones_open: u32,
    /// Data zones that can be written no more.
    pub zones_broken: u32,
}
