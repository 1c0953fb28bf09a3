//! Room of an open set for an item.

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_record::record_blocks;

use super::Target;
use crate::append::item::Item;
use crate::append::open_set::{CUT_MIN, OpenSet};
use crate::engine::Engine;
use crate::error::Result;
use crate::format::{ITEM_FIXED, ItemBody, Marker};
use crate::segment::Shape;
use crate::types::{Part, SetState};

impl Item {
    /// Leaves at most so many bytes of it, if it may be cut anywhere.
    pub(super) fn cut_to(&mut self, most: u64) {
        if let Self::Run { data, completion, .. } = self
            && most < data.len() as u64
        {
            data.truncate(most as usize);
            *completion = None;
        }
    }

    pub(super) fn length(&self) -> usize {
        self.data().map_or(0, Bytes::len)
    }
}

impl OpenSet {
    /// The place of an item that goes there.
    pub(super) fn target(&self, item: &Item) -> Target {
        let drives = self.members.iter().map(|member| member.drive).collect();
        let trial = matches!(item, Item::Tombstones(tombstones) if tombstones.is_empty());
        Target { set: self.id, drives, segment: item.data().is_some(), trial }
    }
}

impl Engine {
    /// Tells if less fits in a set than is worth a seek, where there are others for smaller items (AS-SHELF-2).
    pub(super) fn is_full(&self, set: &OpenSet) -> bool {
        let others = self.sets.count(SetState::Available) > self.cleaners.reserved() + self.allocator.slots();
        others && self.data_left(set) < u64::from(self.segment_length / CUT_MIN)
    }

    /// Data for which there is room in a set, in full segments, about.
    pub(crate) fn data_left(&self, set: &OpenSet) -> u64 {
        let room = u64::from(set.room(ITEM_FIXED));
        let segment = 1 + Shape::new(self.code, self.segment_length).fragment_blocks().0;
        let rest = (room % segment).saturating_sub(1);
        room / segment * u64::from(self.segment_length) + Shape::most_data(self.code, Blocks(rest))
    }

    /// The part of `item` that fits in `set`: the body with its data.
    pub(crate) fn fit(&self, set: &OpenSet, item: &Item, entry: usize) -> Option<(ItemBody, Bytes)> {
        let room = set.room(entry);
        // A marker has what its entry in the digest has.
        let marker_blocks = record_blocks(entry as u64).0 as u32;
        let stamp = 0;
        let data = item.data().cloned().unwrap_or_default();
        if let Item::Tombstones(tombstones) = item {
            let body = ItemBody::Tombstones { stamp, tombstones: tombstones.clone() };
            return (marker_blocks <= room).then_some((body, Bytes::new()));
        }
        let blocks = Blocks(u64::from(room.checked_sub(marker_blocks)?));
        let (parts, length) = self.cut(item, Shape::most_data(self.code, blocks))?;
        let shape = Shape::new(self.code, length);
        Some((ItemBody::Segment(Marker { stamp, shape, parts }), data.slice(..length as usize)))
    }

    /// The parts of an item that go into at most `most` bytes, and their bytes; none where that is hardly anything of
    /// it.
    fn cut(&self, item: &Item, most: u64) -> Option<(Vec<Part>, u32)> {
        let all = item.data().map_or(0, Bytes::len);
        let whole = all as u64 <= most;
        let least = u64::from(self.segment_length / CUT_MIN);
        match item {
            Item::Tombstones(_) => None,
            Item::Shared { parts, .. } if whole => Some((parts.clone(), all as u32)),
            Item::Shared { together: true, .. } => None,
            Item::Shared { parts, .. } => {
                let fitting = parts.partition_point(|part| u64::from(part.at) + u64::from(part.length) <= most);
                let length = parts.get(fitting)?.at;
                (fitting > 0 && u64::from(length) >= least).then(|| (parts[..fitting].to_vec(), length))
            }
            Item::Run { name, version, offset, completion, .. } => {
                let length = most.min(all as u64);
                let part = Part {
                    name: name.clone(),
                    version: *version,
                    offset: *offset,
                    at: 0,
                    length: length as u32,
                    completion: completion.clone().filter(|_| whole),
                };
                (whole || length >= least).then(|| (vec![part], length as u32))
            }
        }
    }

    /// Tells if cleaning would win something of an open set, were it closed. Items on their way there count as live.
    pub(super) fn wins_closed(&self, open: &OpenSet) -> Result<bool> {
        let (set, live) = (&open.set, open.set.live());
        // Includes the waste of small segments. A moved item wastes up to a segment elsewhere; single parts are only
        // looked at if less than that lives or is unused.
        let unused = self.set_data(set).saturating_sub(live);
        if open.next == 0 || !set.may_win() || unused < live.min(u64::from(self.segment_length)) / 2 {
            return Ok(false);
        }
        let on_their_way = open.digest.items.iter().filter(|item| set.is_unentered(item.block));
        let on_their_way: u32 = on_their_way.map(|item| item.end() - item.block).sum();
        // A snapshot may make its tombstones superfluous.
        let moved = self.blocks_to_move_about(open.id, &open.digest)?;
        let wins = moved.saturating_add(on_their_way) < open.capacity;
        if !wins && set.all_entered() {
            set.wins_nothing_at(set.died());
        }
        Ok(wins)
    }
}
