//! Knowledge of a block store's contents from the calls made to it, through power cuts.
//!
//! **Owns** the handle. **Knows nothing of** the store: callers tell when a call begins and when it has its answer. A call whose
//! token is dropped without one may have happened, may happen later, or never.
//!
//! # Invariants
//! - ST-SHADOW-1: no history of a store that keeps API-BLK-2 is refused.
//! - ST-SHADOW-2: nothing that was begun before a power cut completes after it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use shingle_store_api::Durability;

use super::state::{Change, State};
use super::tokens::{Changing, Flushing, Life, Reading};

/// The contents that a block store may have. A cheap handle; [`fork`](Self::fork) makes a copy of its own.
///
/// After a power cut a sector has any write that is not older than the last durable one; the next life finds out which, and keeps
/// it. A write larger than a sector may be there in part. A trimmed sector reads as before or as zeros until it is written again.
#[derive(Clone)]
pub struct BlockShadow(Rc<RefCell<State>>);

impl BlockShadow {
    /// A store of so many sectors, none of which was ever written.
    pub fn new(sectors: u64, sector_bytes: u64) -> Self {
        Self(Rc::new(RefCell::new(State::new(sectors, sector_bytes))))
    }

    /// Holds the store to more than the contract says: a trimmed sector that was read as zeros stays so until it is written again
    /// or the power fails.
    #[must_use]
    pub fn with_steady_trims(self) -> Self {
        self.0.borrow_mut().rules.steady_trims = true;
        self
    }

    /// Holds the store to more than the contract says: of calls that overlap in time and place, the one that began last wins, for
    /// readers and after a power cut.
    #[must_use]
    pub fn in_order_of_calls(self) -> Self {
        self.0.borrow_mut().rules.in_order_of_calls = true;
        self
    }

    /// A copy that shares nothing with this one: for an image of the drive at this instant.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Rc::new(RefCell::new(self.0.borrow().clone())))
    }

    /// Number of sectors.
    pub fn sectors(&self) -> u64 {
        self.0.borrow().sectors
    }

    /// Bytes of a sector.
    pub fn sector_bytes(&self) -> u64 {
        self.0.borrow().sector_bytes
    }

    /// Sectors of which it is not certain what they hold now and what they hold after a power cut.
    pub fn unsettled(&self) -> u64 {
        self.0.borrow().all().filter(|versions| !versions.is_settled()).count() as u64
    }

    /// The power fails, or the process is killed: calls under way end. The values that the next life finds are durable.
    pub fn cut(&self) {
        self.0.borrow_mut().cut();
    }

    /// Begins a write of these sectors: before the store is called.
    pub fn begin_write(&self, sectors: Range<u64>, durability: Durability) -> Changing {
        self.begin(sectors, Change::Write(durability))
    }

    /// Begins a write of zeros: before the store is called.
    pub fn begin_zeros(&self, sectors: Range<u64>, durability: Durability) -> Changing {
        self.begin(sectors, Change::Zeros(durability))
    }

    /// Begins a trim: before the store is called.
    pub fn begin_trim(&self, sectors: Range<u64>) -> Changing {
        self.begin(sectors, Change::Trim)
    }

    fn begin(&self, sectors: Range<u64>, change: Change) -> Changing {
        let number = self.0.borrow_mut().begin(sectors.clone(), change);
        Changing { life: Life::of(&self.0), number, sectors, change }
    }

    /// Begins a read, or a look at the sectors that are mapped: before the store is called.
    pub fn begin_read(&self, sectors: Range<u64>) -> Reading {
        let began = self.0.borrow_mut().begin_read();
        Reading { life: Life::of(&self.0), began, sectors }
    }

    /// Begins a flush: before the store is called.
    pub fn begin_flush(&self) -> Flushing {
        let began = self.0.borrow_mut().tick();
        Flushing { life: Life::of(&self.0), began }
    }
}
