//! Choice of zones and shares for new partitions.
//!
//! # Invariants
//! - PT-PLAN-1: partitions have no zone in common, and none of the table's.
//! - PT-PLAN-2: shares of all partitions and the table's add up to no more than the drive's limits, so that no partition can starve
//!   another; also where the drive tells of other limits than when it was divided.
//! - PT-PLAN-3: the zones of a partition that a superblock may be in can be written, and so can be reset by each who formats it; none
//!   of its zones is one that the drive does not reset.

use std::collections::BTreeSet;
use std::ops::Range;

use shingle_runtime::UnixTime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{Geometry, Share};

use crate::partition::{NAME_MAX, PARTITIONS_MAX, Partition, is_name};

/// Zones that the table may have open and active: the one that it writes, and the next.
pub(crate) const TABLE_SHARE: u32 = 2;

/// A partition that does not say otherwise gets so much of each limit at most: later ones need some, too.
const SHARE_USUAL: u32 = 16;

/// Zones at a partition's start that superblocks may be in.
pub(crate) const SUPERZONES: u32 = 2;

/// Zones for partitions, as the drive has them now.
pub(crate) struct Ground {
    pub(crate) data: Range<u32>,
    /// Those that can be written no more. Their bytes may still be read.
    pub(crate) dead: BTreeSet<u32>,
    /// Those that the drive does not reset.
    pub(crate) stuck: BTreeSet<u32>,
}

/// A partition to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// The number of its zones; `None` = the longest run of zones that no partition has.
    pub zones: Option<u32>,
    /// Its part of the drive's limits; `None` = an even part of what others leave, and at most 16. While there are zones
    /// left, one more partition counts.
    pub share: Share,
}

fn invalid<T>(text: String) -> StoreResult<T> {
    Err(StoreError::new(StoreErrorKind::Invalid, text))
}

/// Partitions for all of `wanted`, or none of them, beside those that are there. Only new ones: nothing is said of the others, so an
/// addition cannot change them. (PT-TABLE-4)
pub(crate) fn add(
    geometry: &Geometry,
    ground: &Ground,
    there: &[Partition],
    wanted: &[Wanted],
    made: UnixTime,
) -> StoreResult<Vec<Partition>> {
    let mut new: Vec<Partition> = Vec::new();
    if there.len() + wanted.len() > PARTITIONS_MAX {
        return invalid(format!("a drive has at most {PARTITIONS_MAX} partitions"));
    }
    // Those that take all that is left come last.
    let sized = wanted.iter().filter(|one| one.zones.is_some());
    for one in sized.chain(wanted.iter().filter(|one| one.zones.is_none())) {
        let name = one.name.clone();
        if !is_name(&name) {
            return invalid(format!(
                "`{name}` is no name of a partition: letters, digits, and `.`, `_` and `-` inside, {NAME_MAX} at most"
            ));
        }
        if there.iter().chain(&new).any(|other| other.name == name) {
            return invalid(format!("there is a partition `{name}` already"));
        }
        let zones = place(ground, &joined(there, &new), &name, one.zones)?;
        new.push(Partition { name, zones, share: one.share, made });
    }
    // Zones that are left may be for another partition, which needs its part of the limits, too.
    let later = u32::from(!fit(ground, &joined(there, &new)).is_empty());
    share(there, &mut new, &OPEN, geometry.open_zones_max, later)?;
    share(there, &mut new, &ACTIVE, geometry.active_zones_max, later)?;
    Ok(new)
}

/// A table of these partitions.
pub(crate) fn joined(there: &[Partition], new: &[Partition]) -> Vec<Partition> {
    let mut table = [there, new].concat();
    table.sort_by_key(|partition| partition.zones.start);
    table
}

/// A run of zones for a partition: the first one that is long enough.
fn place(ground: &Ground, table: &[Partition], name: &str, zones: Option<u32>) -> StoreResult<Range<u32>> {
    let runs = fit(ground, table);
    let longest = runs.iter().max_by_key(|run| (run.len(), std::cmp::Reverse(run.start))).cloned();
    let Some(longest) = longest else {
        return invalid(format!(
            "there is no zone left for partition `{name}` that can be written: remove another one"
        ));
    };
    let Some(zones) = zones else { return Ok(longest) };
    match runs.into_iter().find(|run| run.len() >= zones as usize) {
        Some(run) if zones > 0 => Ok(run.start..run.start + zones),
        _ => invalid(format!(
            "partition `{name}` would have {zones} zones: the longest run of zones that it may have is {} zones",
            longest.len()
        )),
    }
}

/// Runs of zones that new partitions may have. (PT-PLAN-3)
fn fit(ground: &Ground, table: &[Partition]) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    for run in free(&ground.data, table) {
        let mut from = run.start;
        for stuck in ground.stuck.range(run.clone()).copied().chain([run.end]) {
            runs.push(from..stuck);
            from = stuck + 1;
        }
    }
    let begins = |run: &Range<u32>| ground.dead.range(run.start..run.end.min(run.start + SUPERZONES)).next().is_none();
    let behind_dead = |run: Range<u32>| (run.start..run.end).map(|start| start..run.end).find(begins);
    runs.into_iter().filter_map(behind_dead).collect()
}

