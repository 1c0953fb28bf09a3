//! Formation of sets as drives come and go. (SMORE, sections III-B, III-C and III-G.)
//!
//! # Invariants
//! - AS-MEMBER-1: a zone that leaves a set is used again only when a durable superblock no longer names it there:
//!   recovery takes a member that is short of what others have for proof that this was never acknowledged.
//! - AS-MEMBER-2: no two members of a set lie on one drive.
//! - AS-MEMBER-3: zones are given to sets and taken from them by one at a time, who goes on until no command of its is
//!   on its way to any, also where its caller went away: a late reset would empty what is another's by then.
//! - AS-MEMBER-4: a set that is taken apart holds nothing and may not be opened, from before a superblock says so: one
//!   that was refused may be found by a later opening. If the set stays, another superblock calls it available first
//!   (AS-SET-1). `nothing_is_stored_in_a_set_that_some_superblock_took_apart`.
//! - AS-MEMBER-5: no set has a zone on a drive that was taken out: it would lack that zone for ever, and what is
//!   written to it would be lost with fewer further drives than parity makes up for.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::ZoneId;
use shingle_zoned::{ZoneInfo, ZoneOp, ZoneState};
use tokio::sync::mpsc;

use crate::append::open_set::RESERVED;
use crate::drives::asking::report_all;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{DriveEntry, DriveState, Member};
use crate::given::ArrayDrive;
use crate::repair::told::Told;
use crate::repair::told::{RebuildOptions, RebuildProgress};
use crate::superblocks::superblock_zones;
use crate::types::{DriveId, DriveSet, SetId, SetState};
use crate::watch::within;
use crate::zone_set::layout::form_sets;
use crate::zone_set::{Group, List, ZoneSet};

/// Sequential zones that a drive needs: two for superblocks, one for data.
pub(crate) const ZONES_MIN: u32 = 3;

/// Zones that belong to no set, by drive, in order. They may hold something: they are reset before they are used.
pub(crate) type Spares = BTreeMap<DriveId, Vec<ZoneId>>;

/// Sets that are dealt with before others have their turn.
const STEP: usize = 1024;

/// Tries of forming sets, if others open those that were to be taken apart.
const FORM_TRIES: usize = 3;

/// Sets that are taken apart, and the members of those that are formed.
#[derive(Default)]
struct Plan {
    apart: Vec<(SetId, Rc<ZoneSet>)>,
    sets: Vec<Vec<Member>>,
}

/// State of the zones of all drives in use.
pub(crate) struct Survey {
    pub(crate) spares: Spares,
    /// Members whose zones can take no data any more.
    pub(crate) dead: BTreeSet<Member>,
}

/// Zones that are members of sets: a bit for each, since an array has millions.
#[derive(Default)]
struct Used(BTreeMap<DriveId, Vec<u64>>);

impl Used {
    fn insert(&mut self, Member { drive, zone }: Member) {
        let (word, bit) = (zone.0 as usize / 64, zone.0 % 64);
        let words = self.0.entry(drive).or_default();
        words.resize(words.len().max(word + 1), 0);
        words[word] |= 1 << bit;
    }

    fn contains(&self, Member { drive, zone }: Member) -> bool {
        let word = self.0.get(&drive).and_then(|words| words.get(zone.0 as usize / 64));
        word.is_some_and(|word| word & 1 << (zone.0 % 64) != 0)
    }
}

/// True if a zone can take no data any more, or never could.
pub(crate) fn is_dead(zone: &ZoneInfo) -> bool {
    matches!(zone.state, ZoneState::NotWritePointer | ZoneState::ReadOnly | ZoneState::Offline)
}

