//! Streams, the sets that are open for them, and the items on their way there. (SMORE, section III-C.)

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use shingle_record::record_blocks;
use tokio::sync::Notify;

use crate::append::uncovered::{Deletions, Uncovered};
use crate::format::{Digest, ItemBody, Member};
use crate::types::{SetId, Version};
use crate::zone_set::ZoneSet;

/// Streams with a set of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    /// Clients' writes, by slots of their lanes' shelves.
    User(u8),
    /// Cleaners' moves, by the cleaners' numbers.
    Clean(u8),
    /// Snapshots of the index.
    Snapshot,
    /// Of what cleaning moves, what is old: it may live for long yet.
    Cold,
}

/// Sets that of all cleaners only the first may open: it never needs more than one beside its open set to win one.
/// Deletions, flushes of the buffer and snapshots that cleaning waits for may open one of them ([`Room::SPARE`]).
/// (AS-CLEAN-4)
pub(crate) const RESERVED: usize = 2;

/// Sets that an append may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// So many available sets must be left for others.
    pub(crate) reserved: usize,
    /// Clean if there are no more; and leave more of them, for several cleaners, as long as that wins something.
    pub(crate) reclaim: bool,
    /// Sets on drives that are avoided are left while there are others. (AS-LANE-3)
    pub(crate) choosy: bool,
}

impl Room {
    /// All but the reserved ones.
    pub(crate) const PLAIN: Self = Self { reserved: RESERVED, reclaim: true, choosy: true };
    /// Everything.
    const ALL: Self = Self { reserved: 0, reclaim: false, choosy: false };
    /// Of what is reserved for cleaning all but what cleaning itself cannot do without.
    pub(crate) const SPARE: Self = Self { reserved: 1, reclaim: false, choosy: false };
}

impl Stream {
    pub(crate) fn room(self) -> Room {
        match self {
            Self::Clean(0) => Room::ALL,
            // Items that find no room there go to the sets that cleaning writes anyway, or are moved later.
            Self::Clean(_) | Self::Cold | Self::Snapshot => Room { reserved: RESERVED, reclaim: false, choosy: true },
            Self::User(_) => Room::PLAIN,
        }
    }
}

/// A set is given up as full when less than this share of a segment fits.
pub(crate) const CUT_MIN: u32 = 8;

/// A set that receives writes.
pub(crate) struct OpenSet {
    pub(crate) id: SetId,
    pub(crate) set: Rc<ZoneSet>,
    /// In the order of fragments.
    pub(crate) members: Vec<Member>,
    /// The set's generation.
    pub(crate) epoch: u64,
    /// Blocks of its smallest zone.
    pub(crate) capacity: u32,
    /// The first free block.
    pub(crate) next: u32,
    pub(crate) digest: Digest,
    pub(crate) flights: Rc<Flights>,
    /// Cleaning fills it: as tightly as cleaning can.
    pub(crate) packed: bool,
}

impl OpenSet {
    pub(crate) fn digest_blocks(&self, more: usize) -> u32 {
        record_blocks((self.digest.encoded().len() + more) as u64).0 as u32
    }

    /// The block at which the next item begins: behind the head of the zones.
    pub(crate) fn next_item(&self) -> u32 {
        self.next.max(1)
    }

    /// Blocks that an item may take whose digest entry takes `entry` bytes.
    pub(crate) fn room(&self, entry: usize) -> u32 {
        self.capacity.saturating_sub(self.next_item() + self.digest_blocks(entry) + 1)
    }
}

/// Items on their way to a set.
#[derive(Default)]
pub(crate) struct Flights {
    /// First blocks of items that are not settled.
    pub(crate) unsettled: RefCell<BTreeSet<u32>>,
    pub(crate) landed: Notify,
    /// A member refused a write: the set is closed early.
    pub(crate) failed: Cell<bool>,
    /// The first block of the item that ended the set. (AS-WRITE-3)
    pub(crate) refused: Cell<Option<u32>>,
    /// A durable superblock says so.
    pub(crate) said: Cell<bool>,
}

/// An item that no snapshot covers, until this is dropped: then it is in the index, or given up.
pub(crate) struct Flight {
    flights: Rc<Flights>,
    uncovered: Rc<Uncovered>,
    set: Rc<ZoneSet>,
    block: u32,
    stamp: u64,
    /// Of its tombstones, if that is what it is.
    oldest: Option<Version>,
}

impl Flight {
    pub(crate) fn new(uncovered: &Rc<Uncovered>, open: &OpenSet, block: u32, body: &ItemBody) -> Self {
        open.set.set_out(block);
        let stamp = body.stamp();
        uncovered.begin(stamp);
        let oldest = match body {
            ItemBody::Tombstones { tombstones, .. } => tombstones.iter().map(|tombstone| tombstone.version).min(),
            ItemBody::Segment(_) => None,
        };
        let (flights, set) = (open.flights.clone(), open.set.clone());
        Self { flights, uncovered: uncovered.clone(), set, block, stamp, oldest }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.set.entered(self.block);
        let (set, generation, block, stamp) = (self.set.clone(), self.set.generation(), self.block, self.stamp);
        let deletions = self.oldest.map(|oldest| Deletions { set, generation, block, stamp, oldest, until: stamp });
        self.uncovered.end(stamp, deletions);
        self.flights.landed.notify_waiters();
    }
}

impl Flights {
    /// The set ends before the item at `block`.
    pub(crate) fn refuse(&self, set: &ZoneSet, block: u32) {
        self.failed.set(true);
        self.refused.set(Some(block));
        set.ends_before(block);
    }

    /// Waits until nothing is on its way.
    pub(crate) async fn drained(&self) {
        loop {
            let landed = self.landed.notified();
            if self.unsettled.borrow().is_empty() {
                return;
            }
            landed.await;
        }
    }

    /// Waits until a snapshot may cover everything in `set`.
    pub(crate) async fn entered(&self, set: &ZoneSet) {
        loop {
            let landed = self.landed.notified();
            if set.all_entered() {
                return;
            }
            landed.await;
        }
    }

    /// Waits until everything before `block` is settled.
    pub(crate) async fn settled_before(&self, block: u32) {
        loop {
            let landed = self.landed.notified();
            if self.unsettled.borrow().first().is_none_or(|first| *first >= block) {
                return;
            }
            landed.await;
        }
    }
}
