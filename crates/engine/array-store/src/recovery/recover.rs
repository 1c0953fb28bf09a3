//! Opening an array: the superblock, the index or what it is built from, the sets. (SMORE, section IV-A.)
//!
//! # Invariants
//! - AS-REC-1: after recovery the index has every acknowledged version and nothing that was acknowledged as deleted.
//! - AS-REC-2: sets may be looked at in any order: stamps decide which copy of a part is the newer one.
//! - AS-REC-4: an entry of the snapshot counts only if its set still is the one that the snapshot covers: not if the
//!   set was reset since, with any contents now. Data that lived in it then is found in the sets it was moved to.
//! - AS-REC-5: opening wins no room and loses none: of a set that was open, whose items are all copies of what is still
//!   where cleaning took it from, on every drive that was not given up, the copies are given up, and the set is empty.
//!   So an array that is cleaned when it stops, again and again, does not run out of sets to clean into.
//! - AS-REC-6: what an opening found is durable before it answers, and before a superblock says that it counts: the
//!   process before may have been killed with all of it in caches.
//! - AS-REC-7: an opening writes nothing on the drives before its superblock, so one that is refused leaves them as they were.
//! - AS-REC-3 is [`crate::recovery::versions`]'.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use crate::append::open_set::{OpenSet, Stream};
use crate::config::CleaningPolicy;
use crate::drives::asking::{Reports, has_pointer};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Digest, DigestItem, ItemBody, Member, Tombstone};
use crate::index::{Change, Keep, Loader, PartKey};
use crate::object::own_names::SNAPSHOT_NAME;
use crate::recovery::examine::{Examined, Holds, Surveyed};
use crate::repair::readmit::Readmitted;
use crate::segment::Shape;
use crate::types::{PartPlace, SetId, SetState, Version};
use crate::zone_set::Written;
use crate::zone_set::{FoundToHold, ZoneSet, Zones};

/// Pieces of the snapshot that are read ahead.
const PIECES_AHEAD: usize = 4;

/// Report of opening an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecoveryReport {
    /// The index on flash was that of a clean close: nothing had to be built.
    pub clean: bool,
    /// Pieces of the snapshot that were loaded.
    pub snapshot_pieces: usize,
    /// The snapshot could not be read: all sets were looked at, and objects deleted before it may be back.
    pub snapshot_lost: bool,
    /// Sets that were looked at.
    pub sets_examined: usize,
    /// Those whose digest was read; the others were gone through marker by marker.
    pub digests: usize,
    /// Versions begun since the array was opened last that were never completed.
    pub incomplete: u64,
    /// Objects that are there.
    pub objects: u64,
    /// Drives that are not there, by name.
    pub missing_drives: Vec<String>,
    /// Damage beyond repair, in words.
    pub damage: Vec<String>,
    /// Those of `damage` that drives which are away, and were not given up, may mend.
    pub may_return: Vec<String>,
    /// Files of the buffer that were not there or old, in words: what they lack came from the other.
    pub buffer: Vec<String>,
    /// Drives that were given up, and taken back.
    pub readmitted: Vec<Readmitted>,
    /// Times of the snapshot, the sets, and the rest.
    pub took: [Duration; 3],
}

impl RecoveryReport {
    /// Adds damage; `may_return`: drives that are away may mend it.
    pub(crate) fn damaged(&mut self, words: String, may_return: bool) {
        self.may_return.extend(may_return.then(|| words.clone()));
        self.damage.push(words);
    }
}

/// Sets whose ends are verified side by side: each may have several segments in memory.
const SETS_VERIFIED: usize = 4;

/// Sets as they were found: items of the examined, and those to go on with.
struct Scan {
    with_snapshot: bool,
    /// The index has all of it already.
    clean: bool,
    /// The array was closed in order.
    ordered: bool,
    /// Something could not be read that may count: nobody decides about it. (AS-EXAM-4)
    unread: bool,
    tombstones: BTreeMap<Bytes, Version>,
    reopen: Vec<OpenSet>,
}

