//! Where what is appended goes: to a stream's open set, to the next one, or wherever there is room.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_record::record_blocks;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Digest, ITEM_FIXED, ItemBody, Marker};
use crate::lane::Misfit;
use crate::segment::Shape;
use crate::sets::{List, Purpose};
use crate::shelf::PutHints;
use crate::types::{Part, SetId, SetState};
use crate::writer::{CUT_MIN, Item, OpenSet, Placed, RESERVED, Room, Started, Stream};

/// What came of looking for room in any set.
enum Anywhere {
    Started(Started),
    /// A set was closed of which cleaning wins something.
    Closed,
    Full,
}

impl Engine {
    /// Appends an item, durably: tries again elsewhere if a member of its set fails.
    pub(crate) async fn append(self: &Rc<Self>, stream: Stream, item: &Item) -> Result<(Placed, usize)> {
        self.append_with(stream, stream.room(), item).await
    }

    /// The same, where sets may be taken that others may not.
    pub(crate) async fn append_with(
        self: &Rc<Self>,
        stream: Stream,
        room: Room,
        item: &Item,
    ) -> Result<(Placed, usize)> {
        loop {
            let started = self.start_with(stream, room, item).await?;
            let consumed = started.consumed;
            if let Some(placed) = self.finish(started).await? {
                return Ok((placed, consumed));
            }
        }
    }

    pub(crate) async fn start_with(self: &Rc<Self>, stream: Stream, room: Room, item: &Item) -> Result<Started> {
        loop {
            let (engine, item) = (self.clone(), item.clone());
            let placing = self.rt.spawn(async move { engine.place(stream, room.reserved, &item).await });
            match placing.await.unwrap_or_else(|_| Err(Error::stopped())) {
                // The stream is not kept meanwhile: what is small may fit in its open set.
                Err(error) if error.kind == ErrorKind::NoSpace && room.reclaim => {
                    if !self.reclaim().await? {
                        return Err(error);
                    }
                }
                placed => return placed,
            }
        }
    }

    async fn place(self: &Rc<Self>, stream: Stream, reserved: usize, item: &Item) -> Result<Started> {
        let mut open = self.streams[stream.number()].lock().await;
        let entry = item.entry_bytes();
        loop {
            self.writable()?;
            let spent = matches!(stream, Stream::User(slot) if self.lanes.of(slot.into()).shelf.is_spent(slot.into()));
            if let Some(set) = open.as_mut().filter(|_| !spent) {
                let pass = self.window.enter(set.target(item)).await;
                if !set.flights.failed.get()
                    && let Some(body) = self.fit(set, item, entry)
                {
                    let started = self.launch(set, body, pass).await;
                    // Drives are there: to come back for the digest would be a seek of all.
                    if matches!(stream, Stream::User(_))
                        && self.is_full(set)
                        && let Some(full) = open.take()
                    {
                        self.close_set(full).await;
                    }
                    return Ok(started);
                }
            }
            let useful = |set: &mut OpenSet| matches!(stream, Stream::User(_)) && !set.flights.failed.get();
            if let Some(full) = open.take_if(|set| !useful(set)) {
                self.close_set(full).await;
            }
            let set = self.open_set(stream, reserved).await?;
            // Only now: without another one, what is left of it is room for smaller items (SHELF-2).
            if let Some(full) = open.take() {
                self.close_set(full).await;
            }
            if let Stream::User(slot) = stream {
                self.lanes.of(slot.into()).shelf.opened(slot.into(), set.id, self.data_left(&set));
            }
            *open = Some(set);
            let fresh = open.as_ref().is_some_and(|set| self.fit(set, item, entry).is_some());
            if !fresh {
                return Err(Error::new(ErrorKind::Invalid, "a record is larger than a zone set of this array"));
            }
        }
    }

    /// Whether less fits in a set than is worth a seek, where there are others for smaller items (SHELF-2).
    fn is_full(&self, set: &OpenSet) -> bool {
        let others = self.sets.count(SetState::Available) > RESERVED + self.lanes.slots();
        others && self.data_left(set) < u64::from(self.segment_length / CUT_MIN)
    }

