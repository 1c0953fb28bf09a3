//! Contents of a zone set, read off its drives: from its digest, or from marker to marker. (SMORE, sections III-D and
//! IV-A.)
//!
//! Two questions, and never both of one set. Sets that received writes when the array stopped are *judged* once, by the
//! opening that finds them: which of their items count? The answer is durable before that opening goes on: the set is
//! closed, and the superblock names its end. Of all others the end is certain, and what cannot be read below it is
//! damage: nothing that reads them (a rebuild, cleaning, a scrub, a check) decides what counts.
//!
//! # Invariants
//! - AS-EXAM-1: judging takes an item only if every member whose drive is there was written up to its end: where one
//!   was not, the item was never acknowledged (AS-WRITE-1).
//! - AS-EXAM-2: of the items that a power cut may have torn (the last that were launched) judging takes those before
//!   the first torn one, and verifies each of them, also if a digest names them: a host that loses power leaves any of
//!   the blocks that were on their way, and a digest is written behind items that still are. Items of a set are settled
//!   in order (AS-WRITE-3), so nothing behind a torn one was acknowledged. If not all fragments verify, the others are
//!   written anew: the items they replaced are gone.
//! - AS-EXAM-3: a set is judged once. Items that were not taken are void for every later opening, with any drives;
//!   items that were taken count, and may be all that is left.
//! - AS-EXAM-4: an item is torn only if too few fragments verify and those that cannot be read, or are away, would not
//!   make up for it. If they might, nothing is judged: the opening is refused, and nothing is written (AS-PROBE-1). A set
//!   is not taken for empty if none of its zones is there, or if entries of a snapshot stand that lie in it. Items that a snapshot covers count
//!   also if they cannot be read.
//! - AS-EXAM-5: the newest life that a head tells of is the set's. A member of an older one was away when the set was
//!   reset: it holds nothing of the set. A set of which no member has a head never had its first write acknowledged.
//! - AS-EXAM-6: a closed set without any head is damaged, unless more of its heads than parity makes up for are holes:
//!   then it was being reset, before which all live data in it was moved. If drives that were given up leave it no more
//!   members than that (1+1 with one drive), all zones that are left have to be empty or holes from end to end.
//! - AS-EXAM-7: heads and digests of a set that received writes are read off all members at once: how many members there are
//!   does not count in the time of an opening.

use std::collections::VecDeque;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream;

use crate::engine::Engine;
use crate::format::{Digest, DigestItem, ItemBody, Member};
use crate::recovery::probe::{Look, Unread};
use crate::types::SetId;
use crate::zone_set::{Written, ZoneSet};

/// Of those, so many are read at once: each may have several MiB on every drive.
const VERIFIED_AT_ONCE: usize = 4;

/// A set as it was found.
#[derive(Debug)]
pub(crate) enum Examined {
    /// No member holds anything.
    Empty,
    Holds(Holds),
    /// Too much of it is damaged to say.
    Damaged(String),
    /// Too much of it could not be read to say: it may be readable later. (AS-EXAM-4)
    Unread(String),
}

/// Contents of a set.
#[derive(Debug)]
pub(crate) struct Holds {
    pub(crate) epoch: u64,
    pub(crate) digest: Digest,
    /// The first block behind the last item that counts.
    pub(crate) end: u32,
    /// Some member ends with a digest.
    pub(crate) closed: bool,
    /// Items below the end that no member has any more, in words.
    pub(crate) lost: Option<String>,
    /// Some members lack what counts, or hold it torn.
    pub(crate) suspect: bool,
    /// Unreadable item at the end, which may count, in words. (AS-EXAM-4)
    pub(crate) unread: Option<String>,
}

/// Result of a look at a set, before any item in it was verified that may be torn.
pub(crate) enum Surveyed {
    Certain(Examined),
    Doubtful(Doubtful),
}

