//! Gathering: sectors whose neighbours lie elsewhere are copied side by side, so that the map has fewer extents. It keeps the map within its
//! memory, as faults of map pages from the drive would (FSTL, section III-C), and leaves reads in order of addresses fast.
//!
//! **Owns** the choice of the sectors. **Knows nothing of** copying.
//!
//! # Invariants
//! - TL-MEM-1: the map of a volume without holes stays near its limit: above it, extents whose sectors follow each other are joined; an eighth above
//!   it, each command of writers waits until it has become smaller, for [`PATIENCE`] at most. Extents between holes stay, and maps of snapshots are not
//!   counted. (`random_writes_for_ever_take_a_bounded_map`)
//! - TL-MEM-2: gathering leaves the zones to cleaning that writers leave to it. (`a_full_volume_is_gathered_and_cleaned`)
//! - TL-MEM-3: writers wait for no map that cannot become smaller: not where most extents stand alone, nor below an eighth above the size that joining
//!   could give it, nor without room for copies. (`a_volume_with_holes_is_written_without_waiting`,
//!   `a_controller_that_does_nothing_holds_up_no_writer_of_a_large_map`)

use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_base::ZoneId;
use shingle_store_api::StoreErrorKind;

use super::Sources;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::map::{Extent, ExtentMap};
use crate::room::{COPY_RESERVE, PATIENCE};
use crate::state::State;
use crate::write::COPIES;

/// Bytes of memory of an extent. (TL-MAP-2)
const EXTENT_BYTES: u64 = 16;

/// Extents that a limit allows at least, beside four for each full pair of the volume.
const EXTENTS_MIN: u64 = 64;

/// Extents that are looked at in one step.
const WINDOW: usize = 1 << 16;

/// Extents that are joined in one step, at most: a disk reads so many in some seconds.
const STEP: usize = 1024;

/// Pause once extents cannot be joined: nothing that is worth the copies lies side by side, or all were written again meanwhile.
const PAUSE: Duration = Duration::from_secs(15);

/// The same where some cannot be read: a disk takes seconds for each block.
const PAUSE_UNREAD: Duration = Duration::from_secs(600);

/// Times that a round in vain took until the next: a large map takes seconds to look through.
const ROUND_PAUSE: u32 = 20;

/// The part of the extents that have to become fewer, or all are left as they are.
const SHARE: usize = 8;

/// Steps that join hardly any extents, one after the other, before the pause.
const POOR_MAX: u32 = 4;

/// Extents whose sectors follow each other.
#[derive(Default)]
struct Series {
    extents: Vec<Extent>,
    sectors: u64,
}

impl Engine {
    /// Extents that the volume's own map may have.
    fn extents_max(&self, state: &State) -> Option<u64> {
        let pairs = state.sectors / u64::from(self.drive.layout.shape.pair_sectors());
        self.options.map_bytes.map(|bytes| (bytes / EXTENT_BYTES).max(4 * pairs + EXTENTS_MIN))
    }

    /// The map is to become smaller, and can.
    pub(crate) fn wants_gathering(&self, state: &State) -> bool {
        let large = self.extents_max(state).is_some_and(|most| state.maps.live.len() > most);
        large && state.zones.free() > COPY_RESERVE && state.gathering.again.is_none_or(|at| self.rt.now() >= at)
    }

    /// Writers wait for the map. (TL-MEM-3)
    fn writers_wait_for_map(&self, state: &State) -> bool {
        let most = self.extents_max(state).map(|most| most.max(state.gathering.apart_before));
        let far = most.is_some_and(|most| state.maps.live.len() > most + most / 8);
        far && !state.gathering.sparse && self.wants_gathering(state)
    }

    /// Time until gathering is tried again; `None` if that is not due.
    pub(crate) fn gathers_in(&self) -> Option<Duration> {
        let (again, now) = (self.state.borrow().gathering.again, self.rt.now());
        again.filter(|at| *at > now).map(|at| at.since(now))
    }

    /// Waits while the map is far above its limit. (TL-MEM-1)
    pub(crate) async fn below_map_limit(&self) {
        let until = self.rt.now() + PATIENCE;
        loop {
            let smaller = pin!(self.wakes.room.notified());
            let now = self.rt.now();
            {
                let state = self.state.borrow();
                let over = now >= until || self.closing.get() || state.stopped.is_some();
                if over || !self.writers_wait_for_map(&state) {
                    return;
                }
            }
            self.keeper.wake();
            select(smaller, pin!(self.rt.sleep(until - now))).await;
        }
    }

