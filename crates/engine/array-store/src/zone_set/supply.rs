//! Sets on their way back to use: emptied, reset, and made available before they are needed. (SMORE, section III-C.)

use std::rc::Rc;

use futures_util::future::select;
use shingle_zoned::{DeviceError, ZoneOp};

use crate::drives::asking::is_lost;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Member;
use crate::repair::membership::is_dead;
use crate::types::{DriveSet, SetId, SetState};
use crate::zone_set::{List, Phase, Pin, ZoneSet, Zones};

impl Engine {
    /// Sets that are kept available: at least one more than what is reserved, or clients would have none without
    /// cleaning.
    pub(crate) fn available_sets(&self) -> usize {
        (self.options.available_sets * self.allocator.groups()).max(self.cleaners.reserved() + 1)
    }

    /// Makes empty sets available until there are as many as the pool holds, on other drives than those. (SMORE, section
    /// III-C.)
    pub(crate) async fn replenish(&self, without: &DriveSet) -> Result<()> {
        let _one = self.replenishing.lock().await;
        let available = self.sets.listed_without(List::Available, without);
        let wanted = self.available_sets().saturating_sub(available);
        let chosen = self.for_groups(wanted, without);
        self.offer(chosen).await
    }

    /// Makes empty sets available that fit a group better than any that is.
    pub(crate) async fn replenish_group(&self, group: usize) -> Result<()> {
        let _one = self.replenishing.lock().await;
        let available = self.sets.listed_without(List::Available, &self.shunned(Some(group)));
        if available >= 2 * self.available_sets() {
            return Ok(());
        }
        let chosen = self.better_for(group, self.options.available_sets);
        self.offer(chosen).await
    }

    /// Makes empty sets available. For one caller at a time.
    async fn offer(&self, chosen: Vec<(SetId, Rc<ZoneSet>)>) -> Result<()> {
        if chosen.is_empty() {
            return Ok(());
        }
        if chosen.iter().any(|(_, set)| set.is_unclean()) {
            // It may have been emptied since the last one. (AS-SET-5)
            self.say_superblock().await?;
        }
        let mut clean = Vec::with_capacity(chosen.len());
        for (id, set) in chosen {
            if !set.is_unclean() || self.reset_empty(id, &set).await? {
                clean.push(set);
            }
        }
        if clean.is_empty() {
            return Ok(());
        }
        // At one moment: of a set that no superblock calls available yet, drives may have been given up while zones
        // were reset. (AS-EVICT-1)
        clean.retain(|set| self.may_open_on(&set.drives()));
        for set in &clean {
            set.offer();
            // Their emptiness is durable first: else recovery would find long deleted data there.
            self.superblock.unflushed.add(set.members().iter().map(|member| member.drive));
        }
        // Nobody may open them before that is durable (AS-SET-1).
        let written = self.write_superblock(None).await;
        clean.iter().filter(|set| set.is_offered()).for_each(|set| set.offered(written.is_ok()));
        written
    }

    /// Resets the zones of an empty set. `false` if it is to be tried again, or was passed over. (AS-RESET-1)
    async fn reset_empty(&self, id: SetId, set: &ZoneSet) -> Result<bool> {
        let refused = self.reset_zones(set).await?;
        let Some((_, error)) = refused.first() else {
            self.unreset.succeeded(id);
            return Ok(true);
        };
        let for_good = self.is_any_dead(&refused).await;
        if !for_good && self.unreset.failed(id, set, self.rt.now()) {
            tracing::warn!(set = id.0, %error, "an empty set was not reset; that is tried again");
            return Ok(false);
        }
        self.unreset.succeeded(id);
        tracing::error!(set = id.0, %error, "an empty set cannot be used");
        for (member, error) in &refused {
            self.drive_error(member.drive, error).await?;
        }
        let is_there = |(member, _): &(Member, DeviceError)| self.drives.usable(member.drive).is_some();
        // It may be used without a drive that was just given up.
        let done = !refused.iter().any(is_there) && self.reset_zones(set).await?.is_empty();
        if !done {
            self.pass_over(id, set);
        }
        Ok(done)
    }

