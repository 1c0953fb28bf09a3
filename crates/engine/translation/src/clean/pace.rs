//! Writers are held up in proportion to copies that make room. (TL-PACE-1)

use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use shingle_runtime::Instant;

use crate::engine::Engine;
use crate::pace::Pace;
use crate::room::{COPY_RESERVE, FREE_MIN, PATIENCE};
use crate::state::{LowWater, Mark, State};
use crate::write::{STREAMS, is_copy, of_writes};

/// The time after a caller's last command for which callers count as active.
const CALM: Duration = Duration::from_millis(500);

/// The time on the drive after which a command of callers' writes goes before all copies.
const CALLERS_FIRST: Duration = Duration::from_millis(40);

/// The time after which it is given up to be served soon.
const HANGS: Duration = Duration::from_secs(1);

impl State {
    /// Copies of so many sectors begin, which make room.
    pub(crate) fn begin_pace(&mut self, sectors: u64, now: Instant) {
        let zones = u64::from(self.wanted_free.max(FREE_MIN) - FREE_MIN) + 1;
        let room = self.room_beside_copies(sectors);
        let pace = Pace::new(self.counters.blocks_written, room, self.shape.zone_blocks.into(), zones, sectors);
        self.set_pace(pace, now);
    }

    /// Copies go on that were begun by somebody else.
    pub(crate) fn is_paced(&self, now: Instant) -> bool {
        self.low_water.is_some_and(|low| matches!(low.mark, Mark::Pace(pace) if !pace.has_ended()) && low.until > now)
    }

    /// Some sectors were read to be copied, or written.
    pub(crate) fn step_pace(&mut self, sectors: u64, now: Instant) {
        if let Some(LowWater { mark: Mark::Pace(mut pace), .. }) = self.low_water
            && !pace.has_ended()
        {
            pace.step(sectors);
            self.set_pace(pace, now);
        }
    }

    /// A zone became free.
    pub(crate) fn add_to_pace(&mut self) {
        if let Some(LowWater { mark: Mark::Pace(pace), .. }) = &mut self.low_water {
            pace.add_zone();
        }
    }

    /// The copies are over.
    pub(crate) fn end_pace(&mut self, now: Instant) {
        if let Some(LowWater { mark: Mark::Pace(mut pace), .. }) = self.low_water {
            pace.end();
            self.set_pace(pace, now);
        }
    }

    fn set_pace(&mut self, pace: Pace, now: Instant) {
        self.low_water = Some(LowWater { mark: Mark::Pace(pace), until: now + PATIENCE });
    }

    /// Blocks that writers may still use once copies have taken a zone, if they need one.
    fn room_beside_copies(&self, sectors: u64) -> u64 {
        let zone_blocks = u64::from(self.shape.zone_blocks);
        let copies = (0..STREAMS).filter(|&stream| is_copy(stream));
        let open = copies.filter_map(|stream| self.zones.get(self.frontiers[usize::from(stream)].zone?));
        let rest: u64 = open.map(|zone| zone_blocks - u64::from(zone.next)).sum();
        let takes = self.zones.free() > COPY_RESERVE && rest < sectors / u64::from(self.shape.slice_sectors());
        self.room_of_writers() - if takes { zone_blocks } else { 0 }
    }

    /// Writers have to wait for a mark.
    pub(crate) fn is_below_mark(&self) -> bool {
        self.low_water.is_some_and(|low| match low.mark {
            Mark::Room(blocks) => self.room_of_writers() <= blocks,
            Mark::Pace(pace) => {
                let over = pace.has_ended() && self.zones.free() >= self.wanted_free.max(FREE_MIN);
                !over && pace.holds(self.counters.blocks_written)
            }
        })
    }
}

impl Engine {
    /// Some sectors were read to be copied, or written.
    pub(crate) fn step_pace(&self, sectors: u64) {
        self.state.borrow_mut().step_pace(sectors, self.rt.now());
        self.wakes.room.notify_waiters();
    }

    /// Time since a caller last asked for something; none while writes are under way.
    pub(crate) fn idle_for(&self) -> Duration {
        let state = self.state.borrow();
        let busy = !state.router.is_idle() || of_writes().any(|stream| !state.is_idle(stream));
        if busy { Duration::ZERO } else { self.rt.now().since(self.last_call.get()) }
    }

    /// Waits while a command of callers' writes has been on the drive for long, but not if it hangs: a disk may take what is near before it, time after
    /// time. (TL-STEP-1)
    pub(crate) async fn callers_first(&self) {
        loop {
            let served = pin!(self.wakes.served.notified());
            let longest = {
                let (state, now) = (self.state.borrow(), self.rt.now());
                let flying = of_writes().map(|stream| &state.frontiers[usize::from(stream)].own);
                let flying = flying.filter(|own| !own.flying.is_empty());
                flying.map(|own| now.since(own.began)).filter(|&time| time < HANGS).max()
            };
            match longest {
                Some(time) if time >= CALLERS_FIRST && self.has_callers() => {
                    select(served, pin!(self.rt.sleep(HANGS - time))).await;
                }
                _ => return,
            }
        }
    }

    /// Callers are active, and would wait for copies: these take small steps. (TL-STEP-1)
    pub(crate) fn has_callers(&self) -> bool {
        self.drive.writes_take_its_arm() && self.idle_for() < CALM
    }
}