    /// Joins some extents, if the map is too large and there is room for the copies. False if not.
    pub(crate) async fn gather(self: &Rc<Self>) -> Result<bool, Failure> {
        let sources = {
            let state = &mut *self.state.borrow_mut();
            if !self.wants_gathering(state) {
                return Ok(false);
            }
            let all = self.series(state);
            (!all.is_empty()).then(|| self.sources_of(state, all))
        };
        let Some(sources) = sources else {
            self.wakes.room.notify_waiters();
            // The next part of the map is looked at when others have had their turn.
            self.rt.yield_now().await;
            return Ok(true);
        };
        let ranges: Vec<_> = sources.windows.iter().flatten().map(|extent| extent.lba..extent.end()).collect();
        let before = ranges.len() as u64;
        let (no_room, unreadable) = match self.copy(sources, COPIES, |_| {}).await {
            Err(failure) if failure.kind == StoreErrorKind::NoSpace => (true, 0),
            copied => (false, copied?.unreadable),
        };
        let mut state = self.state.borrow_mut();
        let after = count(&state.maps.live, &joined(ranges));
        let gained = before.saturating_sub(after);
        state.counters.extents_joined += gained;
        if gained * 4 > before {
            (state.gathering.fruitful, state.gathering.poor) = (true, 0);
        } else {
            state.gathering.poor += 1;
        }
        if unreadable > 0 || state.gathering.poor == POOR_MAX {
            let pause = if unreadable > 0 { PAUSE_UNREAD } else { PAUSE };
            (state.gathering.poor, state.gathering.again) = (0, Some(self.rt.now() + pause));
        }
        drop(state);
        self.wakes.room.notify_waiters();
        Ok(!no_room)
    }

    /// The next extents that are worth being joined, of a part of the map: those with the fewest sectors for each extent fewer.
    fn series(&self, state: &mut State) -> Vec<Series> {
        let shape = self.drive.layout.shape;
        let pair = u64::from(shape.pair_sectors());
        // So that the copies take a fraction of a zone.
        let most = u64::from(shape.scattered_sectors() / 4).max(pair);
        let (mut all, mut one, mut looked) = (Vec::new(), Series::default(), 0);
        let next = state.maps.live.some(state.gathering.from, WINDOW, |extent| {
            let goes_on = one.extents.last().is_some_and(|last| last.end() == extent.lba);
            let fits = one.sectors + u64::from(extent.sectors) <= most && one.extents.len() < STEP;
            if !(goes_on && fits) {
                all.push(std::mem::take(&mut one));
            }
            looked += 1;
            if extent.place.is_stored() {
                one.sectors += u64::from(extent.sectors);
                one.extents.push(extent);
            }
        });
        all.push(one);
        state.gathering.from = next.unwrap_or(0);
        // One extent fewer for each full pair that is copied, at least.
        all.retain(|one| one.extents.len() > 1 && (one.extents.len() as u64 - 1) * pair >= one.sectors);
        all.sort_by_key(|one| one.sectors * 1024 / one.extents.len() as u64);
        let fewer: usize = all.iter().map(|one| one.extents.len() - 1).sum();
        state.gathering.sparse = fewer * SHARE < looked;
        if state.gathering.sparse {
            all.clear();
        }
        state.gathering.apart += (looked - fewer) as u64;
        let now = self.rt.now();
        let began = *state.gathering.began.get_or_insert(now);
        if next.is_none() {
            state.gathering.began = None;
            state.gathering.apart_before = std::mem::take(&mut state.gathering.apart);
            if !std::mem::take(&mut state.gathering.fruitful) && all.is_empty() {
                state.gathering.again = Some(now + PAUSE.max(now.since(began) * ROUND_PAUSE));
            }
        }
        let (mut extents, mut sectors) = (0, 0);
        let fits = |one: &&Series| {
            (extents, sectors) = (extents + one.extents.len(), sectors + one.sectors);
            extents <= STEP && sectors <= most
        };
        let fitting = all.iter().take_while(fits).count();
        all.truncate(fitting);
        all
    }

    /// Series in the order of the volume, with their zones pinned.
    fn sources_of(&self, state: &State, mut all: Vec<Series>) -> Sources {
        all.sort_by_key(|one| one.extents.first().map(|first| first.lba));
        let extents: Vec<Extent> = all.into_iter().flat_map(|one| one.extents).collect();
        let zones: BTreeSet<ZoneId> =
            extents.iter().map(|extent| self.drive.layout.shape.zone_of(extent.place)).collect();
        let pins = zones.into_iter().map(|zone| state.zones.pin(zone)).collect();
        Sources { windows: vec![extents], pins, empties: false }
    }
}

/// Ranges of which those that follow each other are one.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

/// Extents in ranges.
fn count(map: &ExtentMap, ranges: &[Range<u64>]) -> u64 {
    let mut extents = 0;
    ranges.iter().for_each(|range| map.within(range.clone(), |_| extents += 1));
    extents
}
