//! Taking and removing snapshots, and changing the size.

use std::ops::Range;
use std::rc::Rc;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::MutexGuard;

use super::{Snapshot, SnapshotInfo};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::format::{Entry, snapshot_name};
use crate::layout::Layout;
use crate::map::{Extent, ExtentMap};
use crate::place::Place;
use crate::state::State;
use crate::write::{is_settled, of_writes, waiting};
use crate::zones::take_kept;

/// Snapshots at most: a sector of the oldest is looked up in the maps of all.
const SNAPSHOTS_MAX: usize = 1024;

/// Extents of a removed snapshot that are given up in one step.
const STEP: usize = 4096;

fn invalid(text: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, text)
}

/// Writes go on once it is dropped.
struct Held<'e>(&'e Engine);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().held = false;
        self.0.wakes.released.notify_waiters();
    }
}

impl Engine {
    /// Waits until no checkpoint is written and the journal has room, and keeps both so.
    async fn alone(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        loop {
            self.journal_room().await?;
            let alone = self.whole.lock().await;
            self.state.borrow().running()?;
            if self.log.has_journal_room() {
                return Ok(alone);
            }
        }
    }

    /// Holds callers' writes, and waits until those have ended that are numbered. `None` if a checkpoint has to go first: the end of a
    /// write that failed may need room in the journal.
    async fn hold(&self) -> Result<Option<Held<'_>>, Failure> {
        self.state.borrow_mut().held = true;
        let held = Held(self);
        loop {
            let landed = self.wakes.landed.notified();
            {
                let state = self.state.borrow();
                state.running()?;
                let writers = || of_writes().map(|stream| &state.frontiers[usize::from(stream)]);
                if writers().all(is_settled) {
                    return Ok(Some(held));
                }
                if self.checkpoint_waits.get() && writers().any(|frontier| frontier.own.failed) {
                    return Ok(None);
                }
            }
            landed.await;
        }
    }

    /// Changes the volume as a whole, after all that was written, which is durable before the change is. (TL-SNAP-3, TL-SNAP-4)
    async fn change_whole(self: &Rc<Self>, change: impl Fn(&mut State, u64) -> StoreResult<Entry>) -> StoreResult<()> {
        let (alone, journaled) = loop {
            let alone = self.alone().await?;
            // Most is durable before writers have to wait.
            self.flush().await?;
            let Some(held) = self.hold().await? else { continue };
            self.flush().await?;
            let failed = {
                let state = self.state.borrow();
                state.settles() || state.losses.any()
            };
            if failed {
                // The journal may end a zone before writes that were answered: they count once a checkpoint has them.
                drop((held, alone));
                self.settle_failures().await?;
                continue;
            }
            if self.log.has_journal_room() {
                let number = self.sequence.next();
                let entry = change(&mut self.state.borrow_mut(), number)?;
                let journaled = self.journal(&entry, number);
                drop(held);
                break (alone, journaled);
            }
        };
        journaled.await?;
        drop(alone);
        Ok(())
    }

    /// Takes a snapshot. Durable when it returns, with all that was written before.
    pub(crate) async fn take_snapshot(self: &Rc<Self>, name: &str) -> StoreResult<()> {
        let name = snapshot_name(name.as_bytes()).ok_or_else(|| {
            let text = "a snapshot's name has up to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or a digit";
            invalid(text.to_owned())
        })?;
        let (taken, stride) = (self.rt.unix_time(), self.drive.layout.shape.stride());
        let change = |state: &mut State, number: u64| {
            if state.snapshot(&name).is_some() {
                return Err(invalid(format!("there is a snapshot named {name} already")));
            }
            if state.maps.snapshots.len() == SNAPSHOTS_MAX {
                return Err(invalid(format!("a volume has {SNAPSHOTS_MAX} snapshots at most: remove one")));
            }
            // Writes that wait were let in for a volume without it. One sector at least, so that they count.
            if !state.has_room(&self.drive.layout, 1, 0) {
                let text = "too little room is left for what is being written beside a snapshot: try again when less is, remove a snapshot, or discard data";
                return Err(StoreError::new(StoreErrorKind::NoSpace, text));
            }
            let (map, sectors) = (ExtentMap::new(stride), state.sectors);
            state.maps.snapshots.push(Snapshot { number, name: Some(name.clone()), taken, sectors, map });
            Ok(Entry::Taken { name: name.clone(), taken })
        };
        self.change_whole(change).await
    }

    /// Removes a snapshot: it is gone for good when this returns, and its room is won.
    pub(crate) async fn remove_snapshot(self: &Rc<Self>, name: &str) -> StoreResult<()> {
        let (engine, name) = (self.clone(), name.to_owned());
        // On a task of its own: a caller that goes away leaves nothing half done.
        let removing = self.rt.spawn(async move {
            let alone = engine.alone().await?;
            let number = engine.state.borrow().snapshot(&name).map(|snapshot| snapshot.number);
            let number = number.ok_or_else(|| {
                StoreError::new(StoreErrorKind::Invalid, format!("the volume has no snapshot named {name}"))
            })?;
            let journaled = {
                let mut state = engine.state.borrow_mut();
                if let Some(at) = state.maps.position(number) {
                    state.maps.snapshots[at].name = None;
                }
                engine.journal(&Entry::Removed { snapshot: number }, engine.sequence.next())
            };
            journaled.await?;
            while !engine.state.borrow_mut().dissolve(number, STEP) {
                engine.rt.yield_now().await;
            }
            drop(alone);
            engine.keeper.wake();
            Ok(())
        });
        removing.await.unwrap_or_else(|_| Err(Failure::gone().into()))
    }

    /// Snapshots, the oldest first.
    pub(crate) fn snapshots(&self) -> Vec<SnapshotInfo> {
        let (state, shape) = (self.state.borrow(), self.drive.layout.shape);
        let info = |snapshot: &Snapshot| {
            let mut kept = 0;
            snapshot.map.within(0..u64::MAX, |extent| {
                kept += if extent.place.is_stored() { u64::from(extent.sectors) } else { 0 };
            });
            let (taken, size_bytes) = (snapshot.taken, shape.bytes(snapshot.sectors));
            Some(SnapshotInfo { name: snapshot.name.clone()?, taken, size_bytes, kept_bytes: shape.bytes(kept) })
        };
        state.maps.snapshots.iter().filter_map(info).collect()
    }

    /// The largest size: that which zones and metazones have room for.
    pub(crate) fn size_max_bytes(&self) -> u64 {
        let layout = &self.drive.layout;
        layout.shape.bytes(layout.sectors_max.min(layout.extents_max))
    }

    /// Changes the volume's size. Durable when it returns.
    pub(crate) async fn resize(self: &Rc<Self>, bytes: u64) -> StoreResult<()> {
        let layout = &self.drive.layout;
        let sectors = bytes >> layout.shape.sector_shift;
        let most = self.size_max_bytes();
        if sectors == 0 || layout.shape.bytes(sectors) > most {
            return Err(invalid(format!(
                "the volume can have up to {most} bytes on its drive, and one sector at least"
            )));
        }
        let change = |state: &mut State, _: u64| {
            let gone = sectors..state.sectors.max(sectors);
            if !state.maps.snapshots.is_empty() && !state.has_room(layout, 0, state.maps.extent_growth(&gone)) {
                let text = "the maps of snapshots have no room for what a smaller size takes away: remove a snapshot";
                return Err(StoreError::new(StoreErrorKind::NoSpace, text));
            }
            state.resize(sectors);
            self.refuse_behind_end(state);
            Ok(Entry::Sized { sectors })
        };
        self.change_whole(change).await?;
        self.keeper.wake();
        Ok(())
    }

    /// Refuses a change for which there is no room beside what snapshots keep (TL-SNAP-5). `stores`: it is of data.
    pub(crate) fn room_beside_snapshots(&self, range: &Range<u64>, stores: bool) -> Result<(), Failure> {
        let state = self.state.borrow();
        if state.maps.snapshots.is_empty() {
            return Ok(());
        }
        let growth = if stores { state.maps.growth(range) } else { 0 };
        if !state.has_room(&self.drive.layout, growth, state.maps.extent_growth(range)) {
            let text = "snapshots have used up the room of the drive: remove one (`shingle volume snapshot rm`), or discard data";
            return Err(Failure::new(StoreErrorKind::NoSpace, text));
        }
        Ok(())
    }
}

