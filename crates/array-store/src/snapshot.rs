//! Snapshots of the index in zone sets of their own. (SMORE, sections III-D and IV-A.)
//!
//! # Invariants
//! - SNAP-1: a snapshot covers what was in the index when it was taken, and the superblock that names it says for each
//!   set up to which block that is; sets that were closed then become indexed.
//! - SNAP-3: a tombstone below the snapshot's floor is needed no more: what it deletes lies where the snapshot covers it,
//!   and is not in it. (The paper's rule, tombstones older than the snapshot, forgets the sets that were open then.)
//! - SNAP-2: the snapshot before it is trimmed only then.

use std::rc::Rc;

use bytes::Bytes;

use crate::engine::{Engine, Snapshot};
use crate::error::{Error, Result};
use crate::format::SnapshotPiece;
use crate::sets::ZoneSet;
use crate::types::{Part, PartPlace, SetState, Version};
use crate::writer::{Item, Stream};

/// The name that pieces of snapshots carry in their layout markers: no object has it: names that begin with a
/// zero byte are refused.
pub(crate) const SNAPSHOT_NAME: &[u8] = b"\0index";

/// The block below which everything in a set is in the index now, if the set holds objects.
fn covered_now(set: &ZoneSet) -> Option<u32> {
    match set.state.get() {
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
        let _one = self.snapshotting.lock().await;
        self.writable()?;
        // At one moment, from here to the view: what the view has, and where that ends in each set.
        let buried = self.buried_below();
        let tombstone_floor = self.copying.get().map_or(buried, |floor| floor.min(buried));
        let sets = self.sets.all().into_iter();
        let covered: Vec<_> = sets.filter_map(|(_, set)| Some((covered_now(&set)?, set.life.get(), set))).collect();
        let mut view = self.index()?.snapshot().map_err(Error::index)?;
        let mut pieces = Vec::new();
        let written = self.write_pieces(&mut view, &mut pieces).await;
        // The set is left: the next snapshot has its own, so that this one's can be trimmed whole.
        if let Some(open) = self.streams[Stream::Snapshot as usize].lock().await.take() {
            self.close_set(open).await;
        }
        if let Err(error) = written {
            self.trim_old_snapshots().await?;
            return Err(error);
        }
        self.snapshot.replace(Snapshot { tombstone_floor, pieces });
        for (block, life, set) in covered {
            // A set that was emptied meanwhile has nothing that is covered, also if it is in use again.
            if set.life.get() != life {
                continue;
            }
            if matches!(set.state.get(), SetState::Open | SetState::Closed) {
                set.covered.set(block);
            }
            if set.state.get() == SetState::Closed && block == u32::MAX {
                set.state.set(SetState::Indexed);
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
        pieces: &mut Vec<SnapshotPiece>,
    ) -> Result<()> {
        let mut offset = 0;
        while let Some(chunk) = view.next_chunk(self.segment_length as usize).map_err(Error::index)? {
            let data = Bytes::from(chunk);
            let length = data.len() as u32;
            let part = Part {
                name: Bytes::from_static(SNAPSHOT_NAME),
                version: Version(0),
                offset,
                at: 0,
                length,
                completion: None,
            };
            let (placed, _) = self.append(Stream::Snapshot, &Item::Shared { parts: vec![part], data }).await?;
            pieces.push(SnapshotPiece { set: placed.set, block: placed.block, stamp: placed.stamp, length });
            offset += u64::from(length);
            self.rt.yield_now().await;
        }
        Ok(())
    }

    /// Sets of snapshots that are not the newest one.
    async fn trim_old_snapshots(&self) -> Result<()> {
        let current: Vec<_> = self.snapshot.borrow().pieces.iter().map(|piece| piece.set).collect();
        for (id, set) in self.sets.all() {
            if set.state.get() == SetState::Index && !current.contains(&id) {
                self.trim(&set).await?;
            }
        }
        Ok(())
    }

    /// Reads a piece of a snapshot.
    pub(crate) async fn read_piece(&self, piece: &SnapshotPiece) -> Result<Bytes> {
        let place = PartPlace {
            set: piece.set,
            block: piece.block,
            stamp: piece.stamp,
            segment_length: piece.length,
            at: 0,
            length: piece.length,
            last: false,
        };
        self.read_place(&place, 0, piece.length).await
    }
}
