//! Choice of the found records that make up a chunk, and its losses (CS-REC-2, CS-REC-3, CS-REC-8).
//!
//! **Knows nothing of** zones, their generations, and the places of records.

use std::collections::BTreeMap;

use shingle_base::ZoneId;

use crate::index::Chunk;
use crate::index::Located;
use crate::recovery::found::{Found, Trust};

/// Losses of a chunk: bytes that no record has, and bytes that records have but that fail their checks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) holes: Vec<(u32, u32)>,
    pub(super) bad: Vec<Bad>,
    /// Records that a later opening has to judge: those that were passed over, though they could have some of what no other
    /// has; those that were taken though they cannot be read, where another may turn out to be better; and these others.
    pub(super) undecided: Vec<Located>,
}

/// Bytes of a chunk in a record that fail their checks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bad {
    pub(super) zone: ZoneId,
    pub(super) bytes: (u32, u32),
    /// They could not be read.
    pub(super) unreadable: bool,
}

/// Rank and record: the lower rank is taken where ranges are equal.
type Ranked = ((bool, u64), Located);

/// Completes a chunk's index from what there is, with holes where bytes are lost that were once durable (CS-REC-3): those
/// up to `limit`, where the chunk was sealed, up to `known_to`, and up to any record that was durable itself.
///
/// A record that is torn for good, perhaps a copy that GC was writing, takes no place if others are `unread`, which may
/// be better. It is passed over, and an opening that can read all decides (CS-REC-8). A record that cannot be read may be
/// torn, too: it is taken, and judged again by a later opening.
pub(super) fn complete(
    chunk: &mut Chunk,
    sparse: Option<Vec<Located>>,
    scanned: Vec<Found>,
    limit: Option<u32>,
    known_to: u32,
    unread: bool,
) -> Lost {
    let start = chunk.groups.end();
    let mut lost = Lost::default();
    if sparse.is_none() && scanned.is_empty() && limit.unwrap_or(0).max(known_to) <= start {
        return lost;
    }
    let end = limit.unwrap_or(u32::MAX);
    let scanned: Vec<Found> =
        scanned.into_iter().filter(|found| found.record.offset >= start && found.record.end() <= end).collect();
    // Up to here the chunk was durable: what is missing is lost.
    let sure = scanned.iter().filter(|found| found.trust == Trust::Sure);
    let sure = sure.map(|found| if found.bad.is_some() { found.record.end() } else { found.record.offset });
    let sure_to = sure.max().unwrap_or(0).max(limit.unwrap_or(0)).max(known_to);
    // The index's own records first, then the newest, then what only landed (CS-REC-2).
    let rank = |found: &Found| ((found.landed, u64::MAX - found.sequence), found.record);
    let mut whole: Vec<Ranked> = scanned.iter().filter(|found| found.bad.is_none()).map(rank).collect();
    whole.extend(sparse.unwrap_or_default().into_iter().filter(|record| record.end() <= end).map(|r| ((false, 0), r)));
    // Records with bad slices have what nothing else has. First those that a later opening may be able to read: a record
    // that is passed over is forgotten once its zone is reset.
    let spoilt: Vec<Found> = scanned.into_iter().filter(|found| found.bad.is_some()).collect();
    let tier = |wanted: fn(&Found) -> bool| spoilt.iter().filter(|found| wanted(found)).map(rank).collect();
    let tiers: [Vec<Ranked>; 5] = [
        whole,
        tier(|found| found.trust != Trust::Torn && found.unreadable),
        tier(|found| found.trust != Trust::Torn && !found.unreadable),
        tier(|found| found.trust == Trust::Torn && found.unreadable),
        if unread { Vec::new() } else { tier(torn_for_good) },
    ];
    for step in steps(&tiers, start, sure_to) {
        match step {
            Step::Record(record) => {
                if let Some(taken) = spoilt.iter().find(|found| found.record == record) {
                    let (zone, unreadable) = (record.zone, taken.unreadable);
                    lost.bad.extend(taken.bad.map(|bytes| Bad { zone, bytes, unreadable }));
                    lost.undecided.extend(undecided(taken, &spoilt, unread));
                }
                chunk.groups.push(record);
            }
            Step::Hole(from, to) => lost.holes.push((from, to)),
        }
    }
    let passed = spoilt.iter().filter(|found| unread || found.unreadable).map(|found| found.record);
    let missing = |record: &Located| {
        let in_hole = |&(from, to): &(u32, u32)| record.offset < to && from < record.end();
        record.end() > chunk.groups.end() || lost.holes.iter().any(in_hole)
    };
    let passed: Vec<Located> = passed.filter(missing).collect();
    lost.undecided.extend(passed);
    chunk.size = chunk.groups.end().max(sure_to);
    lost
}

