//! Cleaning: what lives in a set moves elsewhere, and the set is emptied. (SMORE, sections III-E and IV-C.)
//!
//! # Invariants
//! - AS-CLEAN-3: a set is collected only if that wins space: its dead bytes exceed what moving may waste.
//! - AS-CLEAN-8: tombstones that are still needed are not moved for their own sake: a set that is mostly such ones, or that cleaning filled with
//!   them, is left until a snapshot makes them superfluous, which cleaning takes once nothing else can be won; but where none can be
//!   taken. So nothing is the first victim for ever.
//! - AS-CLEAN-7: a set that cannot be read is emptied where the index has all that it held and nothing of it lives, and
//!   a durable snapshot covers all of it: its tombstones are needed no more then (AS-SNAP-3).
//!   `a_dead_set_that_cannot_be_read_fails_no_rebuild`.
//! - AS-CLEAN-9: a set in which parts without bytes live is not one in which nothing does: it is emptied only once they were moved, and moving
//!   wins something again once one of them dies.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join_all, select};

use crate::append::open_set::RESERVED;
use crate::clean::cleaners::Cleaner;
use crate::drives::asking::has_pointer;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Digest;
use crate::recovery::examine::{Examined, Holds};
use crate::stats::add;
use crate::types::{DriveSet, PartPlace, SetId, SetState};
use crate::zone_set::ZoneSet;

/// Free sets for each lane below which cleaning goes on in the background; fewer in small arrays. Few: the later a set
/// is cleaned, the more of it has died.
const FREE_LOW: usize = 4;

/// Longest wait of writers for the readers of a set that could be won, and for the next piece of a snapshot that may
/// help.
pub(crate) const READERS_WAIT: Duration = Duration::from_secs(10);

/// Sets that are dealt with before others have their turn.
const STEP: usize = 1024;

/// Treatment of a set that is mostly tombstones that are still needed. (AS-CLEAN-8)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tombstones {
    /// It waits for a snapshot.
    Wait,
    /// They are moved, if that wins anything.
    Move,
}

impl Engine {
    /// Wins space by collecting one set, or waits until others have won some. `false` if none can be won. (AS-WRITE-4)
    pub(crate) async fn reclaim(self: &Rc<Self>) -> Result<bool> {
        self.reclaim_without(DriveSet::EMPTY).await
    }

    /// The same on other drives than those.
    pub(crate) async fn reclaim_without(self: &Rc<Self>, drives: DriveSet) -> Result<bool> {
        self.win(self.sets.free_without(&drives), drives).await
    }

    /// Collects up to `most` sets, as many at once as there are cleaners. Returns their number.
    pub(crate) async fn collect_some(self: &Rc<Self>, most: usize) -> Result<usize> {
        self.retry_stuck();
        let (left, done) = (Cell::new(most), Cell::new(0));
        let cleaning = (0..self.cleaners.most()).map(async |_| {
            while left.get() > 0 && self.victim(&DriveSet::EMPTY).is_some() {
                left.set(left.get() - 1);
                // Sets that others win are not its own.
                if !self.win(usize::MAX, DriveSet::EMPTY).await? {
                    break;
                }
                done.set(done.get() + 1);
            }
            Ok(())
        });
        join_all(cleaning).await.into_iter().collect::<Result<Vec<()>>>()?;
        Ok(done.get())
    }

