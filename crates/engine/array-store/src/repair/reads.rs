//! Findings of reads about drives, and their consequences: fragments that failed are written anew, a drive that is slow
//! for long is given up.
//!
//! # Invariants
//! - AS-REPAIR-1: a set is verified at most once in [`AGAIN`] because reads failed on it, one set at a time, and at most
//!   [`WAITING_MAX`] wait: what is not kept is found by the next scrub.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_zoned::{DeviceError, DeviceErrorKind};

use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::pace::{Slow, slow_drives, too_slow};
use crate::repair::scrub::ScrubReport;
use crate::repair::waiting::AGAIN;
use crate::segment::{Fault, FaultKind};
use crate::types::{DriveId, PartPlace};

/// Between two sets: repair is in no hurry.
const PAUSE: Duration = Duration::from_secs(1);

/// Interval of looks for drives that have been slow for long.
const LOOK: Duration = Duration::from_secs(30);

/// A drive that holds up most of what is written is given up after this share of the time that others have, where no
/// group is without it. (AS-SLOW-5)
const CORNERED: u32 = 5;

/// Trials of drives that are avoided in that time: one that writes slowly holds up others for as long as it takes.
/// (AS-WINDOW-1)
const TRIALS: u32 = 5;

impl Engine {
    /// Takes note of fragments that failed a reader, who does not wait for what becomes of it.
    pub(crate) fn note_faults(self: &Rc<Self>, place: &PartPlace, faults: &[Fault]) {
        let there = |fault: &&Fault| fault.kind == FaultKind::Bad && self.drives.usable(fault.drive).is_some();
        for fault in faults.iter().filter(there) {
            tracing::warn!(
                set = place.set.0,
                block = place.block,
                fragment = fault.fragment,
                drive = self.drives.name(fault.drive),
                why = fault.why,
                "a fragment could not be read"
            );
            self.repairs.want(place.set, self.rt.now());
        }
    }

    /// Verifies the sets of which fragments failed readers, and writes anew what is damaged, until the array is closed.
    pub(crate) async fn repair_after_reads(self: Rc<Self>) {
        while !self.lifecycle.stopped.get() {
            let Some(id) = self.repairs.next(self.rt.now()) else {
                let ended = self.membership.changed.notified();
                let wanted = self.repairs.wanted.notified();
                let _ =
                    select(Box::pin(select(Box::pin(wanted), Box::pin(ended))), Box::pin(self.rt.sleep(AGAIN))).await;
                continue;
            };
            let Some(set) = self.sets.get(id) else { continue };
            let mut report = ScrubReport::default();
            match self.scrub_set(id, &set, false, &mut report).await {
                Ok(()) => {
                    tracing::info!(set = id.0, repaired = report.repaired, "a set that failed readers was verified")
                }
                Err(error) if error.kind == ErrorKind::Stopped => return,
                Err(error) => tracing::warn!(set = id.0, %error, "a set that failed readers is left to the next scrub"),
            }
            self.repairs.repaired.set(self.repairs.repaired.get() + report.repaired as u64);
            self.rt.sleep(PAUSE).await;
        }
    }

    /// The drives in use that are slow, at reads or writes.
    pub(crate) fn slow_drives(&self) -> Vec<Slow> {
        let mut slow = self.paces.slow();
        slow.retain(|slow| self.drives.usable(slow.drive).is_some());
        slow
    }

    /// Gives up a drive that has been slow for that long, until the array is closed. (AS-SLOW-1, AS-SLOW-2, AS-SLOW-4, AS-SLOW-5)
    pub(crate) async fn give_up_slow(self: Rc<Self>, long: Duration) {
        let mut tried = self.rt.now();
        while !self.lifecycle.stopped.get() {
            if self.membership.turn.try_lock().is_err() {
                self.paces.begin_anew();
            }
            let (slow, missing) = (self.slow_drives(), self.drives.missing().len());
            let too_slow = |slow: &[Slow], long| too_slow(slow, self.rt.now(), long, missing, self.code.parity());
            if let Some(drive) = too_slow(&slow, long) {
                self.give_up_for_slowness(drive, long);
            } else if self.allocator.is_cornered()
                && slow_drives(&slow) <= self.code.parity()
                && let Some(drive) = too_slow(&self.holding_up(), long / CORNERED)
            {
                self.give_up_for_slowness(drive, long / CORNERED);
            }
            if self.rt.now().since(tried) >= long / TRIALS {
                tried = self.rt.now();
                self.try_avoided();
            }
            let ended = self.membership.changed.notified();
            let _ = select(Box::pin(ended), Box::pin(self.rt.sleep(LOOK))).await;
        }
    }

    /// The drives in use that hold up most of what is written.
    fn holding_up(&self) -> Vec<Slow> {
        let mut slow = self.paces.holding_up();
        slow.retain(|slow| self.drives.usable(slow.drive).is_some());
        slow
    }

    fn give_up_for_slowness(self: &Rc<Self>, drive: DriveId, long: Duration) {
        let name = self.drives.name(drive);
        tracing::error!(drive = name, ?long, "a drive has been far slower than its peers; going on without it");
        self.repairs.given_up.set(self.repairs.given_up.get() + 1);
        // As if it had said so itself: from here on it is treated as a drive that is gone.
        let error = DeviceError { kind: DeviceErrorKind::Gone, at: shingle_base::Lba(0), zone: None };
        self.do_without(drive, &error);
    }
}
