//! Places on the platters: the cache's ring at the outer diameter, the scratch place behind it, the bands, and the map amid them.

/// Blocks of the parts of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The ring of the cache.
    pub(super) ring: u64,
    /// Room for one band, where cleaning keeps it before it overwrites the band.
    pub(super) scratch: u64,
    /// Room for the map.
    pub(super) map: u64,
    /// The host's block before which the map lies.
    pub(super) middle: u64,
}

impl Layout {
    /// Blocks of the medium for so many of the host.
    pub(super) fn total(&self, host: u64) -> u64 {
        self.ring + self.scratch + self.map + host
    }

    /// The place of one of the host's blocks in its band: fixed, as on a conventional disk.
    pub(super) fn native(&self, block: u64) -> u64 {
        let map = if block < self.middle { 0 } else { self.map };
        self.ring + self.scratch + map + block
    }

    pub(super) fn scratch_at(&self) -> u64 {
        self.ring
    }

    pub(super) fn map_at(&self) -> u64 {
        self.ring + self.scratch + self.middle
    }
}