/// A set whose last items may be torn.
pub(crate) struct Doubtful {
    epoch: u64,
    /// It ends with a digest, written behind items that were still on their way.
    closed: bool,
    members: Vec<Member>,
    /// Those whose drives are there.
    there: usize,
    /// Members that hold records of this generation.
    holding: Written,
    items: Vec<DigestItem>,
    /// Items below this block are in the newest snapshot of the index.
    covered: u32,
    /// As in [`Holds`].
    unread: Option<String>,
}

impl Doubtful {
    /// The stamps of items that may be torn: of `most` at most.
    pub(crate) fn stamps(&self, most: usize) -> impl Iterator<Item = u64> {
        self.items.iter().rev().take(most).map(|item| item.body.stamp())
    }
}

/// Part of an item that the present drives hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole,
    /// Enough, and not all.
    Degraded,
    /// Too little, whatever the others hold.
    Torn,
    /// Nobody knows: too few members can be read.
    Unread,
}

/// Findings on the way from marker to marker.
#[derive(Default)]
struct Walked {
    items: Vec<DigestItem>,
    /// The first block at which no record was found where one could be.
    unread: Option<u32>,
    /// The same, with an item behind it.
    hole: Option<u32>,
}

/// The first block behind items.
fn end_of(items: &[DigestItem]) -> u32 {
    items.last().map_or(1, DigestItem::end)
}

impl Engine {
    /// A set of which no member that is there holds anything. It is empty, unless entries of the snapshot stand that lie in it
    /// (AS-REC-4): members that are away may hold those.
    fn without_holders(&self, set: &ZoneSet, written: &Written) -> Examined {
        if written.is_empty() {
            return Examined::Unread("none of its zones is there".into());
        }
        if set.covered() > 0 && !self.was_emptied(set, written) {
            return Examined::Unread("its zones that are there are empty, and too many others are away".into());
        }
        Examined::Empty
    }

    /// Reads what a set holds of which it is certain what counts; `written` has its members whose drives are there.
    pub(crate) async fn examine(&self, id: SetId, set: &ZoneSet, written: &Written) -> Examined {
        let holding: Written = written.iter().copied().filter(|(_, blocks)| *blocks > 0).collect();
        if holding.is_empty() {
            return self.without_holders(set, written);
        }
        let empty = written.len() - holding.len();
        let members = set.ordered_members(id);
        let end = set.end();
        for (member, written) in self.in_turn(id, &holding) {
            if let Ok(Some((epoch, digest, closed))) = self.read_digest(id, &members, member, written, end).await {
                let items: Vec<DigestItem> = digest.items.into_iter().take_while(|item| item.end() <= end).collect();
                let reached = end_of(&items);
                if end == u32::MAX || reached == end {
                    let digest = Digest::of(items);
                    let (end, lost, unread, suspect) = (reached, None, None, false);
                    return Examined::Holds(Holds { epoch, digest, end, closed, lost, suspect, unread });
                }
            }
        }
        let most = holding.iter().map(|(_, blocks)| *blocks).max().unwrap_or(0).min(end);
        let (epoch, holding, _) = self.newest_life(id, &members, holding).await;
        let Some(epoch) = epoch else {
            return match self.is_punched(&members, &holding, empty).await {
                true => Examined::Empty,
                false => Examined::Damaged("no member has a readable head".into()),
            };
        };
        let walked = self.walk(&members, &holding, epoch, most, true).await;
        let reached = end_of(&walked.items);
        let short = (end != u32::MAX && reached != end).then_some(reached);
        let lost = walked.hole.or(short).map(|block| format!("block {block} can be read on no drive"));
        let end = if end == u32::MAX { reached } else { end };
        let digest = Digest::of(walked.items);
        Examined::Holds(Holds { epoch, digest, end, closed: false, lost, suspect: false, unread: None })
    }

