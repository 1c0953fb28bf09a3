//! Checkpoints: the zone table and the map, written while writes go on.
//!
//! The map is written bit by bit, so what a checkpoint has of a sector is of its start or younger. Recovery goes through all
//! that happened since the start again, in its order, so each sector comes out as it was in the end.
//!
//! # Invariants
//! - TL-CKPT-1: the zone table is taken no earlier than the start takes its place in the journal, and the map no earlier than the
//!   table: so zones that the table lacks are in the journal, and pairs that it calls covered are in the map.
//! - TL-CKPT-2: data that the map of a checkpoint names is durable before the checkpoint is complete.
//! - TL-CKPT-3: the map of the volume is written before those of snapshots: the old place of a sector whose change the volume's map has
//!   is in a snapshot's, then.
//! - TL-CKPT-4: a checkpoint that has begun goes on whoever waits for it, so that it holds up nobody for good.
//!   (`a_checkpoint_that_nobody_waits_for_holds_up_nobody`)

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_record::CheckpointWriter;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::format::{Part, PartWriter, SnapshotEntry, ZoneEntry};
use crate::map::Extent;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::zones::Status;

/// Extents that are encoded in one step.
const STEP: usize = 4096;

impl Engine {
    /// On a task of its own: a run that all its callers left is polled by nobody (ZK-JOIN-3), and this has the lock of `whole`. (TL-CKPT-4)
    pub(crate) async fn write_checkpoint(self: Rc<Self>) -> Result<(), Failure> {
        self.state.borrow().running()?;
        let rt = self.rt.clone();
        let writing = rt.spawn(async move {
            let written = self.clone().write_parts().await;
            if let Err(failure) = &written {
                self.stop(failure.clone());
            }
            self.keeper.wake();
            written
        });
        writing.await.unwrap_or_else(|_| Err(Failure::gone()))
    }

    async fn write_parts(self: Rc<Self>) -> Result<(), Failure> {
        self.checkpoint_waits.set(true);
        self.wakes.landed.notify_waiters();
        let alone = self.whole.lock().await;
        self.checkpoint_waits.set(false);
        // TL-CKPT-1: in this order.
        let (begun, table) = (self.log.begin_checkpoint(), table_of(&self.state.borrow()));
        let (saved, failed) = {
            let state = self.state.borrow();
            (state.saved.clone(), state.failed)
        };
        let mut writer = begun.await?;
        if !saved.is_empty() {
            writer.part(Part::saved(&saved)).await?;
        }
        let size = Part::size(self.state.borrow().sectors);
        writer.part(size).await?;
        let mut parts = PartWriter::zones();
        for entry in &table {
            parts.zone(entry);
            if parts.is_full()
                && let Some(part) = parts.take()
            {
                writer.part(part).await?;
            }
        }
        if let Some(part) = parts.take() {
            writer.part(part).await?;
        }
        self.write_map(&mut writer, None, PartWriter::extents()).await?;
        let snapshots: Vec<_> = self.state.borrow().maps.snapshots.iter().filter_map(entry_of).collect();
        // TL-CKPT-3: the youngest first.
        for snapshot in snapshots.iter().rev() {
            writer.part(Part::snapshot(snapshot)).await?;
            self.write_map(&mut writer, Some(snapshot.number), PartWriter::kept(snapshot.number)).await?;
        }
        // TL-CKPT-2: all that a part names was written before the part was, and the log flushes each part before the next (RC-LOG-5).
        writer.finish().await?;
        self.room.note_checkpoint();
        let mut state = self.state.borrow_mut();
        for ZoneEntry { zone, epoch, .. } in table.into_iter().filter(|entry| entry.closed) {
            if let Some(own) = state.zones.own_of_mut(zone, epoch) {
                own.covered = true;
            }
        }
        state.zones.note_emptied();
        state.settled = failed;
        state.counters.checkpoints += 1;
        drop(alone);
        Ok(())
    }

    /// Writes the map of a snapshot, or of the volume.
    async fn write_map(
        &self,
        writer: &mut CheckpointWriter,
        at: Option<u64>,
        mut parts: PartWriter,
    ) -> Result<(), Failure> {
        let mut from = Some(0);
        while let Some(next) = from {
            let mut extents = Vec::with_capacity(STEP);
            let each = |extent| extents.push(since(extent, next, self));
            from = self.state.borrow().maps.map(at).and_then(|map| map.some(next, STEP, each));
            for extent in &extents {
                parts.extent(extent);
                if parts.is_full()
                    && let Some(part) = parts.take()
                {
                    writer.part(part).await?;
                }
            }
            self.rt.yield_now().await;
        }
        if let Some(part) = parts.take() {
            writer.part(part).await?;
        }
        Ok(())
    }
}

fn entry_of(snapshot: &Snapshot) -> Option<SnapshotEntry> {
    let Snapshot { number, taken, sectors, .. } = *snapshot;
    Some(SnapshotEntry { number, sectors, taken, name: snapshot.name.clone()? })
}

/// The part of an extent from sector `from` on: what lies before was written already.
fn since(extent: Extent, from: u64, engine: &Engine) -> Extent {
    extent.part(&(from..u64::MAX), engine.drive.layout.shape.stride())
}

/// Zones in use.
fn table_of(state: &State) -> Vec<ZoneEntry> {
    let used = state.zones.iter().filter(|(_, zone)| zone.is_used());
    let entry = |(id, zone): (ZoneId, &crate::zones::Zone)| ZoneEntry {
        zone: id,
        epoch: zone.epoch,
        stream: zone.stream,
        closed: zone.status == Status::Closed,
        covered: zone.next,
    };
    used.map(entry).collect()
}
