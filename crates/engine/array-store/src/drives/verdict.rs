//! Drives that the array goes on without: which it can do without, and what is written before that counts. (AS-EVICT-1
//! to AS-EVICT-4)
//!
//! # Invariants
//! - AS-LOSS-3: a loss of drives is accepted for those that are missing when the array is opened. For all others AS-EVICT-1
//!   and AS-EVICT-4 hold in all sets that are not lost with these.

use shingle_erasure::Code;
use shingle_zoned::DeviceError;

use crate::drives::Drives;
use crate::drives::asking::is_lost;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::Score;
use crate::superblocks::unread_most;
use crate::types::{DriveId, DriveSet};

/// Checks that parity makes up for so many zones of a set, and that enough drives are left for superblocks.
/// (AS-EVICT-1, AS-EVICT-4)
///
/// # Errors
/// `Device`, in words.
pub(crate) fn enough(drives: &Drives, code: Code, copies: u8, lacking: usize) -> Result<()> {
    let why = match lacking <= code.parity() {
        true if !drives.is_known_failed() && are_too_few(drives, code, copies, []) => format!(
            "only {} of the array's {} drives are not missing; a later opening without those would not find the newest superblock",
            drives.all_usable().len(),
            drives.not_removed()
        ),
        true => return Ok(()),
        false => {
            format!("{lacking} drives of some zone sets are missing; the array's parity makes up for {}", code.parity())
        }
    };
    let missing: Vec<String> = drives.missing().into_iter().map(|id| drives.name(id)).collect();
    let message = format!(
        "{why}. Nothing is written, nor are they given up, until enough are back and the array is opened again; what can be \
         read still is: {}",
        missing.join(", ")
    );
    Err(Error::new(ErrorKind::Device, message))
}

/// True if without `more` no more drives are left than an opening may do without. An array that has no more than twice
/// as many drives as parity is better used without them than not at all. (AS-EVICT-4)
fn are_too_few(drives: &Drives, code: Code, copies: u8, more: impl IntoIterator<Item = DriveId>) -> bool {
    let without: DriveSet = more.into_iter().collect();
    let left = drives.all_usable().iter().filter(|(id, _)| !without.has(*id)).count();
    left <= unread_most(code, copies) && drives.not_removed() > 2 * code.parity()
}

impl Engine {
    /// A command of `drive` failed. If the drive is done without from then on, it is marked as failed, durably: writes
    /// that miss it may be acknowledged.
    pub(crate) async fn drive_error(&self, drive: DriveId, error: &DeviceError) -> Result<()> {
        if self.judge(drive, error) { self.record_failures().await } else { Ok(()) }
    }

    /// Tells if a drive on which a command failed is done without from now on: it is lost, or answers and fails too
    /// much, as long as parity makes up for it (AS-EVICT-2).
    pub(crate) fn judge(&self, drive: DriveId, error: &DeviceError) -> bool {
        // The drive can do nothing for it.
        if error.kind.is_host_full() {
            return false;
        }
        let too_much = self.drives.erred(drive);
        (is_lost(error) || too_much && !self.many_fail(Score::is_bad)) && self.give_up(drive, error)
    }

    /// More drives than the array can do without have such a score, with those that are missing. (AS-EVICT-3)
    pub(crate) fn many_fail(&self, bad: impl Fn(Score) -> bool) -> bool {
        !self.may_do_without(self.drives.scored(bad))
    }

    /// Does without a drive from now on: one that is lost in any case, one that answers as long as parity makes up for
    /// it.
    pub(crate) fn give_up(&self, drive: DriveId, error: &DeviceError) -> bool {
        if !is_lost(error) && !self.may_do_without([drive]) {
            return false;
        }
        self.fail_drive(drive, error);
        true
    }

    /// Does without a drive from now on; whether it did not before.
    pub(crate) fn fail_drive(&self, drive: DriveId, error: &DeviceError) -> bool {
        let news = self.drives.fail(drive);
        if news {
            tracing::error!(drive = self.drives.name(drive), %error, "a drive of the array failed; going on without it");
            self.membership.changed.notify_waiters();
        }
        news
    }

    /// Largest number of zones that a set lacks without the unusable drives, and `more`; but for sets that the loss
    /// took which was accepted. (AS-LOSS-3)
    pub(crate) fn lacking_without(&self, more: impl IntoIterator<Item = DriveId>) -> usize {
        let unusable = self.drives.unusable();
        let accepted: DriveSet = unusable.iter().copied().filter(|drive| self.is_accepted(*drive)).collect();
        let is_there = |drives: &DriveSet| drives.common(&accepted) as usize <= self.code.parity();
        self.sets.most_lacking(unusable.into_iter().chain(more), is_there)
    }

    /// True if a drive was missing when the array was opened, and its loss was accepted.
    fn is_accepted(&self, drive: DriveId) -> bool {
        self.superblock.accepted.borrow().contains(&self.drives.own_id(drive))
    }

    /// The loss of the drives that are missing now is accepted; no other one's. (AS-LOSS-3)
    pub(crate) fn accept_missing(&self) {
        let missing = self.drives.missing().into_iter().map(|drive| self.drives.own_id(drive));
        self.superblock.accepted.borrow_mut().extend(missing);
    }

    /// True if the array can do without these drives, besides the missing ones. (AS-EVICT-1, AS-EVICT-4)
    pub(crate) fn may_do_without(&self, more: impl IntoIterator<Item = DriveId> + Clone) -> bool {
        self.lacking_without(more.clone()) <= self.code.parity()
            && !are_too_few(&self.drives, self.code, self.superblock.copies(), more)
    }

    /// Fails unless the array can do without the missing drives.
    ///
    /// # Errors
    /// `Device`, in words.
    pub(crate) fn enough_is_there(&self) -> Result<()> {
        enough(&self.drives, self.code, self.superblock.copies(), self.lacking_without([]))
    }

    /// The next superblock says that the missing drives failed; `absent`: also those that are only away.
    ///
    /// # Errors
    /// `Device` where the array cannot do without all of them: nothing is written then. (AS-EVICT-1, AS-EVICT-4)
    pub(crate) fn give_up_missing(&self, absent: bool) -> Result<()> {
        let missing = self.drives.missing();
        let is_new = |id: &DriveId| !self.superblock.recorded.borrow().contains(id) && !self.is_accepted(*id);
        if missing.iter().any(is_new) {
            self.enough_is_there()?;
        }
        self.drives.evict(&missing, absent);
        Ok(())
    }

    /// Sees to it that a superblock names every failed drive.
    pub(crate) async fn record_failures(&self) -> Result<()> {
        let unrecorded = |engine: &Self| {
            let recorded = engine.superblock.recorded.borrow();
            engine.drives.missing().iter().any(|id| !recorded.contains(id))
        };
        if self.options.read_only || !unrecorded(self) {
            return Ok(());
        }
        self.give_up_missing(true)?;
        self.write_superblock(None).await
    }
}