    /// Data for which there is room in a set, in full segments, about.
    pub(crate) fn data_left(&self, set: &OpenSet) -> u64 {
        let room = u64::from(set.room(ITEM_FIXED));
        let segment = 1 + Shape::new(self.code, self.segment_length).fragment_blocks().0;
        let rest = (room % segment).saturating_sub(1);
        room / segment * u64::from(self.segment_length) + Shape::most_data(self.code, Blocks(rest))
    }

    /// What of `item` fits in `set`: the body with its data.
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

    /// The parts of an item that go into at most `most` bytes, and their bytes; none where that is hardly anything of it.
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

    /// Appends what clients write, wherever there is room for it.
    pub(crate) async fn append_user(self: &Rc<Self>, item: &Item) -> Result<(Placed, usize)> {
        self.append_in_lane(self.lanes.least_busy(), item).await
    }

    /// The same, in that lane as long as it has room.
    pub(crate) async fn append_in_lane(self: &Rc<Self>, lane: usize, item: &Item) -> Result<(Placed, usize)> {
        let shelf = &self.lanes.get(lane).shelf;
        loop {
            let length = item.data().map_or(0, |data| data.len() as u64);
            let claim = match item {
                Item::Run { .. } => shelf.claim(PutHints { length: Some(length), group: None }),
                _ => shelf.claim_here(length),
            };
            let started = self.start_user(claim.slot(), item).await?;
            let consumed = started.consumed;
            if let Some(placed) = self.finish(started).await? {
                return Ok((placed, consumed));
            }
        }
    }

    /// Places an item in the set of that slot and starts its writes; where there are no more sets, in any that is open.
    /// (WRITE-4, SHELF-2)
    pub(crate) async fn start_user(self: &Rc<Self>, slot: usize, item: &Item) -> Result<Started> {
        let stream = Stream::User(slot as u8);
        loop {
            // What is small goes to any set that is open before another one is won for it.
            if !matches!(item, Item::Run { .. }) {
                match self.start_with(stream, Room { reclaim: false, ..stream.room() }, item).await {
                    Err(error) if error.kind == ErrorKind::NoSpace => {}
                    started => return started,
                }
                if let Anywhere::Started(started) = self.start_anywhere(item, false).await? {
                    return Ok(started);
                }
            }
            let full = match self.start_with(stream, stream.room(), item).await {
                Err(error) if error.kind == ErrorKind::NoSpace => error,
                started => return started,
            };
            match self.start_anywhere(item, true).await? {
                Anywhere::Started(started) => return Ok(started),
                Anywhere::Closed => {}
                Anywhere::Full => return Err(full),
            }
        }
    }

    async fn start_anywhere(self: &Rc<Self>, item: &Item, close: bool) -> Result<Anywhere> {
        let (engine, item) = (self.clone(), item.clone());
        let placing = self.rt.spawn(async move { engine.place_anywhere(&item, close).await });
        placing.await.unwrap_or_else(|_| Err(Error::stopped()))
    }

    /// Places an item in any set that is open for clients and has room for it. Where none has, the emptiest of those may be
    /// closed of which cleaning wins something; the others keep what room they have, for smaller items.
    async fn place_anywhere(self: &Rc<Self>, item: &Item, close: bool) -> Result<Anywhere> {
        let entry = item.entry_bytes();
        let mut emptiest: Option<(u64, usize, SetId)> = None;
        let mut closed = false;
        for slot in self.lanes.roomy() {
            let mut open = self.streams[Stream::User(slot as u8).number()].lock().await;
            self.writable()?;
            let Some(set) = open.as_mut() else { continue };
            if let Some(body) = self.fit(set, item, entry) {
                let pass = self.window.enter(set.target(item)).await;
                if !set.flights.failed.get() {
                    return Ok(Anywhere::Started(self.launch(set, body, pass).await));
                }
            }
            if set.flights.failed.get() {
                // It takes nothing any more.
                if let Some(failed) = open.take() {
                    self.close_set(failed).await;
                }
                closed = true;
                continue;
            }
            let live = set.set.live();
            if close && emptiest.is_none_or(|(least, ..)| live < least) && self.wins_closed(set)? {
                emptiest = Some((live, slot, set.id));
            }
        }
        if closed {
            return Ok(Anywhere::Closed);
        }
        let Some((_, slot, id)) = emptiest else { return Ok(Anywhere::Full) };
        let mut open = self.streams[Stream::User(slot as u8).number()].lock().await;
        if let Some(set) = open.take_if(|set| set.id == id) {
            self.close_set(set).await;
        }
        Ok(Anywhere::Closed)
    }