impl Engine {
    /// Brings the sets' states up to date with the drives, and the index with the sets.
    /// `clean`: the index is that of the array's orderly end; `ordered`: it had one.
    pub(crate) async fn recover(
        self: &Rc<Self>,
        reports: &Reports,
        clean: bool,
        ordered: bool,
    ) -> Result<RecoveryReport> {
        let mut report = RecoveryReport { clean, ..RecoveryReport::default() };
        let began = self.rt.now();
        let with_snapshot = clean || self.load_snapshot(reports, &mut report).await?;
        report.took[0] = self.rt.now().since(began);
        let to_examine = self.settle_states(reports, clean, with_snapshot);
        let began = self.rt.now();
        let mut scan =
            Scan { with_snapshot, clean, ordered, unread: false, tombstones: BTreeMap::new(), reopen: Vec::new() };
        report.sets_examined = to_examine.len();
        let mut found = stream::iter(to_examine)
            .map(|(id, set)| async move {
                let written = written_of(reports, self, &set);
                let surveyed = match self.is_open_end(&set, ordered) {
                    true => self.survey_set(id, &set, &written).await,
                    false => Surveyed::Certain(self.examine(id, &set, &written).await),
                };
                (id, set, written, surveyed)
            })
            .buffer_unordered(self.options.recovery_depth.max(1));
        let mut doubtful = Vec::new();
        while let Some((id, set, written, surveyed)) = found.next().await {
            match surveyed {
                Surveyed::Certain(examined) => {
                    self.take_in(id, &set, written, examined, false, &mut scan, &mut report).await?;
                }
                Surveyed::Doubtful(items) => doubtful.push((id, set, written, items)),
            }
        }
        drop(found);
        // Only now is it known what was launched last. (AS-WINDOW-1)
        let most = self.allocator.most();
        let torn_from = self.allocator.torn_from(doubtful.iter().flat_map(|(.., items)| items.stamps(most)).collect());
        let mut judged = stream::iter(doubtful)
            .map(|(id, set, written, items)| async move {
                let examined = self.judged(items, torn_from).await;
                (id, set, written, examined)
            })
            .buffer_unordered(SETS_VERIFIED);
        // Behind all others: what they hold copies of has been found (AS-REC-5).
        while let Some((id, set, written, examined)) = judged.next().await {
            self.take_in(id, &set, written, examined, true, &mut scan, &mut report).await?;
        }
        drop(judged);
        report.took[1] = self.rt.now().since(began);
        let began = self.rt.now();
        self.refuse_loss(&report, scan.unread)?;
        self.buffering.found_tombstones.replace(scan.tombstones);
        self.reopen(scan.reopen);
        if !clean {
            self.settle_versions(&mut report).await?;
        }
        report.objects = self.objects()?;
        let missing = self.drives.missing().into_iter();
        report.missing_drives = missing.map(|id| self.drives.name(id)).collect();
        report.took[2] = self.rt.now().since(began);
        Ok(report)
    }

