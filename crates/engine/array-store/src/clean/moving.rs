//! Moves the live data of a set elsewhere. (SMORE, section III-E.)
//!
//! # Invariants
//! - AS-CLEAN-1: an index entry moves only if it still names the copy that was read: what was deleted or replaced
//!   meanwhile stays so.
//! - AS-CLEAN-10: no step looks up more than so many parts, however many a set has. `parts_of_a_set_are_looked_up_in_steps`.
//! - AS-CLEAN-2: tombstones that the newest snapshot still needs move along (AS-SNAP-3).

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_record::record_blocks;

use crate::append::item::Item;
use crate::append::open_set::{OpenSet, Stream};
use crate::clean::cleaners::Cleaner;
use crate::config::CleaningPolicy;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Digest, ITEM_FIXED, ItemBody, Marker, Tombstone, encode_tombstones, part_bytes};
use crate::index::{Change, PartKey};
use crate::object::sharing::SegmentRoom;
use crate::segment::Shape;
use crate::stats::add;
use crate::types::{Part, PartPlace, SetId};

/// A part that lives, and where.
struct Live {
    part: Part,
    place: PartPlace,
}

fn segments(digest: &Digest) -> impl Iterator<Item = &Marker> {
    digest.items.iter().filter_map(|item| match &item.body {
        ItemBody::Segment(marker) => Some(marker),
        ItemBody::Tombstones { .. } => None,
    })
}

/// The tombstones of a set that are not below `floor`, of each name the newest: it deletes what the others do.
fn needed_tombstones(digest: &Digest, floor: u64) -> Vec<Tombstone> {
    let mut newest = BTreeMap::new();
    for item in &digest.items {
        let ItemBody::Tombstones { tombstones, .. } = &item.body else { continue };
        for tombstone in tombstones.iter().filter(|tombstone| tombstone.version.0 >= floor) {
            let version = newest.entry(tombstone.name.clone()).or_insert(tombstone.version);
            *version = tombstone.version.max(*version);
        }
    }
    newest.into_iter().map(|(name, version)| Tombstone { name, version }).collect()
}

/// Blocks that a set's contents take elsewhere, with what may be wasted at the end of a set there.
pub(crate) struct ToMove {
    pub(crate) all: u32,
    pub(crate) without_tombstones: u32,
}

/// Parts that are looked up in the index in one step.
const LOOKUPS_MOST: usize = 1024;

/// Counts the blocks that parts and tombstones take elsewhere.
struct Moved<'a> {
    engine: &'a Engine,
    /// The segment that is filled: its room, and the bytes of its marker and data.
    room: SegmentRoom,
    marker: usize,
    data: usize,
    /// Blocks of those before it, and of the longest.
    segments: Blocks,
    longest: Blocks,
    tombstones: Blocks,
    digest: usize,
}

impl<'a> Moved<'a> {
    fn new(engine: &'a Engine) -> Self {
        let (segments, longest, tombstones) = (Blocks::ZERO, Blocks::ZERO, Blocks::ZERO);
        let room = SegmentRoom::new(engine.segment_length);
        Self { engine, room, marker: 0, data: 0, segments, longest, tombstones, digest: 0 }
    }

    /// Blocks of the segment that is filled.
    fn segment(&self) -> Blocks {
        match self.marker {
            0 => Blocks::ZERO,
            marker => record_blocks(marker as u64) + Shape::new(self.engine.code, self.data as u32).fragment_blocks(),
        }
    }

    fn add(&mut self, part: &Part) {
        let (marker, data) = (part_bytes(part), part.length as usize);
        if !self.room.take_part(marker, data) {
            self.segments += self.segment();
            self.longest = self.longest.max(self.segment());
            (self.marker, self.data) = (0, 0);
            self.room = SegmentRoom::new(self.engine.segment_length);
            self.room.take_part(marker, data);
        }
        self.marker += marker;
        self.data += data;
        self.digest += ITEM_FIXED + marker;
    }

    fn add_tombstones(&mut self, tombstones: &[Tombstone]) {
        let bytes = encode_tombstones(tombstones).len();
        self.tombstones += record_blocks(bytes as u64);
        self.digest += ITEM_FIXED + bytes;
    }

