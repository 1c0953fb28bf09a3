//! The keeper: one task that sees to free zones and checkpoints; and the end of the files' life.
//!
//! # Invariants
//! - ZF-CLOSE-1: closing ends also if the file system that holds the drive has no room; it fails then. (`a_full_host_does_not_hold_up_a_close`)
//! - ZF-CLOSE-2: a close tells of bytes that were lost with a zone, if no sync has. All else is durable. (`a_close_tells_of_bytes_that_were_lost_with_their_zone`)
//! - ZF-CLOSE-3: a close waits for zones that are being taken, left or given up: no command of theirs comes once the files have closed.
//!   (`a_close_waits_for_the_ends_of_zones`, `a_close_waits_for_spare_zones_that_are_given_up`)
//! - ZF-RESET-1: a zone is reset only if nothing lives in it, nobody reads it, and all that took its blocks from their files is durable,
//!   as is the journal's word that it is needed no more.
//! - ZF-ROOM-2: nobody is told that there is no room while entries on their way free some, or some of a zone is dead that others write.
//!   (`garbage_in_a_busy_zone_of_logs_is_won`, `a_sync_waits_for_room_that_a_removal_makes`)

use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use shingle_base::ZoneId;
use shingle_zone_kit::Reset;

use crate::engine::{After, Engine};
use crate::error::{FilesError, FilesResult};
use crate::format::Op;
use crate::write::{COPIES, reserve};
use crate::zones::Vacated;

impl Engine {
    /// Works until the files are closed or stop.
    pub(crate) async fn keep(self: Rc<Self>) {
        let told = || {
            self.wakes.room.notify_waiters();
            self.wakes.landed.notify_waiters();
        };
        // An error has stopped the files, and all have been told.
        let (runs, step) = (|| self.state.borrow().stopped.is_none(), async || self.keep_once().await);
        self.keeper.keep(runs, step, async |woken| self.rest(woken).await, told).await;
    }

    /// One thing that is to be done. False if there is none.
    async fn keep_once(self: &Rc<Self>) -> FilesResult<bool> {
        if self.wants_checkpoint() {
            self.checkpoint().await?;
            return Ok(true);
        }
        if self.state.borrow().zones.take_emptied() && self.free_empty_zones().await? {
            return Ok(true);
        }
        self.retry_stuck();
        if let Some(victim) = self.victim() {
            self.clean(victim).await?;
            return Ok(true);
        }
        let waits = self.state.borrow().lanes.all.iter().any(|lane| lane.own.waits);
        if !waits || self.state.borrow().zones.iter().any(|(_, zone)| zone.is_empty() && !zone.broken) {
            // An empty zone waits for those who read it, and they wake the keeper.
            return Ok(false);
        }
        if let Some((lane, zone)) = self.idle_zone_with_garbage() {
            match lane {
                Some(lane) => self.end_zone(lane, zone).await?,
                None => self.end_spare(zone).await?,
            }
            return Ok(true);
        }
        if self.frees_soon() {
            return Ok(false);
        }
        let mut state = self.state.borrow_mut();
        let free = state.zones.free();
        if state.lanes.all.iter().enumerate().any(|(lane, entry)| entry.own.waits && free > reserve(lane)) {
            // One that waits may take a zone, and has only not looked yet.
            drop(state);
            self.wakes.room.notify_waiters();
            return Ok(false);
        }
        if !state.full {
            state.full = true;
            drop(state);
            self.wakes.landed.notify_waiters();
        }
        Ok(false)
    }

    /// Frees the zones in which nothing lives (ZF-RESET-1). False if there is none.
    pub(crate) async fn free_empty_zones(self: &Rc<Self>) -> FilesResult<bool> {
        if self.state.borrow().zones.vacant(|_| true).is_empty() {
            return Ok(false);
        }
        self.journal_room().await?;
        let mut ended = Vec::new();
        let ops: Vec<Op> = {
            let mut state = self.state.borrow_mut();
            let empty = state.zones.vacant(|_| true);
            for &(zone, epoch) in &empty {
                // It is in no checkpoint from here on, as its entry lies before that of any later one.
                if state.zones.vacate(zone, epoch) == Some(Vacated::Reset) {
                    ended.push(zone);
                }
            }
            empty.into_iter().map(|(zone, epoch)| Op::Reset { zone, epoch }).collect()
        };
        let mut entry = 0;
        for some in ops.chunks(64) {
            entry = self.journal(some, After::default());
        }
        self.journaled(entry).await?;
        for zone in ended {
            let clean = self.reset(zone).await? == Reset::Done;
            let mut state = self.state.borrow_mut();
            state.zones.add_free(zone, !clean);
            // Copies that had no room may have some.
            state.zones.all_own_mut().for_each(|own| own.tried = false);
            state.counters.freed += 1;
            state.full = false;
            drop(state);
            self.wakes.room.notify_waiters();
        }
        Ok(true)
    }