    /// Unreadable parts that recovery needed may come back, or have deletions: nothing is written until their loss is
    /// accepted.
    fn refuse_loss(&self, report: &RecoveryReport, unread: bool) -> Result<()> {
        if self.options.read_only || self.options.accept_loss || report.damage.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{}. Nothing was changed. Read what can be read, and try again with all drives attached; if that is of no use, accept \
             the loss (`shingle array snapshot --accept-loss`): objects may be gone, and others that were deleted may be back",
            report.damage.join("; ")
        );
        let kind = if unread { ErrorKind::Device } else { ErrorKind::Corrupt };
        Err(Error::new(kind, message))
    }

    /// Fills the index from the newest snapshot. `false` if it cannot be read.
    async fn load_snapshot(self: &Rc<Self>, reports: &Reports, report: &mut RecoveryReport) -> Result<bool> {
        let pieces = self.snapshots.newest.borrow().pieces.clone();
        if pieces.is_empty() {
            // Nothing was ever covered by one.
            return Ok(true);
        }
        let Some(empty) = self.take_index() else { return Err(Error::stopped()) };
        let mut loader = Loader::new(empty).map_err(Error::index)?.keeping(self.standing(reports));
        let mut reads = stream::iter(&pieces).map(|piece| self.read_piece(piece)).buffered(PIECES_AHEAD);
        while let Some(read) = reads.next().await {
            let loaded = match read {
                Ok(chunks) => chunks.iter().try_for_each(|chunk| loader.add(chunk)).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(why) = loaded {
                let may_return = pieces.iter().any(|piece| self.may_return(piece.set));
                report.damaged(format!("the snapshot of the index cannot be read: {why}"), may_return);
                report.snapshot_lost = true;
                drop(loader);
                self.put_index(self.index_place.fresh()?);
                return Ok(false);
            }
            report.snapshot_pieces += 1;
        }
        self.put_index(loader.finish().map_err(Error::index)?);
        Ok(true)
    }

    /// Tells if an entry of the snapshot counts (AS-REC-4): if it lies below the block up to which the snapshot covers
    /// its set, and the set was not emptied since. A set that was emptied and used again is covered by nothing
    /// (AS-SET-3).
    fn standing(&self, reports: &Reports) -> Box<Keep> {
        // By number: a part of millions asks for one.
        let mut covered: Vec<u32> = Vec::with_capacity(self.sets.len());
        for (SetId(number), set) in self.sets.all() {
            covered.resize(number as usize, 0);
            let emptied = self.was_emptied(&set, &written_of(reports, self, &set));
            covered.push(if emptied { 0 } else { set.covered() });
        }
        Box::new(move |place| {
            // The block of an entry lies behind its segment's marker; of a segment without data, behind all of it.
            let end = u64::from(place.block) + u64::from(place.segment_length > 0);
            covered.get(place.set.0 as usize).is_some_and(|covered| end <= u64::from(*covered))
        })
    }

    /// True if the part of a set that counts is unknown: it received writes when the array stopped. (AS-EXAM-3)
    fn is_open_end(&self, set: &ZoneSet, ordered: bool) -> bool {
        let unknown = set.end() == u32::MAX;
        match set.state() {
            SetState::Available => true,
            SetState::Open => unknown && !ordered,
            // Closed by a version that did not write their ends: everything in them counts.
            SetState::Empty | SetState::Closed | SetState::Indexed | SetState::Index => false,
        }
    }

    /// The end of a set that cannot be read. If nobody can judge what of it counts, and the loss is accepted, that is what a
    /// snapshot covers: later openings take all that they find below the end, torn or not. (AS-EXAM-3)
    fn end_unjudged(&self, set: &ZoneSet, ordered: bool) -> u32 {
        let unknown = !self.is_open_end(set, ordered) || set.covered() == u32::MAX;
        if unknown { u32::MAX } else { set.covered().max(1) }
    }

    /// True if a set's contents are gone: it is empty, or its trim was interrupted, before which all live data was
    /// moved.
    pub(super) fn was_emptied(&self, set: &ZoneSet, written: &Written) -> bool {
        let holds = written.iter().filter(|(_, blocks)| *blocks > 0).count();
        let gone = set.width() - written.len();
        if gone > self.code.parity() {
            // A missing member is not empty.
            return false;
        }
        let trimmed = holds < written.len() && holds + gone < self.code.data();
        // A first write may have reached few members, too: that is judged. Of a set that a snapshot covers it has reached all.
        let may_be_begun = set.state() == SetState::Open && set.end() == u32::MAX && set.covered() == 0;
        holds == 0 || trimmed && !may_be_begun
    }

    /// Sets the states that write pointers tell, and returns the sets that have to be looked at.
    fn settle_states(&self, reports: &Reports, clean: bool, with_snapshot: bool) -> Vec<(SetId, Rc<ZoneSet>)> {
        let mut current: BTreeMap<SetId, u32> = BTreeMap::new();
        for piece in &self.snapshots.newest.borrow().pieces {
            let end = piece.block + Shape::new(self.code, piece.length).fragment_blocks().0 as u32;
            current.entry(piece.set).and_modify(|last| *last = end.max(*last)).or_insert(end);
        }
        let mut to_examine = Vec::new();
        for (id, set) in self.sets.all() {
            let written = written_of(reports, self, &set);
            let holds = written.iter().filter(|(_, blocks)| *blocks > 0).count();
            set.set_written(most_written(&written));
            if set.end() != u32::MAX && written.iter().any(|(_, blocks)| *blocks < set.end()) {
                // An opening did without a drive that has come back.
                set.set_suspect(true);
            }
            let gone = set.width() - written.len();
            // Zones of drives that are away are not known to be empty.
            let zones = if holds > 0 || gone > 0 { Zones::Unclean } else { Zones::Clean };
            match set.state() {
                SetState::Empty => set.zones_are(zones),
                SetState::Index if current.contains_key(&id) => {
                    // The superblock that names a snapshot may be older than the end of its last set.
                    set.ends_before(current[&id]);
                }
                // Available sets stay so: a superblock says it, and that costs nothing.
                SetState::Available if holds == 0 && self.was_emptied(&set, &written) => {}
                _ if self.was_emptied(&set, &written) => set.emptied(zones),
                SetState::Index => set.emptied(Zones::Unclean),
                SetState::Indexed if with_snapshot => {}
                SetState::Closed if clean => {}
                _ => to_examine.push((id, set.clone())),
            }
        }
        to_examine
    }

    /// Enters what a set holds in the index.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one result")]
    async fn take_in(
        self: &Rc<Self>,
        id: SetId,
        set: &Rc<ZoneSet>,
        written: Written,
        examined: Examined,
        judged: bool,
        scan: &mut Scan,
        report: &mut RecoveryReport,
    ) -> Result<()> {
        if matches!(&examined, Examined::Unread(_) | Examined::Holds(Holds { unread: Some(_), .. })) {
            scan.unread = true;
        }
        let Holds { epoch, digest, end, closed, lost, suspect, unread } = match examined {
            Examined::Empty => {
                set.emptied(Zones::Unclean);
                return Ok(());
            }
            Examined::Damaged(why) | Examined::Unread(why) => {
                report.damaged(format!("{id}: {why}"), self.may_return(id));
                set.found_damaged(self.end_unjudged(set, scan.ordered));
                return Ok(());
            }
            Examined::Holds(holds) => holds,
        };
        report.digests += usize::from(closed);
        let is_known = unread.is_none();
        for why in unread.iter().chain(&lost) {
            report.damaged(format!("{id}: {why}"), self.may_return(id));
        }
        let of_snapshot = digest.items.iter().any(is_snapshot);
        // Entries of the newest snapshot that lie in it stand (AS-REC-4), also of items that were not found today: then it
        // is not emptied under them.
        let stands = set.covered() > 0 && !self.was_emptied(set, &written);
        let may_go = is_known && lost.is_none() && !stands;
        let is_of_no_use = of_snapshot || digest.items.is_empty();
        if may_go && (is_of_no_use || judged && self.is_elsewhere(id, &digest, scan)?) {
            // A snapshot that no superblock names, or what is not needed.
            set.emptied(Zones::Unclean);
            return Ok(());
        }
        if !scan.clean {
            self.enter_items(id, set, &digest, scan)?;
        }
        let newest = digest.items.iter().map(|item| item.body.stamp()).max().unwrap_or(0);
        self.stamps.raise(newest);
        let open = OpenSet {
            id,
            set: set.clone(),
            members: set.ordered_members(id),
            epoch,
            capacity: self.capacity(set),
            next: end,
            digest,
            flights: Rc::default(),
            packed: false,
        };
        // A set that was closed in order can be continued, if nothing happened to it since.
        let all_there = written.len() == open.members.len() && written.iter().all(|(_, blocks)| *blocks == end);
        if scan.ordered && set.state() == SetState::Open && set.end() == end && all_there && lost.is_none() {
            set.closed_at(newest);
            set.set_written(end);
            scan.reopen.push(open);
            return Ok(());
        }
        let most = most_written(&written);
        let hurt = written.iter().any(|(_, blocks)| *blocks != most);
        let found = FoundToHold { end, written: most, closed: newest, hurt, suspect, stuck: lost.is_some() };
        set.found_to_hold(found);
        if !closed {
            self.unsealed.borrow_mut().push((open, written));
        }
        Ok(())
    }

    /// True if a place lies in a set whose contents are settled, and that lacks nothing: one that was being reset seems
    /// to have its snapshot's contents, until it is looked at.
    fn stands(&self, place: &PartPlace) -> bool {
        let ended = |set: &ZoneSet| matches!(set.state(), SetState::Closed | SetState::Indexed);
        let holds = |set: &Rc<ZoneSet>| {
            ended(set) && set.end() != u32::MAX && place.block < set.end() && !set.is_stuck() && !set.is_suspect()
        };
        // A drive that is away may have reset its zone: with it back, and another one away, too little would be left.
        self.sets.get(place.set).is_some_and(|set| holds(&set) && !set.has_member(|member| self.is_away(member)))
    }

    /// True if all contents of a set are also elsewhere, whole, and known already: in the sets that cleaning copied
    /// them from. (AS-REC-5)
    fn is_elsewhere(&self, id: SetId, digest: &Digest, scan: &Scan) -> Result<bool> {
        for item in &digest.items {
            match &item.body {
                ItemBody::Tombstones { tombstones, .. } => {
                    let known =
                        |other: &Tombstone| scan.tombstones.get(&other.name).is_some_and(|v| *v >= other.version);
                    if !tombstones.iter().all(known) {
                        return Ok(false);
                    }
                }
                ItemBody::Segment(marker) => {
                    for part in &marker.parts {
                        if scan.tombstones.get(&part.name).is_some_and(|deleted| *deleted >= part.version) {
                            continue;
                        }
                        let found = self.index()?.part(&part.name, part.version, part.offset).map_err(Error::index)?;
                        let same = |place: &PartPlace| {
                            place.set != id
                                && place.length == part.length
                                && place.last == part.completion.is_some()
                                && self.stands(place)
                        };
                        if !found.is_some_and(|place| same(&place)) {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Rules 1 and 3 of section IV-A; rule 2 follows when all is known (AS-REC-3).
    fn enter_items(&self, id: SetId, set: &ZoneSet, digest: &Digest, scan: &mut Scan) -> Result<()> {
        let mut changes = Vec::new();
        // Parts that the snapshot covers are in the index, or were deleted by a tombstone that may be gone (AS-SNAP-3).
        let covered = if scan.with_snapshot { set.covered() } else { 0 };
        for item in digest.items.iter().filter(|item| item.block >= covered) {
            match &item.body {
                ItemBody::Tombstones { tombstones, .. } => {
                    for tombstone in tombstones {
                        self.stamps.raise(tombstone.version.0);
                        let newest = scan.tombstones.entry(tombstone.name.clone()).or_default();
                        *newest = tombstone.version.max(*newest);
                        changes.push(Change::RemoveUpTo { name: tombstone.name.clone(), version: tombstone.version });
                    }
                }
                ItemBody::Segment(marker) => {
                    let fragments = marker.fragments_at(item.block);
                    for part in &marker.parts {
                        self.stamps.raise(part.version.0);
                        if scan.tombstones.get(&part.name).is_some_and(|deleted| *deleted >= part.version) {
                            continue;
                        }
                        let place = PartPlace {
                            set: id,
                            block: fragments,
                            stamp: marker.stamp,
                            segment_length: marker.shape.length(),
                            at: part.at,
                            length: part.length,
                            last: part.completion.is_some(),
                        };
                        let key = PartKey { name: part.name.clone(), version: part.version, offset: part.offset };
                        changes.push(Change::Recover { key, place, completion: part.completion.clone() });
                    }
                }
            }
        }
        self.index()?.apply(&changes).map_err(Error::index)?;
        Ok(())
    }

    /// Goes on in sets that were open when the array was closed; those that no stream needs are closed later. (AS-REC-7)
    fn reopen(self: &Rc<Self>, sets: Vec<OpenSet>) {
        if self.options.read_only {
            return;
        }
        // Nobody would ever end a set of a stream that is not used.
        let cold = (self.options.cleaning == CleaningPolicy::Lifetime).then_some(Stream::Cold);
        let mut others = self.cleaners.streams().chain(cold);
        for open in sets {
            open.set.reopen();
            let Some(open) = self.go_on_in(open) else { continue };
            match others.next() {
                Some(stream) => self.allocator.put(stream, open),
                None => self.unneeded.borrow_mut().push(open),
            }
        }
    }
}

/// True if an item is a piece of a snapshot.
fn is_snapshot(item: &DigestItem) -> bool {
    match &item.body {
        ItemBody::Segment(marker) => marker.parts.iter().any(|part| part.name == SNAPSHOT_NAME),
        ItemBody::Tombstones { .. } => false,
    }
}

/// Written blocks of the longest zone of a set.
fn most_written(written: &Written) -> u32 {
    written.iter().map(|(_, blocks)| *blocks).max().unwrap_or(0)
}

/// Written blocks of the members of a set whose drives are there.
fn written_of(reports: &Reports, engine: &Engine, set: &ZoneSet) -> Written {
    // A zone that is longer than its set may be finished: then it seems to be written to its end.
    let capacity = engine.capacity(set);
    let blocks = |member: &Member| {
        engine.drives.usable(member.drive)?;
        let zone = reports.get(&member.drive)?.get(member.zone.0 as usize)?;
        has_pointer(zone).then_some((*member, (zone.written.0 as u32).min(capacity)))
    };
    set.members().iter().filter_map(blocks).collect()
}
