//! Snapshots of the index in zone sets of their own. (SMORE, sections III-D and IV-A.)
//!
//! # Invariants
//! - AS-SNAP-1: a snapshot covers what was in the index when it was taken, and the superblock that names it says for each
//!   set up to which block that is; sets that were closed then become indexed.
//! - AS-SNAP-3: a tombstone below the snapshot's floor is needed no more: what it deletes lies where the snapshot covers it,
//!   and is not in it. (The paper's rule, tombstones older than the snapshot, forgets the sets that were open then.) One that
//!   is needed is not covered either ([`crate::append::uncovered`]).
//! - AS-SNAP-2: the snapshot before it is trimmed only then.
//! - AS-SNAP-4: a snapshot is taken once a durable superblock names it, whatever becomes of the one before.
//!   `a_snapshot_neither_waits_for_the_one_before_nor_fails_with_it`.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::select;

use crate::append::item::Item;
use crate::append::open_set::{RESERVED, Room, Stream};
use crate::clean::collect::READERS_WAIT;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::SnapshotPiece;
use crate::object::own_names::SNAPSHOT_NAME;
use crate::snapshot::newest::Snapshot;
use crate::types::{Part, PartPlace, SetState, Version};
use crate::zone_set::{List, ZoneSet};

/// Bytes of the index that are encoded at a time: writers wait for no longer.
pub(crate) const CHUNK_MAX: usize = 128 << 10;

/// Bytes of a piece, which is one segment: writers wait while it is framed.
const PIECE_MAX: usize = 4 << 20;

/// The block below which everything in a set is in the index now, if the set holds objects.
fn covered_now(set: &ZoneSet) -> Option<u32> {
    match set.state() {
        SetState::Closed => Some(u32::MAX),
        SetState::Open => Some(set.entered_below()),
        _ => None,
    }
}

/// A snapshot's chunks on their way to pieces.
pub(crate) struct Pieces<'a> {
    engine: &'a Rc<Engine>,
    room: Room,
    offset: u64,
    piece: BytesMut,
    written: Vec<SnapshotPiece>,
}

impl<'a> Pieces<'a> {
    pub(crate) fn new(engine: &'a Rc<Engine>, room: Room) -> Self {
        Self { engine, room, offset: 0, piece: BytesMut::new(), written: Vec::new() }
    }

    /// Adds the next chunk.
    pub(crate) async fn add(&mut self, chunk: &[u8]) -> Result<()> {
        let most = PIECE_MAX.min(self.engine.segment_length as usize);
        if !self.piece.is_empty() && self.piece.len() + 4 + chunk.len() > most {
            self.write().await?;
        }
        self.piece.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        self.piece.extend_from_slice(chunk);
        Ok(())
    }

    /// Writes what is left, and returns all pieces.
    pub(crate) async fn end(mut self) -> Result<Vec<SnapshotPiece>> {
        self.write().await?;
        Ok(self.written)
    }

    async fn write(&mut self) -> Result<()> {
        let piece = self.engine.write_piece(self.piece.split().freeze(), self.offset, self.room).await?;
        self.offset += u64::from(piece.length);
        self.written.push(piece);
        Ok(())
    }
}

