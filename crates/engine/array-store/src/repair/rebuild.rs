//! Rebuilding: sets that lost a member get another one. (SMORE, section III-G.)
//!
//! Only the zone-set table changes: index entries name sets. The table is written every few sets; what went to zones
//! that it does not name yet is written anew after a power cut, so a rebuild goes on where it was, a few sets back.
//!
//! Several sets are rebuilt side by side, each onto another drive: the drive that is written to is what limits one. One
//! worker more than may write reads what the next set holds meanwhile, so that the drive that is written to goes on at
//! once.
//!
//! Clients, cleaning and snapshots go on beside it: what a set holds is read when it is settled (AS-SET-4), and copied
//! only if that still is so when the drive is free. Sets that became empty meanwhile are not touched: their zones are
//! dealt with when sets are formed anew.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zoned::{DeviceError, ZoneOp, ZoneState, ZonedDevice};
use tokio::sync::{Mutex, Notify};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Member;
use crate::repair::membership::{Spares, Survey, is_dead};
use crate::repair::replace::Replaced;
use crate::repair::told::Told;
use crate::repair::told::{RebuildOptions, RebuildProgress};
use crate::types::{DriveId, DriveSet, SetId, SetState};
use crate::zone_set::{Group, List, ZoneSet};

/// Sets between two superblocks: what a power cut costs at most.
const SETS_A_SUPERBLOCK: u64 = 16;

/// Sets that are taken apart at once where no zone is free.
const APART: usize = 16;

/// Time between tries where a rebuild could not do all there was to do; twice as long behind each that left something, up to
/// [`LOOK_AGAIN`].
const RETRY: Duration = Duration::from_secs(60);

/// Superblocks behind a rebuild that wait for a drive which says nothing of zones that were written anew, and the pause before each.
const ASKED_AGAIN: u32 = 10;
const ASK_PAUSE: Duration = Duration::from_secs(1);

/// Time between looks at sets that a power cut tore and that cannot be mended yet, where no drive came or went: each
/// reads all of them.
const LOOK_AGAIN: Duration = Duration::from_secs(600);

/// A zone of a set that has to be replaced.
pub(crate) type Lost = (SetId, Rc<ZoneSet>, Member);

/// A rebuild that is under way.
struct Rebuild<'a> {
    engine: &'a Rc<Engine>,
    options: RebuildOptions,
    began: Instant,
    left: RefCell<VecDeque<Lost>>,
    /// So many are written to at once.
    writers: usize,
    spares: RefCell<Spares>,
    /// Drives that a worker writes to.
    targets: RefCell<BTreeSet<DriveId>>,
    freed: Notify,
    /// Workers win zones one after the other: what one wins may serve the next.
    winning: Mutex<()>,
    so_far: Cell<RebuildProgress>,
    told: &'a Told<RebuildProgress>,
    /// Reason why the first member that could not be replaced could not.
    why: RefCell<Option<Error>>,
}

impl Engine {
    /// Gives every set that lost a member another one, as far as there are drives to take it, and takes drives out of
    /// the array that nothing is left of. Returns the first reason why not everything could be done only if nothing
    /// was.
    pub(crate) async fn rebuild(
        self: &Rc<Self>,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.writable()?;
        self.apart(progress, move |engine, told| async move { engine.rebuild_all(options, &told).await }).await
    }

    /// The same in a task of its own, which ends early where nobody is told any more.
    pub(crate) async fn rebuild_all(
        self: &Rc<Self>,
        options: RebuildOptions,
        told: &Told<RebuildProgress>,
    ) -> Result<RebuildProgress> {
        let _one = self.membership.turn.lock().await;
        self.running()?;
        self.record_failures().await?;
        self.form_anew().await?;
        self.close_lossy().await;
        let Survey { spares, dead } = self.survey().await?;
        let left = self.lost_members(&dead);
        let (so_far, why) = self.replace_all(left, spares, options, told).await?;
        self.wait_for_emptied(&self.lossy_drives()).await?;
        self.form_anew().await?;
        self.dismiss().await?;
        match why {
            Some(why) if so_far.done == 0 => Err(why),
            _ => Ok(so_far),
        }
    }