    fn blocks(&self) -> u32 {
        self.blocks_of(1)
    }

    /// Blocks of `times` as many as were counted; with the head of the set they go to, its digest, the trailer, and what may be wasted at the end
    /// of another set.
    fn blocks_of(&self, times: u64) -> u32 {
        let counted = self.segments + self.segment() + self.tombstones;
        let longest = self.longest.max(self.segment());
        let digest = record_blocks(self.digest as u64 * times);
        u32::try_from(counted.0 * times + 2 + digest.0 + longest.0).unwrap_or(u32::MAX)
    }
}

/// Tombstones of one record.
const TOMBSTONES_MAX: usize = 256;

impl Engine {
    /// Stream of a part that is moved.
    fn stream_of(&self, part: &Part, clean: Stream) -> Stream {
        if self.options.cleaning == CleaningPolicy::Greedy {
            return clean;
        }
        let age = self.stamps.last().saturating_sub(part.version.0);
        if self.cleaners.is_old(age) { Stream::Cold } else { clean }
    }

    /// Blocks that what lives in a set, and its tombstones that are not below `floor`, take elsewhere. (AS-CLEAN-3) In steps. (AS-CLEAN-10)
    pub(crate) async fn blocks_to_move(&self, id: SetId, digest: &Digest, floor: u64) -> Result<ToMove> {
        let mut moved = Moved::new(self);
        let mut step = 0;
        for marker in segments(digest) {
            for part in &marker.parts {
                if self.live_place(id, marker.stamp, part)?.is_some() {
                    moved.add(part);
                }
                self.after_lookup(&mut step).await;
            }
        }
        let without_tombstones = moved.blocks();
        for some in needed_tombstones(digest, floor).chunks(TOMBSTONES_MAX) {
            moved.add_tombstones(some);
        }
        Ok(ToMove { all: moved.blocks(), without_tombstones })
    }

    /// The same without tombstones, at once: of many parts it looks up some. (AS-CLEAN-10)
    pub(crate) fn blocks_to_move_about(&self, id: SetId, digest: &Digest) -> Result<u32> {
        let parts = segments(digest).map(|marker| marker.parts.len()).sum::<usize>();
        // An odd one: what comes in pairs, or rows of eight, lives and dies so.
        let every = parts.div_ceil(LOOKUPS_MOST) | 1;
        let mut moved = Moved::new(self);
        let all = segments(digest).flat_map(|marker| marker.parts.iter().map(|part| (marker.stamp, part)));
        for (stamp, part) in all.step_by(every) {
            if self.live_place(id, stamp, part)?.is_some() {
                moved.add(part);
            }
        }
        Ok(moved.blocks_of(every as u64))
    }

    /// A part was looked up: others have their turn after so many.
    async fn after_lookup(&self, step: &mut usize) {
        *step += 1;
        if step.is_multiple_of(LOOKUPS_MOST) {
            self.rt.yield_now().await;
        }
    }

    /// A set that cleaning filled wins nothing until something in it dies. Tombstones do not: it is tried again once a snapshot made them
    /// superfluous, if they take room that counts. Single ones that deletions brought there are not packed, and can be at any time. (AS-CLEAN-8)
    pub(crate) async fn hold_for_tombstones(&self, open: &OpenSet) -> Result<()> {
        let floor = self.snapshots.durable_floor.get();
        if !open.packed || open.set.may_win() || needed_tombstones(&open.digest, floor).is_empty() {
            return Ok(());
        }
        let moved = self.blocks_to_move(open.id, &open.digest, floor).await?;
        let taken = open.next + open.digest_blocks(0) + 1;
        // Else what is moved might be moved again, and again.
        if moved.all <= taken / 4 * 3 {
            open.set.may_win_again();
        } else if moved.without_tombstones < open.capacity {
            self.snapshots.held_by_tombstones.borrow_mut().insert(open.id);
        }
        Ok(())
    }

