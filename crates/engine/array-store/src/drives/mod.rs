//! The drives of an array: which are there, which failed.
//!
//! # Invariants
//! - AS-NUMBER-1: a number becomes another drive's only when its last drive was taken out, or goes on under another
//!   one, and no set has a zone under it. Drives are known by their own ids, which superblocks and heads of zones name,
//!   and never by a number alone that was another one's.

pub(crate) mod asking;
pub(crate) mod oversight;
pub(crate) mod verdict;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::ZoneId;
use shingle_zone_kit::Flusher;
use shingle_zoned::{DeviceError, ZonedDevice};

pub(crate) use crate::drives::asking::is_lost;
use crate::eviction::Score;
use crate::format::{DriveEntry, DriveState};
use crate::types::{DriveId, DriveSet};
use crate::watch::{Overseer, Watch, Watches};

/// A drive.
pub(crate) struct Drive {
    pub(crate) entry: DriveEntry,
    /// The device, if it is there.
    dev: Option<Rc<dyn ZonedDevice>>,
    /// Its flushes, which writers of all its zones share.
    flusher: Option<Flusher>,
    watch: Option<Rc<Watch>>,
    failed: Cell<bool>,
    /// The next superblock says that it failed: from then on writes that miss it count. (AS-EVICT-1)
    evicted: Cell<bool>,
    score: Cell<Score>,
    /// It is being taken out: it is read, but gets nothing new.
    leaving: Cell<bool>,
    /// It was taken out for good.
    removed: Cell<bool>,
}

/// The id of a number whose drive was taken back under another one.
const NO_DRIVE: u64 = 0;

/// Numbers that there are.
const NUMBERS: usize = u8::MAX as usize;

impl Drive {
    fn new(entry: DriveEntry, dev: Option<Rc<dyn ZonedDevice>>, watch: Option<Rc<Watch>>) -> Self {
        Self {
            failed: Cell::new(dev.is_none() || entry.state != DriveState::Present),
            removed: Cell::new(entry.state == DriveState::Removed),
            entry,
            flusher: dev.clone().map(Flusher::new),
            dev,
            watch,
            evicted: Cell::new(false),
            score: Cell::default(),
            leaving: Cell::new(false),
        }
    }

    /// The device itself, if it is there.
    fn unwatched(&self) -> Option<Rc<dyn ZonedDevice>> {
        self.watch.as_ref().map(|watch| watch.unwatched()).or_else(|| self.dev.clone())
    }
}

/// The drives of an array, by number. Clones are of the same drives.
#[derive(Clone, Default)]
pub(crate) struct Drives {
    all: Rc<RefCell<Vec<Rc<Drive>>>>,
    watches: Option<Rc<Watches>>,
}

impl Drives {
    /// None yet; those that are added are watched.
    pub(crate) fn watched_by(watches: Rc<Watches>) -> Self {
        Self { watches: Some(watches), ..Self::default() }
    }

    /// That one decides from now on what becomes of drives that are not well.
    pub(crate) fn oversee(&self, overseer: Rc<dyn Overseer>) {
        if let Some(watches) = &self.watches {
            watches.oversee(overseer);
        }
    }

    /// Adds a drive and returns its number. Without a device, or if its entry says so, it counts as failed.
    pub(crate) fn push(&self, entry: DriveEntry, dev: Option<Rc<dyn ZonedDevice>>) -> DriveId {
        let id = DriveId(self.all.borrow().len() as u8);
        self.set(id, entry, dev);
        id
    }

    /// The number that the next drive gets, if there is one: that of a drive that was taken out, or goes on under
    /// another one, and is not among those that sets `name`; or a new one. (AS-NUMBER-1)
    pub(crate) fn free_number(&self, named: &DriveSet) -> Option<DriveId> {
        let drives = self.all.borrow();
        let left = |drive: &Drive| drive.removed.get() || drive.entry.id == NO_DRIVE;
        let mut numbered = drives.iter().enumerate().map(|(number, drive)| (DriveId(number as u8), drive));
        let free = numbered.find(|(id, drive)| left(drive) && !named.has(*id)).map(|(id, _)| id);
        free.or_else(|| (drives.len() < NUMBERS).then_some(DriveId(drives.len() as u8)))
    }

    /// Gives a drive that joins [its number](Self::free_number).
    pub(crate) fn join(&self, entry: DriveEntry, dev: Rc<dyn ZonedDevice>, named: &DriveSet) -> Option<DriveId> {
        let id = self.free_number(named)?;
        let reused = usize::from(id.0) < self.all.borrow().len();
        self.set(id, DriveEntry { reused, ..entry }, Some(dev));
        Some(id)
    }

