//! How long the records in the index are, so that GC knows what may be left over at the end of a zone.

use std::collections::BTreeMap;

use crate::gc::slot;
use crate::runs::IndexGroup;
use crate::types::Stream;

/// Records by length in blocks, for each stream of zones.
#[derive(Debug, Default)]
pub(crate) struct RecordSizes {
    counts: [BTreeMap<u32, u64>; 3],
}

impl RecordSizes {
    /// `count` records of `blocks` are in the index now.
    pub(crate) fn add(&mut self, stream: Stream, blocks: u32, count: u64) {
        *self.counts[slot(stream)].entry(blocks).or_default() += count;
    }

    /// And of a whole group.
    pub(crate) fn add_group(&mut self, stream: Stream, group: &IndexGroup) {
        each_size(group, |blocks, count| self.add(stream, blocks, count));
    }

    /// A group is not in the index any more.
    pub(crate) fn remove_group(&mut self, stream: Stream, group: &IndexGroup) {
        let counts = &mut self.counts[slot(stream)];
        each_size(group, |blocks, count| {
            if let Some(left) = counts.get_mut(&blocks) {
                *left = left.saturating_sub(count);
                if *left == 0 {
                    counts.remove(&blocks);
                }
            }
        });
    }

    /// Blocks of the longest record, by stream.
    pub(crate) fn longest(&self) -> [u32; 3] {
        self.counts.each_ref().map(|counts| counts.last_key_value().map_or(0, |(&blocks, _)| blocks))
    }
}

/// Says how many records of which length a group has. All of a run have one, but for the last.
fn each_size(group: &IndexGroup, mut of: impl FnMut(u32, u64)) {
    for run in group.runs() {
        let last = run.count() - 1;
        if last > 0 {
            of(run.record(0).blocks().0 as u32, u64::from(last));
        }
        of(run.record(last).blocks().0 as u32, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Groups, Located};
    use shingle_base::ZoneId;

    #[test]
    fn the_longest_is_forgotten_once_it_is_gone() {
        let mut sizes = RecordSizes::default();
        let group = |offset: u32, lengths: &[u32]| {
            let (mut groups, mut at, mut block) = (Groups::default(), offset, 1);
            for &length in lengths {
                let record = Located { zone: ZoneId(1), block, offset: at, length };
                groups.push(record);
                (at, block) = (at + length, block + record.blocks().0 as u32);
            }
            groups
        };
        let (short, long) = (group(0, &[4000, 4000, 4000, 100]), group(0, &[4000, 90_000, 90_000, 70_000]));
        for groups in [&short, &long] {
            groups.iter().for_each(|group| sizes.add_group(Stream::Gc, group));
        }
        let blocks = Located { zone: ZoneId(1), block: 1, offset: 0, length: 90_000 }.blocks().0 as u32;
        assert_eq!(sizes.longest(), [0, blocks, 0]);
        long.iter().for_each(|group| sizes.remove_group(Stream::Gc, group));
        assert!(sizes.longest()[1] > 0 && sizes.longest()[1] < 4);
        short.iter().for_each(|group| sizes.remove_group(Stream::Gc, group));
        assert_eq!(sizes.longest(), [0; 3]);
    }
}