    /// Looks at a set that received writes when the array stopped. (AS-EXAM-1)
    pub(crate) async fn survey_set(&self, id: SetId, set: &ZoneSet, written: &Written) -> Surveyed {
        let holding: Written = written.iter().copied().filter(|(_, blocks)| *blocks > 0).collect();
        if holding.is_empty() {
            return Surveyed::Certain(self.without_holders(set, written));
        }
        let members = set.ordered_members(id);
        // Most open sets have no digest, which is known when the last member was asked. (AS-EXAM-7)
        let turn = self.in_turn(id, &holding);
        let digests =
            join_all(turn.iter().map(|(member, end)| self.read_digest(id, &members, *member, *end, u32::MAX)));
        let ((epoch, holding, heads), digests) = join(self.newest_life(id, &members, holding), digests).await;
        let unread = heads.iter().filter(|head| head.is_err()).count();
        let known = heads.iter().filter(|head| matches!(head, Ok(Some(_)))).count();
        if unread > 0 && known < self.code.data().min(self.code.parity() + 1) {
            // At most as many missed a reset as parity makes up for: one more that is known is of the newest life.
            return Surveyed::Certain(Examined::Unread(format!("{unread} of its heads cannot be read")));
        }
        let there = written.len();
        let all =
            written.iter().filter(|(member, blocks)| *blocks == 0 || holding.iter().any(|(own, _)| own == member));
        let limit = all.map(|(_, end)| *end).min().unwrap_or(0);
        let covered = if set.covered() == u32::MAX { 0 } else { set.covered() };
        let doubtful = |epoch, closed, holding, items, unread| {
            let members = members.clone();
            Surveyed::Doubtful(Doubtful { epoch, closed, members, there, holding, items, covered, unread })
        };
        let Some(epoch) = epoch else { return doubtful(0, false, holding, Vec::new(), None) };
        if let Some((_, digest, _)) = digests.into_iter().flatten().flatten().find(|(life, ..)| *life == epoch) {
            let items = digest.items.into_iter().take_while(|item| item.end() <= limit).collect();
            return doubtful(epoch, true, holding, items, None);
        }
        let Walked { items, unread, .. } = self.walk(&members, &holding, epoch, limit, false).await;
        let unread = unread.map(|block| format!("block {block} cannot be read, and may count"));
        doubtful(epoch, false, holding, items, unread)
    }

    /// True if the set was being reset when a host lost power: of more zones than parity makes up for the bytes are
    /// gone already, and their states in the drives' files not yet; of the `empty` ones these are. (AS-EXAM-6)
    async fn is_punched(&self, members: &[Member], holding: &Written, empty: usize) -> bool {
        let heads = join_all(holding.iter().map(|(member, _)| self.is_hole(*member, 0))).await;
        if heads.iter().filter(|head| matches!(head, Ok(Some(())))).count() + empty > self.code.parity() {
            return true;
        }
        let given_up = |member: &&Member| self.superblock.recorded.borrow().contains(&member.drive);
        if holding.len() + empty + members.iter().filter(given_up).count() < members.len() {
            return false;
        }
        for (member, end) in holding {
            for block in 0..*end {
                if !matches!(self.is_hole(*member, block).await, Ok(Some(()))) {
                    return false;
                }
            }
        }
        true
    }

    /// The newest life that heads of members tell of, the members that may be of it, and all heads. (AS-EXAM-5)
    async fn newest_life(
        &self,
        id: SetId,
        members: &[Member],
        mut holding: Written,
    ) -> (Option<u64>, Written, Vec<Look<u64>>) {
        let heads = join_all(holding.iter().map(|(member, _)| self.read_epoch(id, members, *member))).await;
        let newest = heads.iter().flatten().flatten().copied().max();
        let mut is_older = heads.iter().map(|head| matches!(head, Ok(Some(epoch)) if Some(*epoch) < newest));
        holding.retain(|_| !is_older.next().unwrap_or(false));
        (newest, holding, heads)
    }

    /// Members in the order in which their digests are looked for: for different sets off different drives, so that all
    /// drives take part.
    fn in_turn(&self, id: SetId, holding: &Written) -> Written {
        let turn = if self.options.spread_digests { id.0 as usize % holding.len().max(1) } else { 0 };
        [&holding[turn..], &holding[..turn]].concat()
    }