    fn set(&self, id: DriveId, entry: DriveEntry, dev: Option<Rc<dyn ZonedDevice>>) {
        let (watch, dev) = match (&self.watches, dev) {
            (Some(watches), Some(dev)) => {
                let (watch, dev) = watches.watch(id, dev);
                (Some(watch), Some(dev))
            }
            (_, dev) => (None, dev),
        };
        let drive = Rc::new(Drive::new(entry, dev, watch));
        let mut drives = self.all.borrow_mut();
        match drives.get_mut(usize::from(id.0)) {
            Some(place) => {
                // Commands of the one before that are under way say nothing of this one.
                let before = std::mem::replace(place, drive);
                before.watch.iter().for_each(|watch| watch.end());
            }
            None => drives.push(drive),
        }
    }

    fn drive(&self, id: DriveId) -> Option<Rc<Drive>> {
        self.all.borrow().get(usize::from(id.0)).cloned()
    }

    /// The device of a drive that is there and did not fail.
    pub(crate) fn usable(&self, id: DriveId) -> Option<Rc<dyn ZonedDevice>> {
        let drive = self.drive(id)?;
        if drive.failed.get() { None } else { drive.dev.clone() }
    }

    /// Writes and flushes of a drive that is there and did not fail.
    pub(crate) fn flusher(&self, id: DriveId) -> Option<Flusher> {
        let drive = self.drive(id)?;
        if drive.failed.get() { None } else { drive.flusher.clone() }
    }

    /// A drive that was given up, and is there, goes on under another number, with its id; the old number has neither
    /// from then on. The new one and its owner's name for it, or `None`: also where there is none that sets do not
    /// `name`. (AS-READMIT-2)
    pub(crate) fn take_back(&self, old: DriveId, named: &DriveSet) -> Option<(DriveId, String)> {
        let drive = self.drive(old).filter(|drive| drive.entry.state == DriveState::Failed)?;
        self.free_number(named)?;
        let dev = drive.unwatched()?;
        let entry = drive.entry.clone();
        let left = Drive::new(DriveEntry { id: NO_DRIVE, ..entry.clone() }, None, None);
        *self.all.borrow_mut().get_mut(usize::from(old.0))? = Rc::new(left);
        let name = entry.name.clone();
        Some((self.join(DriveEntry { state: DriveState::Present, ..entry }, dev, named)?, name))
    }

    /// All numbers.
    pub(crate) fn ids(&self) -> Vec<DriveId> {
        (0..self.all.borrow().len()).map(|number| DriveId(number as u8)).collect()
    }

    /// The drives in use.
    pub(crate) fn all_usable(&self) -> Vec<(DriveId, Rc<dyn ZonedDevice>)> {
        self.ids().into_iter().filter_map(|id| Some((id, self.usable(id)?))).collect()
    }

    /// Zones that every drive can have open.
    pub(crate) fn open_zones_max(&self) -> Option<u32> {
        let max = |dev: &Rc<dyn ZonedDevice>| {
            let geometry = dev.geometry();
            geometry.open_zones_max.into_iter().chain(geometry.active_zones_max).min()
        };
        self.all_usable().iter().filter_map(|(_, dev)| max(dev)).min()
    }

    /// Drives that may get new zones: in use, and not about to leave.
    pub(crate) fn all_taking(&self) -> Vec<(DriveId, Rc<dyn ZonedDevice>)> {
        self.all_usable().into_iter().filter(|(id, _)| !self.is_leaving(*id)).collect()
    }

    /// True if a drive is being taken out.
    pub(crate) fn is_leaving(&self, id: DriveId) -> bool {
        self.drive(id).is_some_and(|drive| drive.leaving.get())
    }

    pub(crate) fn set_leaving(&self, id: DriveId, leaving: bool) {
        if let Some(drive) = self.drive(id) {
            drive.leaving.set(leaving);
        }
    }

    /// True if a drive was taken out for good: it is not missed.
    pub(crate) fn is_removed(&self, id: DriveId) -> bool {
        self.drive(id).is_some_and(|drive| drive.removed.get())
    }

    /// Takes a drive out for good. Its device, if it is there and did not fail: nobody watches that any more.
    pub(crate) fn remove(&self, id: DriveId) -> Option<Rc<dyn ZonedDevice>> {
        let drive = self.drive(id)?;
        drive.removed.set(true);
        let usable = !drive.failed.replace(true);
        usable.then(|| drive.unwatched()).flatten()
    }

    /// Number of drives, but for those that were taken out.
    pub(crate) fn not_removed(&self) -> usize {
        self.all.borrow().iter().filter(|drive| !drive.removed.get() && drive.entry.id != NO_DRIVE).count()
    }

