//! Garbage collection of zones: pick a victim, move what lives, swap the index. (SMRstore, section 5.5.)
//!
//! # Invariants
//! - GC-1: the index is swapped only when the copies are durable; until then the victim is pinned and untouched.
//! - GC-2: records keep their ranges when they move (APP-4), so that original and copy are interchangeable.
//! - GC-3: while copies are not swapped in, their zone's `indexed_to` stays before them, so recovery scans them.
//! - GC-4: a copy is numbered only while its chunk lives, so that it never passes for a record of a later chunk of the
//!   same id.

mod migrate;
mod policy;
mod throttle;

use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;

pub use policy::{Candidate, CostBenefit, Greedy, VictimPolicy};
pub(crate) use throttle::Throttle;

use crate::error::Result;
use crate::state::State;
use crate::stats::Forecast;
use crate::store::{ChunkStore, Inner};
use crate::types::Stream;
use crate::zones::ZoneStatus;

/// The zone that takes a stream's moved records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) zone: ZoneId,
    /// Where the next record goes.
    pub(crate) next: u32,
}

/// GC between its steps.
#[derive(Default)]
pub(crate) struct GcState {
    /// The zone being emptied.
    pub(crate) victim: Option<ZoneId>,
    /// A destination for each stream.
    pub(crate) destinations: [Option<Destination>; 3],
    /// Bytes of the victim moved so far, and in all.
    pub(crate) moved: (u64, u64),
}

/// What GC is doing and where it leads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GcStatus {
    /// The zone being emptied, if one is.
    pub victim: Option<ZoneId>,
    /// How much of its live data has been moved, in 0..=1.
    pub progress: f64,
    /// GC's share of its top speed, as the throttle has it.
    pub speed: f64,
    /// When free zones will run out.
    pub forecast: Forecast,
}

/// What a run of GC did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Zones emptied.
    pub zones: u64,
    /// Bytes written to move what lived in them.
    pub moved_bytes: u64,
    /// Zones left alone because something in them could not be read.
    pub damaged: u64,
}

/// A stream's place in arrays.
pub(crate) fn slot(stream: Stream) -> usize {
    match stream {
        Stream::Data => 0,
        Stream::Gc => 1,
        Stream::Meta => 2,
    }
}

impl Inner {
    /// Whether free zones are few enough to begin.
    pub(crate) fn gc_wanted(&self) -> bool {
        let state = self.state.borrow();
        let usable = state.zones.count(ZoneStatus::Free) + state.zones.count(ZoneStatus::Garbage);
        let wanted = f64::from(state.zones.len()) * self.options.gc_start;
        f64::from(usable) < wanted.max(f64::from(crate::keeper::GC_RESERVE + 1))
    }

    /// Whether appends wait for what GC wins.
    fn gc_urgent(&self) -> bool {
        self.state.borrow().starved.iter().any(|waiting| !waiting.is_empty())
    }

    /// The best zone to empty, if emptying zones of its stream is sure to win a whole one. Without urgency, zones that
    /// would win little are left until they win more.
    ///
    /// Where records do not fit together, a zone they are moved to keeps room for up to the longest record of the
    /// stream, W. So n zones with garbage g each need at most ceil(sum(room - g) / (room - W)) others, which is fewer
    /// than n if sum(g - W) >= room - W. Zones with no more garbage than W never count, so GC cannot go in circles.
    pub(crate) fn victim(&self, urgent: bool) -> Option<ZoneId> {
        let state = self.state.borrow();
        let now = self.sequence.last();
        let mut gain = self.destination_room(&state);
        let longest = |stream: Stream| state.longest[slot(stream)].min(self.zone_room);
        let candidates: Vec<(Stream, Candidate)> = state
            .zones
            .iter()
            .filter(|(_, zone)| zone.status == ZoneStatus::Closed && !zone.damaged)
            .filter_map(|(id, zone)| {
                let garbage = self.zone_room.saturating_sub(zone.live);
                let waste = longest(zone.stream);
                if garbage <= waste {
                    return None;
                }
                gain[slot(zone.stream)] += u64::from(garbage - waste);
                let age = now.saturating_sub(zone.last_write);
                Some((zone.stream, Candidate { zone: id, live: zone.live, garbage, age }))
            })
            .collect();
        let least = if urgent { 1 } else { self.zone_room.div_ceil(16) };
        candidates
            .into_iter()
            .filter(|(stream, candidate)| {
                let wins = gain[slot(*stream)] >= u64::from(self.zone_room - longest(*stream));
                wins && candidate.garbage >= least
            })
            .map(|(_, candidate)| (self.options.victims.score(&candidate), candidate.zone))
            .max_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(&left.1)))
            .map(|(_, zone)| zone)
    }

    /// Blocks left in the zones that take moved records, by stream.
    fn destination_room(&self, state: &State) -> [u64; 3] {
        self.gc.borrow().destinations.map(|destination| {
            let open = destination.filter(|at| state.zones.get(at.zone).status == ZoneStatus::Activated);
            open.map_or(0, |at| u64::from(self.zone_room + 1 - at.next))
        })
    }

    /// Collects whenever it is wanted, until the store stops.
    pub(crate) async fn gc_task(self: Rc<Self>) {
        loop {
            if self.state.borrow().stopped.is_some() {
                return;
            }
            let urgent = self.gc_urgent();
            let victim = if urgent || self.gc_wanted() { self.victim(urgent) } else { None };
            let Some(victim) = victim else {
                self.gc_wake.notified().await;
                continue;
            };
            if let Err(error) = self.empty_zone(victim).await {
                tracing::warn!(zone = victim.0, %error, "GC could not empty a zone");
                self.rt.sleep(Duration::from_millis(10)).await;
            }
            self.keeper.notify_one();
        }
    }

    /// Pauses after a step of GC that took `step`, as long as appends need.
    pub(crate) async fn gc_pause(&self, step: Duration) {
        let pause = self.throttle.pause(step, self.gc_urgent());
        if pause > Duration::ZERO {
            self.rt.sleep(pause).await;
        }
    }
}

impl ChunkStore {
    /// Empties up to `zones_max` zones now, the best first, whether free zones are short or not. `progress` hears of
    /// every zone emptied.
    ///
    /// # Errors
    /// `NoSpace` if there is no free zone to move to; what was moved until then stays moved.
    pub async fn gc(&self, zones_max: u64, mut progress: impl FnMut(GcReport)) -> Result<GcReport> {
        let before = self.counters();
        let mut report = GcReport::default();
        while report.zones < zones_max {
            let Some(victim) = self.inner.victim(true) else { break };
            self.inner.empty_zone(victim).await?;
            let now = self.counters();
            report.zones = now.gc_zones - before.gc_zones;
            report.moved_bytes = now.gc_written_bytes - before.gc_written_bytes;
            report.damaged += u64::from(self.inner.state.borrow().zones.get(victim).damaged);
            progress(report);
        }
        self.inner.keeper.notify_one();
        Ok(report)
    }

    /// What GC is doing.
    pub fn gc_status(&self) -> GcStatus {
        let gc = self.inner.gc.borrow();
        let (moved, all) = gc.moved;
        let progress = if gc.victim.is_none() || all == 0 { 0.0 } else { moved as f64 / all as f64 };
        GcStatus { victim: gc.victim, progress, speed: self.inner.throttle.speed(), forecast: self.forecast() }
    }
}
