//! The drives that have a chain of superblocks, and where each is in it. (AS-SB-3)

use crate::format::Base;

/// A drive that has the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeper {
    /// Its base, and the newest superblock behind that.
    pub(super) base: Base,
    /// The block behind the base.
    pub(super) behind: u32,
    /// Changes of sets from this number on are not in its newest superblock, and those of live bytes not in its base.
    pub(super) since: u64,
    pub(super) began: u64,
}

impl Keeper {
    pub(super) fn has_superblock(&self) -> bool {
        self.base.follows > 0
    }
}