    /// Whether cleaning would win something of an open set, were it closed. What is on its way there counts as live.
    fn wins_closed(&self, open: &OpenSet) -> Result<bool> {
        let (set, live) = (&open.set, open.set.live());
        // Also what small segments waste. What moves wastes up to a segment elsewhere; a look at each part is for where less
        // than that lives or is unused.
        let unused = self.set_data(set).saturating_sub(live);
        if open.next == 0 || live >= set.no_gain_at() || unused < live.min(u64::from(self.segment_length)) / 2 {
            return Ok(false);
        }
        let on_their_way = open.digest.items.iter().filter(|item| set.is_unentered(item.block));
        let on_their_way: u32 = on_their_way.map(|item| item.end() - item.block).sum();
        // A snapshot may make its tombstones superfluous.
        let moved = self.blocks_to_move(open.id, &open.digest, u64::MAX)?;
        let wins = moved.saturating_add(on_their_way) < open.capacity;
        if !wins && set.all_entered() {
            set.set_no_gain_at(live);
        }
        Ok(wins)
    }

    /// Opens the next available set for `stream`, but for those that are reserved; none is won for it.
    async fn open_set(self: &Rc<Self>, stream: Stream, reserved: usize) -> Result<OpenSet> {
        let lane = match stream {
            Stream::User(slot) => Some(self.lanes.lane_of(slot.into())),
            Stream::Clean | Stream::Snapshot | Stream::Cold => None,
        };
        let mut steps = 0;
        loop {
            self.running()?;
            let available = self.sets.count(SetState::Available);
            if available > reserved {
                if available <= self.available_sets() / 2 && self.sets.first(SetState::Empty).is_some() {
                    self.replenish().await?;
                    if self.sets.count(SetState::Available) <= reserved {
                        continue;
                    }
                }
                let found = self.sets.of(List::Available);
                let best = found.min_by_key(|(id, set)| (self.lossy(set), self.misfit(lane, set), *id));
                let Some((id, set)) = best.filter(|(_, set)| self.missing(set) <= self.code.parity()) else {
                    let message =
                        "too many drives are gone for any zone set to be written to: put them back or rebuild";
                    return Err(Error::new(ErrorKind::Device, message));
                };
                if let Some(lane) = lane
                    && steps < 3
                    && self.misfit(Some(lane), &set) > Misfit::default()
                {
                    // Sets on the lane's drives are looked for, then drives for all lanes, and then sets on those.
                    if steps == 1 {
                        self.settle_lanes();
                    } else if let Err(error) = self.replenish_lane(lane).await {
                        tracing::warn!(%error, "a zone set on other drives is opened");
                    }
                    steps += 1;
                    // Somebody else may have opened it meanwhile.
                    continue;
                }
                set.open(if stream == Stream::Snapshot { Purpose::Index } else { Purpose::Objects });
                return Ok(OpenSet {
                    id,
                    members: set.ordered_members(id),
                    capacity: self.capacity(&set),
                    set,
                    epoch: self.stamps.next(),
                    next: 0,
                    digest: Digest::default(),
                    flights: Rc::default(),
                    packed: matches!(stream, Stream::Clean | Stream::Cold),
                });
            }
            if self.sets.first(SetState::Empty).is_some() {
                self.replenish().await?;
                if self.sets.count(SetState::Available) > available {
                    continue;
                }
            }
            return Err(self.no_space());
        }
    }
}