impl Engine {
    /// Takes a snapshot. Writers go on: what is taken at once is a read transaction of the index.
    ///
    /// # Errors
    /// `NoSpace` and what else appending fails with; the snapshot before is still there then.
    pub(crate) async fn take_snapshot(self: &Rc<Self>) -> Result<()> {
        self.writable()?;
        let engine = self.clone();
        // Also if the caller waits no more: others may wait for the end of it. (AS-WRITE-4)
        let taking = self.rt.spawn(async move {
            let one = engine.snapshots.taking.lock().await;
            let taken = engine.write_snapshot(Stream::Snapshot.room()).await;
            drop(one);
            engine.space.notify_waiters();
            taken
        });
        taking.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Takes a snapshot in sets that are kept for cleaning, whose caller this is; or waits for the one that is being taken, which may
    /// have its floor when this returns. Not if that waits for cleaning, nor for longer than [`READERS_WAIT`] after its last piece.
    pub(crate) async fn snapshot_from_reserve(self: &Rc<Self>) -> Result<()> {
        let floor = self.snapshots.durable_floor.get();
        let place = || self.allocator.look_at(Stream::Snapshot, |open| (open.id, open.next));
        let (mut reached, mut until) = (place(), self.rt.now() + READERS_WAIT);
        while self.snapshots.durable_floor.get() == floor && !self.snapshots.waits.get() {
            if place() != reached {
                (reached, until) = (place(), self.rt.now() + READERS_WAIT);
            } else if self.rt.now() >= until {
                break;
            }
            let changed = Box::pin(self.space.notified());
            if let Ok(_one) = self.snapshots.taking.try_lock() {
                return if self.free_sets() < RESERVED { Ok(()) } else { self.write_snapshot(Room::SPARE).await };
            }
            self.running()?;
            select(changed, Box::pin(self.rt.sleep(until.since(self.rt.now())))).await;
        }
        Ok(())
    }

    /// Takes snapshots in the background from time to time, while something changes.
    pub(crate) async fn keep_snapshots(self: Rc<Self>) {
        let mut snapshot_at = self.rt.now() + self.options.snapshot_interval;
        let mut covered = 0;
        while !self.lifecycle.stopped.get() {
            let now = self.rt.now();
            if now >= snapshot_at {
                snapshot_at = now + self.options.snapshot_interval;
                // After deletions and cleaning alone, too: recovery looks at what they wrote.
                let items = self.counters.items.get();
                if covered != items {
                    match self.take_snapshot().await {
                        Ok(()) => covered = items,
                        Err(error) => tracing::warn!(%error, "no snapshot of the index was taken"),
                    }
                }
            }
            let wait = snapshot_at.since(self.rt.now()).min(Duration::from_secs(10));
            let space = Box::pin(self.space.notified());
            select(space, Box::pin(self.rt.sleep(wait))).await;
        }
    }

    async fn write_snapshot(self: &Rc<Self>, room: Room) -> Result<()> {
        self.writable()?;
        // At one moment, from here to the view: what the view has, and where that ends in each set.
        let needed = self.snapshots.uncovered.needed();
        let oldest = needed.iter().map(|deletions| deletions.oldest.0).chain(self.cleaners.copying());
        let tombstone_floor = oldest.fold(self.buried_below(), u64::min);
        let below = |set: &Rc<ZoneSet>| {
            let of_it = needed.iter().filter(|some| Rc::ptr_eq(&some.set, set) && some.generation == set.generation());
            Some(of_it.map(|some| some.block).fold(covered_now(set)?, u32::min))
        };
        let sets = self.sets.of(List::Open).chain(self.sets.of(List::Closed));
        let covered: Vec<(u32, u64, Rc<ZoneSet>)> =
            sets.filter_map(|(_, set)| Some((below(&set)?, set.generation(), set))).collect();
        let mut view = self.index()?.snapshot().map_err(Error::index)?;
        let pieces = match self.write_pieces(&mut view, room).await {
            Ok(pieces) => pieces,
            Err(error) => {
                self.leave_snapshot_set();
                self.trim_old_snapshots();
                return Err(error);
            }
        };
        self.snapshot_is(tombstone_floor, pieces, covered).await
    }

    /// The set is left: the next snapshot has its own, so that this one's can be trimmed whole.
    fn leave_snapshot_set(self: &Rc<Self>) {
        if let Some(open) = self.allocator.take(Stream::Snapshot) {
            self.close_set(open);
        }
    }

    /// These pieces are the newest snapshot, which covers sets up to a block in that generation of theirs.
    pub(crate) async fn snapshot_is(
        self: &Rc<Self>,
        tombstone_floor: u64,
        pieces: Vec<SnapshotPiece>,
        covered: Vec<(u32, u64, Rc<ZoneSet>)>,
    ) -> Result<()> {
        self.leave_snapshot_set();
        self.snapshots.newest.replace(Snapshot { tombstone_floor, pieces });
        for (block, generation, set) in covered {
            // A set that was emptied meanwhile has nothing that is covered, also if it is in use again.
            if set.generation() == generation {
                set.cover(block);
            }
        }
        self.write_superblock(None).await?;
        // Only now: until then a power cut goes back to the snapshot before, and to its tombstones.
        if self.snapshots.durable_floor.replace(tombstone_floor) < tombstone_floor {
            self.try_held_by_tombstones().await;
        }
        self.space.notify_waiters();
        self.trim_old_snapshots();
        Ok(())
    }

    async fn write_pieces(
        self: &Rc<Self>,
        view: &mut crate::index::Snapshot,
        room: Room,
    ) -> Result<Vec<SnapshotPiece>> {
        let mut pieces = Pieces::new(self, room);
        let most = CHUNK_MAX.min(self.segment_length as usize);
        while let Some(chunk) = view.next_chunk(most).map_err(Error::index)? {
            pieces.add(&chunk).await?;
            // Writers do not wait for more than a chunk.
            self.rt.yield_now().await;
        }
        pieces.end().await
    }

    /// Wins space for the snapshot that is being taken: cleaning does not wait for that meanwhile.
    async fn win_for_snapshot(self: &Rc<Self>) -> Result<bool> {
        self.snapshots.waits.set(true);
        self.space.notify_waiters();
        let won = self.reclaim_without(self.shunned(None)).await;
        self.snapshots.waits.set(false);
        won
    }

    async fn write_piece(self: &Rc<Self>, data: Bytes, offset: u64, mut room: Room) -> Result<SnapshotPiece> {
        let length = data.len() as u32;
        let part = Part {
            name: Bytes::from_static(SNAPSHOT_NAME),
            version: Version(0),
            offset,
            at: 0,
            length,
            completion: None,
        };
        let item = Item::Shared { parts: vec![part], data, together: true };
        let placed = loop {
            match self.append_with(Stream::Snapshot, room, &item).await {
                Err(error) if error.kind == ErrorKind::NoSpace && room.reserved == RESERVED => {
                    if !self.win_for_snapshot().await? {
                        if std::mem::take(&mut room.choosy) {
                            continue;
                        }
                        if self.snapshots.held_by_tombstones.borrow().is_empty() {
                            return Err(error);
                        }
                        // It wins space itself.
                        room = Room::SPARE;
                    }
                }
                placed => break placed?.0,
            }
        };
        Ok(SnapshotPiece { set: placed.set, block: placed.block, stamp: placed.stamp, length })
    }

    /// Empties sets of snapshots that are not the newest one, each in a task of its own: whoever needed the snapshot has it, and neither waits for
    /// their readers nor fails because one of their zones cannot be reset. (AS-SNAP-4)
    fn trim_old_snapshots(self: &Rc<Self>) {
        let current: Vec<_> = self.snapshots.newest.borrow().pieces.iter().map(|piece| piece.set).collect();
        let old: Vec<_> = self.sets.of(List::Index).filter(|(id, _)| !current.contains(id)).collect();
        for (id, set) in old {
            // One for each set, which may still be written to.
            if self.snapshots.trimming.borrow_mut().insert(id) {
                self.trim_soon(id, &set);
            }
        }
    }

    /// Reads a piece of a snapshot: its chunks.
    pub(crate) async fn read_piece(self: &Rc<Self>, piece: &SnapshotPiece) -> Result<Vec<Bytes>> {
        let place = PartPlace {
            set: piece.set,
            block: piece.block,
            stamp: piece.stamp,
            segment_length: piece.length,
            at: 0,
            length: piece.length,
            last: false,
        };
        let mut rest = self.read_place(&place, 0, piece.length).await?;
        let mut chunks = Vec::new();
        while let Some((length, _)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if rest.len() < 4 + length {
                return Err(Error::new(ErrorKind::Corrupt, "a chunk of the snapshot is longer than its piece"));
            }
            chunks.push(rest.split_to(4 + length).slice(4..));
        }
        Ok(chunks)
    }
}
