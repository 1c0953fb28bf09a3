//! Scrubbing: everything on the drives is read and verified, and what is damaged is written anew. (Sector errors are
//! found while parity still makes up for them.)
//!
//! A zone cannot be mended in place: a damaged one is replaced as a lost one is; where no zone is free for that, what
//! lives in its set is moved by cleaning.
//!
//! # Invariants
//! - AS-SCRUB-1: contents that a drive may bring back, which is away and was not given up, are told as away and not as lost.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use shingle_base::Blocks;
use shingle_runtime::{Instant, Rests};
use shingle_store_api::Finding;

use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::format::{DigestItem, ItemBody, Member};
use crate::recovery::examine::{Examined, Holds};
use crate::repair::membership::Survey;
use crate::repair::told::Told;
use crate::repair::told::{RebuildOptions, RebuildProgress};
use crate::repair::touched::{Names, Unlisted};
use crate::types::{Part, SetId, SetState};
use crate::zone_set::{Pin, ZoneSet};

/// Items that are verified side by side, so that drives have the next command before the last one ends.
const SIDE_BY_SIDE: usize = 2;

/// Options of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Read rate limit in bytes/s; `None` = unlimited.
    pub bytes_per_second: Option<u64>,
    /// Only look.
    pub read_only: bool,
}

/// Progress of a scrub, and its findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Zone sets that hold something.
    pub sets: usize,
    /// Sets that were read.
    pub done: usize,
    /// Bytes read and verified.
    pub bytes: u64,
    /// Zones with something that cannot be read, or not as it was written; of drives that are there.
    pub damaged: Vec<Finding>,
    /// Zones that were replaced, or whose sets were emptied.
    pub repaired: usize,
    /// Losses beyond parity.
    pub lost: Vec<Finding>,
    /// Contents that cannot be read, but for what drives may bring back that are away and were not given up.
    pub away: Vec<Finding>,
}

impl ScrubReport {
    /// Adds what cannot be read; `away`: a drive may bring it back.
    pub(crate) fn lacks(&mut self, finding: Finding, away: bool) {
        if away { &mut self.away } else { &mut self.lost }.push(finding);
    }

    pub(crate) fn lacks_all(&mut self, findings: impl IntoIterator<Item = (Finding, bool)>) {
        findings.into_iter().for_each(|(finding, away)| self.lacks(finding, away));
    }
}

/// State of a verified set.
#[derive(Default)]
struct Verified {
    bytes: u64,
    /// Damaged zones, and the objects of which they hold something that is.
    bad: BTreeMap<Member, Names>,
    /// As [`ScrubReport::lacks`].
    lacks: Vec<(Finding, bool)>,
}

/// Contents of a set, and a pin on it: it is not reset as long as this lives.
pub(crate) struct Contents {
    pub(crate) items: Vec<DigestItem>,
    /// Zones without their head, or without a digest that should have one.
    bad: BTreeSet<Member>,
    /// Contents that cannot be told.
    pub(crate) unlisted: Unlisted,
    _pin: Option<Pin>,
}

pub(crate) fn holds(set: &ZoneSet) -> bool {
    !matches!(set.state(), SetState::Empty | SetState::Available)
}

impl Engine {
    /// Reads and verifies everything; `progress` is told after each set.
    pub(crate) async fn scrub(
        self: &Rc<Self>,
        options: ScrubOptions,
        mut progress: impl FnMut(&ScrubReport),
    ) -> Result<ScrubReport> {
        if !options.read_only {
            self.writable()?;
        }
        let began = self.rt.now();
        let sets: Vec<_> = self.sets.all().filter(|(_, set)| holds(set)).collect();
        let mut report = ScrubReport { sets: sets.len(), ..ScrubReport::default() };
        let mut unlisted = Unlisted::new();
        for (id, set) in sets {
            self.look_at_set(id, &set, options.read_only, &mut report, &mut unlisted).await?;
            progress(&report);
            self.wait_for(options.bytes_per_second, report.bytes, began).await;
        }
        report.lacks_all(self.name_unlisted(unlisted, false).await?);
        Ok(report)
    }

