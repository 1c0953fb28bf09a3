//! The task of GC: when it works, on which zone, and how it pauses.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_base::ZoneId;

use crate::drive::HOST_PAUSE;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::gc::rests::REST_SHORT;
use crate::gc::throttle;
use crate::gc::victims::Choice;
use crate::state::StoreState;
use crate::stats::Forecast;
use crate::store::ChunkStore;
use crate::types::ZoneStatus;
use crate::zones::{OPEN_AGAIN, Zone};

/// Progress and forecast of GC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GcStatus {
    /// The zone being emptied, if one is.
    pub victim: Option<ZoneId>,
    /// Share of its live data that has been moved, in 0..=1.
    pub progress: f64,
    /// GC's share of its top speed, as the throttle has it.
    pub speed: f64,
    /// When free zones will run out.
    pub forecast: Forecast,
}

/// Result of a run of GC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Zones emptied.
    pub zones: u64,
    /// Bytes written to move what lived in them.
    pub moved_bytes: u64,
    /// Zones left alone because something in them could not be read, for now or for good, or the index had no room for its parts.
    pub damaged: u64,
}

/// Pause after a zone that the drive could not read.
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

/// The share of zones that idle time is used to have free.
const IDLE_FREE: f64 = 0.2;

impl Engine {
    /// True if free zones are few enough to begin.
    pub(crate) fn gc_wanted(&self) -> bool {
        let state = self.state.borrow();
        let usable = state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage);
        let wanted = f64::from(state.zones.len()) * self.options.gc_start;
        f64::from(usable) < wanted.max(f64::from(crate::zones::GC_RESERVE + 1))
    }

    /// True if appends wait for space from GC.
    fn gc_urgent(&self) -> bool {
        self.state.borrow().starved.any()
    }

    /// The best zone to empty to win space. Without urgency, zones that would win little are left until they win more.
    pub(crate) fn victim(&self, urgent: bool) -> Option<ZoneId> {
        let state = &mut *self.state.borrow_mut();
        if !self.has_gc_room(state) {
            return None;
        }
        let choice = Choice {
            policy: &*self.options.victims,
            now: self.sequence.last(),
            horizon: self.horizon(state),
            zone_room: self.drive.zone_room,
            room: self.destination_room(state),
            full: state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage) == 0,
            least: if urgent { 1 } else { self.drive.zone_room.div_ceil(16) },
            lifetimes: &state.lifetimes,
        };
        // CS-VICTIM-4.
        let open = self.collector.streams();
        let none_free = open.len() >= state.leases.gc() as usize;
        let first = if none_free { choice.among(&mut state.zones, &open) } else { None };
        first.or_else(|| choice.of(&mut state.zones))
    }

    /// A read-only zone whose records are to be moved away before it goes offline. That wins no space, so it must leave
    /// a free zone to win some with.
    pub(crate) fn retreat(&self) -> Option<ZoneId> {
        let mut state = self.state.borrow_mut();
        if state.zones.count(ZoneStatus::ReadOnly) == 0 || !self.has_gc_room(&state) {
            return None;
        }
        state.zones.settle();
        let (room, free) = (self.destination_room(&state), state.zones.count(ZoneStatus::Free));
        let zones = state.zones.census().retreats().map(|at| state.zones.number(at));
        let fits = |zone: &ZoneId| {
            let slot_of = state.zones.get(*zone);
            free > crate::zones::GC_RESERVE || u64::from(slot_of.live) <= room[slot_of.stream.slot()]
        };
        zones.into_iter().find(fits)
    }

    /// The records that can be written before free zones run out.
    fn horizon(&self, state: &StoreState) -> u64 {
        let usable = state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage);
        let room = u64::from(usable) * u64::from(self.drive.zone_room);
        let written = state.counters.written_bytes / shingle_base::BLOCK_SIZE as u64;
        let records = self.sequence.last().saturating_sub(self.collector.first_sequence);
        (u128::from(room) * u128::from(records) / u128::from(written.max(1))).try_into().unwrap_or(u64::MAX)
    }

    /// Counts how much of which age could have died. Now and then will do: it looks at every zone.
    fn note_lifetimes(&self) {
        let now = self.sequence.last();
        let state = &mut *self.state.borrow_mut();
        if now.saturating_sub(state.lifetimes.counted()) < 8 * u64::from(state.zones.len()) {
            return;
        }
        let closed = state.zones.iter().filter(|(_, zone)| zone.status == ZoneStatus::Closed);
        let alive = closed.map(|(_, zone)| (zone.stream, now.saturating_sub(zone.last_write), zone.live));
        state.lifetimes.expose(now, alive);
    }

    /// True if free zones are few enough to use idle time for more.
    fn idle_gc_wanted(&self) -> bool {
        let state = self.state.borrow();
        let usable = state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage);
        f64::from(usable) < f64::from(state.zones.len()) * IDLE_FREE
    }

    /// The zone to empty while nobody asks for anything: only one that is mostly garbage, for a move that turns out to
    /// be in vain delays the next caller.
    fn idle_victim(&self) -> Option<ZoneId> {
        let victim = self.victim(false)?;
        let garbage = self.drive.zone_room.saturating_sub(self.state.borrow().zones.get(victim).live);
        (garbage >= self.drive.zone_room / 2).then_some(victim)
    }

    /// Number of calls so far.
    fn activity(&self) -> u64 {
        let counters = self.state.borrow().counters;
        counters.appends + counters.reads + counters.journal_entries
    }

    /// Blocks left in the zones that take moved records, by stream.
    fn destination_room(&self, state: &StoreState) -> [u64; 3] {
        self.collector.destinations().map(|destination| {
            let open = destination.filter(|at| state.zones.get(at.zone).status == ZoneStatus::Activated);
            open.map_or(0, |at| u64::from(self.drive.zone_room + 1 - at.next))
        })
    }

    /// Collects whenever it is wanted, and in idle time, until the store stops.
    pub(crate) async fn gc_task(self: Rc<Self>) {
        let mut idle = false;
        let mut won = true;
        loop {
            if self.state.borrow().stopped.is_some() {
                return;
            }
            self.note_lifetimes();
            won = won && !self.end_rest_in_time();
            let urgent = self.gc_urgent();
            let wins = if urgent { self.victim(true) } else { None };
            let victim = if let Some(zone) = wins.or_else(|| self.retreat()) {
                Some(zone)
            } else if self.gc_wanted() {
                self.victim(urgent)
            } else if idle && self.idle_gc_wanted() {
                self.idle_victim()
            } else {
                None
            };
            let victim = victim.or_else(|| self.rested_victim());
            let before = self.activity();
            let Some(victim) = victim else {
                idle = self.wait_for_gc_time().await && self.activity() == before;
                continue;
            };
            let emptied = self.empty_zone(victim).await;
            won |= emptied.is_ok() && !self.rests(victim);
            if emptied.as_ref().is_err_and(|error| error.kind == ErrorKind::HostFull) {
                // Callers that wait for space from GC would wait for room on the host.
                self.refuse_waiting();
                self.rt.sleep(HOST_PAUSE).await;
            } else if let Err(error) = emptied {
                tracing::warn!(zone = victim.0, %error, "GC could not empty a zone");
                self.rt.sleep(Duration::from_millis(10)).await;
                if self.opens_no_zone() {
                    self.rt.sleep(OPEN_AGAIN).await;
                }
                // Callers who wait for GC would wait for the log.
                self.wakes.keeper.notify_one();
                self.log_changes().await;
            }
            idle = idle && self.activity() == before;
            self.wakes.keeper.notify_one();
            // The next may be as bad, and callers are refused meanwhile who would wait for those that have rested.
            if self.rests(victim) && !(self.gc_urgent() && self.victim(true).is_some()) {
                self.rt.sleep(UNREAD_PAUSE).await;
            }
        }
    }

    /// Empties the best zone, if any is worth it, and returns it.
    async fn empty_best(self: Rc<Self>) -> Result<Option<ZoneId>> {
        let Some(victim) = self.retreat().or_else(|| self.victim(true)) else { return Ok(None) };
        let emptied = self.empty_zone(victim).await;
        // Even where it failed, a zone may have been won.
        self.wakes.keeper.notify_one();
        emptied.map(|()| Some(victim))
    }

    /// Returns when GC may be wanted; `true` if that is because time has passed.
    async fn wait_for_gc_time(&self) -> bool {
        let timer = async {
            match self.options.gc_idle_after {
                Some(idle_after) => self.rt.sleep(idle_after).await,
                None => std::future::pending().await,
            }
        };
        let woken = select(Box::pin(self.wakes.gc.notified()), Box::pin(self.rest_over()));
        matches!(select(Box::pin(timer), woken).await, Either::Left(_))
    }

    /// Pauses after a step of GC that took `step` and was `share` of its victim, as long as appends need and free zones
    /// last.
    pub(crate) async fn gc_pause(&self, victim: ZoneId, step: Duration, share: f64) {
        let garbage = self.drive.zone_room.saturating_sub(self.state.borrow().zones.get(victim).live).max(1);
        // Time for a whole zone, of victims that win a part of one each.
        let zone =
            step.as_secs_f64() / share.max(f64::MIN_POSITIVE) * f64::from(self.drive.zone_room) / f64::from(garbage);
        let zone = Duration::try_from_secs_f64(zone).unwrap_or(Duration::MAX);
        let least = throttle::least_speed(self.collector.trend.borrow().forecast(), zone);
        let pause = self.collector.throttle.pause(step, self.gc_urgent(), least);
        if pause > Duration::ZERO {
            self.sleep_unless_urgent(pause).await;
        }
    }

    /// Sleeps, but no longer than until appends wait for space, or the store stops (CS-GC-12).
    async fn sleep_unless_urgent(&self, pause: Duration) {
        let mut sleep = Box::pin(self.rt.sleep(pause));
        loop {
            // The keeper wakes GC for less, too.
            match select(sleep, Box::pin(self.wakes.gc.notified())).await {
                Either::Right((_, rest)) if !self.gc_urgent() && self.state.borrow().stopped.is_none() => sleep = rest,
                _ => return,
            }
        }
    }
}

