//! Arrays that hold what nobody wrote: on modelled drives that keep no payload, so that it can be measured what an
//! array in use costs, at sizes that nobody could fill. (Tests and benchmarks of openings.)
//!
//! All that an opening reads is there, made by the functions that make it while the array is written: a snapshot of the
//! index that covers full sets; behind that sets that were closed since, with heads, digests and trailers; superblocks.
//! Records that it does not read are not: fragments, and markers of closed sets.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_record::record_blocks;

use crate::append::open_set::{CUT_MIN, OpenSet, Room};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Digest, DigestItem, ITEM_FIXED, ItemBody, Marker, part_bytes};
use crate::index::{Chunks, PartKey};
use crate::segment::Shape;
use crate::snapshot::take::{CHUNK_MAX, Pieces};
use crate::store::ArrayStore;
use crate::types::{Completion, DriveId, Part, PartPlace, SetId, SetState, Version};
use crate::zone_set::{List, Purpose, ZoneSet};

/// Bytes that each object has beside its own.
const ATTRIBUTES: &[u8] = &[b'a'; 60];

/// Names of covered objects are so far from each other, and those of later ones lie anywhere between them.
const NAME_STEP: u64 = u64::MAX >> 27;

/// Contents to lay down.
pub struct Load<'a> {
    /// Sets that a snapshot covers.
    pub covered: usize,
    /// Sets that were closed since.
    pub tail: usize,
    /// Of a hundred objects so many were not deleted, where the snapshot covers them.
    pub live_percent: u64,
    /// Draws an object's bytes.
    pub size: &'a mut dyn FnMut() -> u64,
    /// Puts the write pointer of a zone there, as if so many blocks of it had been written.
    pub put_pointer: &'a dyn Fn(DriveId, ZoneId, Blocks),
}

/// Contents that were laid down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Objects and parts that the snapshot has.
    pub covered: (u64, u64),
    /// Objects and parts of the sets behind it.
    pub tail: (u64, u64),
    /// Bytes of the snapshot.
    pub snapshot: u64,
}

/// Objects that come one behind the other, and the set that they go to.
struct Layer<'a> {
    engine: &'a Rc<Engine>,
    load: Load<'a>,
    number: u64,
}

/// An object.
struct Drawn {
    name: Bytes,
    version: Version,
    size: u64,
    lives: bool,
}

impl ArrayStore {
    /// Lays down what `load` says, in sets that are empty. This opening's index does not have it: the array has to be
    /// opened anew, after whatever else is to happen to it.
    ///
    /// # Errors
    /// `Invalid` for drives that keep what is written, or too few empty sets; as a snapshot.
    pub async fn lay_down<'a>(&'a self, load: Load<'a>) -> Result<Laid> {
        let engine = self.engine();
        engine.writable()?;
        let empty: Vec<_> = engine.sets.of(List::Empty).take(load.covered + load.tail).collect();
        if !engine.framing.drops_payload() || empty.len() < load.covered + load.tail {
            let message = "only on modelled drives that keep no payload, and in sets that are empty";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let (covered, tail) = empty.split_at(load.covered);
        let mut layer = Layer { engine, load, number: 0 };
        let mut laid = Laid::default();
        layer.cover(covered, &mut laid).await?;
        layer.close(tail, &mut laid).await?;
        engine.write_superblock(None).await?;
        Ok(laid)
    }
}

