//! Zones that fail before a flush: they may have lost what the drive's cache held of them, though the flush succeeds.
//!
//! # Invariants
//! - BLU-KEPT-1: metadata name new places in place of bytes that are durable elsewhere, copies and deferred writes that were gathered, only if
//!   behind the flush the drive says that their zones can be written still, or cannot lose what was written to them.
//! - BLU-KEPT-2: new data that were written to a zone which is known to have failed, or to which a write has failed since, are acknowledged
//!   only if they can be read.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_zoned::{ZoneInfo, ZoneState, report_patiently};

use crate::blob::ranges::Ranges;
use crate::blob::{Blob, Place};
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::read::Blocked;

/// Times that a drive which tells nothing of a zone is asked again, and the pause before each.
const ASKED_AGAIN: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// The drive's word of a zone, which some seconds without an answer do not change: what was written is not written again for them.
    async fn report_on(&self, zone: ZoneId) -> BlueResult<Option<ZoneInfo>> {
        let mut asked = 0;
        loop {
            match report_patiently(&self.drive.dev, zone, 1).await.map_err(BlueError::from) {
                Err(error) if error.kind != BlueErrorKind::Unavailable && asked < ASKED_AGAIN => asked += 1,
                told => return Ok(told?.first().copied()),
            }
            self.rt.sleep(PAUSE).await;
            self.state.borrow().running()?;
        }
    }

    /// Makes what was written durable, and says whether all of some places are. (BLU-KEPT-1)
    pub(crate) async fn flush_and_keep(&self, places: &[Place]) -> BlueResult<bool> {
        self.flush().await?;
        let zones: BTreeSet<u32> = places.iter().map(|place| place.zone).collect();
        for zone in zones.into_iter().map(ZoneId) {
            let broken = || self.state.borrow().zones.get(zone).is_none_or(|entry| entry.broken);
            if !broken() && self.drive.geometry.volatile_cache {
                // It may have failed in a command whose failure costs nothing else, or in none.
                let told = self.report_on(zone).await?;
                let failed = |state: ZoneState| matches!(state, ZoneState::ReadOnly | ZoneState::Offline);
                if told.is_none_or(|info| failed(info.state)) {
                    let mut state = self.state.borrow_mut();
                    state.zones.note_failure(zone, true, true);
                    state.looked.note(zone.0);
                }
            }
            if broken() {
                tracing::warn!(%zone, "a zone has failed before what was written to it was durable");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fails, and the store stops, if new data are in a zone that has failed, or may have, and cannot be read: their transactions have happened in
    /// memory. To be called behind a flush. (BLU-KEPT-2)
    pub(crate) async fn reads_back(&self, blobs: impl Iterator<Item = &Rc<Blob>>) -> BlueResult<()> {
        for blob in blobs {
            let blocked: Vec<Blocked> = {
                let state = self.state.borrow();
                let places = blob.state.borrow().places.clone();
                let failed = |place: &Place| {
                    state.zones.get(ZoneId(place.zone)).is_some_and(|entry| entry.broken || entry.own.suspect)
                };
                // Later operations may have taken the place of some of it.
                let units: Ranges =
                    places.iter().filter(|place| failed(place)).map(|place| blob.units(&place.range())).collect();
                let unit = 1 << blob.unit_shift;
                let one_by_one = |range: Range<u32>| {
                    let each = range.clone().step_by(unit as usize);
                    each.filter_map(|at| state.blocked(blob, at..range.end.min(at + unit))).collect()
                };
                let there = |range: Range<u32>| match state.blocked(blob, range.clone()) {
                    Some(all) => vec![all],
                    None => one_by_one(range),
                };
                units.iter().flat_map(there).collect()
            };
            for blocked in blocked {
                if let Err(error) = self.read_units(&|| "a new transaction".to_owned(), blob, &blocked).await {
                    let text =
                        format!("a zone has failed and lost what was written to it and not durable yet: {error}");
                    self.stop(&BlueError::new(BlueErrorKind::Unavailable, text));
                    return self.state.borrow().running();
                }
            }
        }
        Ok(())
    }
}