/// Makes a drive ready to join an array: what it held is lost. Its entry, and the zones that sets may be formed of.
pub(crate) async fn prepare(
    drive: &ArrayDrive,
    id: u64,
    goes_on: impl Fn() -> Result<()>,
) -> Result<(DriveEntry, Vec<ZoneId>)> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    let device = |error| Error::device(&drive.name, error);
    let geometry = drive.dev.geometry();
    if geometry.zone_count < geometry.conventional_zones + ZONES_MIN {
        return invalid(format!("{}: a drive of an array needs at least {ZONES_MIN} sequential zones", drive.name));
    }
    let zones = report_all(&drive.dev).await.map_err(device)?;
    let superblocks = superblock_zones(&drive.dev);
    if let Some(zone) = zones.iter().find(|zone| superblocks.contains(&zone.zone) && is_dead(zone)) {
        return invalid(format!("{}: {} cannot be written to, and would hold superblocks", drive.name, zone.zone));
    }
    for zone in zones.iter().filter(|zone| !is_dead(zone) && zone.state != ZoneState::Empty) {
        goes_on()?;
        drive.dev.manage(zone.zone, ZoneOp::Reset).await.map_err(device)?;
    }
    let free = zones.iter().filter(|zone| !is_dead(zone) && !superblocks.contains(&zone.zone));
    let free = free.map(|zone| zone.zone).collect();
    let entry = DriveEntry {
        id,
        state: DriveState::Present,
        reused: false,
        zones: geometry.zone_count,
        zone_capacity: geometry.zone_capacity.0 as u32,
        superblock_zones: superblocks,
        name: drive.name.clone(),
    };
    Ok((entry, free))
}

impl Engine {
    /// Looks at the zones of all drives in use. The superblock is written first if the table changed (AS-MEMBER-1).
    pub(crate) async fn survey(&self) -> Result<Survey> {
        if self.superblock.unsaved() > 0 {
            self.write_superblock(None).await?;
        }
        let drives = self.drives.all_usable();
        let mut reports = Vec::with_capacity(drives.len());
        for ((drive, _), zones) in drives.iter().zip(join_all(drives.iter().map(|(_, dev)| report_all(dev))).await) {
            match zones {
                Ok(zones) => reports.push((*drive, zones)),
                Err(error) => self.drive_error(*drive, &error).await?,
            }
        }
        // A rebuild beside this may give sets other members: their old ones are no spares before that is durable.
        while self.superblock.unsaved() > 0 {
            self.write_superblock(None).await?;
        }
        // From here on at one moment.
        let mut used = Used::default();
        for (_, set) in self.sets.all() {
            set.members().into_iter().for_each(|member| used.insert(member));
        }
        let mut survey = Survey { spares: Spares::new(), dead: BTreeSet::new() };
        for (drive, zones) in reports {
            let superblocks = self.drives.superblock_zones(drive).unwrap_or_default();
            let mut free = Vec::new();
            for zone in zones.iter().filter(|zone| !superblocks.contains(&zone.zone)) {
                let member = Member { drive, zone: zone.zone };
                match (is_dead(zone), used.contains(member)) {
                    (true, true) => drop(survey.dead.insert(member)),
                    (false, false) => free.push(zone.zone),
                    _ => {}
                }
            }
            if !self.drives.is_leaving(drive) {
                survey.spares.insert(drive, free);
            }
        }
        Ok(survey)
    }

    /// Members of `set` on drives that are gone or about to leave.
    pub(crate) fn lossy(&self, set: &ZoneSet) -> usize {
        set.count_members(|member| self.is_lossy(*member))
    }

    /// True if a zone's drive is gone or about to leave.
    pub(crate) fn is_lossy(&self, member: Member) -> bool {
        self.drives.usable(member.drive).is_none() || self.drives.is_leaving(member.drive)
    }

    /// Drives that are gone or about to leave.
    pub(crate) fn lossy_drives(&self) -> DriveSet {
        let lossy = |id: &DriveId| self.drives.usable(*id).is_none() || self.drives.is_leaving(*id);
        self.drives.ids().into_iter().filter(lossy).collect()
    }

    /// Makes available sets that `which` names empty ones again, so that they can be taken apart.
    fn withdraw(&self, most: usize, which: impl Fn(&ZoneSet) -> bool) {
        let available = self.sets.backwards(List::Available).filter(|(_, set)| which(set));
        available.take(most).for_each(|(_, set)| set.withdraw());
    }

    /// Forms sets of zones that belong to none. Empty sets are taken apart for it if that makes more, or replaces ones
    /// that lost a member. Returns the number formed.
    pub(crate) async fn form_anew(&self) -> Result<usize> {
        if self.drives.all_taking().len() < self.code.width() {
            // No further set is possible: sets without a member can still be written to.
            return Ok(0);
        }
        let _no_offers = self.replenishing.lock().await;
        for _ in 0..FORM_TRIES {
            let Plan { apart, sets } = self.plan().await?;
            // Others go on meanwhile: one that was kept ready may have been opened.
            if apart.iter().all(|(_, set)| set.idle() || set.ready()) {
                return self.regroup(apart, sets).await;
            }
        }
        Ok(0)
    }