impl Layer<'_> {
    fn draw(&mut self, covered: bool) -> Drawn {
        let number = self.number;
        self.number += 1;
        let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let key = if covered { number.wrapping_mul(NAME_STEP) } else { scattered };
        Drawn {
            name: format!("archive/{key:016x}/{number:011}").into(),
            version: Version(self.engine.stamps.next()),
            size: (self.load.size)().max(1),
            lives: !covered || scattered >> 32 < self.load.live_percent * (u64::from(u32::MAX) / 100),
        }
    }

    fn open(&self, id: SetId, set: &Rc<ZoneSet>) -> OpenSet {
        set.offer();
        set.offered(true);
        set.open(Purpose::Objects);
        OpenSet {
            id,
            members: set.ordered_members(id),
            capacity: self.engine.capacity(set),
            set: set.clone(),
            epoch: self.engine.stamps.next(),
            next: 0,
            digest: Digest::default(),
            flights: Rc::default(),
            packed: false,
        }
    }

    /// Puts the rest of an object from `offset` on into a segment; `None` if the set is full.
    fn place(&self, open: &mut OpenSet, object: &Drawn, offset: u64) -> Option<PartPlace> {
        let (code, segment) = (self.engine.code, self.engine.segment_length);
        let completion = Completion { size: object.size, attributes: Bytes::from_static(ATTRIBUTES) };
        let (name, version) = (object.name.clone(), object.version);
        let mut part = Part { name, version, offset, at: 0, length: 0, completion: Some(completion) };
        let entry = part_bytes(&part);
        let room = open.room(ITEM_FIXED + entry).saturating_sub(1 + record_blocks(entry as u64).0 as u32);
        let most = Shape::most_data(code, Blocks(u64::from(room))).min(u64::from(segment)) as u32;
        if most < segment / CUT_MIN {
            return None;
        }
        part.length = (object.size - offset).min(u64::from(most)) as u32;
        let last = offset + u64::from(part.length) == object.size;
        part.completion = part.completion.filter(|_| last);
        let (stamp, length) = (self.engine.stamps.next(), part.length);
        let marker = Marker { stamp, shape: Shape::new(code, length), parts: vec![part] };
        let (first, shape) = (open.next_item(), marker.shape);
        let block = marker.fragments_at(first);
        open.next = block + shape.fragment_blocks().0 as u32;
        open.digest.push(DigestItem { block: first, body: ItemBody::Segment(marker) });
        if object.lives {
            open.set.add_live(u64::from(length));
        }
        Some(PartPlace { set: open.id, block, stamp, segment_length: length, at: 0, length, last })
    }

    fn put_pointers(&self, open: &OpenSet, blocks: u32) {
        let put = self.load.put_pointer;
        open.members.iter().for_each(|member| put(member.drive, member.zone, Blocks(u64::from(blocks))));
    }

    /// Fills sets, and takes a snapshot of what lives in them.
    async fn cover(&mut self, sets: &[(SetId, Rc<ZoneSet>)], laid: &mut Laid) -> Result<()> {
        let mut chunks = Chunks::new(CHUNK_MAX);
        let mut pieces = Pieces::new(self.engine, Room::PLAIN);
        // Neighbours by name lie in sets far from each other, but for the parts of one object.
        let stride = (sets.len() * 5 / 8..).find(|stride| coprime(*stride, sets.len())).unwrap_or(1);
        let mut objects: Vec<(u64, Version, u64)> = Vec::new();
        let mut object = self.draw(true);
        let mut offset = 0;
        for at in 0..sets.len() {
            let (id, set) = &sets[at * stride % sets.len()];
            let mut open = self.open(*id, set);
            while let Some(place) = self.place(&mut open, &object, offset) {
                if object.lives {
                    let key = PartKey { name: object.name.clone(), version: object.version, offset };
                    if let Some(chunk) = chunks.part(&key, &place) {
                        pieces.add(&chunk).await?;
                    }
                }
                offset += u64::from(place.length);
                if place.last {
                    if object.lives {
                        objects.push((self.number - 1, object.version, object.size));
                    }
                    (object, offset) = (self.draw(true), 0);
                }
            }
            self.put_pointers(&open, open.capacity);
            open.set.set_written(open.capacity);
            open.set.begin_to_end();
            open.set.has_ended(open.next, false);
        }
        for (number, version, size) in objects {
            let key = number.wrapping_mul(NAME_STEP);
            let name = format!("archive/{key:016x}/{number:011}");
            if let Some(chunk) = chunks.object(name.as_bytes(), version, size, ATTRIBUTES) {
                pieces.add(&chunk).await?;
            }
        }
        let (parts, objects) = chunks.counts();
        for chunk in chunks.end() {
            pieces.add(&chunk).await?;
        }
        let pieces = pieces.end().await?;
        laid.covered = (objects, parts);
        laid.snapshot = pieces.iter().map(|piece| u64::from(piece.length)).sum();
        let covered = sets.iter().map(|(_, set)| (u32::MAX, set.generation(), set.clone())).collect();
        self.engine.snapshot_is(self.engine.stamps.next(), pieces, covered).await
    }

    /// Fills and closes sets, as the last writes to them do.
    async fn close(&mut self, sets: &[(SetId, Rc<ZoneSet>)], laid: &mut Laid) -> Result<()> {
        let mut object = self.draw(false);
        let mut offset = 0;
        for (id, set) in sets {
            let mut open = self.open(*id, set);
            let heads = self.engine.with_heads(&open, vec![Vec::new(); open.members.len()]);
            for (_, written) in self.engine.write_members(&open.members, 0, heads).await {
                written.map_err(|error| Error::device("a modelled drive", error))?;
            }
            while let Some(place) = self.place(&mut open, &object, offset) {
                laid.tail.1 += 1;
                offset += u64::from(place.length);
                if place.last {
                    laid.tail.0 += 1;
                    (object, offset) = (self.draw(false), 0);
                }
            }
            self.put_pointers(&open, open.next);
            open.set.set_written(open.next);
            self.engine.close_set(open);
            while set.state() != SetState::Closed {
                self.engine.rt.yield_now().await;
            }
        }
        Ok(())
    }
}

fn coprime(one: usize, other: usize) -> bool {
    if other == 0 { one == 1 } else { coprime(other, one % other) }
}
