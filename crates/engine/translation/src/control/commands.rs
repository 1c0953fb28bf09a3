//! Commands of controllers. Each checks its own precondition.

use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_store_api::{StoreErrorKind, StoreResult};

use super::view::refused;
use super::{Control, ZoneName};
use crate::clean::{Copied, Sources};
use crate::failure::Failure;
use crate::map::Extent;
use crate::room::PATIENCE;
use crate::state::{LowWater, Mark};
use crate::write::{HEAD, Route, TAKEN};

/// Extents that a copy takes at most, and so the memory that it takes.
const COPY_EXTENTS_MAX: usize = 1 << 20;

/// Bytes that a controller may save.
const SAVED_MAX: usize = 64 << 10;

impl Control {
    /// Has the next frontier that needs a zone take this free one first.
    ///
    /// # Errors
    /// `Invalid` if it is not free.
    pub fn feed(&self, name: ZoneName) -> StoreResult<()> {
        self.note_command();
        self.check(name)?;
        let fed = self.engine.state.borrow_mut().zones.feed(name.zone);
        if fed { Ok(()) } else { Err(refused("the zone is not free")) }
    }

    /// Opens a free zone for [`copy_to_taken`](Self::copy_to_taken), and ends the one that was taken before.
    ///
    /// # Errors
    /// `NoSpace` if too few zones are free; those that stop the volume.
    pub async fn take(&self) -> StoreResult<ZoneName> {
        self.note_command();
        self.may_open(TAKEN)?;
        let engine = self.engine.clone();
        engine.still_open()?;
        // On a task of its own: a controller that goes away takes no zone with it.
        let taking = self.engine.rt.spawn(async move {
            let before = {
                let state = engine.state.borrow();
                if !state.is_idle(TAKEN) {
                    let why = "copies to the zone that was taken before are still under way";
                    return Err(Failure::new(StoreErrorKind::Invalid, why));
                }
                state.frontiers[usize::from(TAKEN)].zone
            };
            if let Some(before) = before {
                engine.end_zone(TAKEN, before).await?;
            }
            engine.frontier_zone(TAKEN).await
        });
        let zone = taking.await.unwrap_or_else(|_| Err(Failure::gone()))?;
        let generation = self.engine.state.borrow().zones.get(zone).map_or(0, |zone| zone.epoch);
        Ok(ZoneName { zone, generation })
    }

    /// Copies sectors to the head of the log: those of `ranges`, which are in order, that lie in the zone `from`, or wherever they lie. An
    /// update meanwhile wins.
    ///
    /// # Errors
    /// `Invalid` if `from` is over, or ranges are not in order or too many; `NoSpace` if too few zones are free; those that stop the volume.
    pub async fn copy(&self, ranges: &[Range<u64>], from: Option<ZoneName>) -> StoreResult<Copied> {
        self.copy_to(ranges, from, HEAD).await
    }

    /// As [`copy`](Self::copy), to the zone that was [taken](Self::take), and then to others.
    ///
    /// # Errors
    /// As there.
    pub async fn copy_to_taken(&self, ranges: &[Range<u64>], from: Option<ZoneName>) -> StoreResult<Copied> {
        self.copy_to(ranges, from, TAKEN).await
    }

    async fn copy_to(&self, ranges: &[Range<u64>], from: Option<ZoneName>, stream: u8) -> StoreResult<Copied> {
        self.note_command();
        self.may_open(stream)?;
        let sources = self.sources(ranges, from)?;
        // Looks at the end first: whenever this goes on, nothing is read any more then. (TL-CLOSE-2)
        let copying = self.engine.copy(sources, stream, |sectors| self.engine.step_pace(sectors));
        let copied = match select(pin!(self.engine.closes()), pin!(copying)).await {
            Either::Left(((), _)) => Err(Failure::gone()),
            Either::Right((copied, _)) => copied,
        };
        self.note_command();
        Ok(copied?)
    }

