//! Sets on their way back to use: emptied, reset, and made available before they are needed. (SMORE, section III-C.)

use std::rc::Rc;

use shingle_zoned::ZoneOp;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
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
            if set.is_unclean()
                && let Err(error) = self.reset_zones(&set).await
            {
                tracing::error!(set = id.0, %error, "an empty set cannot be used");
                self.pass_over(id, &set);
                continue;
            }
            clean.push(set);
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

    /// Resets every zone of `set`. A drive that is lost on the way is marked as failed.
    pub(crate) async fn reset_zones(&self, set: &ZoneSet) -> Result<()> {
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
        let mut failed = None;
        for ((member, _), result) in devs.iter().zip(results) {
            if let Err(error) = result {
                self.drive_error(member.drive, &error).await?;
                if self.drives.usable(member.drive).is_some() {
                    failed = Some(Error::device(format!("resetting {} of {}", member.zone, member.drive), error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
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
        set.begin_to_reset();
        let result = async {
            self.say_superblock().await?;
            self.reset_zones(set).await
        };
        let result = result.await;
        set.emptied(if result.is_ok() { Zones::Clean } else { Zones::Unclean });
        self.space.notify_waiters();
        result
    }
}
