//! Cleaning: what lives in a set moves elsewhere, and the set is emptied. (SMORE, sections III-E and IV-C.)
//!
//! # Invariants
//! - CLEAN-1: an index entry moves only if it still names the copy that was read: what was deleted or replaced meanwhile
//!   stays so.
//! - CLEAN-2: tombstones that the newest snapshot still needs move along (SNAP-3).
//! - CLEAN-3: a set is collected only if that wins space: its dead bytes exceed what moving may waste.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use shingle_base::Blocks;
use shingle_record::record_blocks;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::examine::Examined;
use crate::format::{Digest, ITEM_FIXED, ItemBody, Tombstone, part_bytes};
use crate::index::{Change, PartKey};
use crate::recovery::has_pointer;
use crate::segment::Shape;
use crate::sets::ZoneSet;
use crate::stats::add;
use crate::types::{NAME_MAX, Part, PartPlace, SetId, SetState};
use crate::writer::{Item, RESERVED, Stream};

/// Free sets below which cleaning goes on in the background; fewer in small arrays.
const FREE_LOW: usize = 8;

/// How long a writer waits for readers of the last sets that could be won.
const READERS_WAIT: Duration = Duration::from_secs(10);

/// Tombstones of one record.
const TOMBSTONES_MAX: usize = 256;

/// A part that lives, and where.
struct Live {
    part: Part,
    place: PartPlace,
}

/// A batch that is being copied, until this is dropped.
struct Moving(Rc<Engine>);

impl Moving {
    fn begin(engine: &Rc<Engine>) -> Self {
        engine.moving.set(Some(engine.stamps.next()));
        Self(engine.clone())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.0.moving.set(None);
        self.0.moved.notify_waiters();
    }
}

impl Engine {
    /// Wins space by collecting one set. `false` if none can be won.
    pub(crate) async fn reclaim(self: &Rc<Self>) -> Result<bool> {
        self.writable()?;
        let free = self.free_sets();
        let _one = self.collecting.lock().await;
        if self.free_sets() > free {
            return Ok(true);
        }
        while let Some((id, set)) = self.victim() {
            if self.collect(id, &set).await? {
                return Ok(true);
            }
        }
        // Sets that were collected and wait for their readers.
        if self.sets.all().iter().any(|(_, set)| set.trimming.get()) {
            // Not for ever: the caller may be one of them.
            let space = Box::pin(self.space.notified());
            let waited = select(space, Box::pin(self.rt.sleep(READERS_WAIT))).await;
            return Ok(matches!(waited, Either::Left(_)));
        }
        Ok(false)
    }

    /// Sets that hold nothing.
    pub(crate) fn free_sets(&self) -> usize {
        self.sets.count(SetState::Empty) + self.sets.count(SetState::Available)
    }

    /// Bytes of data that a set holds if it is filled with full segments.
    pub(crate) fn set_data(&self, set: &ZoneSet) -> u64 {
        Shape::most_data(self.code, Blocks(u64::from(self.capacity(set))))
    }

    /// The set to collect next: those that lost a member's write first, then the one with the least that lives (greedy).
    pub(crate) fn victim(&self) -> Option<(SetId, Rc<ZoneSet>)> {
        let candidates = self.sets.all().into_iter().filter(|(_, set)| {
            let ended = matches!(set.state.get(), SetState::Closed | SetState::Indexed);
            let wins = set.live.get() < set.no_gain_at.get() && set.live.get() < self.set_data(set);
            ended && (wins || set.live.get() == 0) && !set.trimming.get() && !set.stuck.get()
        });
        candidates.min_by_key(|(id, set)| (!set.hurt.get(), set.live.get(), *id))
    }

