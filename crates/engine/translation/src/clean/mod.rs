//! Cleaning: sectors that live in a zone are copied elsewhere, so that it becomes empty.
//!
//! By itself the volume takes the closed zone with the fewest sectors alive (greedy), and copies them, window by window, packed into
//! full pairs, at a frontier of their own.
//!
//! # Invariants
//! - TL-STEP-1: while callers are active, a command of theirs finds one step of copies on the drive at most: reads that were begun within 30 ms, six of
//!   them under way, or one write of about 60 ms; and none begins once that command has been there for 40 ms. With a volatile cache, in which writes wait for no arm, steps are as large as without callers.
//!   (`no_write_waits_long_while_a_volume_is_cleaned`)

mod copy;
mod gather;
mod pace;
mod stuck;
mod victim;

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_store_api::StoreErrorKind;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::write::COPIES;

pub use copy::Copied;
pub(crate) use copy::Sources;
use copy::windows;

/// Extents of the map that are looked at in one step.
const STEP: usize = 16_384;

impl Engine {
    /// Copies all that lives in a zone. Sectors that cannot be read stay. False if there was no room for all copies.
    pub(crate) async fn clean(self: &Rc<Self>, victim: ZoneId) -> Result<bool, Failure> {
        let sources = self.living_in(victim).await;
        // A controller that asked for this has its own pace.
        let paced = self.state.borrow().is_paced(self.rt.now());
        if !paced {
            self.state.borrow_mut().begin_pace(sources.sectors(), self.rt.now());
        }
        let copied = self.copy(sources, COPIES, |sectors| self.step_pace(sectors)).await;
        if !paced {
            self.state.borrow_mut().end_pace(self.rt.now());
            self.wakes.room.notify_waiters();
        }
        match copied {
            Err(failure) if failure.kind == StoreErrorKind::NoSpace => return Ok(false),
            copied => copied?,
        };
        self.state.borrow_mut().counters.cleaned += 1;
        Ok(true)
    }

    /// Extents in a zone, by window.
    pub(crate) async fn living_in(self: &Rc<Self>, zone: ZoneId) -> Sources {
        let pins = vec![self.state.borrow().zones.pin(zone)];
        let (shape, mut extents) = (self.drive.layout.shape, Vec::new());
        let snapshots =
            self.state.borrow().maps.snapshots.iter().map(|snapshot| Some(snapshot.number)).collect::<Vec<_>>();
        for at in std::iter::once(None).chain(snapshots) {
            let mut from = Some(0);
            while let Some(next) = from {
                from = self.state.borrow().maps.map(at).and_then(|map| {
                    map.some(next, STEP, |extent| {
                        if shape.zone_of(extent.place) == zone && extent.end() > next {
                            extents.push(extent.part(&(next..u64::MAX), shape.stride()));
                        }
                    })
                });
                self.rt.yield_now().await;
            }
        }
        Sources { windows: windows(extents), pins, empties: true }
    }
}
