//! The end of a volume's life, and what it tells of its sectors.
//!
//! # Invariants
//! - TL-CLOSE-1: closing ends also if the file system that holds the drive has no room. Writes that are not written fail then, and so does
//!   the close if nothing can be journaled. (`a_full_host_does_not_hold_up_a_close`)
//! - TL-MAPPED-1: an answer about sectors takes a bounded time, however many extents they lie in. (`a_dense_map_is_told_of_in_parts`)
//! - TL-CLOSE-2: no command comes once the volume has closed, of a controller's work or of the end of a zone.
//!   (`copies_end_when_the_volume_closes`, `a_close_waits_for_the_ends_of_zones`)

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use shingle_base::ZoneId;
use shingle_store_api::{MAPPED_SECTORS_MIN, MappedRun, StoreResult};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::state::State;
use crate::stats::VolumeStats;
use crate::write::{COPIES, HEAD, TAKEN, of_writes};

/// Sectors whose mapping is looked up in one step.
const MAPPED_STEP: u64 = MAPPED_SECTORS_MIN;

/// Extents and steps after which an answer ends: nothing else is done meanwhile.
const MAPPED_LOOKS_MAX: u64 = 1 << 14;

impl Engine {
    /// Takes no more writes, finishes those under way, and writes a checkpoint. (TL-CLOSE-1)
    pub(crate) async fn close(self: &Rc<Self>) -> StoreResult<()> {
        self.closing.set(true);
        self.drive.zones.end();
        self.wakes.control.notify_waiters();
        let impatient = async {
            self.log.stalled().await;
            self.log.give_up_waiting();
            std::future::pending::<()>().await;
        };
        match select(pin!(self.write_all()), pin!(impatient)).await {
            Either::Left((closed, _)) => closed,
            Either::Right(_) => Err(Failure::gone().into()),
        }
    }

    async fn write_all(self: &Rc<Self>) -> StoreResult<()> {
        self.writes_done().await;
        self.keeper.end().await;
        self.copies_done().await;
        self.state.borrow().running()?;
        debug_assert!(self.counts_agree(), "TL-ZONE-1: the zones' counts are not those of the map");
        Ok(self.checkpoint().await?)
    }

    /// TL-ZONE-1, by a count of the whole map.
    fn counts_agree(&self) -> bool {
        let (state, shape) = (self.state.borrow(), self.drive.layout.shape);
        let mut counted = BTreeMap::<ZoneId, u64>::new();
        let mut kept = BTreeMap::<ZoneId, u64>::new();
        for (at, map) in state.maps.all().enumerate() {
            map.within(0..u64::MAX, |extent| {
                if extent.place.is_stored() {
                    let (zone, sectors) = (shape.zone_of(extent.place), u64::from(extent.sectors));
                    *counted.entry(zone).or_default() += sectors;
                    *kept.entry(zone).or_default() += if at > 0 { sectors } else { 0 };
                }
            });
        }
        let of = |counts: &BTreeMap<ZoneId, u64>, zone: ZoneId| counts.get(&zone).copied().unwrap_or(0);
        state.zones.iter().all(|(id, zone)| (zone.live, zone.own.kept) == (of(&counted, id), of(&kept, id)))
    }

    pub(crate) fn stats(&self) -> VolumeStats {
        let state = self.state.borrow();
        let zones = || state.zones.iter().map(|(_, zone)| zone);
        VolumeStats {
            counters: state.counters,
            sectors_mapped: state.zones.live(),
            sectors_kept: zones().map(|zone| zone.own.kept).sum(),
            snapshots: state.maps.snapshots.len() as u32,
            extents: state.maps.extents(),
            map_bytes: state.maps.memory_bytes(),
            zones: zones().count() as u32,
            zones_free: state.zones.free(),
            zones_broken: state.zones.broken(),
        }
    }

    async fn writes_done(&self) {
        self.wait_until(|state| state.router.is_idle() && of_writes().all(|stream| state.is_idle(stream))).await;
    }

    async fn copies_done(&self) {
        let changes =
            |state: &State| state.frontiers.iter().any(|frontier| frontier.own.changes + frontier.own.leaving > 0);
        let idle = |state: &State| [COPIES, TAKEN, HEAD].into_iter().all(|stream| state.is_idle(stream));
        self.wait_until(|state| idle(state) && !changes(state)).await;
    }

    /// Completes when the volume begins to close.
    pub(crate) async fn closes(&self) {
        loop {
            let woken = self.wakes.control.notified();
            if self.closing.get() {
                return;
            }
            woken.await;
        }
    }

    /// Waits for something that only comes true when a frontier has nothing to write.
    async fn wait_until(&self, done: impl Fn(&State) -> bool) {
        loop {
            let idle = self.wakes.idle.notified();
            if done(&self.state.borrow()) {
                return;
            }
            idle.await;
        }
    }

    /// Runs of sectors of a snapshot, or of the volume, that have a place, and that have none: of as many as a bounded time allows. (TL-MAPPED-1)
    ///
    /// # Errors
    /// `Unavailable` if the snapshot is gone.
    pub(crate) fn mapped(
        &self,
        at: Option<u64>,
        lba: u64,
        sectors: u64,
        runs_max: usize,
    ) -> StoreResult<Vec<MappedRun>> {
        let (shape, end) = (self.drive.layout.shape, lba + sectors);
        let mut runs: Vec<MappedRun> = Vec::new();
        let mut add = |from: u64, to: u64, mapped: bool| {
            let (offset, length) = (shape.bytes(from), shape.bytes(to - from));
            match runs.last_mut() {
                _ if length == 0 => {}
                Some(run) if run.mapped == mapped => run.length += length,
                _ => runs.push(MappedRun { offset, length, mapped }),
            }
            runs.len() > runs_max
        };
        let state = self.state.borrow();
        let (mut next, mut full, mut looks) = (lba, false, 0);
        while next < end && !full && looks < MAPPED_LOOKS_MAX {
            // A snapshot's extents come from several maps: some at a time, of which most answers need no more.
            let to = end.min(next + MAPPED_STEP);
            looks += 1;
            state.maps.within(at, next..to, |extent| {
                looks += 1;
                full = full || add(next, extent.lba, false) || add(extent.lba, extent.end(), true);
                next = extent.end();
            })?;
            full = full || add(next, to, false);
            next = to;
        }
        drop(state);
        runs.truncate(runs_max);
        Ok(runs)
    }
}
