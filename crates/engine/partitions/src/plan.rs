//! Choice of zones and shares for new partitions.
//!
//! # Invariants
//! - PT-PLAN-1: partitions have no zone in common, and none of the table's.
//! - PT-PLAN-2: shares of all partitions and the table's add up to no more than the drive's limits, so that no partition can starve
//!   another.

use std::ops::Range;

use shingle_runtime::UnixTime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{Geometry, Share};

use crate::partition::{NAME_MAX, PARTITIONS_MAX, Partition, is_name};

/// Zones that the table may have open and active: the one that it writes, and the next.
pub(crate) const TABLE_SHARE: u32 = 2;

/// A partition that does not say otherwise gets so much of each limit at most: later ones need some, too.
const SHARE_USUAL: u32 = 16;

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
    data: &Range<u32>,
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
        let zones = place(data, &joined(there, &new), &name, one.zones)?;
        new.push(Partition { name, zones, share: one.share, made });
    }
    // Zones that are left may be for another partition, which needs its part of the limits, too.
    let later = u32::from(!free(data, &joined(there, &new)).is_empty());
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
fn place(data: &Range<u32>, table: &[Partition], name: &str, zones: Option<u32>) -> StoreResult<Range<u32>> {
    let runs = free(data, table);
    let longest = runs.iter().max_by_key(|run| (run.len(), std::cmp::Reverse(run.start))).cloned();
    let Some(longest) = longest else {
        return invalid(format!("there is no zone left for partition `{name}`: remove another one"));
    };
    let Some(zones) = zones else { return Ok(longest) };
    match runs.into_iter().find(|run| run.len() >= zones as usize) {
        Some(run) if zones > 0 => Ok(run.start..run.start + zones),
        _ => invalid(format!(
            "partition `{name}` would have {zones} zones: the longest run of zones that no partition has is {} zones",
            longest.len()
        )),
    }
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

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;

    use super::*;

    const NOW: UnixTime = UnixTime { nanos: 1 };

    fn wanted(name: &str, zones: Option<u32>, open: Option<u32>) -> Wanted {
        Wanted { name: name.to_owned(), zones, share: Share { open_zones_max: open, active_zones_max: None } }
    }

    fn drive(open: u32) -> (Geometry, Range<u32>) {
        (Geometry::hm_smr(Blocks(64), 105, 0, open), 5..105)
    }

    /// PT-PLAN-1.
    #[test]
    fn zones_go_to_the_first_run_that_is_long_enough() {
        let (geometry, data) = drive(128);
        let all = [wanted("rest", None, None), wanted("a", Some(30), None), wanted("b", Some(20), None)];
        let mut table = joined(&[], &add(&geometry, &data, &[], &all, NOW).unwrap());
        let zones =
            |table: &[Partition]| -> Vec<_> { table.iter().map(|one| (one.name.clone(), one.zones.clone())).collect() };
        assert_eq!(zones(&table), [("a".into(), 5..35), ("b".into(), 35..55), ("rest".into(), 55..105)]);
        let error = add(&geometry, &data, &table, &[wanted("c", None, None)], NOW).unwrap_err();
        assert!(error.message.contains("no zone left"), "{error}");
        table.retain(|one| one.name != "a");
        let error = add(&geometry, &data, &table, &[wanted("c", Some(31), None)], NOW).unwrap_err();
        assert!(error.message.contains("30 zones"), "{error}");
        let table = add(&geometry, &data, &table, &[wanted("c", Some(7), None)], NOW).unwrap();
        assert_eq!(zones(&table)[0], ("c".into(), 5..12));
        for name in ["c", "", "a/b"] {
            add(&geometry, &data, &table, &[wanted(name, Some(1), None)], NOW).unwrap_err();
        }
        add(&geometry, &data, &table, &[wanted("d", Some(0), None)], NOW).unwrap_err();
    }

    /// PT-PLAN-2.
    #[test]
    fn shares_add_up_to_no_more_than_the_limit() {
        let shares = |open, wanted: &[Wanted]| {
            let (geometry, data) = drive(open);
            let table = joined(&[], &add(&geometry, &data, &[], wanted, NOW)?);
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
        let (geometry, data) = drive(128);
        let mut table = add(&geometry, &data, &[], &[a.clone(), large.clone()], NOW).unwrap();
        table.retain(|one| one.name == "large");
        let error = add(&geometry, &data, &table, &[wanted("x", Some(1), Some(30))], NOW).unwrap_err();
        assert!(error.message.contains("26 left of 128"), "one behind it counts, too: {error}");
    }
}
