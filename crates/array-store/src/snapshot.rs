//! Snapshots of the index in zone sets of their own. (SMORE, sections III-D and IV-A.)
//!
//! # Invariants
//! - SNAP-1: a snapshot covers what was in the index when it was taken, and the superblock that names it says for each
//!   set up to which block that is; sets that were closed then become indexed.
//! - SNAP-3: a tombstone below the snapshot's floor is needed no more: what it deletes lies where the snapshot covers it,
//!   and is not in it. (The paper's rule, tombstones older than the snapshot, forgets the sets that were open then.) One that
//!   is needed is not covered either ([`crate::uncovered`]).
//! - SNAP-2: the snapshot before it is trimmed only then.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};

use crate::engine::{Engine, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::format::SnapshotPiece;
use crate::sets::{List, ZoneSet};
use crate::types::{Part, PartPlace, SetState, Version};
use crate::writer::{Item, Room, Stream};

/// The name that pieces of snapshots carry in their layout markers: no object has it: names that begin with a
/// zero byte are refused.
pub(crate) const SNAPSHOT_NAME: &[u8] = b"\0index";

/// Bytes of the index that are encoded at a time: writers wait for no longer.
const CHUNK_MAX: usize = 128 << 10;

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

impl Engine {
    /// Takes a snapshot. Writers go on: what is taken at once is a read transaction of the index.
    ///
    /// # Errors
    /// `NoSpace` and what else appending fails with; the snapshot before is still there then.
    pub(crate) async fn take_snapshot(self: &Rc<Self>) -> Result<()> {
        self.writable()?;
        let engine = self.clone();
        // Also if the caller waits no more: others may wait for the end of it. (WRITE-4)
        let taking = self.rt.spawn(async move {
            let _one = engine.snapshotting.lock().await;
            engine.write_snapshot(Room::PLAIN).await
        });
        taking.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Takes a snapshot in sets that are kept for cleaning, whose caller this is. `false` if one is being taken.
    pub(crate) async fn snapshot_from_reserve(self: &Rc<Self>) -> Result<bool> {
        let Ok(_one) = self.snapshotting.try_lock() else { return Ok(false) };
        self.write_snapshot(Room::SPARE).await.map(|()| true)
    }

    async fn write_snapshot(self: &Rc<Self>, room: Room) -> Result<()> {
        self.running()?;
        // At one moment, from here to the view: what the view has, and where that ends in each set.
        let needed = self.uncovered.needed();
        let oldest = needed.iter().map(|deletions| deletions.oldest.0).chain(self.copying.get());
        let tombstone_floor = oldest.fold(self.buried_below(), u64::min);
        let below = |set: &Rc<ZoneSet>| {
            let of_it = needed.iter().filter(|some| Rc::ptr_eq(&some.set, set) && some.life == set.lives());
            Some(of_it.map(|some| some.block).fold(covered_now(set)?, u32::min))
        };
        let sets = self.sets.of(List::Open).chain(self.sets.of(List::Closed));
        let covered: Vec<(u32, u64, Rc<ZoneSet>)> =
            sets.filter_map(|(_, set)| Some((below(&set)?, set.lives(), set))).collect();
        let mut view = self.index()?.snapshot().map_err(Error::index)?;
        let mut pieces = Vec::new();
        let written = self.write_pieces(&mut view, room, &mut pieces).await;
        // The set is left: the next snapshot has its own, so that this one's can be trimmed whole.
        if let Some(open) = self.allocator.take(Stream::Snapshot) {
            self.close_set(open);
        }
        if let Err(error) = written {
            self.trim_old_snapshots().await?;
            return Err(error);
        }
        self.snapshot.replace(Snapshot { tombstone_floor, pieces });
        for (block, life, set) in covered {
            // A set that was emptied meanwhile has nothing that is covered, also if it is in use again.
            if set.lives() == life {
                set.cover(block);
            }
        }
        self.write_superblock(None).await?;
        // Only now: until then a power cut goes back to the snapshot before, and to its tombstones.
        self.durable_floor.set(tombstone_floor);
        self.trim_old_snapshots().await
    }

    async fn write_pieces(
        self: &Rc<Self>,
        view: &mut crate::index::Snapshot,
        room: Room,
        pieces: &mut Vec<SnapshotPiece>,
    ) -> Result<()> {
        let (mut offset, mut piece) = (0, BytesMut::new());
        let most = PIECE_MAX.min(self.segment_length as usize);
        loop {
            let chunk = view.next_chunk(CHUNK_MAX.min(most)).map_err(Error::index)?;
            let full = chunk.as_ref().is_none_or(|chunk| piece.len() + 4 + chunk.len() > most);
            if full && !piece.is_empty() {
                let written = self.write_piece(piece.split().freeze(), offset, room).await?;
                offset += u64::from(written.length);
                pieces.push(written);
            }
            let Some(chunk) = chunk else { return Ok(()) };
            piece.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
            piece.extend_from_slice(&chunk);
            // Writers do not wait for more than a chunk.
            self.rt.yield_now().await;
        }
    }

    async fn write_piece(self: &Rc<Self>, data: Bytes, offset: u64, room: Room) -> Result<SnapshotPiece> {
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
        let (placed, _) = self.append_with(Stream::Snapshot, room, &item).await?;
        Ok(SnapshotPiece { set: placed.set, block: placed.block, stamp: placed.stamp, length })
    }

    /// Sets of snapshots that are not the newest one.
    async fn trim_old_snapshots(&self) -> Result<()> {
        let current: Vec<_> = self.snapshot.borrow().pieces.iter().map(|piece| piece.set).collect();
        let old: Vec<_> = self.sets.of(List::Index).filter(|(id, _)| !current.contains(id)).collect();
        for (_, set) in old {
            self.trim(&set).await?;
        }
        Ok(())
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
