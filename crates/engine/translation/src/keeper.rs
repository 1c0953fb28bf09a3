//! The keeper: one task that sees to free zones and checkpoints.
//!
//! # Invariants
//! - TL-RESET-1: a zone is reset only if nothing lives in it, nobody reads it, a complete checkpoint has all that was written in it,
//!   and all that displaced its sectors is durable, in the zones or in the journal.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_zone_kit::Reset;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::format::Entry;
use crate::room::{COPY_RESERVE, FREE_MIN};
use crate::state::State;
use crate::zones::Vacated;

impl Engine {
    /// Too few zones are free.
    pub(crate) fn wants_room(&self, state: &State) -> bool {
        state.zones.free() < self.free_wanted(state)
    }

    /// Zones that are to be free.
    pub(crate) fn free_wanted(&self, state: &State) -> u32 {
        self.options.low_water.max(FREE_MIN).max(state.wanted_free)
    }

    /// Works until the volume closes or stops.
    pub(crate) async fn keep(self: Rc<Self>) {
        // An error has stopped the volume, and all have been told.
        let (runs, step) = (|| self.state.borrow().stopped.is_none(), async || self.keep_once().await);
        self.keeper.keep(runs, step, async |woken| self.rest(woken).await, || self.wakes.room.notify_waiters()).await;
    }

    /// Waits for something to do: no longer than writers may wait for a controller, zones that could not be read for the next try, or
    /// gathering for its own.
    async fn rest(&self, woken: impl Future<Output = ()>) {
        let patience = self.takes_over_in().filter(|time| !time.is_zero());
        match [patience, self.stuck_for(), self.gathers_in()].into_iter().flatten().min() {
            Some(time) => {
                select(pin!(woken), pin!(self.rt.sleep(time))).await;
            }
            None => woken.await,
        }
    }

    /// One thing that is to be done. False if there is none.
    async fn keep_once(self: &Rc<Self>) -> Result<bool, Failure> {
        if self.state.borrow().settles() || self.wants_checkpoint() {
            self.checkpoint().await?;
            return Ok(true);
        }
        if self.state.borrow().zones.take_emptied() && self.free_empty_zones().await? {
            return Ok(true);
        }
        self.retry_stuck();
        if self.gather().await? {
            return Ok(true);
        }
        let wanted = {
            let state = self.state.borrow();
            self.free_wanted(&state).saturating_sub(state.zones.free())
        };
        if wanted == 0 {
            return Ok(false);
        }
        if self.is_checkpoint_worth(wanted) {
            self.checkpoint().await?;
            return Ok(true);
        }
        if self.takes_over_in() != Some(Duration::ZERO) {
            // A controller cleans.
            return Ok(false);
        }
        self.take_over();
        self.state.borrow_mut().reclaim = false;
        let victim = self.victim(&self.state.borrow());
        if let Some(victim) = victim
            && self.clean(victim).await?
        {
            return Ok(true);
        }
        if self.end_idle_victim().await? {
            return Ok(true);
        }
        let mut state = self.state.borrow_mut();
        let waits = state.zones.iter().any(|(_, zone)| zone.is_empty()) || self.has_busy_victim(&state);
        state.hopeless = state.zones.free() <= COPY_RESERVE && !waits;
        if state.hopeless {
            self.wakes.room.notify_waiters();
        }
        // If not, an empty zone waits for those who read it, or another for those who write it, and they wake the keeper.
        Ok(false)
    }

    /// Ends a zone that nobody writes, for the sake of writers that wait: it can be cleaned then (TL-SIZE-1). False if there is none.
    /// Its blocks that are not written yet are won with it; its stream takes another zone when it needs one.
    async fn end_idle_victim(self: &Rc<Self>) -> Result<bool, Failure> {
        let idle = {
            let state = self.state.borrow();
            let wanted = state.writers_wait() && state.zones.free() <= COPY_RESERVE;
            if wanted { self.idle_victim(&state) } else { None }
        };
        let Some((stream, zone)) = idle else { return Ok(false) };
        self.end_zone(stream, zone).await?;
        Ok(true)
    }

    /// A checkpoint makes half of the zones free that are `wanted`, or some while writers wait.
    fn is_checkpoint_worth(&self, wanted: u32) -> bool {
        let state = self.state.borrow();
        let uncovered = state.zones.iter().filter(|(_, zone)| zone.is_empty() && !zone.own.covered).count() as u32;
        uncovered > 0 && (uncovered * 2 >= wanted || state.zones.free() <= COPY_RESERVE)
    }

    /// Frees the zones in which nothing lives (TL-RESET-1). False if there is none.
    pub(crate) async fn free_empty_zones(self: &Rc<Self>) -> Result<bool, Failure> {
        // All that displaced their sectors becomes durable. They are chosen before, for others may become empty meanwhile.
        let chosen = self.state.borrow().zones.vacant(|zone| zone.own.covered);
        if chosen.is_empty() {
            return Ok(false);
        }
        self.flush().await?;
        if self.state.borrow().settles() {
            // A zone has failed meanwhile, perhaps with what displaced them.
            return Ok(true);
        }
        self.journal_room().await?;
        let mut ended = Vec::with_capacity(chosen.len());
        {
            let mut state = self.state.borrow_mut();
            for (id, epoch) in chosen {
                // It is in no checkpoint from here on, as its entry lies before that of any later one.
                if state.zones.vacate(id, epoch) == Some(Vacated::Reset) {
                    ended.push((id, self.journal(&Entry::Reset { zone: id, epoch }, self.sequence.next())));
                }
            }
        }
        for (zone, journaled) in ended {
            journaled.await?;
            let clean = self.reset(zone).await? == Reset::Done;
            let mut state = self.state.borrow_mut();
            state.zones.add_free(zone, !clean);
            state.add_to_pace();
            state.counters.freed += 1;
            drop(state);
            self.wakes.room.notify_waiters();
        }
        Ok(true)
    }
}