    /// Sets to take apart, and sets to form. In steps.
    async fn plan(&self) -> Result<Plan> {
        let width = self.code.width();
        let Survey { spares, dead } = self.survey().await?;
        // Durable with what follows: nothing is written to their zones before.
        self.withdraw(usize::MAX, |set| self.lossy(set) > 0);
        let has_spares = spares.values().any(|zones| !zones.is_empty());
        let lossy = self.lossy_drives();
        let lacks = |all: &BTreeMap<DriveSet, Group>| {
            all.iter().any(|(drives, group)| {
                !group.list(List::Unusable).is_empty() || drives.meets(&lossy) && !group.list(List::Empty).is_empty()
            })
        };
        if !has_spares && !self.sets.with_groups(lacks) {
            return Ok(Plan::default());
        }
        let mut empty = Vec::new();
        let mut whole = 0;
        let mut pool = spares.clone();
        // Sets that are kept ready, too, for zones that would be left over; not those that cleaning needs.
        let ready = self.sets.of(List::Available).filter(|(_, set)| set.ready()).skip(RESERVED);
        let idle = self.sets.of(List::Empty).chain(self.sets.of(List::Unusable)).filter(|(_, set)| set.idle());
        for (number, (id, set)) in idle.chain(ready.filter(|_| has_spares)).enumerate() {
            whole += usize::from(!set.drives().meets(&lossy) && !set.is_stuck());
            for member in set.members().into_iter().filter(|member| !dead.contains(member)) {
                if let Some(zones) = pool.get_mut(&member.drive) {
                    zones.push(member.zone);
                }
            }
            empty.push((id, set));
            self.breathe(number).await;
        }
        let forming = self.rt.blocking(move || {
            pool.values_mut().for_each(|zones| zones.sort_unstable());
            (formed(&spares, width), formed(&pool, width))
        });
        let (alone, together) = forming.await.map_err(|_| Error::stopped())?;
        let (lacking, kept) = (whole < empty.len(), whole + alone.len());
        Ok(if together.len() > kept || lacking && together.len() == kept {
            Plan { apart: empty, sets: together }
        } else {
            Plan { apart: Vec::new(), sets: alone }
        })
    }

    /// Lets others have their turn, once in a while.
    async fn breathe(&self, number: usize) {
        if number % STEP == STEP - 1 {
            self.rt.yield_now().await;
        }
    }

    /// Takes sets apart and forms others. A superblock that is written on the way names some of either, and no zone
    /// twice.
    async fn regroup(&self, apart: Vec<(SetId, Rc<ZoneSet>)>, sets: Vec<Vec<Member>>) -> Result<usize> {
        if apart.is_empty() && sets.is_empty() {
            return Ok(0);
        }
        // At one moment: who looks for sets to open finds none of them from here on.
        apart.iter().filter(|(_, set)| set.ready()).for_each(|(_, set)| set.withdraw());
        let apart: Vec<_> = apart.into_iter().filter_map(|(id, _)| Some((id, self.sets.remove(id)?))).collect();
        let mut new = Vec::with_capacity(sets.len());
        for (number, members) in sets.into_iter().enumerate() {
            new.push(self.sets.insert(members));
            self.breathe(number).await;
        }
        if let Err(error) = self.write_superblock(None).await {
            // Nobody knows which of them the next opening finds: they are empty in either (AS-MEMBER-4).
            new.iter().for_each(|id| drop(self.sets.remove(*id)));
            apart.into_iter().for_each(|(id, set)| self.sets.put_back(id, set));
            return Err(error);
        }
        self.space.notify_waiters();
        Ok(new.len())
    }

