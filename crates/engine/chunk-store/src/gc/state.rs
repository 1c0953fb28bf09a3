//! GC between its steps.

use shingle_base::ZoneId;

/// The zone that takes a stream's moved records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) zone: ZoneId,
    /// Block of the next record.
    pub(crate) next: u32,
}

/// GC between its steps.
#[derive(Default)]
pub(crate) struct GcState {
    /// The zone being emptied.
    pub(crate) victim: Option<ZoneId>,
    /// A destination for each stream.
    pub(crate) destinations: [Option<Destination>; 3],
    /// Bytes of the victim moved so far, and in all.
    pub(crate) moved: (u64, u64),
}
