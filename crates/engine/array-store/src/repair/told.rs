//! Options of a rebuild, a scrub or a change of members, and their progress.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_runtime::Instant;
use tokio::sync::{Mutex, Notify, mpsc};

use crate::format::Member;
use crate::types::{DriveId, SetId};
use crate::zone_set::ZoneSet;

/// Options of a rebuild or a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildOptions {
    /// Rebuild rate limit in bytes/s, for writes to new members; `None` = unlimited.
    pub bytes_per_second: Option<u64>,
}

/// Progress of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Zones of sets that are lost.
    pub members: usize,
    /// Members that were replaced.
    pub done: usize,
    /// Members that could not be replaced: too little is left of their set, or no free zone fits.
    pub failed: usize,
    /// Bytes written.
    pub bytes: u64,
}

/// Receiver of a rebuild's progress; closed if the caller has gone.
pub(crate) type Told<P> = mpsc::UnboundedSender<P>;

/// A zone that was written anew, and takes a member's place once it is seen to be well behind a flush. (AS-REPLACE-1)
pub(crate) struct Copied {
    pub(crate) id: SetId,
    pub(crate) set: Rc<ZoneSet>,
    /// The set's, as it was read.
    pub(crate) generation: u64,
    pub(crate) lost: Member,
    pub(crate) spare: Member,
}

/// Changes of an array's drives.
#[derive(Default)]
pub(crate) struct Membership {
    /// One rebuild, addition or removal of drives, or repair at a time.
    pub(crate) turn: Mutex<()>,
    /// A drive was lost or added.
    pub(crate) changed: Notify,
    /// Progress and start of a rebuild in the background.
    pub(crate) rebuilding: Cell<Option<(RebuildProgress, Instant)>>,
    /// Zones that wait for the next superblock.
    pub(crate) copied: RefCell<Vec<Rc<Copied>>>,
    /// Number of those that failed meanwhile, since a rebuild asked.
    pub(crate) spoilt: Cell<usize>,
}

impl Membership {
    /// A zone waits no more. `false` if it did not.
    pub(crate) fn end_copied(&self, copied: &Rc<Copied>) -> bool {
        let mut all = self.copied.borrow_mut();
        let at = all.iter().position(|other| Rc::ptr_eq(other, copied));
        at.map(|at| all.swap_remove(at)).is_some()
    }

    /// Zones that wait, but for those.
    pub(crate) fn copied_beside(&self, others: &[Rc<Copied>]) -> Vec<Rc<Copied>> {
        let copied = self.copied.borrow();
        let is_other = |copied: &Rc<Copied>| others.iter().any(|other| Rc::ptr_eq(other, copied));
        copied.iter().filter(|copied| !is_other(copied)).cloned().collect()
    }

    /// Drives of the zones that are to be members of a set.
    pub(crate) fn joining(&self, set: &Rc<ZoneSet>) -> Vec<DriveId> {
        let copied = self.copied.borrow();
        copied.iter().filter(|copied| Rc::ptr_eq(&copied.set, set)).map(|copied| copied.spare.drive).collect()
    }
}