    /// Collects one set on other drives than those, unless more than so many are free there. `false` if none can be.
    async fn win(self: &Rc<Self>, free: usize, without: DriveSet) -> Result<bool> {
        self.writable()?;
        let engine = self.clone();
        let winning = self.rt.spawn(async move { engine.win_space(free, &without).await });
        winning.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    async fn win_space(self: &Rc<Self>, free: usize, without: &DriveSet) -> Result<bool> {
        let _turn = self.cleaners.turn().await;
        let Some(first) = self.win_beside(free, without).await? else { return Ok(true) };
        let mut tombstones = Tombstones::Wait;
        loop {
            self.running()?;
            if self.sets.free_without(without) > free {
                return Ok(true);
            }
            // Items on their way come before the cleaner's last set is risked.
            if self.sets.free_without(without) < RESERVED && self.space_comes(without) {
                self.wait_for_space(without).await;
                continue;
            }
            if let Some((id, set)) = self.victim(without) {
                match self.collect(&first, id, &set, tombstones).await {
                    Ok(true) => return Ok(true),
                    Ok(false) => {}
                    Err(error) if error.kind == ErrorKind::NoSpace && self.space_comes(without) => {
                        self.wait_for_space(without).await;
                    }
                    Err(error) if error.kind == ErrorKind::NoSpace && self.cleaners.beside() => {
                        self.wait_for_cleaners(|cleaners| !cleaners.beside()).await;
                    }
                    Err(error) if error.kind == ErrorKind::NoSpace => return Ok(false),
                    Err(error) => return Err(error),
                }
            } else if self.space_comes(without) {
                self.wait_for_space(without).await;
            } else if self.cleaners.beside() {
                // They come to an end, and do not wait for this one. (AS-CLEAN-4)
                self.wait_for_cleaners(|cleaners| !cleaners.beside()).await;
            } else if !self.retry_stuck() && !self.drop_tombstones().await? {
                if tombstones == Tombstones::Move || self.snapshots.held_by_tombstones.borrow().is_empty() {
                    return Ok(false);
                }
                // No snapshot helps: they are moved as far as that wins anything. (AS-CLEAN-8)
                tombstones = Tombstones::Move;
                self.try_held_by_tombstones().await;
            }
        }
    }

    /// Wins space beside the first cleaner as long as that is at work; gives it back once it is not. `None`: more sets
    /// are free.
    async fn win_beside(self: &Rc<Self>, free: usize, without: &DriveSet) -> Result<Option<Cleaner>> {
        let mut full = false;
        loop {
            self.running()?;
            if self.sets.free_without(without) > free {
                return Ok(None);
            }
            if let Some(first) = self.cleaners.first() {
                return Ok(Some(first));
            }
            let another = if full { None } else { self.another_cleaner(without) };
            let Some((cleaner, id, set)) = another else {
                self.wait_for_cleaners(|cleaners| !cleaners.first_is_at_work()).await;
                full = false;
                continue;
            };
            match self.collect(&cleaner, id, &set, Tombstones::Wait).await {
                Ok(true) => return Ok(None),
                Ok(false) => {}
                // Others took the free sets. Its moved data stays moved.
                Err(error) if error.kind == ErrorKind::NoSpace => full = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets on such drives that wait for their readers before they are reset, or end and may be collected then; not
    /// those that somebody waited for in vain: the caller may be who they wait for.
    fn coming(&self, on: impl Fn(&DriveSet) -> bool) -> Vec<Rc<ZoneSet>> {
        let awaited = |set: &ZoneSet| set.awaited().is_none_or(|since| self.rt.now().since(since) < READERS_WAIT);
        self.sets.coming().into_iter().filter(|set| awaited(set) && on(&set.drives())).collect()
    }

    /// True if sets on other drives than those will be empty or closed soon.
    pub(crate) fn space_comes(&self, without: &DriveSet) -> bool {
        !self.coming(|drives| !drives.meets(without)).is_empty()
    }

    /// Waits until some set on other drives than those is empty or closed; for each at most [`READERS_WAIT`] from when the first one waited for
    /// it, so that the waits of many do not add up.
    pub(crate) async fn wait_for_space(&self, without: &DriveSet) {
        self.wait_for_one(|drives| !drives.meets(without)).await;
    }

    /// Waits until the sets with a zone on those drives that are being emptied hold nothing; as
    /// [`wait_for_space`](Self::wait_for_space) for each.
    pub(crate) async fn wait_for_emptied(&self, drives: &DriveSet) -> Result<()> {
        while !self.coming(|own| own.meets(drives)).is_empty() {
            self.running()?;
            self.wait_for_one(|own| own.meets(drives)).await;
        }
        Ok(())
    }

    async fn wait_for_one(&self, on: impl Fn(&DriveSet) -> bool) {
        let space = Box::pin(self.space.notified());
        let now = self.rt.now();
        let waits = self.coming(on).into_iter().map(|set| {
            let since = set.awaited().unwrap_or(now);
            set.set_awaited(Some(since));
            READERS_WAIT.saturating_sub(now.since(since))
        });
        if let Some(wait) = waits.min() {
            select(space, Box::pin(self.rt.sleep(wait))).await;
        }
    }

    /// If only tombstones that are still needed kept sets from being won, a snapshot makes them superfluous. Returns
    /// true if that was so. (AS-CLEAN-3)
    pub(crate) async fn drop_tombstones(self: &Rc<Self>) -> Result<bool> {
        if self.snapshots.held_by_tombstones.borrow().is_empty() {
            return Ok(false);
        }
        let floor = self.snapshots.durable_floor.get();
        match self.snapshot_from_reserve().await {
            // One that makes none superfluous would be taken for ever.
            Ok(()) => Ok(self.snapshots.durable_floor.get() > floor),
            Err(error) if error.kind == ErrorKind::NoSpace => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A snapshot made tombstones superfluous: sets that only those kept from being won may be tried again.
    pub(crate) async fn try_held_by_tombstones(&self) {
        let held = self.snapshots.held_by_tombstones.take();
        for (number, id) in held.into_iter().enumerate() {
            if let Some(set) = self.sets.get(id) {
                set.may_win_again();
            }
            if number % STEP == STEP - 1 {
                self.rt.yield_now().await;
            }
        }
    }

    /// Sets that hold nothing and can be used.
    pub(crate) fn free_sets(&self) -> usize {
        self.sets.free_without(&DriveSet::EMPTY)
    }

    /// Bytes of data that a set holds if it is filled with full segments.
    pub(crate) fn set_data(&self, set: &ZoneSet) -> u64 {
        set.data()
    }

    /// Collects a set that no cleaner chose, unless that has been done. `false` also for one that is passed over just
    /// now.
    pub(crate) async fn collect_alone(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        let (engine, own) = (self.clone(), set.clone());
        self.as_first_cleaner(id, set, async move |first| {
            // Of a set that recovery could not read the index has nothing: it would seem to be empty. (AS-STUCK-1)
            engine.retry_stuck();
            if own.is_stuck() { Ok(false) } else { engine.empty_set(&first, id, &own, Tombstones::Wait).await }
        })
        .await
    }

    /// True if no part lives in a set that has ended, as the index has it. Parts without bytes do not show in the bytes that live there, and of a
    /// set whose items cannot be read nothing else tells of them. (AS-CLEAN-9)
    pub(crate) async fn nothing_lives(&self, id: SetId, set: &ZoneSet) -> Result<bool> {
        let (mut lives, mut after) = (set.live() > 0, None);
        while !lives {
            let look = |_: &[u8], _, _, place: &PartPlace| lives |= place.set == id;
            after = self.index()?.for_parts_behind(after.as_ref(), STEP, look).map_err(Error::index)?;
            if after.is_none() {
                break;
            }
            self.rt.yield_now().await;
        }
        Ok(!lives)
    }

    /// Empties a set that nothing lives in, and that cannot be read. (AS-CLEAN-7) `false` if it may be needed.
    pub(crate) async fn discard(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        let is_dead = move |engine: &Self, set: &ZoneSet| {
            let known = !set.is_stuck() || engine.stuck.has(id, set);
            known && set.live() == 0 && matches!(set.state(), SetState::Closed | SetState::Indexed)
        };
        if is_dead(self, set) && set.state() == SetState::Closed {
            self.take_snapshot().await?;
        }
        let (engine, own) = (self.clone(), set.clone());
        self.as_first_cleaner(id, set, async move |first| {
            let _victim = first.take(id, &own);
            // Nobody waits here for a snapshot: that may wait for cleaning.
            let Ok(_no_snapshot) = engine.snapshots.taking.try_lock() else { return Ok(false) };
            // The one that covers it may not be in a superblock yet.
            engine.write_superblock(None).await?;
            if !is_dead(&engine, &own) || own.state() != SetState::Indexed || !engine.nothing_lives(id, &own).await? {
                return Ok(false);
            }
            tracing::warn!(set = id.0, "nothing lives in a set that cannot be read; it is emptied");
            engine.trim_later(id, &own);
            Ok(true)
        })
        .await
    }

    /// Does something with a set as the first cleaner, unless the set is emptied meanwhile.
    async fn as_first_cleaner(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        work: impl AsyncFnOnce(Cleaner) -> Result<bool> + 'static,
    ) -> Result<bool> {
        let (engine, set, generation) = (self.clone(), set.clone(), set.generation());
        // Also if the caller waits no more: copies must not come later than deletions think. (AS-WRITE-4, AS-SNAP-3)
        let collecting = self.rt.spawn(async move {
            let _turn = engine.cleaners.turn().await;
            let first = loop {
                engine.running()?;
                engine.wait_for_cleaners(|cleaners| !cleaners.empty(id) && !cleaners.first_is_at_work()).await;
                if !engine.cleaners.empty(id)
                    && let Some(first) = engine.cleaners.first()
                {
                    break first;
                }
            };
            if set.is_leaving() || set.generation() != generation {
                return Ok(true);
            }
            work(first).await
        });
        collecting.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// As [`Engine::empty_set`], of a set that a cleaner chose: one that cannot be read is passed over.
    async fn collect(
        self: &Rc<Self>,
        cleaner: &Cleaner,
        id: SetId,
        set: &Rc<ZoneSet>,
        tombstones: Tombstones,
    ) -> Result<bool> {
        match self.empty_set(cleaner, id, set, tombstones).await {
            Err(error) if error.kind == ErrorKind::Corrupt => {
                tracing::error!(set = id.0, %error, "a set is passed over by cleaning");
                self.pass_over(id, set);
                Ok(false)
            }
            emptied => emptied,
        }
    }

    /// Moves what lives in `set` and leaves it to be reset when its last reader is gone. `false` if that would win
    /// nothing, or not all of it can be moved.
    async fn empty_set(
        self: &Rc<Self>,
        cleaner: &Cleaner,
        id: SetId,
        set: &Rc<ZoneSet>,
        tombstones: Tombstones,
    ) -> Result<bool> {
        let _victim = cleaner.take(id, set);
        let pin = self.sets.pin(id);
        let digest = self.contents(id, set).await?;
        // A set that is hurt is emptied even if that wins nothing, unless space is needed.
        if !set.is_hurt() || self.free_sets() <= RESERVED {
            let died = set.died();
            let floor = self.snapshots.durable_floor.get();
            let moved = self.blocks_to_move(id, &digest, floor).await?;
            // A set that ended early wins what was never written, too.
            let won = self.capacity(set);
            // Below the reserve no snapshot can be taken.
            let waits = tombstones == Tombstones::Wait && self.free_sets() >= RESERVED;
            let mostly_tombstones = moved.all.saturating_sub(moved.without_tombstones) > won / 2;
            if moved.all >= won || waits && mostly_tombstones {
                set.wins_nothing_at(died);
                if moved.without_tombstones < won {
                    self.snapshots.held_by_tombstones.borrow_mut().insert(id);
                }
                return Ok(false);
            }
        }
        let left = self.move_live(cleaner, id, &digest).await?;
        drop(pin);
        if left > 0 || set.live() > 0 {
            // Something in it could not be read, and stays where it is until it can be.
            self.pass_over(id, set);
            tracing::error!(
                set = id.0,
                parts = left,
                live = set.live(),
                "a set could not be emptied; it is tried again later: run a scrub"
            );
            return Ok(false);
        }
        add(&self.counters.cleaned, 1);
        self.trim_later(id, set);
        self.rt.yield_now().await;
        Ok(true)
    }

    /// Leaves a set to be reset when its last reader is gone.
    fn trim_later(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) {
        set.leave();
        self.trim_soon(id, set);
    }

    /// Resets a set in a task of its own, once it has ended and its last reader is gone.
    pub(crate) fn trim_soon(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) {
        let (engine, set) = (self.clone(), set.clone());
        self.rt.spawn_detached(async move {
            if let Err(error) = engine.trim(&set).await {
                tracing::warn!(set = id.0, %error, "an empty set could not be reset; that is done before it is used");
            }
            engine.snapshots.trimming.borrow_mut().remove(&id);
            engine.space.notify_waiters();
        });
    }

    /// Contents of a set that ended.
    async fn contents(&self, id: SetId, set: &ZoneSet) -> Result<Digest> {
        let written = self.written(set).await?;
        match self.examine(id, set, &written).await {
            Examined::Holds(Holds { digest, lost: None, .. }) => Ok(digest),
            Examined::Empty if self.nothing_lives(id, set).await? => Ok(Digest::default()),
            Examined::Empty => {
                self.pass_over(id, set);
                Err(Error::new(
                    ErrorKind::Corrupt,
                    format!("{id} cannot be collected: nothing is there of what lives in it"),
                ))
            }
            Examined::Holds(Holds { lost: Some(why), .. }) | Examined::Damaged(why) | Examined::Unread(why) => {
                self.pass_over(id, set);
                Err(Error::new(ErrorKind::Corrupt, format!("{id} cannot be collected: {why}")))
            }
        }
    }

    /// Written blocks of each member of a set whose drive is there.
    pub(crate) async fn written(&self, set: &ZoneSet) -> Result<Vec<(crate::format::Member, u32)>> {
        let members = set.members();
        let capacity = self.capacity(set);
        let mut written = Vec::with_capacity(members.len());
        for member in members {
            let Some(dev) = self.drives.usable(member.drive) else { continue };
            match dev.report(member.zone, 1).await {
                Ok(zones) => {
                    let zone = zones.first().filter(|zone| has_pointer(zone));
                    written.extend(zone.map(|zone| (member, (zone.written.0 as u32).min(capacity))));
                }
                Err(error) => self.drive_error(member.drive, &error).await?,
            }
        }
        Ok(written)
    }

    /// Cleans in the background while few sets are free: the fewer, the more cleaners. This is one behind so many
    /// `others`.
    pub(crate) async fn keep_sets_free(self: Rc<Self>, others: usize) {
        while !self.lifecycle.stopped.get() {
            self.retry_stuck();
            let least = self.cleaners.reserved() + 1;
            let low = (FREE_LOW * self.allocator.groups()).min(self.sets.len() / 10).max(least);
            let is_low =
                |without: &DriveSet| self.sets.free_without(without) + others < low && self.victim(without).is_some();
            // Sets that clients keep away from do not help them. (AS-LANE-3)
            if let Some(without) = [self.shunned(None), DriveSet::EMPTY].into_iter().find(is_low) {
                match self.reclaim_without(without).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cleaning failed; it is tried again");
                        self.rt.sleep(Duration::from_secs(1)).await;
                    }
                }
            }
            let space = Box::pin(self.space.notified());
            select(space, Box::pin(self.rt.sleep(Duration::from_secs(10)))).await;
        }
    }
}