    /// Moves what lives in `set` and leaves it to be reset when its last reader is gone. `false` if that would win
    /// nothing, or not all of it can be moved.
    pub(crate) async fn collect(self: &Rc<Self>, id: SetId, set: &Rc<ZoneSet>) -> Result<bool> {
        let hold = self.sets.hold(id);
        let digest = self.contents(id, set).await?;
        if !set.hurt.get() && self.blocks_to_move(id, &digest)? >= set.written.get() {
            set.no_gain_at.set(set.live.get());
            return Ok(false);
        }
        let moved = self.move_live(id, &digest).await;
        self.copying.set(None);
        moved?;
        drop(hold);
        if set.live.get() > 0 {
            // Something in it could not be read, and stays where it is until it can be.
            set.stuck.set(true);
            tracing::error!(set = id.0, live = set.live.get(), "a set could not be emptied: run a scrub");
            return Ok(false);
        }
        add(&self.counters.cleaned, 1);
        set.trimming.set(true);
        let (engine, set) = (self.clone(), set.clone());
        self.rt.spawn_detached(async move {
            if let Err(error) = engine.trim(&set).await {
                tracing::warn!(set = id.0, %error, "an empty set could not be reset; that is done before it is used");
            }
            set.trimming.set(false);
            engine.space.notify_waiters();
        });
        self.rt.yield_now().await;
        Ok(true)
    }

    /// Blocks that what lives in a set takes elsewhere, with what may be wasted at the end of a set there. (CLEAN-3)
    fn blocks_to_move(&self, id: SetId, digest: &Digest) -> Result<u32> {
        let blocks = |parts: usize, bytes: u64| {
            let shape = Shape::new(self.code, bytes as u32);
            record_blocks(parts as u64) + shape.fragment_blocks()
        };
        let floor = self.durable_floor.get();
        let (mut total, mut longest) = (Blocks::ZERO, Blocks::ZERO);
        let (mut parts, mut bytes, mut tombstones) = (0, 0, 0);
        let mut digest_bytes = 0;
        for item in &digest.items {
            match &item.body {
                ItemBody::Segment(marker) => {
                    for part in &marker.parts {
                        if self.live_place(id, marker.stamp, part)?.is_none() {
                            continue;
                        }
                        if parts > 0 && bytes + u64::from(part.length) > u64::from(self.segment_length) {
                            longest = longest.max(blocks(parts, bytes));
                            total += blocks(parts, bytes);
                            (parts, bytes) = (0, 0);
                        }
                        parts += part_bytes(part);
                        digest_bytes += ITEM_FIXED + part_bytes(part);
                        bytes += u64::from(part.length);
                    }
                }
                ItemBody::Tombstones { tombstones: own, .. } => {
                    tombstones += own.iter().filter(|tombstone| tombstone.version.0 >= floor).count();
                }
            }
        }
        if parts > 0 {
            longest = longest.max(blocks(parts, bytes));
            total += blocks(parts, bytes);
        }
        // Names are at most so long; a record of tombstones has at most 256.
        total +=
            record_blocks((tombstones * (NAME_MAX + 10)) as u64) + Blocks(tombstones.div_ceil(TOMBSTONES_MAX) as u64);
        // The head of the set they go to, its digest, and the trailer.
        total += Blocks(2) + record_blocks((digest_bytes + tombstones * (NAME_MAX + 10)) as u64);
        Ok((total + longest).0 as u32)
    }

    /// What a set that ended holds.
    async fn contents(&self, id: SetId, set: &ZoneSet) -> Result<Digest> {
        let written = self.written(set).await?;
        match self.examine(id, set, &written).await {
            Examined::Closed { digest, .. } | Examined::Open { digest, .. } => Ok(digest),
            Examined::Empty => Ok(Digest::default()),
            Examined::Damaged(why) => {
                set.stuck.set(true);
                Err(Error::new(ErrorKind::Corrupt, format!("{id} cannot be collected: {why}")))
            }
        }
    }

    /// How far the members of a set whose drives are there were written.
    pub(crate) async fn written(&self, set: &ZoneSet) -> Result<Vec<(crate::format::Member, u32)>> {
        let members = set.members.borrow().clone();
        let capacity = self.capacity(set);
        let mut written = Vec::with_capacity(members.len());
        for member in members {
            let Some(dev) = self.drives.usable(member.drive) else { continue };
            match dev.report(member.zone, 1).await {
                Ok(zones) => {
                    let zone = zones.first().filter(|zone| has_pointer(zone));
                    written.extend(zone.map(|zone| (member, (zone.written.0 as u32).min(capacity))));
                }
                Err(error) => self.drive_error(member.drive, &error).await?,
            }
        }
        Ok(written)
    }