impl ChunkStore {
    /// Empties up to `zones_max` zones now, the best first, whether free zones are short or not. `progress` hears of
    /// every zone emptied.
    ///
    /// # Errors
    /// `NoSpace` if there is no free zone to move to; `Device` if zones failed under it, or the metadata log is full. Records that were moved
    /// until then stay moved.
    pub async fn gc(&self, zones_max: u64, mut progress: impl FnMut(GcReport)) -> Result<GcReport> {
        let before = self.counters();
        let mut report = GcReport::default();
        let mut left = BTreeSet::new();
        self.engine.end_rests(REST_SHORT);
        while report.zones < zones_max {
            // A step that was begun ends, whoever waits (CS-GC-9).
            let step = self.engine.rt.spawn(self.engine.clone().empty_best());
            let gone = |_| Err(Error::new(ErrorKind::Stopped, "the store is gone"));
            let Some(victim) = step.await.unwrap_or_else(gone)? else { break };
            let now = self.counters();
            report.zones = now.gc_zones - before.gc_zones;
            report.moved_bytes = now.gc_written_bytes - before.gc_written_bytes;
            let stays = |zone: &Zone| zone.damaged || zone.resting.is_some();
            let again = stays(self.engine.state.borrow().zones.get(victim)) && !left.insert(victim);
            report.damaged = left.len() as u64;
            progress(report);
            if again {
                // Its rest has ended meanwhile: so it could go on for ever.
                break;
            }
        }
        Ok(report)
    }

    /// Present state of GC.
    pub fn gc_status(&self) -> GcStatus {
        let collector = &self.engine.collector;
        let (victim, progress, speed) = (collector.victim(), collector.progress(), collector.throttle.speed());
        GcStatus { victim, progress, speed, forecast: self.forecast() }
    }
}