    /// Replaces members of sets; what came of it, and why the first that could not be replaced could not.
    pub(crate) async fn replace_all(
        self: &Rc<Self>,
        left: Vec<Lost>,
        spares: Spares,
        options: RebuildOptions,
        told: &Told<RebuildProgress>,
    ) -> Result<(RebuildProgress, Option<Error>)> {
        let so_far = RebuildProgress { members: left.len(), ..RebuildProgress::default() };
        let rebuild = Rebuild {
            engine: self,
            options,
            began: self.rt.now(),
            left: RefCell::new(left.into()),
            writers: self.drives.all_taking().len().div_ceil(self.code.width()).max(1),
            spares: RefCell::new(spares),
            targets: RefCell::default(),
            freed: Notify::new(),
            winning: Mutex::new(()),
            so_far: Cell::new(so_far),
            told,
            why: RefCell::default(),
        };
        let results = join_all((0..rebuild.writers + 1).map(|_| rebuild.work())).await;
        // Also after an error: what was done counts.
        let saved = self.save_copied().await;
        // Without a superblock nothing took a place, and nobody keeps these zones for it.
        let unsaved = self.membership.copied.take().len();
        let spoilt = self.membership.spoilt.take() + unsaved;
        results.into_iter().collect::<Result<Vec<()>>>()?;
        saved?;
        let (mut so_far, mut why) = (rebuild.so_far.get(), rebuild.why.take());
        if spoilt > 0 {
            so_far.done = so_far.done.saturating_sub(spoilt);
            so_far.failed += spoilt;
            let message = "zones that had been written in the place of lost ones failed, or their drive does not say whether they did: try again";
            why.get_or_insert_with(|| Error::new(ErrorKind::Device, message));
        }
        Ok((so_far, why))
    }

    /// Writes superblocks until all zones that were written anew have their places, or their drives have said nothing of them for some seconds.
    async fn save_copied(&self) -> Result<()> {
        self.write_superblock(None).await?;
        for _ in 0..ASKED_AGAIN {
            if self.membership.copied.borrow().is_empty() {
                break;
            }
            self.rt.sleep(ASK_PAUSE).await;
            self.running()?;
            self.write_superblock(None).await?;
        }
        Ok(())
    }

    /// Members on drives that are gone or leave, and zones that are dead, of sets that hold something.
    fn lost_members(&self, dead: &BTreeSet<Member>) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (id, set) in self.sets.all() {
            if matches!(set.state(), SetState::Empty | SetState::Available) {
                continue;
            }
            for member in set.members() {
                if self.is_lossy(member) || dead.contains(&member) {
                    lost.push((id, set.clone(), member));
                }
            }
        }
        lost
    }

    /// Ends open sets that lose a member: their streams go on in others.
    async fn close_lossy(self: &Rc<Self>) {
        for open in self.allocator.take_all(|open| self.lossy(&open.set) > 0) {
            self.close_set(open);
        }
    }

    /// Moves what lives in a set that cannot have all its members to one that has them. `false` if there is none, or not
    /// all of it can be moved.
    pub(crate) async fn empty_lossy(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        let lossy = self.lossy_drives();
        const FREE: [List; 4] = [List::Empty, List::Unusable, List::Offered, List::Available];
        let free = |group: &Group| FREE.into_iter().any(|list| !group.list(list).is_empty());
        if !self.sets.with_groups(|all| all.iter().any(|(drives, group)| free(group) && !drives.meets(&lossy))) {
            return Ok(false);
        }
        // Else it might seem that nothing is won.
        set.hurt();
        match set.state() {
            SetState::Closed | SetState::Indexed => self.collect_alone(id, set).await,
            // A new snapshot leaves the zones of the one before.
            SetState::Index => Ok(self.take_snapshot().await.is_ok()),
            _ => Ok(false),
        }
    }

    /// Ends a set of which nothing lives: one whose reset a power cut interrupted may be without what it would be
    /// rebuilt from. `false` if something lives in it, or tombstones that are still needed have no other place.
    async fn empty_dead(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        if set.live() > 0 || !matches!(set.state(), SetState::Closed | SetState::Indexed) {
            return Ok(false);
        }
        match self.collect_alone(id, set).await {
            Err(error) if error.kind == ErrorKind::NoSpace => Ok(false),
            emptied => emptied,
        }
    }

    /// Ends a set that cannot be read, where nothing in it is needed: nothing lives in it, or it holds a snapshot, of
    /// which there may be a new one. `false` if it is needed.
    async fn end_unread(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        let ended = match set.state() {
            SetState::Index => self.take_snapshot().await.map(|()| true),
            _ => self.discard(id, set).await,
        };
        match ended {
            // An unreadable set is the better reason.
            Err(error) if error.kind == ErrorKind::NoSpace => Ok(false),
            ended => ended,
        }
    }

    /// Rebuilds whatever is lost while the array is open, without being asked.
    pub(crate) async fn mend(self: Rc<Self>) {
        let (mut look_at, mut wait) = (self.rt.now(), RETRY);
        while !self.lifecycle.stopped.get() {
            if self.rt.now() >= look_at {
                match self.scrub_suspects().await {
                    Ok(()) => {}
                    Err(error) if error.kind == ErrorKind::Stopped => return,
                    Err(error) => tracing::warn!(%error, "what a power cut tore is mended later"),
                }
                look_at = self.rt.now() + LOOK_AGAIN;
            }
            let lost = !self.drives.missing().is_empty() || self.sets.listed(List::Unusable) > 0;
            if lost && self.drives.all_taking().len() >= self.code.width() {
                let options = RebuildOptions { bytes_per_second: self.options.rebuild_rate };
                let began = self.rt.now();
                let done =
                    self.rebuild(options, |progress| self.membership.rebuilding.set(Some((progress, began)))).await;
                self.membership.rebuilding.set(None);
                wait =
                    if done.as_ref().is_ok_and(|done| done.failed == 0) { RETRY } else { (2 * wait).min(LOOK_AGAIN) };
                match done {
                    Ok(done) => tracing::info!(
                        members = done.members,
                        done = done.done,
                        failed = done.failed,
                        bytes = done.bytes,
                        "the zone sets of missing drives were rebuilt"
                    ),
                    Err(error) if error.kind == ErrorKind::Stopped => return,
                    Err(error) => tracing::warn!(%error, "rebuilding goes on later"),
                }
            }
            let told = Box::pin(self.membership.changed.notified());
            match select(told, Box::pin(self.rt.sleep(wait))).await {
                Either::Left(_) => (look_at, wait) = (self.rt.now(), RETRY),
                Either::Right(_) => {}
            }
        }
    }
}