    async fn move_live(self: &Rc<Self>, id: SetId, digest: &Digest) -> Result<()> {
        let mut batch: Vec<(Live, Bytes)> = Vec::new();
        let mut bytes = 0;
        let mut tombstones: Vec<Tombstone> = Vec::new();
        let floor = self.durable_floor.get();
        self.copying.set(Some(self.buried_below()));
        for item in &digest.items {
            match &item.body {
                ItemBody::Segment(marker) => {
                    for part in &marker.parts {
                        let Some(place) = self.live_place(id, marker.stamp, part)? else { continue };
                        let data = match self.read_place(&place, 0, place.length).await {
                            Ok(data) => data,
                            Err(error) => {
                                tracing::error!(%error, "a part could not be moved");
                                continue;
                            }
                        };
                        if bytes + data.len() > self.segment_length as usize && !batch.is_empty() {
                            self.move_batch(std::mem::take(&mut batch)).await?;
                            bytes = 0;
                        }
                        bytes += data.len();
                        batch.push((Live { part: part.clone(), place }, data));
                    }
                }
                ItemBody::Tombstones { tombstones: own, .. } => {
                    tombstones.extend(own.iter().filter(|tombstone| tombstone.version.0 >= floor).cloned());
                }
            }
        }
        if !batch.is_empty() {
            self.move_batch(batch).await?;
        }
        // CLEAN-2
        for some in tombstones.chunks(TOMBSTONES_MAX) {
            self.append(Stream::Clean, &Item::Tombstones(some.to_vec())).await?;
        }
        Ok(())
    }

    /// Where the index has a part, if that is in this very segment.
    pub(crate) fn live_place(&self, id: SetId, stamp: u64, part: &Part) -> Result<Option<PartPlace>> {
        let found = self.index()?.part(&part.name, part.version, part.offset).map_err(Error::index)?;
        Ok(found.filter(|place| place.set == id && place.stamp == stamp))
    }

    /// Writes parts to the cleaner's set and moves their entries. (CLEAN-1)
    async fn move_batch(self: &Rc<Self>, mut batch: Vec<(Live, Bytes)>) -> Result<()> {
        // What died since it was read is not copied; what dies from here on has its tombstone kept (SNAP-3).
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
        let _moving = Moving::begin(self);
        let mut data = BytesMut::new();
        let mut parts = Vec::with_capacity(batch.len());
        let single = batch.len() == 1;
        for (live, bytes) in &batch {
            parts.push(Part { at: data.len() as u32, ..live.part.clone() });
            if !single {
                data.extend_from_slice(bytes);
            }
        }
        let data = match batch.first() {
            Some((_, bytes)) if single => bytes.clone(),
            _ => data.freeze(),
        };
        let (placed, _) = self.append(Stream::Clean, &Item::Shared { parts, data }).await?;
        let moves = batch.iter().zip(&placed.parts).map(|((live, _), part)| Change::Move {
            key: PartKey { name: part.name.clone(), version: part.version, offset: part.offset },
            from_stamp: live.place.stamp,
            place: placed.place(part),
        });
        self.enter(&moves.collect::<Vec<_>>())?;
        add(&self.counters.moved, placed.parts.iter().map(|part| u64::from(part.length)).sum());
        Ok(())
    }

    /// Cleans in the background while few sets are free, and takes snapshots from time to time.
    pub(crate) async fn keep(self: Rc<Self>) {
        let mut snapshot_at = self.rt.now() + self.options.snapshot_interval;
        let mut ingested = 0;
        while !self.stopped.get() {
            let low = FREE_LOW.min(self.sets.all().len() / 10).max(RESERVED + 1);
            if self.free_sets() < low && self.victim().is_some() {
                match self.reclaim().await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::warn!(%error, "cleaning failed; it is tried again");
                        self.rt.sleep(Duration::from_secs(1)).await;
                    }
                }
            }
            let now = self.rt.now();
            if now >= snapshot_at {
                snapshot_at = now + self.options.snapshot_interval;
                if ingested != self.counters.ingested.get() {
                    ingested = self.counters.ingested.get();
                    if let Err(error) = self.take_snapshot().await {
                        tracing::warn!(%error, "no snapshot of the index was taken");
                    }
                }
            }
            let wait = snapshot_at.since(self.rt.now()).min(Duration::from_secs(10));
            let space = Box::pin(self.space.notified());
            select(space, Box::pin(self.rt.sleep(wait))).await;
        }
    }
}
