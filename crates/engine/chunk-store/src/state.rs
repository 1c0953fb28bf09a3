//! Everything a store holds in memory, changed only between two awaits (RT-1).

use std::collections::BTreeMap;

use shingle_base::{ChunkId, ZoneId};

use crate::append::pools::Pools;
use crate::append::turns::Turns;
use crate::append::{OpenChunk, Resumption, Starved, ZoneWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::gc::Lifetimes;
use crate::index::ChunkTable;
use crate::index::{Added, Located, Tally};
use crate::index::{Chunk, Handle};
use crate::journal::Deletions;
use crate::journal::Resumed;
use crate::journal::Unmarked;
use crate::landing::LandingLog;
use crate::stats::Counters;
use crate::types::ZoneStatus;
use crate::types::{ChunkStat, Stream};
use crate::zones::ZoneTable;
use crate::zones::leases::Leases;

/// A store's state.
pub(crate) struct StoreState {
    pub(crate) chunks: ChunkTable,
    pub(crate) zones: ZoneTable,
    pub(crate) pools: Pools,
    /// Chunks that are not sealed.
    pub(crate) open: BTreeMap<Handle, OpenChunk>,
    pub(crate) deletions: Deletions,
    /// Order in which zones are written.
    pub(crate) turns: Turns,
    /// Small appends, where they land together.
    pub(crate) landing: Option<LandingLog>,
    /// Zones in a pool.
    pub(crate) writers: BTreeMap<ZoneId, ZoneWriter>,
    /// Chunks with appends that wait for a zone.
    pub(crate) starved: Starved,
    /// Leases of open zones.
    pub(crate) leases: Leases,
    /// Zones, one after the other, that the drive has failed to open (CS-ZONE-7).
    pub(crate) failed_openings: u32,
    /// Reason why the store has stopped, if it has.
    pub(crate) stopped: Option<String>,
    pub(crate) counters: Counters,
    /// Lifetimes of records.
    pub(crate) lifetimes: Lifetimes,
    pub(crate) tally: Tally,
    pub(crate) unmarked: Unmarked,
    pub(crate) resumed: Resumed,
}

impl StoreState {
    /// The chunk of `id`, if callers may use it.
    pub(crate) fn chunk(&self, id: ChunkId) -> Result<(Handle, &Chunk)> {
        let absent = || Error::new(ErrorKind::NotFound, "there is no such chunk").of(id);
        let handle = self.chunks.find(id).ok_or_else(absent)?;
        let chunk = self.chunks.get(handle).ok_or_else(absent)?;
        if self.is_hidden(handle, chunk) {
            return Err(absent());
        }
        Ok((handle, chunk))
    }

    /// True if callers do not see a chunk: not created yet, or about to be deleted.
    pub(crate) fn is_hidden(&self, handle: Handle, chunk: &Chunk) -> bool {
        self.deletions.hides(chunk.id, handle) || self.open.get(&handle).is_some_and(|open| open.creating)
    }

    /// Fails once the store has stopped.
    pub(crate) fn running(&self) -> Result<()> {
        match &self.stopped {
            None => Ok(()),
            Some(why) => Err(Error::new(ErrorKind::Stopped, format!("the chunk store has stopped: {why}"))),
        }
    }

    /// Enters a durable record into the index (CS-IDX-1) and the zone table.
    pub(crate) fn index(&mut self, handle: Handle, record: Located) {
        let Some(chunk) = self.chunks.get_mut(handle) else { return };
        if chunk.groups.push(record) == Added::Group {
            self.zones.add_group(record.zone, handle);
        }
        chunk.size = chunk.size.max(record.end());
        self.zones.add_live(record.zone, record.blocks());
        self.zones.note_length(record.zone, record.blocks());
        self.tally.entered();
    }

    /// Takes a chunk among those that are being written.
    pub(crate) fn open_chunk(&mut self, handle: Handle, stream: Stream, size: u32, footprint: u32, creating: bool) {
        let pool = self.pools.of(stream);
        let before = self.pools.note_opened(pool, handle);
        let expected = self.pools.expected(pool).unwrap_or(u32::MAX);
        self.open.insert(handle, OpenChunk { creating, expected, ..OpenChunk::at(size, footprint, pool, before) });
    }

    /// Forgets what only a chunk that is being written needs. Returns the zone it was written to.
    pub(crate) fn close_chunk(&mut self, handle: Handle) -> Option<ZoneId> {
        let open = self.open.remove(&handle)?;
        if let Some(pool) = open.pool {
            self.pools.note_closed(pool);
        }
        let writer = open.zone.and_then(|zone| self.writers.get_mut(&zone))?;
        writer.chunks -= 1;
        open.zone
    }

    /// Takes a chunk and all its records out of the index. `now` is the last sequence number.
    pub(crate) fn remove_chunk(&mut self, handle: Handle, now: u64) {
        let Some(chunk) = self.chunks.remove(handle) else { return };
        self.resumed.remove(handle);
        for group in chunk.groups.iter() {
            self.tally.left(group.len() as u64);
            let zone = self.zones.get(group.zone);
            self.lifetimes.died(zone.stream, now.saturating_sub(zone.last_write), group.blocks().0);
            self.zones.remove_group(group.zone, handle, group.blocks());
        }
        for group in chunk.groups.iter() {
            self.zones.note_garbage(group.zone);
        }
    }

    /// Takes a zone out of its pool: it gets no more records.
    pub(crate) fn retire(&mut self, zone: ZoneId, status: ZoneStatus) {
        self.writers.remove(&zone);
        self.pools.remove(zone);
        for open in self.open.values_mut() {
            if open.zone == Some(zone) {
                open.zone = None;
            }
        }
        self.zones.set_status(zone, status);
        self.zones.note_garbage(zone);
        // The close is worth a mark, if one that can wait.
        self.unmarked.note(zone, 0);
    }

    /// A chunk as callers see it. `limit` is the blocks a chunk of its stream may take.
    pub(crate) fn stat(&self, handle: Handle, chunk: &Chunk, limit: u32, append_max: u64) -> ChunkStat {
        let room = match self.open.get(&handle) {
            Some(open) if !chunk.sealed && !open.sealing.is_begun() => {
                let blocks = shingle_base::Blocks(u64::from(limit.saturating_sub(open.footprint)));
                shingle_record::sliced_capacity(blocks).min(append_max).min(u64::from(u32::MAX - open.end))
            }
            _ => 0,
        };
        // A seal counts once it is durable.
        let sealed = chunk.sealed && !self.open.contains_key(&handle);
        ChunkStat { id: chunk.id, stream: chunk.stream, size: u64::from(chunk.size), sealed, room }
    }

    /// Chunks with appends that wait for a zone, to land, or for the entry that lets them go on.
    pub(crate) fn waiting(&self) -> Vec<Handle> {
        let mut handles: Vec<Handle> = self.starved.iter().collect();
        let resuming = self.open.iter().filter(|(_, open)| open.resumption != Resumption::Done);
        handles.extend(resuming.map(|(&handle, _)| handle));
        handles.sort_unstable();
        handles.dedup();
        handles
    }

    /// Appends that have no entry in the index: those that wait or are being written, and those that have only landed.
    /// Not fewer than there are.
    pub(crate) fn unindexed(&self) -> u64 {
        self.queued_appends() + self.open.values().map(|open| open.tail.pieces() as u64).sum::<u64>()
    }

    /// Appends that wait or are being written.
    pub(crate) fn queued_appends(&self) -> u64 {
        self.open.values().map(|open| u64::from(open.inflight + open.landing) + open.queue.len() as u64).sum()
    }
}