    /// Items that count of a surveyed set; those from the stamp `torn_from` on may be torn. (AS-EXAM-2)
    pub(crate) async fn judged(&self, doubtful: Doubtful, torn_from: u64) -> Examined {
        let Doubtful { epoch, closed, members, there, holding, mut items, covered, mut unread } = doubtful;
        let certain = items.partition_point(|item| item.body.stamp() < torn_from);
        let certain = certain.max(items.len().saturating_sub(self.allocator.most()));
        let mut checks = stream::iter(&items[certain..])
            .map(|item| self.verify_item(&members, there, &holding, item))
            .buffered(VERIFIED_AT_ONCE);
        let (mut good, mut degraded) = (certain, false);
        while let Some(found) = checks.next().await {
            match found {
                Found::Whole => {}
                Found::Degraded => degraded = true,
                Found::Torn => {
                    unread = None;
                    break;
                }
                Found::Unread => {
                    unread = Some("too little of an item can be read that may count".into());
                    break;
                }
            }
            good += 1;
        }
        drop(checks);
        if unread.is_some() {
            good = good.max(items.partition_point(|item| item.block < covered));
        }
        items.truncate(good);
        let end = end_of(&items).max(if unread.is_some() { covered } else { 0 });
        let (digest, suspect) = (Digest::of(items), degraded);
        Examined::Holds(Holds { epoch, digest, end, closed, lost: None, suspect, unread })
    }

    /// Goes from marker to marker, up to the block `limit`; over those that no member has any more, too, where it is
    /// certain that something was there.
    async fn walk(&self, members: &[Member], holding: &Written, epoch: u64, limit: u32, past_holes: bool) -> Walked {
        let mut walked = Walked::default();
        let mut next = 1;
        let (mut ahead, mut step) = (VecDeque::new(), None);
        while next < limit {
            if ahead.front().is_none_or(|(block, _)| *block != next) {
                ahead = self.read_ahead(members, holding, next, step, epoch).await;
            }
            let found = match ahead.pop_front() {
                Some((_, Some(found))) => Ok(Some(found)),
                _ => self.read_item(members, holding, next, epoch).await,
            };
            let (body, blocks) = match found {
                Ok(Some(found)) => found,
                Ok(None) if !past_holes => break,
                Ok(None) | Err(Unread) => {
                    walked.unread.get_or_insert(next);
                    if !past_holes {
                        break;
                    }
                    (next, step) = (next + 1, None);
                    continue;
                }
            };
            if next + blocks > limit {
                break;
            }
            // There is something behind it: a hole, and not the end.
            walked.hole = walked.hole.or(walked.unread);
            walked.items.push(DigestItem { block: next, body });
            next += blocks;
            step = Some(blocks);
        }
        walked
    }

    /// Tells if enough members hold the item whole, with `there` of the drives present. (AS-EXAM-4)
    async fn verify_item(&self, members: &[Member], there: usize, holding: &Written, item: &DigestItem) -> Found {
        let enough = match &item.body {
            ItemBody::Segment(_) => self.code.data(),
            // Replicated: one would do, were there not those that the drive may yet lose.
            ItemBody::Tombstones { .. } => 1,
        };
        let numbered = members.iter().enumerate();
        let held = numbered.filter(|(_, member)| holding.iter().any(|(other, _)| other == *member));
        let checks = held.map(|(number, member)| self.verify_member(number, *member, item));
        let found = join_all(checks).await;
        let good = found.iter().filter(|found| matches!(found, Ok(Some(())))).count();
        let unread = found.iter().filter(|found| found.is_err()).count();
        // One that was given up missed it.
        let recorded = self.superblock.recorded.borrow();
        let given_up = members.iter().filter(|member| recorded.contains(&member.drive)).count();
        let away = members.len().saturating_sub(there + given_up);
        match good {
            good if good >= enough && good < there => Found::Degraded,
            good if good >= enough => Found::Whole,
            // Of an item of which all that is there verifies, nothing shows that it was never acknowledged.
            good if (unread > 0 || good == found.len()) && good + unread + away >= enough => Found::Unread,
            _ => Found::Torn,
        }
    }
}