    /// Looks sectors up and pins their zones, in one step.
    fn sources(&self, ranges: &[Range<u64>], from: Option<ZoneName>) -> StoreResult<Sources> {
        from.map_or(Ok(()), |name| self.check(name))?;
        let (shape, mut extents, mut zones) = (self.engine.drive.layout.shape, Vec::new(), BTreeSet::new());
        let mut last = 0;
        for range in ranges {
            if range.start < last || range.end < range.start {
                return Err(refused("the ranges are not in order"));
            }
            last = range.end;
            let state = self.engine.state.borrow();
            // Those of snapshots only where a zone is to be emptied.
            for map in state.maps.all().take(if from.is_some() { usize::MAX } else { 1 }) {
                map.within(range.clone(), |extent: Extent| {
                    let zone = shape.zone_of(extent.place);
                    let wanted = extent.place.is_stored() && from.is_none_or(|name| name.zone == zone);
                    if wanted && extents.len() <= COPY_EXTENTS_MAX {
                        extents.push(extent);
                        zones.insert(zone);
                    }
                });
            }
        }
        if extents.len() > COPY_EXTENTS_MAX {
            return Err(refused("the ranges have more than a million extents: copy them in parts"));
        }
        let pins = zones.into_iter().map(|zone| self.engine.state.borrow().zones.pin(zone)).collect();
        Ok(Sources { windows: vec![extents], pins, empties: true })
    }

    /// Has a checkpoint written. Zones in which nothing lives become free once one covers them.
    ///
    /// # Errors
    /// Those that stop the volume.
    pub async fn checkpoint(&self) -> StoreResult<()> {
        self.note_command();
        self.engine.still_open()?;
        self.engine.checkpoint().await?;
        Ok(())
    }

    /// Writers wait while they have no more than so many blocks left, but for two seconds at most. By moving the mark while it cleans, a controller makes many short
    /// waits of a long one. (FSTL, section III-B, "low-water mark")
    pub fn low_water(&self, blocks: u64) {
        self.note_command();
        let zones = self.engine.free_wanted(&self.engine.state.borrow());
        let most = u64::from(zones) * u64::from(self.shape().zone_blocks);
        let mark = LowWater { mark: Mark::Room(blocks.min(most)), until: self.engine.rt.now() + PATIENCE };
        self.engine.state.borrow_mut().low_water = (blocks > 0).then_some(mark);
        self.engine.wakes.room.notify_waiters();
    }

    /// Has the mark move by itself while so many sectors are copied, which make room: writers get half of the last zone of their room in proportion to the copies.
    /// With 0 these are over, and the writers get more. (TL-PACE-1)
    pub fn pace(&self, sectors: u64) {
        self.note_command();
        let (mut state, now) = (self.engine.state.borrow_mut(), self.engine.rt.now());
        if sectors > 0 {
            state.begin_pace(sectors, now)
        } else {
            state.end_pace(now)
        }
        drop(state);
        self.engine.wakes.room.notify_waiters();
    }

    /// Wants so many zones to be free: [`Event::Room`](super::Event::Room) tells of fewer. No more than half of them count.
    pub fn want_free(&self, zones: u32) {
        self.note_command();
        self.engine.state.borrow_mut().wanted_free = zones.min(self.shape().zones / 2);
        self.engine.keeper.wake();
    }

    /// Has the volume's own cleaner win a zone, if few are free: where a controller's own copies have no room.
    pub fn reclaim(&self) {
        self.note_command();
        self.engine.state.borrow_mut().reclaim = true;
        self.engine.keeper.wake();
    }

    /// Divides writes among frontiers from now on.
    pub fn route(&self, route: Route) {
        self.note_command();
        self.engine.set_route(route);
    }

    /// Keeps bytes for the controller's next life. Durable with the next checkpoint.
    ///
    /// # Errors
    /// `Invalid` if they are more than 64 KiB.
    pub fn save(&self, bytes: Bytes) -> StoreResult<()> {
        self.note_command();
        if bytes.len() > SAVED_MAX {
            return Err(refused("a controller may save 64 KiB at most"));
        }
        self.engine.state.borrow_mut().saved = bytes;
        Ok(())
    }

    fn may_open(&self, stream: u8) -> StoreResult<()> {
        let may = self.engine.state.borrow().may_open(stream);
        if may { Ok(()) } else { Err(refused("the drive allows no more open zones")) }
    }
}
