//! The newest snapshot of the index, the one that is being taken, and what cleaning may go by because of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use tokio::sync::Mutex;

use crate::append::uncovered::Uncovered;
use crate::format::SnapshotPiece;
use crate::types::SetId;

/// The newest snapshot of the index that is whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Tombstones of versions below it are not needed.
    pub(crate) tombstone_floor: u64,
    pub(crate) pieces: Vec<SnapshotPiece>,
}

/// The snapshots of an array.
pub(crate) struct Snapshots {
    pub(crate) newest: RefCell<Snapshot>,
    /// The floor of the snapshot that a durable superblock names: what cleaning may go by.
    pub(crate) durable_floor: Cell<u64>,
    /// One is taken at a time.
    pub(crate) taking: Mutex<()>,
    /// The one that is being taken waits for space.
    pub(crate) waits: Cell<bool>,
    pub(crate) uncovered: Rc<Uncovered>,
    /// Sets of older ones that tasks empty.
    pub(crate) trimming: RefCell<BTreeSet<SetId>>,
    /// Sets that were not collected because of their tombstones alone, since the last snapshot that cleaning took.
    pub(crate) held_by_tombstones: RefCell<BTreeSet<SetId>>,
}

impl Snapshots {
    pub(crate) fn new(newest: Snapshot) -> Self {
        Self {
            durable_floor: Cell::new(newest.tombstone_floor),
            newest: RefCell::new(newest),
            taking: Mutex::new(()),
            waits: Cell::new(false),
            uncovered: Rc::default(),
            trimming: RefCell::default(),
            held_by_tombstones: RefCell::default(),
        }
    }
}
