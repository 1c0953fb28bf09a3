//! Work of the processor that engines tell of. In real time it takes what it takes; a simulation gives it a cost.

/// A kind of work, by the thing that it is done for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A byte that was read and checked, or framed to be written.
    Byte,
    /// A record that a scan of a zone found, or one of a journal: its header checked, its contents judged and entered.
    Record,
    /// An entry of a checkpoint: decoded, and entered in a table in memory.
    Entry,
    /// An extent of such an entry.
    Extent,
    /// An entry that was added behind the last one of a tree.
    Load,
    /// An entry of a tree that was put, replaced or removed.
    Change,
    /// An entry of a tree that was read in its order, and encoded.
    Scan,
}

impl Work {
    /// All kinds, in their order.
    pub const ALL: [Self; 7] =
        [Self::Byte, Self::Record, Self::Entry, Self::Extent, Self::Load, Self::Change, Self::Scan];
}
