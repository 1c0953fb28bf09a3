//! Drives that do not answer: how long a call waits, and what becomes of it afterwards.
//!
//! **Owns** the deadlines. **Knows nothing of** what the calls are for.
//!
//! # Invariants
//! - OS-PAT-1: a call that changes a drive is answered, or given up after its deadline; then nobody knows whether it took
//!   effect, and its answer, should it come, changes nothing but this: the drive is believed in again.
//!   `while_a_drive_hangs_the_others_take_all_writes`.
//! - OS-PAT-2: a drive with a call that was given up and is not answered is set aside: new files and appends go to others, and
//!   nobody waits for its GC.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_chunk_store::{Error, ErrorKind, Result};
use shingle_runtime::Instant;

use crate::drives::Class;
use crate::engine::Core;

/// Longest silence of a drive while others could take its calls.
const SILENCE: Duration = Duration::from_secs(2);
/// Longest time of one call on a drive that answers others.
const OVERDUE: Duration = Duration::from_secs(10);
/// Longest time of a call that no other drive can take: counted from the drive's last answer, if it owes one already. A
/// write is tried several times, and its client is to hear of the failure while it still listens.
const ALONE: Duration = Duration::from_secs(30);

impl Core {
    /// Answer of a drive to a call that reaches its medium, which begins when this is first polled.
    ///
    /// # Errors
    /// The call's; `Device` past the deadline (OS-PAT-1).
    pub(crate) async fn answer<T: 'static>(
        self: &Rc<Self>,
        drive: usize,
        call: impl Future<Output = Result<T>> + 'static,
    ) -> Result<T> {
        let began = self.runtime.now();
        let mut call = Box::pin(call);
        loop {
            let left = self.deadline(drive, began).since(self.runtime.now());
            match select(call, Box::pin(self.runtime.sleep(left))).await {
                Either::Left((answer, _)) => {
                    self.drives.borrow_mut()[drive].answered(self.runtime.now());
                    return answer;
                }
                Either::Right((_, unanswered)) => call = unanswered,
            }
            if self.runtime.now() >= self.deadline(drive, began) {
                break;
            }
        }
        self.set_aside(drive);
        let core = self.clone();
        self.runtime.spawn_detached(async move {
            let _ = call.await;
            core.answered_late(drive);
        });
        Err(Error::new(ErrorKind::Device, "the drive does not answer"))
    }

    /// When a call that began then is given up. A drive that is set aside is asked, and not waited for, as long as there
    /// are others.
    fn deadline(&self, drive: usize, began: Instant) -> Instant {
        let now = self.runtime.now();
        let drives = self.drives.borrow();
        let takes = |other: usize| other != drive && !drives[other].is_bad(now) && drives[other].takes(Class::User, 0);
        let this = &drives[drive];
        if !(0..drives.len()).any(takes) {
            return if this.is_silent() { (began + SILENCE).max(this.last_answer() + ALONE) } else { began + ALONE };
        }
        if this.is_silent() {
            return began;
        }
        (began.max(this.last_answer()) + SILENCE).min(began + OVERDUE)
    }

    fn set_aside(&self, drive: usize) {
        let mut drives = self.drives.borrow_mut();
        if !drives[drive].is_silent() {
            tracing::warn!(
                drive = self.options.name_of(drives[drive].store),
                "a drive does not answer; until it does others take its place"
            );
        }
        drives[drive].begin_silence();
        drop(drives);
        // Callers waiting for it look again.
        self.changed.notify_waiters();
    }

    fn answered_late(&self, drive: usize) {
        let mut drives = self.drives.borrow_mut();
        drives[drive].end_silence();
        drives[drive].answered(self.runtime.now());
        if !drives[drive].is_silent() {
            tracing::info!(drive = self.options.name_of(drives[drive].store), "the drive answers again");
        }
        drop(drives);
        self.changed.notify_waiters();
    }
}