    /// An open zone that nobody writes, some of which is dead: the last that can be emptied.
    fn idle_zone_with_garbage(&self) -> Option<(Option<usize>, ZoneId)> {
        let state = self.state.borrow();
        let garbage = |zone: ZoneId| {
            let entry = state.zones.get(zone);
            entry.map_or(0, |entry| u64::from(entry.next).saturating_sub(entry.live))
        };
        let lanes = state.lanes.all.iter().enumerate().filter(|(_, lane)| !lane.is_busy());
        let idle = lanes.filter_map(|(number, lane)| Some((Some(number), lane.zone?)));
        let spare = state.lanes.spare.iter().map(|zone| (None, *zone));
        idle.chain(spare).filter(|(_, zone)| garbage(*zone) > 0).max_by_key(|(_, zone)| garbage(*zone))
    }

    /// Room may come that nothing has to be done for: entries on their way free blocks, or some of a zone is dead that is written now, and can
    /// be emptied once it is full, or its lane idle. Either wakes the keeper. (ZF-ROOM-2)
    fn frees_soon(&self) -> bool {
        let state = self.state.borrow();
        let dead = |zone| state.zones.get(zone).is_some_and(|entry| u64::from(entry.next) > entry.live);
        let mut busy = state.lanes.all.iter().enumerate().filter(|(lane, entry)| *lane != COPIES && entry.is_busy());
        state.freeing > 0 || busy.any(|(_, lane)| lane.zone.is_some_and(dead))
    }

    /// Takes no more changes, makes durable what there is, and ends.
    pub(crate) async fn close(self: &Rc<Self>) -> FilesResult<()> {
        self.writable()?;
        self.closing.set(true);
        self.drive.zones.end();
        let impatient = async {
            self.log.stalled().await;
            self.log.give_up_waiting();
            std::future::pending::<()>().await;
        };
        match select(pin!(self.write_all()), pin!(impatient)).await {
            Either::Left((closed, _)) => closed,
            Either::Right(_) => Err(FilesError::closed()),
        }
    }

    async fn write_all(self: &Rc<Self>) -> FilesResult<()> {
        let written: Vec<u64> = self.state.borrow().active.keys().copied().collect();
        let mut result = Ok(());
        for serial in written {
            result = result.and(self.write_out(serial).await);
        }
        self.keeper.end().await;
        self.zones_changed().await;
        self.state.borrow().running()?;
        debug_assert!(self.counts_agree(), "ZF-ZONE-1: the zones' counts are not those of the files");
        debug_assert!(self.state.borrow().tree.links_agree(), "ZF-TREE-1");
        self.flush().await?;
        self.checkpoint().await?;
        let lossy: Vec<u64> = {
            let state = self.state.borrow();
            state.active.iter().filter(|(_, active)| active.losses.any()).map(|(serial, _)| *serial).collect()
        };
        for serial in lossy {
            result = result.and(self.survived(serial).await);
        }
        result
    }

    /// Waits until no zone is being taken, left or given up. (ZF-CLOSE-3)
    async fn zones_changed(&self) {
        loop {
            let changed = self.wakes.room.notified();
            let changes = {
                let lanes = &self.state.borrow().lanes;
                lanes.leaving > 0 || lanes.all.iter().any(|lane| lane.own.changes)
            };
            if !changes {
                return;
            }
            changed.await;
        }
    }

    /// ZF-ZONE-1, by a count of all extents.
    fn counts_agree(&self) -> bool {
        let state = self.state.borrow();
        let mut counted = std::collections::BTreeMap::<ZoneId, u64>::new();
        for (_, node) in state.tree.files() {
            for (zone, blocks) in node.extents.blocks_by_zone() {
                *counted.entry(zone).or_default() += blocks;
            }
        }
        // Entries that are on their way free blocks later.
        state.zones.iter().all(|(id, zone)| zone.live >= counted.get(&id).copied().unwrap_or(0))
    }
}