impl State {
    /// The snapshot of a name.
    pub(crate) fn snapshot(&self, name: &str) -> Option<&Snapshot> {
        self.maps.snapshots.iter().find(|snapshot| snapshot.name.as_deref() == Some(name))
    }

    /// Sectors and maps of volume and snapshots have room on the drive if `growth` sectors come to those that are in use, and `cuts` extents, and if
    /// all writes that wait change sectors that the newest snapshot lacks, each of them an extent. (TL-SNAP-5)
    fn has_room(&self, layout: &Layout, growth: u64, cuts: u64) -> bool {
        let deferred = self.router.deferred();
        let frontiers = of_writes().map(|stream| waiting(&self.frontiers[usize::from(stream)]));
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        let (pieces, sectors) = frontiers.fold(deferred, sum);
        // A sector that is changed is an extent in two maps at most, and cuts those at the ends of its piece.
        let extents = self.maps.extents() + cuts + 2 * sectors + 4 * pieces;
        let fits = growth == 0 || self.zones.live() + sectors + growth <= layout.sectors_max;
        extents <= layout.extents_max && fits
    }

    /// As [`Maps::dissolve`](super::Maps::dissolve).
    fn dissolve(&mut self, number: u64, most: usize) -> bool {
        let Self { maps, zones, shape, .. } = self;
        maps.dissolve(number, most, |Extent { sectors, place, .. }| {
            let (zone, sectors) = (shape.zone_of(place), u64::from(sectors));
            take_kept(zones, zone, sectors);
            if place != Place::LOST {
                zones.take_live(zone, sectors);
            }
        })
    }

    /// Another size: sectors behind it hold nothing.
    fn resize(&mut self, sectors: u64) {
        if sectors < self.sectors {
            self.place(sectors, self.sectors - sectors, None);
        }
        self.sectors = sectors;
    }
}