    /// Place of a part in the index, if that is in this very segment.
    pub(crate) fn live_place(&self, id: SetId, stamp: u64, part: &Part) -> Result<Option<PartPlace>> {
        let found = self.index()?.part(&part.name, part.version, part.offset).map_err(Error::index)?;
        Ok(found.filter(|place| place.set == id && place.stamp == stamp))
    }

    /// Moves what lives in a set, and the tombstones that are needed. Returns the number of parts that could not be read, and stay.
    pub(crate) async fn move_live(self: &Rc<Self>, cleaner: &Cleaner, id: SetId, digest: &Digest) -> Result<usize> {
        let mut batches: BTreeMap<Stream, (Vec<(Live, Bytes)>, SegmentRoom)> = BTreeMap::new();
        let (mut left, mut step) = (0, 0);
        let floor = self.snapshots.durable_floor.get();
        cleaner.copies(self.buried_below());
        for marker in segments(digest) {
            for part in &marker.parts {
                let found = self.live_place(id, marker.stamp, part)?;
                self.after_lookup(&mut step).await;
                let Some(place) = found else { continue };
                let data = match self.read_to_copy(&place).await {
                    Ok(data) => data,
                    Err(error) => {
                        tracing::error!(%error, "a part could not be moved");
                        left += 1;
                        continue;
                    }
                };
                let stream = self.stream_of(part, cleaner.stream());
                let fresh = || SegmentRoom::new(self.segment_length);
                let (batch, room) = batches.entry(stream).or_insert_with(|| (Vec::new(), fresh()));
                // A marker has a limit as a client's has: parts without bytes would make one that no set has room for.
                if !room.take_part(part_bytes(part), data.len()) {
                    *room = fresh();
                    room.take_part(part_bytes(part), data.len());
                    self.move_batch(cleaner, stream, std::mem::take(batch)).await?;
                }
                batch.push((Live { part: part.clone(), place }, data));
            }
        }
        for (stream, (batch, _)) in batches {
            self.move_batch(cleaner, stream, batch).await?;
        }
        // AS-CLEAN-2
        for some in needed_tombstones(digest, floor).chunks(TOMBSTONES_MAX) {
            self.append(cleaner.stream(), &Item::Tombstones(some.to_vec())).await?;
        }
        Ok(left)
    }

    /// Writes parts to the cleaner's set and moves their entries. (AS-CLEAN-1)
    async fn move_batch(
        self: &Rc<Self>,
        cleaner: &Cleaner,
        stream: Stream,
        mut batch: Vec<(Live, Bytes)>,
    ) -> Result<()> {
        // Data that died since it was read is not copied; data that dies from here on has its tombstone kept
        // (AS-SNAP-3).
        let mut index_error = None;
        batch.retain(|(live, _)| match self.live_place(live.place.set, live.place.stamp, &live.part) {
            Ok(found) => found.is_some(),
            Err(error) => {
                index_error = Some(error);
                false
            }
        });
        if let Some(error) = index_error {
            return Err(error);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let _moving = cleaner.moves(self.stamps.next());
        let mut parts = Vec::with_capacity(batch.len());
        let mut length = 0;
        for (live, bytes) in &batch {
            parts.push(Part { at: length as u32, ..live.part.clone() });
            length += bytes.len();
        }
        let data = self.framing.join(&batch.iter().map(|(_, bytes)| bytes.clone()).collect::<Vec<Bytes>>());
        // A set was chosen for cleaning with this low number of segments in mind.
        let item = Item::Shared { parts, data, together: true };
        let placed = match self.append(stream, &item).await {
            Err(error) if error.kind == ErrorKind::NoSpace && stream == Stream::Cold => {
                self.append(cleaner.stream(), &item).await?.0
            }
            placed => placed?.0,
        };
        let moves = batch.iter().zip(&placed.parts).map(|((live, _), part)| Change::Move {
            key: PartKey { name: part.name.clone(), version: part.version, offset: part.offset },
            from_stamp: live.place.stamp,
            place: placed.place(part),
        });
        self.enter(&moves.collect::<Vec<_>>())?;
        add(&self.counters.moved, placed.parts.iter().map(|part| u64::from(part.length)).sum());
        Ok(())
    }
}