/// Runs of zones that no partition has.
pub(crate) fn free(data: &Range<u32>, table: &[Partition]) -> Vec<Range<u32>> {
    let ends = std::iter::once(data.start).chain(table.iter().map(|partition| partition.zones.end));
    let starts = table.iter().map(|partition| partition.zones.start).chain(std::iter::once(data.end));
    ends.zip(starts).map(|(from, to)| from..to).filter(|run| !run.is_empty()).collect()
}

/// One of a drive's limits.
struct Limit {
    name: &'static str,
    part: fn(&Share) -> Option<u32>,
    part_mut: fn(&mut Share) -> &mut Option<u32>,
}

const OPEN: Limit =
    Limit { name: "open", part: |share| share.open_zones_max, part_mut: |share| &mut share.open_zones_max };
const ACTIVE: Limit =
    Limit { name: "active", part: |share| share.active_zones_max, part_mut: |share| &mut share.active_zones_max };

/// Gives each new partition its part of a limit.
fn share(
    there: &[Partition],
    new: &mut [Partition],
    &Limit { name: what, part, part_mut }: &Limit,
    limit: Option<u32>,
    later: u32,
) -> StoreResult<()> {
    let Some(limit) = limit else {
        // There is nothing to share.
        new.iter_mut().for_each(|partition| *part_mut(&mut partition.share) = None);
        return Ok(());
    };
    // Those that are there have theirs already.
    let mut left = limit.saturating_sub(TABLE_SHARE);
    for partition in there {
        let Some(given) = part(&partition.share) else {
            let name = &partition.name;
            return invalid(format!("partition `{name}` has no part of the drive's {what} zones: make it anew"));
        };
        left = left.saturating_sub(given);
    }
    let mut open: Vec<&mut Option<u32>> = Vec::new();
    for partition in new {
        let name = partition.name.clone();
        match part_mut(&mut partition.share) {
            Some(0) => return invalid(format!("partition `{name}` needs {what} zones")),
            Some(given) if *given > left => {
                return invalid(format!(
                    "partition `{name}` would have {given} {what} zones, and the drive has {left} left of {limit}"
                ));
            }
            Some(given) => left -= *given,
            none => open.push(none),
        }
    }
    let even = u32::try_from(open.len()).unwrap_or(u32::MAX).max(1);
    let each = (left / (even + later)).min(SHARE_USUAL);
    if each == 0 && !open.is_empty() {
        return invalid(format!(
            "partitions have all {what} zones of the drive ({limit}, {TABLE_SHARE} of them for the table): make one anew with fewer"
        ));
    }
    open.into_iter().for_each(|part| *part = Some(each));
    Ok(())
}

/// The part of the drive's limits that a partition of `table` has now. The table's share holds as long as the drive has so much; if it
/// has less, all get less. Those without a part, of a drive that told of no limit, share what others leave. (PT-PLAN-2)
///
/// # Errors
/// `Invalid` if there is not a zone for each partition.
pub(crate) fn given(geometry: &Geometry, table: &[Partition], of: &Partition) -> StoreResult<Share> {
    let open = part_now(&OPEN, geometry.open_zones_max, table, of)?;
    let active = part_now(&ACTIVE, geometry.active_zones_max, table, of)?;
    // Each may have been made less than the other.
    Ok(Share { open_zones_max: open.map(|open| open.min(active.unwrap_or(open))), active_zones_max: active })
}