    /// Takes up to `most` sets apart that hold nothing and have a zone on a drive for which `useful` holds. (The paper's
    /// cannibalised sets.) Their zones, which may be dead; none if no set was.
    pub(crate) async fn take_apart(&self, most: usize, useful: impl Fn(DriveId) -> bool) -> Result<Spares> {
        let _no_offers = self.replenishing.lock().await;
        let has = |set: &ZoneSet| set.has_member(|member| useful(member.drive));
        let candidates = |engine: &Self| -> Vec<(SetId, Rc<ZoneSet>)> {
            let empty = engine.sets.backwards(List::Empty);
            empty.filter(|(_, set)| set.idle() && has(set)).take(most).collect()
        };
        let mut chosen = candidates(self);
        if chosen.is_empty() {
            // Cleaning needs what is reserved for it.
            let beyond = self.sets.count(SetState::Available).saturating_sub(RESERVED + 1);
            self.withdraw(beyond.min(most), has);
            chosen = candidates(self);
        }
        if chosen.is_empty() {
            return Ok(Spares::new());
        }
        chosen.iter().for_each(|(id, _)| drop(self.sets.remove(*id)));
        if let Err(error) = self.write_superblock(None).await {
            chosen.into_iter().for_each(|(id, set)| self.sets.put_back(id, set));
            return Err(error);
        }
        let mut freed = Spares::new();
        for member in chosen.iter().flat_map(|(_, set)| set.members()) {
            freed.entry(member.drive).or_default().push(member.zone);
        }
        Ok(freed)
    }

