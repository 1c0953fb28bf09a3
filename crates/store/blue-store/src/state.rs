//! State of an open store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zone_kit::{Lane, ZoneTable};

use crate::blob::Blob;
use crate::error::{BlueError, BlueResult};
use crate::ids::{CollectionId, ObjectId};
use crate::looked::Looked;
use crate::object::Object;
use crate::piece::Piece;
use crate::promise::Promises;
use crate::sequence::Collection;
use crate::stats::Counters;
use crate::two_queue::TwoQueue;

/// The lane of copies; those behind it are for new data.
pub(crate) const COPIES: usize = 0;

/// Zones that new data leave to copies: free ones, and the one that copies are written to. Any zone fits two; so if one that could not be
/// emptied has cost its copies' room, any other one still does. (BLU-VICTIM-3)
pub(crate) const RESERVE: u32 = 3;

/// Time after which a zone of which some bytes could not be read is tried again for those who wait for room.
pub(crate) const TRIED_AGAIN: Duration = Duration::from_secs(15);

/// Additions of the store to a zone of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    /// Blocks that were written, and that no metadata name yet. They count as live.
    pub(crate) pending: u32,
    /// Batches that had to do with what lives in it.
    pub(crate) changes: u32,
    /// The cleaner could not empty it the last time, and nothing has changed in it since. (BLU-CLEAN-3)
    pub(crate) passed: bool,
    /// The last write to it failed. It may have failed itself, which the drive is still asked. (BLU-KEPT-2)
    pub(crate) suspect: bool,
    /// The last time at which some of its bytes could not be read.
    pub(crate) hurt: Option<Instant>,
}

/// Additions of the store to a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneOwn {
    /// Its task waits for a free zone.
    pub(crate) waits: bool,
}

/// A place of bytes that were read: zone, its generation, block.
pub(crate) type CacheKey = (u32, u64, u32);

/// State of an open store.
pub(crate) struct State {
    pub(crate) zones: ZoneTable<Own>,
    /// The last generation of each zone.
    pub(crate) epochs: Vec<u64>,
    pub(crate) lanes: Vec<Lane<Piece, LaneOwn>>,
    /// Blocks of transactions that have room, and are not written yet.
    pub(crate) promised: u64,
    /// Room of the metadata that transactions have. (BLU-META-1)
    pub(crate) promised_metadata: Promises,
    /// Calls that wait for room.
    pub(crate) waiters: u32,
    /// No zone was free, and none could be won, at this time. It counts for [`TRIED_AGAIN`]: bytes that could not be read may be readable then.
    pub(crate) full: Option<Instant>,
    /// The first of those who wait for room, a call or a lane, came then, or the last call got some: for the others each zone is tried once
    /// more. (BLU-CLEAN-4)
    pub(crate) waits_since: Instant,
    pub(crate) looked: Looked,
    pub(crate) collections: BTreeMap<CollectionId, Rc<Collection>>,
    pub(crate) objects: TwoQueue<ObjectId, Rc<Object>>,
    pub(crate) data: TwoQueue<CacheKey, Bytes>,
    /// Shared blobs in memory.
    pub(crate) shared: BTreeMap<u64, Weak<Blob>>,
    /// The next number, and the one below which the metadata let numbers be given out.
    pub(crate) next_number: u64,
    pub(crate) numbers_end: u64,
    /// Shards with deferred writes, and bytes of those.
    pub(crate) deferred: BTreeSet<(ObjectId, u32)>,
    pub(crate) deferred_bytes: u64,
    /// Those of the shards with many of them (BLU-DEFER-2), and shards with thin blobs (BLU-THIN-1).
    pub(crate) crowded: BTreeSet<(ObjectId, u32)>,
    /// They could not be gathered, which is tried again later.
    pub(crate) deferred_rest: bool,
    /// Transactions that were applied, and are not durable yet.
    pub(crate) under_way: u64,
    /// Bytes of theirs.
    pub(crate) waiting_bytes: u64,
    pub(crate) counters: Counters,
    pub(crate) stopped: Option<BlueError>,
}

impl State {
    pub(crate) fn running(&self) -> BlueResult<()> {
        match &self.stopped {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Somebody waits for room: a call, or a lane with new data.
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiters > 0 || self.lanes.iter().any(|lane| lane.own.waits)
    }

    /// Nobody need ask whether there is room.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full.is_some_and(|at| now.since(at) < TRIED_AGAIN)
    }

    /// A number that nothing else has: of an object, a shared blob, or a deferred write.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Free zones that new data leave to copies.
    pub(crate) fn reserve(&self) -> u32 {
        RESERVE - u32::from(self.lanes[COPIES].zone.is_some())
    }

    /// Blocks that copies find room for: those of free zones, and the rest of the zone that they are written to.
    pub(crate) fn room_for_copies(&self, zone_blocks: u32) -> u64 {
        let free = u64::from(self.zones.free()) * u64::from(zone_blocks);
        free + self.rest(COPIES, zone_blocks)
    }

    /// Blocks that a lane's zone has left.
    pub(crate) fn rest(&self, lane: usize, zone_blocks: u32) -> u64 {
        let zone = self.lanes.get(lane).and_then(|lane| self.zones.get(lane.zone?));
        zone.map_or(0, |zone| u64::from(zone_blocks.saturating_sub(zone.next)))
    }

    /// Blocks that new data may still take, those that were promised already not counted.
    pub(crate) fn room(&self, zone_blocks: u32) -> u64 {
        let free = u64::from(self.zones.free().saturating_sub(self.reserve())) * u64::from(zone_blocks);
        let rest: u64 = (COPIES + 1..self.lanes.len()).map(|lane| self.rest(lane, zone_blocks)).sum();
        (free + rest).saturating_sub(self.promised)
    }

    /// A batch that is under way may let blocks go, or a zone without a use waits for those who read it.
    pub(crate) fn unsettled(&self) -> bool {
        self.zones.iter().any(|(_, zone)| zone.is_empty() && !zone.broken || zone.unsettled > 0)
    }

    /// New data are being written.
    pub(crate) fn streams(&self) -> bool {
        self.stopped.is_none() && self.lanes.iter().skip(COPIES + 1).any(|lane| lane.is_busy() && !lane.own.waits)
    }

    /// A number that differs when something has been written or become free.
    pub(crate) fn progress(&self) -> u64 {
        self.counters.blocks_written + self.counters.transactions + self.counters.freed
    }

    /// A shared blob in memory.
    pub(crate) fn shared(&self, number: u64) -> Option<Rc<Blob>> {
        self.shared.get(&number)?.upgrade()
    }

    pub(crate) fn add_shared(&mut self, number: u64, blob: &Rc<Blob>) {
        if self.shared.len().is_power_of_two() {
            self.shared.retain(|_, blob| blob.strong_count() > 0);
        }
        self.shared.insert(number, Rc::downgrade(blob));
    }

    /// The collection of an object.
    pub(crate) fn collection_of(&self, pool: u64, hash: u32) -> Option<Rc<Collection>> {
        let from = CollectionId { pool, seed: 0 };
        let of_pool = self.collections.range(from..).take_while(|(id, _)| id.pool == pool);
        of_pool.map(|(_, collection)| collection).find(|one| one.info.get().holds(pool, hash)).cloned()
    }

    /// Blocks of a zone live no more; it is held until that is durable.
    pub(crate) fn take_live(&mut self, zone: u32, blocks: u64) {
        self.zones.take_live(ZoneId(zone), blocks);
        self.zones.hold(ZoneId(zone));
        self.looked.note(zone);
        if blocks > 0 {
            self.full = None;
        }
    }
}