    /// Verifies the first set behind `after` that holds something, and replaces damaged zones: its number, and a report
    /// whose `sets` are it and those behind it. `None` behind the last one.
    pub(crate) async fn scrub_next(self: &Rc<Self>, after: Option<SetId>) -> Result<Option<(SetId, ScrubReport)>> {
        self.writable()?;
        // It is followed by the reads of a whole set.
        let sets = self.sets.holding_behind(after);
        let Some((id, set)) = self.sets.next_holding(after) else { return Ok(None) };
        let mut report = ScrubReport { sets, ..ScrubReport::default() };
        self.scrub_set(id, &set, false, &mut report).await?;
        Ok(Some((id, report)))
    }

    /// Verifies and mends the sets that recovery found short of something. One that fails stays, and holds up no other; so
    /// does one of which something cannot be read, which parity does not make up for; and one of which a drive is away that was not given up: it may be the one that is short, and comes back
    /// as it was. (AS-EXAM-2)
    pub(crate) async fn scrub_suspects(self: &Rc<Self>) -> Result<()> {
        let mut failed = None;
        for id in self.sets.suspects() {
            let Some(set) = self.sets.get(id).filter(|set| !set.has_member(|member| self.is_away(member))) else {
                continue;
            };
            let mut report = ScrubReport::default();
            if let Err(error) = self.scrub_set(id, &set, false, &mut report).await {
                failed.get_or_insert(error);
                continue;
            }
            let seen = report.lost.is_empty() && report.away.is_empty();
            if !seen || set.has_member(|member| self.is_away(member)) || report.repaired < report.damaged.len() {
                continue;
            }
            set.set_suspect(false);
            tracing::info!(set = id.0, repaired = report.repaired, "what a power cut tore was looked at");
        }
        failed.map_or(Ok(()), Err)
    }

    /// True if a zone's drive cannot be used now and was not given up: it counts as it is once it is back.
    pub(crate) fn is_away(&self, member: &Member) -> bool {
        self.drives.usable(member.drive).is_none() && !self.superblock.recorded.borrow().contains(&member.drive)
    }

    /// True if what a set lacks may come back with a drive.
    pub(crate) fn may_return(&self, id: SetId) -> bool {
        self.sets.get(id).is_some_and(|set| set.has_member(|member| self.is_away(member)))
    }

    /// Verifies a set, and mends it unless it is only to be looked at.
    pub(crate) async fn scrub_set(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        read_only: bool,
        report: &mut ScrubReport,
    ) -> Result<()> {
        let mut unlisted = Unlisted::new();
        self.look_at_set(id, set, read_only, report, &mut unlisted).await?;
        report.lacks_all(self.name_unlisted(unlisted, true).await?);
        Ok(())
    }

    /// The same, but for the objects of contents that cannot be told: they are looked for in the whole index, later and at
    /// once.
    async fn look_at_set(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        read_only: bool,
        report: &mut ScrubReport,
        unlisted: &mut Unlisted,
    ) -> Result<()> {
        self.running()?;
        if !holds(set) {
            return Ok(());
        }
        let verified = self.verify_set(id, set, unlisted).await?;
        self.add_to(report, id, &verified)?;
        if !verified.bad.is_empty() && !read_only {
            report.repaired += self.repair(id, set, verified.bad.into_keys().collect()).await?;
        }
        Ok(())
    }