    /// Runs a change of members in a task of its own (AS-MEMBER-3), which ends before the array does (AS-CLOSE-3); `progress` gets its messages. If the caller has
    /// gone, the task learns it from its [`Told`].
    pub(crate) async fn apart<P: 'static, T: 'static, F: Future<Output = Result<T>> + 'static>(
        self: &Rc<Self>,
        mut progress: impl FnMut(P),
        work: impl FnOnce(Rc<Self>, Told<P>) -> F,
    ) -> Result<T> {
        let (told, mut news) = mpsc::unbounded_channel();
        let (working, busy) = (work(self.clone(), told), self.lifecycle.busy.begin());
        let working = self.rt.spawn(async move {
            let done = working.await;
            drop(busy);
            done
        });
        while let Some(one) = news.recv().await {
            progress(one);
        }
        working.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Adds a drive; what it held is lost. Sets are formed with its zones as far as other drives have free ones too.
    pub(crate) async fn add_drive(self: &Rc<Self>, drive: &ArrayDrive) -> Result<DriveId> {
        self.writable()?;
        let drive = drive.clone();
        self.apart(|()| {}, |engine, _| async move { engine.take_drive_in(&drive).await }).await
    }

    async fn take_drive_in(self: &Rc<Self>, drive: &ArrayDrive) -> Result<DriveId> {
        let _one = self.membership.turn.lock().await;
        self.running()?;
        let full = || {
            let message =
                format!("an array has at most {} drives, with those that were lost and not rebuilt yet", u8::MAX);
            Error::new(ErrorKind::Invalid, message)
        };
        self.drives.free_number(&self.sets.named_drives()).ok_or_else(full)?;
        // Two drives with one id would be taken for one.
        let known: BTreeSet<u64> = self.drives.entries().iter().map(|entry| entry.id).collect();
        let id = std::iter::repeat_with(|| self.rt.random()).find(|id| !known.contains(id)).unwrap_or_default();
        // Others wait for this one to end: it does, also where the drive hangs.
        let patient = within(&self.rt, std::slice::from_ref(drive), self.options.hung_after);
        let Some(watched) = patient.first() else { return Err(Error::stopped()) };
        let (entry, _) = prepare(watched, id, || self.running()).await?;
        let id = self.drives.join(entry, drive.dev.clone(), &self.sets.named_drives()).ok_or_else(full)?;
        self.superblock.log.forget_drive(id);
        self.superblock.recorded.borrow_mut().remove(&id);
        self.paces.forget(id);
        if let Err(error) = self.write_superblock_everywhere().await {
            self.drives.remove(id);
            return Err(error);
        }
        self.form_anew().await?;
        self.membership.changed.notify_waiters();
        Ok(id)
    }

    /// Takes a drive out for good: what it holds goes to others first.
    pub(crate) async fn remove_drive(
        self: &Rc<Self>,
        id: DriveId,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.writable()?;
        self.apart(progress, move |engine, told| async move { engine.take_drive_out(id, options, &told).await }).await
    }

    async fn take_drive_out(
        self: &Rc<Self>,
        id: DriveId,
        options: RebuildOptions,
        told: &Told<RebuildProgress>,
    ) -> Result<RebuildProgress> {
        if !self.drives.ids().contains(&id) || self.drives.is_removed(id) {
            return Err(Error::new(ErrorKind::Invalid, format!("the array has no {id}")));
        }
        self.drives.set_leaving(id, true);
        let taking = self.drives.all_taking().len();
        if taking < self.code.width() {
            self.drives.set_leaving(id, false);
            let message = format!(
                "without {} the array has {taking} drives, and {} needs {}: add a drive first",
                self.drives.name(id),
                self.code,
                self.code.width()
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let done = self.rebuild_all(options, told).await;
        let stays = self.drives.is_removed(id).then_some(()).ok_or_else(|| {
            let message = format!(
                "{} still holds data that has no other place, or is being read: add a drive, or try again",
                self.drives.name(id)
            );
            Error::new(ErrorKind::NoSpace, message)
        });
        self.drives.set_leaving(id, false);
        let done = done?;
        stays.map(|()| done)
    }

    /// Drives that failed or leave and are in the array, but for those in `needed`.
    fn lossy_without(&self, needed: &DriveSet) -> DriveSet {
        let lossy = self.lossy_drives();
        let is_one = |id: &DriveId| lossy.has(*id) && !needed.has(*id) && !self.drives.is_removed(*id);
        self.drives.ids().into_iter().filter(is_one).collect()
    }

    /// Takes sets apart that hold nothing and have a zone on one of those drives.
    async fn take_apart_for(&self, drives: &DriveSet) -> Result<()> {
        let _no_offers = self.replenishing.lock().await;
        let unneeded = self.sets.of(List::Empty).chain(self.sets.of(List::Unusable));
        let unneeded = unneeded.filter(|(_, set)| set.idle() && set.drives().meets(drives)).collect();
        self.regroup(unneeded, Vec::new()).await.map(drop)
    }

    /// Drives that failed or leave, and that no set needs, are taken out for good. (AS-MEMBER-5)
    pub(crate) async fn dismiss(&self) -> Result<()> {
        if self.drives.all_taking().len() < self.code.width() {
            // Sets that lack such drives are all there is to write to.
            return Ok(());
        }
        self.take_apart_for(&self.lossy_without(&self.sets.holding_drives())).await?;
        let gone = self.lossy_without(&self.sets.named_drives());
        let gone: Vec<_> = self.drives.ids().into_iter().filter(|id| gone.has(*id)).collect();
        let gone: Vec<_> = gone.into_iter().map(|id| (id, self.drives.remove(id))).collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.write_superblock(None).await?;
        for (id, dev) in gone {
            let (Some(dev), Some(zones)) = (dev, self.drives.superblock_zones(id)) else { continue };
            // So that nobody takes it for a part of the array. A superblock that was on its way when the drive was taken
            // out may have ended the drive's commands: these are watched on their own.
            let drive = [ArrayDrive { name: self.drives.name(id), dev }];
            for ArrayDrive { name, dev } in within(&self.rt, &drive, self.options.hung_after) {
                for result in join_all(zones.map(|zone| dev.manage(zone, ZoneOp::Reset))).await {
                    if let Err(error) = result {
                        tracing::warn!(drive = name, %error, "its superblocks are still there");
                    }
                }
            }
        }
        Ok(())
    }
}

/// The sets that can be formed of those zones.
fn formed(pool: &Spares, width: usize) -> Vec<Vec<Member>> {
    let free: Vec<_> = pool.iter().map(|(drive, zones)| (*drive, zones.clone())).collect();
    form_sets(&free, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_sets_are_known_by_drive_and_zone() {
        let at = |drive, zone| Member { drive: DriveId(drive), zone: ZoneId(zone) };
        let mut used = Used::default();
        let some = [at(0, 2), at(0, 63), at(0, 64), at(3, 700)];
        some.into_iter().for_each(|member| used.insert(member));
        assert!(some.into_iter().all(|member| used.contains(member)));
        let others = [at(0, 1), at(0, 3), at(0, 65), at(0, 700), at(1, 2), at(3, 699), at(3, 1 << 20)];
        assert!(!others.into_iter().any(|member| used.contains(member)));
    }
}