/// Resets a zone, unless nothing is in it. `false`: it can take no data any more.
async fn empty_zone(dev: &Rc<dyn ZonedDevice>, zone: ZoneId) -> std::result::Result<bool, DeviceError> {
    let found = dev.report(zone, 1).await?;
    let found = found.first().filter(|info| info.zone == zone);
    if found.is_some_and(is_dead) {
        return Ok(false);
    }
    if found.is_none_or(|info| info.state != ZoneState::Empty) {
        dev.manage(zone, ZoneOp::Reset).await?;
    }
    Ok(true)
}

impl Rebuild<'_> {
    async fn work(&self) -> Result<()> {
        loop {
            let Some((id, set, lost)) = self.left.borrow_mut().pop_front() else { return Ok(()) };
            self.engine.running()?;
            if self.told.is_closed() {
                return Err(Error::stopped());
            }
            let result = self.replace(id, &set, lost).await;
            let mut so_far = self.so_far.get();
            match result {
                Ok(bytes) => {
                    so_far.done += 1;
                    so_far.bytes += bytes;
                }
                Err(error) if error.kind == ErrorKind::Stopped => return Err(error),
                Err(error) => {
                    tracing::warn!(set = id.0, %error, "a lost zone could not be replaced");
                    so_far.failed += 1;
                    self.why.borrow_mut().get_or_insert(error);
                }
            }
            self.so_far.set(so_far);
            // Nobody may be waiting.
            let _ = self.told.send(so_far);
            if self.engine.superblock.unsaved() >= SETS_A_SUPERBLOCK {
                self.engine.write_superblock(None).await?;
            }
            self.wait_for_rate().await;
        }
    }

    async fn wait_for_rate(&self) {
        let Some(rate) = self.options.bytes_per_second else { return };
        let due = Duration::from_secs_f64(self.so_far.get().bytes as f64 / rate.max(1) as f64);
        while !self.told.is_closed() && self.engine.running().is_ok() {
            let left = due.saturating_sub(self.engine.rt.now().since(self.began));
            if left.is_zero() {
                return;
            }
            // An array that is closed says so there.
            let ended = select(Box::pin(self.told.closed()), Box::pin(self.engine.space.notified()));
            select(ended, Box::pin(self.engine.rt.sleep(left))).await;
        }
    }

    /// Puts a free zone in the place of `lost`; where none fits, or nothing in the set lives, it is emptied instead.
    /// Bytes written to the zone.
    async fn replace(&self, id: SetId, set: &Rc<ZoneSet>, lost: Member) -> Result<u64> {
        // Once more if the set was reset and used again while this waited for a zone.
        loop {
            let contents = match self.engine.contents_without(id, set, lost).await {
                Err(error) if error.kind == ErrorKind::Corrupt && self.engine.end_unread(id, set).await? => break,
                contents => contents?,
            };
            let Some(contents) = contents else { break };
            if self.engine.empty_dead(id, set).await? {
                break;
            }
            let spare = match self.take_spare(set, lost).await {
                Err(error) if error.kind == ErrorKind::NoSpace && self.engine.empty_lossy(id, set).await? => break,
                spare => spare?,
            };
            let replaced = self.engine.replace_member(id, set, lost, spare, &contents).await;
            self.targets.borrow_mut().remove(&spare.drive);
            self.freed.notify_waiters();
            if !matches!(replaced, Ok(Replaced::By(_))) {
                self.spares.borrow_mut().entry(spare.drive).or_default().push(spare.zone);
            }
            match replaced? {
                Replaced::By(bytes) => return Ok(bytes),
                Replaced::Changed => {}
                // All that can be read need not wait for what cannot.
                Replaced::Unread(error) => match self.engine.empty_lossy(id, set).await {
                    Ok(true) => break,
                    Err(error) if error.kind == ErrorKind::Stopped => return Err(error),
                    _ => return Err(error),
                },
            }
        }
        Ok(0)
    }

    /// A free zone for a set, empty: on a drive that has none of it, long enough, of the drive with the most of them,
    /// and to which nobody else is writing.
    async fn take_spare(&self, set: &Rc<ZoneSet>, lost: Member) -> Result<Member> {
        loop {
            self.engine.running()?;
            let freed = self.freed.notified();
            if self.targets.borrow().len() >= self.writers {
                freed.await;
                continue;
            }
            let members = set.members().into_iter().filter(|member| *member != lost).map(|member| member.drive);
            let taken: BTreeSet<DriveId> = members.chain(self.engine.membership.joining(set)).collect();
            let needed = set.written();
            let engine = self.engine;
            let fits = |drive: DriveId| {
                !taken.contains(&drive)
                    && engine.drives.usable(drive).is_some()
                    && !engine.drives.is_leaving(drive)
                    && engine.drives.zone_capacity(drive) >= needed
            };
            let (idle, busy) = {
                let spares = self.spares.borrow();
                let targets = self.targets.borrow();
                let of = |busy: bool| {
                    let some = spares.iter().filter(|(drive, zones)| !zones.is_empty() && fits(**drive));
                    let some = some.filter(|(drive, _)| targets.contains(drive) == busy);
                    some.max_by_key(|(drive, zones)| (zones.len(), std::cmp::Reverse(**drive))).map(|(drive, _)| *drive)
                };
                (of(false), of(true))
            };
            if let Some(drive) = idle {
                let zone = self.spares.borrow_mut().get_mut(&drive).map(|zones| zones.remove(0));
                let (Some(zone), Some(dev)) = (zone, engine.drives.usable(drive)) else { continue };
                self.targets.borrow_mut().insert(drive);
                let emptied = empty_zone(&dev, zone).await;
                if let Ok(true) = emptied {
                    return Ok(Member { drive, zone });
                }
                // The zone is left alone: it cannot be used.
                self.targets.borrow_mut().remove(&drive);
                self.freed.notify_waiters();
                if let Err(error) = emptied {
                    engine.drive_error(drive, &error).await?;
                }
            } else if busy.is_some() {
                freed.await;
            } else if !self.more_spares(&fits).await? {
                let message = "no free zone on a drive that is not in the set already: add a drive or delete objects";
                return Err(Error::new(ErrorKind::NoSpace, message));
            }
        }
    }

    /// Wins zones on drives that `fits` names, unless another worker has: of sets that hold nothing, or by cleaning.
    async fn more_spares(&self, fits: &impl Fn(DriveId) -> bool) -> Result<bool> {
        let _one = self.winning.lock().await;
        if self.spares.borrow().iter().any(|(drive, zones)| !zones.is_empty() && fits(*drive)) {
            return Ok(true);
        }
        let freed = self.engine.take_apart(APART, fits).await?;
        if freed.is_empty() {
            if !self.engine.drives.all_taking().iter().any(|(drive, _)| fits(*drive)) {
                return Ok(false);
            }
            let won = self.engine.reclaim().await?;
            let useful = |set: &ZoneSet| set.has_member(|member| fits(member.drive));
            let free = || self.engine.sets.of(List::Empty).any(|(_, set)| set.idle() && useful(&set));
            // A won set is reset when its readers are gone; one slow reader must not hold up everything.
            while !free() && self.engine.space_comes(&DriveSet::EMPTY) {
                self.engine.running()?;
                self.engine.wait_for_space(&DriveSet::EMPTY).await;
            }
            return Ok(won || free());
        }
        let mut own = self.spares.borrow_mut();
        for (drive, zones) in freed {
            let all = own.entry(drive).or_default();
            all.extend(zones);
            // One after the other, as they lie on the drive.
            all.sort_unstable();
        }
        Ok(true)
    }
}