fn torn_for_good(found: &Found) -> bool {
    found.trust == Trust::Torn && !found.unreadable
}

fn overlap(one: &Located, other: &Located) -> bool {
    one.offset < other.end() && other.offset < one.end()
}

/// A record with bad slices that was taken, and the others that may be better, if a later opening has to choose (CS-REC-8).
fn undecided(taken: &Found, spoilt: &[Found], unread: bool) -> Vec<Located> {
    let rivals = spoilt.iter().filter(|found| !torn_for_good(found) && overlap(&found.record, &taken.record));
    let all: Vec<Located> = rivals.map(|found| found.record).collect();
    if taken.unreadable && (unread || all.len() > 1) { all } else { Vec::new() }
}

/// Takes a record out of what the index has of a chunk, if the scan found it bad and has another of its bytes: an
/// earlier opening that could not read it had put it there, and this one chooses anew (CS-REC-8). It counts as durable,
/// for the index had it. Returns those that were taken out.
pub(super) fn choose_again(indexed: &mut Vec<Located>, scanned: &mut [Found]) -> Vec<Located> {
    let mut taken_out = Vec::new();
    let others: Vec<Located> = scanned.iter().map(|found| found.record).collect();
    for found in scanned.iter_mut().filter(|found| found.bad.is_some()) {
        let rivals = others.iter().any(|other| *other != found.record && overlap(other, &found.record));
        if rivals && let Some(at) = indexed.iter().position(|record| *record == found.record) {
            taken_out.push(indexed.remove(at));
            found.trust = Trust::Sure;
        }
    }
    taken_out
}

/// A step from a chunk's start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Record(Located),
    Hole(u32, u32),
}

/// The steps through the first tier, and those through the others where that has holes.
fn steps(tiers: &[Vec<Ranked>], start: u32, sure_to: u32) -> Vec<Step> {
    let Some((first, others)) = tiers.split_first() else { return vec![Step::Hole(start, sure_to)] };
    let mut all = Vec::new();
    for step in cover(first.clone(), start, sure_to) {
        match step {
            Step::Record(_) => all.push(step),
            Step::Hole(from, to) => {
                let within = |record: &Located| record.offset >= from && record.end() <= to;
                let others: Vec<Vec<Ranked>> = others
                    .iter()
                    .map(|tier| tier.iter().copied().filter(|(_, record)| within(record)).collect())
                    .collect();
                all.extend(steps(&others, from, to));
            }
        }
    }
    all
}

/// Of records that overlap, those that follow each other from `start` on and reach farthest; of those that reach as
/// far, the one of lowest rank at each place. If none goes on there is a hole, if it lies before `sure_to`; else the
/// end.
///
/// Landed records and the larger ones that they were moved in have different ranges, and of the former some may be gone,
/// so that a choice at one place decides how far others lead.
fn cover(mut records: Vec<Ranked>, start: u32, sure_to: u32) -> Vec<Step> {
    records.sort_unstable_by_key(|&(rank, record)| (std::cmp::Reverse(record.offset), rank));
    // From the last to the first: how far each offset leads, and by which record.
    let mut ways: BTreeMap<u32, (u32, Located)> = BTreeMap::new();
    for (_, record) in records {
        let reach = ways.get(&record.end()).map_or(record.end(), |&(reach, _)| reach);
        let way = ways.entry(record.offset).or_insert((reach, record));
        if reach > way.0 {
            *way = (reach, record);
        }
    }
    let mut steps = Vec::new();
    let mut at = start;
    loop {
        if let Some(&(_, record)) = ways.get(&at) {
            steps.push(Step::Record(record));
            at = record.end();
        } else if at < sure_to {
            let next = ways.range(at..).next().map_or(sure_to, |(&next, _)| next.min(sure_to));
            steps.push(Step::Hole(at, next));
            at = next;
        } else {
            return steps;
        }
    }
}