    /// A drive's own id.
    pub(crate) fn own_id(&self, id: DriveId) -> u64 {
        self.drive(id).map_or(NO_DRIVE, |drive| drive.entry.id)
    }

    /// Drives that should be there and are not, or failed.
    pub(crate) fn missing(&self) -> Vec<DriveId> {
        self.unusable().into_iter().filter(|&id| !self.is_removed(id)).collect()
    }

    /// Missing drives, and those that were taken out: sets may have zones under their numbers, and lack them.
    pub(crate) fn unusable(&self) -> Vec<DriveId> {
        self.ids().into_iter().filter(|&id| self.usable(id).is_none()).collect()
    }

    /// True if all missing drives had failed before the array was opened.
    pub(crate) fn is_known_failed(&self) -> bool {
        let known = |id: DriveId| self.drive(id).is_none_or(|drive| drive.entry.state != DriveState::Present);
        self.missing().into_iter().all(known)
    }

    /// The array gave that drive up before it was opened.
    pub(crate) fn was_given_up(&self, id: DriveId) -> bool {
        self.drive(id).is_some_and(|drive| drive.entry.state == DriveState::Failed && drive.entry.id != NO_DRIVE)
    }

    /// Marks a drive as failed, so that nobody waits for it any more; whether it was not before.
    pub(crate) fn fail(&self, id: DriveId) -> bool {
        let Some(drive) = self.drive(id) else { return false };
        let news = !drive.failed.replace(true);
        if let Some(watch) = &drive.watch {
            watch.end();
        }
        news
    }

    /// These drives miss what is written from now on; `absent`: also those that are only away.
    pub(crate) fn evict(&self, ids: &[DriveId], absent: bool) {
        let drives = ids.iter().filter_map(|id| self.drive(*id));
        drives.filter(|drive| absent || drive.dev.is_some()).for_each(|drive| drive.evicted.set(true));
    }

    /// A write of a drive succeeded.
    pub(crate) fn wrote(&self, id: DriveId) {
        if let Some(drive) = self.drive(id) {
            drive.score.set(drive.score.get().after(true));
        }
    }

    /// A command of a drive failed; whether so many do that it is better done without.
    pub(crate) fn erred(&self, id: DriveId) -> bool {
        let Some(drive) = self.drive(id) else { return false };
        drive.score.set(drive.score.get().after(false));
        drive.score.get().is_too_much()
    }

    /// Drives in use whose score says that.
    pub(crate) fn scored(&self, bad: impl Fn(Score) -> bool) -> Vec<DriveId> {
        let of = |id: &DriveId| self.drive(*id).is_some_and(|drive| !drive.failed.get() && bad(drive.score.get()));
        self.ids().into_iter().filter(of).collect()
    }

    /// Of each drive by its number, whether its device was there.
    pub(crate) fn given(&self) -> Vec<bool> {
        self.all.borrow().iter().map(|drive| drive.dev.is_some()).collect()
    }

    /// The drive table as a superblock has it now.
    pub(crate) fn entries(&self) -> Vec<DriveEntry> {
        let entry = |drive: &Rc<Drive>| {
            let state = match drive.entry.state {
                _ if drive.removed.get() => DriveState::Removed,
                DriveState::Present if drive.evicted.get() => DriveState::Failed,
                state => state,
            };
            DriveEntry { state, ..drive.entry.clone() }
        };
        self.all.borrow().iter().map(entry).collect()
    }

    /// Owner's name of a drive.
    pub(crate) fn name(&self, id: DriveId) -> String {
        self.drive(id).map_or_else(|| id.to_string(), |drive| format!("{id} ({})", drive.entry.name))
    }

    /// Blocks of a zone of that drive.
    pub(crate) fn zone_capacity(&self, id: DriveId) -> u32 {
        self.drive(id).map_or(0, |drive| drive.entry.zone_capacity)
    }

    /// The superblock zones of a drive.
    pub(crate) fn superblock_zones(&self, id: DriveId) -> Option<[ZoneId; 2]> {
        self.drive(id).map(|drive| drive.entry.superblock_zones)
    }

    /// Makes completed writes of these drives durable, if they have a volatile cache. Returns the failures, by drive.
    pub(crate) async fn flush(&self, ids: impl IntoIterator<Item = DriveId>) -> Vec<(DriveId, DeviceError)> {
        let drives: Vec<_> = ids.into_iter().filter_map(|id| Some((id, self.flusher(id)?))).collect();
        let results = join_all(drives.iter().map(|(_, flusher)| flusher.flush())).await;
        drives.iter().zip(results).filter_map(|((id, _), result)| Some((*id, result.err()?))).collect()
    }
}