    /// True if a drive says of one of these zones that it cannot be written to any more.
    async fn is_any_dead(&self, refused: &[(Member, DeviceError)]) -> bool {
        for (member, _) in refused {
            let Some(dev) = self.drives.usable(member.drive) else { continue };
            if dev.report(member.zone, 1).await.is_ok_and(|zones| zones.first().is_some_and(is_dead)) {
                return true;
            }
        }
        false
    }

    /// Waits until an empty set on other drives than those may be tried again whose zones were not reset. `false` if there is none.
    /// (AS-RESET-1)
    pub(crate) async fn await_resets(&self, without: &DriveSet) -> bool {
        let space = Box::pin(self.space.notified());
        let counts = |set: &ZoneSet| {
            let drives = set.drives();
            set.is_unclean() && !set.is_stuck() && !drives.meets(without) && self.may_open_on(&drives)
        };
        let wait = self.unreset.next(self.rt.now(), |id| self.sets.get(id).is_some_and(|set| counts(&set)));
        let Some(wait) = wait else { return false };
        select(space, Box::pin(self.rt.sleep(wait))).await;
        true
    }

    /// Resets every zone of `set`. A drive that is lost on the way is marked as failed. Zones of others that were not reset, with why.
    pub(crate) async fn reset_zones(&self, set: &ZoneSet) -> Result<Vec<(Member, DeviceError)>> {
        self.writable()?;
        if self.missing(set) > 0 && self.missing(set) + self.code.parity() >= self.code.data() {
            // Drives that come back with the others' lost records would be believed, with others gone by then.
            self.record_failures().await?;
        }
        let members = set.members();
        let devs: Vec<_> =
            members.iter().filter_map(|&member| Some((member, self.drives.usable(member.drive)?))).collect();
        let resets = devs.iter().map(|(member, dev)| dev.manage(member.zone, ZoneOp::Reset));
        let results = futures_util::future::join_all(resets).await;
        let mut refused = Vec::new();
        for ((member, _), result) in devs.iter().zip(results) {
            match result {
                Err(error) if is_lost(&error) => self.drive_error(member.drive, &error).await?,
                Err(error) => refused.push((*member, error)),
                Ok(()) => {}
            }
        }
        Ok(refused)
    }

    /// Waits until nobody changes what `set` holds, and keeps it so. `None` if it holds nothing then, or is no more:
    /// what becomes of empty sets is not the caller's business.
    ///
    /// # Errors
    /// `Invalid` if objects are being written to it, for which there is no end; a snapshot ends soon.
    pub(crate) async fn settled(&self, id: SetId, set: &Rc<ZoneSet>) -> Result<Option<Pin>> {
        loop {
            let changed = self.space.notified();
            if !self.sets.get(id).is_some_and(|current| Rc::ptr_eq(&current, set)) {
                return Ok(None);
            }
            match (set.phase(), set.state()) {
                (Phase::Still, SetState::Empty | SetState::Available) => return Ok(None),
                (Phase::Still, _) => return Ok(self.sets.pin(id)),
                (Phase::Filling, SetState::Open) => {
                    return Err(Error::new(ErrorKind::Invalid, format!("{id} is being written to")));
                }
                (Phase::Filling | Phase::Ending | Phase::Resetting, _) => {}
            }
            self.running()?;
            changed.await;
        }
    }

    /// The set has nothing live left: once it has ended and nobody reads it, its zones are reset. (AS-SET-2, AS-SET-5)
    pub(crate) async fn trim(&self, set: &ZoneSet) -> Result<()> {
        loop {
            let changed = self.space.notified();
            if set.phase() == Phase::Still {
                break;
            }
            changed.await;
        }
        set.leave();
        self.sets.unpinned(set).await;
        // A reader may go on for long: only from here on is it waited for, and nothing is begun behind the end. (AS-CLOSE-3)
        self.running()?;
        let _busy = self.lifecycle.busy.begin();
        set.begin_to_reset();
        let result = async {
            self.say_superblock().await?;
            let refused = self.reset_zones(set).await?.pop();
            let error = |(member, error): (Member, _)| {
                Error::device(format!("resetting {} of {}", member.zone, member.drive), error)
            };
            refused.map_or(Ok(()), |refused| Err(error(refused)))
        };
        let result = result.await;
        set.emptied(if result.is_ok() { Zones::Clean } else { Zones::Unclean });
        self.space.notify_waiters();
        result
    }
}