fn part_now(
    &Limit { name, part, .. }: &Limit,
    limit: Option<u32>,
    table: &[Partition],
    of: &Partition,
) -> StoreResult<Option<u32>> {
    let Some(limit) = limit else { return Ok(part(&of.share)) };
    let (room, count) = (u64::from(limit.saturating_sub(TABLE_SHARE)), table.len() as u64);
    if room < count {
        return invalid(format!(
            "the drive has {limit} {name} zones now, too few for its {count} partitions and their table ({TABLE_SHARE}): remove one of them"
        ));
    }
    let told: u64 = table.iter().filter_map(|one| part(&one.share)).map(u64::from).sum();
    let without = table.iter().filter(|one| part(&one.share).is_none()).count() as u64;
    let even = room.saturating_sub(told) / without.max(1);
    let claim = |one: &Partition| part(&one.share).map_or(even, u64::from).max(1);
    let all: u64 = table.iter().map(claim).sum();
    let now = if all <= room {
        claim(of)
    } else {
        // A zone each, and parts of the rest.
        1 + (claim(of) - 1) * (room - count) / (all - count)
    };
    Ok(Some(u32::try_from(now).unwrap_or(limit)))
}

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;

    use super::*;

    const NOW: UnixTime = UnixTime { nanos: 1 };

    fn wanted(name: &str, zones: Option<u32>, open: Option<u32>) -> Wanted {
        Wanted { name: name.to_owned(), zones, share: Share { open_zones_max: open, active_zones_max: None } }
    }

    fn drive(open: u32) -> (Geometry, Ground) {
        let ground = Ground { data: 5..105, dead: BTreeSet::new(), stuck: BTreeSet::new() };
        (Geometry::hm_smr(Blocks(64), 105, 0, open), ground)
    }

    /// PT-PLAN-1.
    #[test]
    fn zones_go_to_the_first_run_that_is_long_enough() {
        let (geometry, ground) = drive(128);
        let all = [wanted("rest", None, None), wanted("a", Some(30), None), wanted("b", Some(20), None)];
        let mut table = joined(&[], &add(&geometry, &ground, &[], &all, NOW).unwrap());
        let zones =
            |table: &[Partition]| -> Vec<_> { table.iter().map(|one| (one.name.clone(), one.zones.clone())).collect() };
        assert_eq!(zones(&table), [("a".into(), 5..35), ("b".into(), 35..55), ("rest".into(), 55..105)]);
        let error = add(&geometry, &ground, &table, &[wanted("c", None, None)], NOW).unwrap_err();
        assert!(error.message.contains("no zone left"), "{error}");
        table.retain(|one| one.name != "a");
        let error = add(&geometry, &ground, &table, &[wanted("c", Some(31), None)], NOW).unwrap_err();
        assert!(error.message.contains("30 zones"), "{error}");
        let table = add(&geometry, &ground, &table, &[wanted("c", Some(7), None)], NOW).unwrap();
        assert_eq!(zones(&table)[0], ("c".into(), 5..12));
        for name in ["c", "", "a/b"] {
            add(&geometry, &ground, &table, &[wanted(name, Some(1), None)], NOW).unwrap_err();
        }
        add(&geometry, &ground, &table, &[wanted("d", Some(0), None)], NOW).unwrap_err();
    }

    /// PT-PLAN-3.
    #[test]
    fn partitions_begin_with_zones_that_can_be_written_and_have_none_that_is_stuck() {
        let (geometry, mut ground) = drive(128);
        let place = |ground: &Ground, zones| {
            let made = add(&geometry, ground, &[], &[wanted("a", zones, None)], NOW)?;
            Ok::<_, StoreError>(made[0].zones.clone())
        };
        ground.dead = [5, 7, 30, 103].into();
        assert_eq!(place(&ground, None).unwrap(), 8..105, "dead zones inside are the store's concern");
        assert_eq!(place(&ground, Some(1)).unwrap(), 8..9);
        ground.stuck = [9, 60].into();
        assert_eq!(place(&ground, Some(1)).unwrap(), 8..9);
        assert_eq!(place(&ground, Some(2)).unwrap(), 10..12);
        assert_eq!(place(&ground, None).unwrap(), 10..60);
        assert!(place(&ground, Some(51)).unwrap_err().message.contains("is 50 zones"));
        ground.dead = (5..104).collect();
        assert_eq!(place(&ground, None).unwrap(), 104..105);
        ground.dead.insert(104);
        assert!(place(&ground, None).unwrap_err().message.contains("no zone left"));
    }

    /// PT-PLAN-2.
    #[test]
    fn shares_add_up_to_no_more_than_the_limit() {
        let shares = |open, wanted: &[Wanted]| {
            let (geometry, ground) = drive(open);
            let table = joined(&[], &add(&geometry, &ground, &[], wanted, NOW)?);
            Ok::<_, StoreError>(table.iter().map(|one| one.share.open_zones_max.unwrap()).collect::<Vec<_>>())
        };
        let [a, b, c] = ["a", "b", "c"].map(|name| wanted(name, Some(10), None));
        let (large, rest) = (wanted("large", Some(10), Some(100)), wanted("rest", None, None));
        assert_eq!(shares(128, &[a.clone(), b.clone()]).unwrap(), [16, 16]);
        assert_eq!(shares(14, &[a.clone(), rest.clone()]).unwrap(), [6, 6], "there will be no third one");
        assert_eq!(shares(14, &[a.clone(), b.clone()]).unwrap(), [4, 4], "there may be a third one");
        assert_eq!(shares(14, &[a.clone(), b.clone(), c.clone(), rest.clone()]).unwrap(), [3, 3, 3, 3]);
        assert_eq!(shares(128, &[a.clone(), large.clone(), rest.clone()]).unwrap(), [13, 100, 13]);
        assert!(shares(101, std::slice::from_ref(&large)).unwrap_err().message.contains("99 left of 101"));
        assert!(shares(102, &[large.clone(), rest]).unwrap_err().message.contains("all open zones"));
        let (geometry, ground) = drive(128);
        let mut table = add(&geometry, &ground, &[], &[a.clone(), large.clone()], NOW).unwrap();
        table.retain(|one| one.name == "large");
        let error = add(&geometry, &ground, &table, &[wanted("x", Some(1), Some(30))], NOW).unwrap_err();
        assert!(error.message.contains("26 left of 128"), "one behind it counts, too: {error}");
    }
}
