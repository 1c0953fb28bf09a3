//! Settings of the model of F2FS.

/// Choices of a chunkserver on F2FS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F2fsOptions {
    /// `fdatasync` after every append: the file's nodes are written for roll-forward.
    pub synced: bool,
    /// Streams are told apart by write-lifetime hints: OSS Data to the hot log, OSS GC to the cold one. The paper's had
    /// none: all data is warm.
    pub hints: bool,
    /// The background thread cleans a section at a time while the drive has had no request for 5 s.
    pub background: bool,
    /// Sections of the large drive that a small one stands for: it then has the large one's shares for cleaning.
    pub like_sections: Option<u32>,
    /// Data begins in the first sequential zone, as if it had been written past all conventional ones.
    pub sequential: bool,
}

impl Default for F2fsOptions {
    fn default() -> Self {
        Self { synced: true, hints: false, background: true, like_sections: None, sequential: false }
    }
}