    async fn wait_for(&self, rate: Option<u64>, bytes: u64, began: Instant) {
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            self.rt.sleep(due.saturating_sub(self.rt.now().since(began))).await;
        }
    }

    /// Verifies all that a set holds, on all drives that are there.
    async fn verify_set(&self, id: SetId, set: &Rc<ZoneSet>, unlisted: &mut Unlisted) -> Result<Verified> {
        let Some(mut contents) = self.kept_contents(id, set).await? else { return Ok(Verified::default()) };
        unlisted.append(&mut contents.unlisted);
        self.verify_contents(id, set, &mut contents, false).await
    }

    /// Contents of a set, and a pin on it; `None` for one that is reset or begun meanwhile.
    pub(crate) async fn kept_contents(&self, id: SetId, set: &Rc<ZoneSet>) -> Result<Option<Contents>> {
        let empty = |_pin| Contents { items: Vec::new(), bad: BTreeSet::new(), unlisted: Unlisted::new(), _pin };
        if let Some((pin, epoch, items)) = self.items_of(id) {
            let bad = if items.is_empty() { BTreeSet::new() } else { self.members_without_head(id, set, epoch).await };
            return Ok(Some(Contents { items, bad, ..empty(pin) }));
        }
        let pin = match self.settled(id, set).await {
            Ok(Some(pin)) => pin,
            // It was reset meanwhile, and may be written to again.
            Ok(None) => return Ok(None),
            Err(error) if error.kind == ErrorKind::Invalid => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut contents = empty(Some(pin));
        let written = self.written(set).await?;
        match self.examine(id, set, &written).await {
            Examined::Holds(Holds { epoch, digest, closed, lost, .. }) => {
                // Members that end at one block have it there; but a snapshot may leave no room for it, and a zone that
                // was replaced since has one all the same. A digest is believed only with its zone's head.
                let ends = || written.iter().map(|(_, blocks)| *blocks);
                contents.bad = match closed && ends().min() == ends().max() && set.state() != SetState::Index {
                    true => self.members_without_digest(id, &set.ordered_members(id), &written).await,
                    false => self.members_without_head(id, set, epoch).await,
                };
                contents.unlisted.extend(lost.map(|why| (id, why)));
                contents.items = digest.items;
            }
            Examined::Empty => {}
            Examined::Damaged(why) | Examined::Unread(why) => contents.unlisted.push((id, why)),
        }
        Ok(Some(contents))
    }

    /// Verifies the contents of a set, as far as they are known; if `gently`, it rests as long as it reads.
    async fn verify_contents(
        &self,
        id: SetId,
        set: &Rc<ZoneSet>,
        contents: &mut Contents,
        gently: bool,
    ) -> Result<Verified> {
        // They lack their head or their list of objects, and no bytes of objects.
        let bad = std::mem::take(&mut contents.bad).into_iter().map(|member| (member, Names::new()));
        let mut verified = Verified { bytes: 0, bad: bad.collect(), lacks: Vec::new() };
        let mut rests = Rests::new(&self.rt, gently);
        let (items, members) = (&contents.items, set.ordered_members(id));
        let mut checks =
            stream::iter(items.iter().map(|item| self.verify_everywhere(&members, item))).buffered(SIDE_BY_SIDE);
        for item in items {
            let Some(good) = checks.next().await else { break };
            rests.rest().await;
            let count = good.iter().filter(|good| **good).count();
            verified.bytes += Blocks(u64::from(item.end() - item.block)).bytes() * count as u64;
            let failing = members.iter().zip(&good).filter(|(_, good)| !**good).map(|(member, _)| *member);
            let bad = match &item.body {
                ItemBody::Segment(marker) if count < self.code.data() => {
                    let segment = self.look_at_rows(id, &members, item, marker).await;
                    verified.lacks.extend(self.what_lacks(&segment)?);
                    segment.mendable(failing)
                }
                // Another zone in its place would have nothing to hold.
                ItemBody::Tombstones { .. } if count == 0 => continue,
                _ => failing.collect(),
            };
            let there = |member: &Member| self.drives.usable(member.drive).is_some();
            let bad: Vec<Member> = bad.into_iter().filter(there).collect();
            if !bad.is_empty() {
                let names: Names = self.live_parts(id, item)?.into_iter().map(|part| part.name.clone()).collect();
                bad.into_iter()
                    .for_each(|member| verified.bad.entry(member).or_default().extend(names.iter().cloned()));
            }
        }
        Ok(verified)
    }

    /// As a scrub that only looks, at a set whose contents are known: it rests as long as it reads.
    pub(crate) async fn look_gently(
        &self,
        id: SetId,
        set: &Rc<ZoneSet>,
        contents: &mut Contents,
        report: &mut ScrubReport,
        unlisted: &mut Unlisted,
    ) -> Result<()> {
        unlisted.append(&mut contents.unlisted);
        let verified = self.verify_contents(id, set, contents, true).await?;
        self.add_to(report, id, &verified)
    }

    fn add_to(&self, report: &mut ScrubReport, id: SetId, verified: &Verified) -> Result<()> {
        report.done += 1;
        report.bytes += verified.bytes;
        report.lacks_all(verified.lacks.iter().cloned());
        for (member, names) in &verified.bad {
            let place = format!("{id}: {} of {}", member.zone, self.drives.name(member.drive));
            report.damaged.push(Finding::at(place, self.touched(names.iter())?));
        }
        Ok(())
    }

    /// The items of a set that is being written to, as far as they are in the index, its life, and a pin of it.
    fn items_of(&self, id: SetId) -> Option<(Option<Pin>, u64, Vec<DigestItem>)> {
        let found = self.allocator.look(|open| {
            let end = open.set.entered_below();
            let entered = open.digest.items.iter().filter(|item| item.block < end);
            (open.id == id).then(|| (open.epoch, entered.cloned().collect()))
        });
        let (epoch, items) = found.into_iter().flatten().next()?;
        Some((self.sets.pin(id), epoch, items))
    }

    /// Members that are there and do not begin with the head of the set's life, by which an opening tells it from older
    /// ones. (AS-EXAM-5)
    async fn members_without_head(&self, id: SetId, set: &ZoneSet, epoch: u64) -> BTreeSet<Member> {
        let members = set.ordered_members(id);
        let there = members.iter().filter(|member| self.drives.usable(member.drive).is_some());
        let members = &members;
        let heads = there.map(|&member| async move {
            let good = self.read_epoch(id, members, member).await == Ok(Some(epoch));
            (!good).then_some(member)
        });
        join_all(heads).await.into_iter().flatten().collect()
    }

    /// Members that are there and do not end with a digest as they should.
    async fn members_without_digest(
        &self,
        id: SetId,
        members: &[Member],
        written: &[(Member, u32)],
    ) -> BTreeSet<Member> {
        let ends = written.iter().map(|&(member, end)| async move {
            let good = end > 0 && matches!(self.read_digest(id, members, member, end, u32::MAX).await, Ok(Some(_)));
            (!good).then_some(member)
        });
        join_all(ends).await.into_iter().flatten().collect()
    }

    async fn verify_everywhere(&self, members: &[Member], item: &DigestItem) -> Vec<bool> {
        let checks = members.iter().enumerate();
        let checks = checks.map(|(number, member)| self.verify_member(number, *member, item));
        join_all(checks).await.into_iter().map(|found| matches!(found, Ok(Some(())))).collect()
    }

    /// Parts of objects in an item that the index has there.
    pub(crate) fn live_parts<'a>(&self, id: SetId, item: &'a DigestItem) -> Result<Vec<&'a Part>> {
        let ItemBody::Segment(marker) = &item.body else { return Ok(Vec::new()) };
        let mut live = Vec::new();
        for part in &marker.parts {
            if self.live_place(id, marker.stamp, part)?.is_some() {
                live.push(part);
            }
        }
        Ok(live)
    }

    /// Replaces damaged zones of a set; or empties the set, if they cannot be replaced. Returns the number of zones
    /// dealt with.
    async fn repair(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>, bad: BTreeSet<Member>) -> Result<usize> {
        let set = set.clone();
        self.apart(|_| {}, move |engine, told| async move { engine.replace_bad(id, &set, bad, &told).await }).await
    }

    async fn replace_bad(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        bad: BTreeSet<Member>,
        told: &Told<RebuildProgress>,
    ) -> Result<usize> {
        let _one = self.membership.turn.lock().await;
        self.running()?;
        let count = bad.len();
        self.close_if_open(id).await;
        let Survey { spares, .. } = self.survey().await?;
        let left = bad.into_iter().map(|member| (id, set.clone(), member)).collect();
        let (done, why) = self.replace_all(left, spares, RebuildOptions::default(), told).await?;
        // Of the zones of sets that were taken apart for it one was needed.
        self.form_anew().await?;
        let Some(why) = why else { return Ok(done.done) };
        tracing::warn!(set = id.0, %why, "a damaged zone could not be replaced; its set is emptied instead");
        let emptied = self.empty_lossy(id, set).await?;
        Ok(if emptied { count } else { done.done })
    }

    async fn close_if_open(self: &Rc<Self>, id: SetId) {
        for open in self.allocator.take_all(|open| open.id == id) {
            self.close_set(open);
        }
    }
}
