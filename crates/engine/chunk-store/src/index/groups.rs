//! Index of a chunk's bytes: groups of runs of records, in chunk order. (SMRstore, section 5.3.)
//!
//! # Invariants
//! - CS-IDX-1: a chunk's groups are in chunk order, adjoin, begin at 0 and end at the chunk's durable size, less what
//!   has only landed (CS-TAIL-1).
//! - CS-IDX-6: where bytes were lost, groups do not adjoin, or end before the size of a sealed chunk: a hole. No record
//!   covers a byte of it.

use shingle_base::ZoneId;

use crate::index::runs::{IndexGroup, Located, Run};

/// All groups of a chunk (CS-IDX-1). Most chunks have one, which needs no memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Groups {
    #[default]
    None,
    One(IndexGroup),
    Many(Vec<IndexGroup>),
}

const _: () = assert!(size_of::<Groups>() == 32);

/// Effect of a change of the index on a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// The zone has one more group of the chunk.
    Group,
    /// A group that was there has grown.
    Record,
}

impl Groups {
    fn as_slice(&self) -> &[IndexGroup] {
        match self {
            Self::None => &[],
            Self::One(group) => std::slice::from_ref(group),
            Self::Many(groups) => groups,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [IndexGroup] {
        match self {
            Self::None => &mut [],
            Self::One(group) => std::slice::from_mut(group),
            Self::Many(groups) => groups,
        }
    }

    /// End of the indexed bytes.
    pub(crate) fn end(&self) -> u32 {
        self.as_slice().last().map_or(0, |group| group.end)
    }

    /// Adds the record that follows the last, or a hole behind it (CS-IDX-6).
    pub(crate) fn push(&mut self, record: Located) -> Added {
        debug_assert!(record.offset >= self.end(), "CS-IDX-1");
        match self.as_mut_slice().last_mut() {
            Some(last) if last.zone == record.zone && last.end == record.offset => {
                last.push(record);
                Added::Record
            }
            _ => self.push_group(IndexGroup::new(Run::of(record))),
        }
    }

    /// Adds the run that follows the last; if it has several records, as it is.
    pub(crate) fn push_run(&mut self, run: Run) -> Added {
        if run.count() == 1 {
            return self.push(run.record(0));
        }
        debug_assert_eq!(run.offset, self.end(), "CS-IDX-1");
        match self.as_mut_slice().last_mut() {
            Some(last) if last.zone == run.zone => {
                last.add(run);
                Added::Record
            }
            _ => self.push_group(IndexGroup::new(run)),
        }
    }

    fn push_group(&mut self, group: IndexGroup) -> Added {
        *self = match std::mem::take(self) {
            Self::None => Self::One(group),
            Self::One(first) => Self::Many(vec![first, group]),
            Self::Many(mut groups) => {
                groups.reserve_exact(1);
                groups.push(group);
                Self::Many(groups)
            }
        };
        Added::Group
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, IndexGroup> {
        self.as_slice().iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Gives back memory that nothing uses.
    pub(crate) fn shrink(&mut self) {
        if let Self::Many(groups) = self {
            groups.shrink_to_fit();
        }
        self.as_mut_slice().iter_mut().for_each(IndexGroup::shrink);
    }

    /// Bytes of memory beside the value itself: of groups, and of their records.
    pub(crate) fn heap_bytes(&self) -> (usize, usize) {
        let groups = if let Self::Many(groups) = self { groups.capacity() * size_of::<IndexGroup>() } else { 0 };
        (groups, self.iter().map(IndexGroup::heap_bytes).sum())
    }

    /// The records that hold bytes `from..to`, in order.
    pub(crate) fn covering(&self, from: u32, to: u32) -> impl Iterator<Item = Located> + '_ {
        let groups = self.as_slice();
        let first = groups.partition_point(|group| group.end <= from);
        groups[first..].iter().take_while(move |group| group.start() < to).flat_map(move |group| {
            group.records_from(from.max(group.start())).take_while(move |record| record.offset < to)
        })
    }

    /// Replaces records that GC copied: each of `moved` has the range of a record that lies in `victim`.
    /// Ranges that are in no record of `victim` any more are left out. Returns the new groups.
    pub(crate) fn moved(&self, victim: ZoneId, moved: &[Located]) -> Self {
        let mut result = Self::default();
        let mut copies = moved.iter().peekable();
        for record in self.iter().flat_map(IndexGroup::records) {
            while copies.next_if(|copy| copy.offset < record.offset).is_some() {}
            let copy = copies.next_if(|copy| copy.offset == record.offset && copy.length == record.length);
            match copy {
                Some(copy) if record.zone == victim => result.push(*copy),
                _ => result.push(record),
            };
        }
        result.shrink();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(zone: u32, block: u32, offset: u32, length: u32) -> Located {
        Located { zone: ZoneId(zone), block, offset, length }
    }

    fn sample() -> Groups {
        let mut groups = Groups::default();
        assert_eq!(groups.push(located(1, 1, 0, 100)), Added::Group);
        assert_eq!(groups.push(located(1, 9, 100, 50)), Added::Record);
        assert_eq!(groups.push(located(2, 1, 150, 10)), Added::Group);
        assert_eq!(groups.push(located(1, 20, 160, 40)), Added::Group);
        groups
    }

    #[test]
    fn a_range_is_covered_by_exactly_the_records_it_touches() {
        let groups = sample();
        let all: Vec<_> = groups.iter().flat_map(IndexGroup::records).collect();
        for from in 0..200 {
            for to in from + 1..=200 {
                let expected: Vec<_> =
                    all.iter().copied().filter(|record| record.offset < to && record.end() > from).collect();
                assert_eq!(groups.covering(from, to).collect::<Vec<_>>(), expected, "{from}..{to}");
            }
        }
    }

    #[test]
    fn moving_records_keeps_the_order_and_leaves_other_zones_alone() {
        let groups = sample();
        let moved = groups.moved(ZoneId(1), &[located(5, 1, 0, 100), located(5, 4, 100, 50), located(6, 1, 160, 40)]);
        let zones: Vec<_> = moved.iter().map(|group| (group.zone.0, group.start(), group.end)).collect();
        assert_eq!(zones, [(5, 0, 150), (2, 150, 160), (6, 160, 200)]);
        let partly = groups.moved(ZoneId(1), &[located(5, 4, 100, 50)]);
        let zones: Vec<_> = partly.iter().map(|group| (group.zone.0, group.start(), group.end)).collect();
        assert_eq!(zones, [(1, 0, 100), (5, 100, 150), (2, 150, 160), (1, 160, 200)]);
    }
}
