//! Reading: bytes that are not written yet come from memory, all others from the cache or their zones, which are pinned; and all of them
//! are verified.
//!
//! # Invariants
//! - BLU-READ-1: bytes from the drive are returned only if the check of their unit holds. They are read once more where it does not: they may
//!   have been spoilt on the way.
//! - BLU-READ-2: a read sees every transaction that has completed before it; the places of all of its bytes are found in one step, and are
//!   not reset before it ends. Nor are they before the bytes are in the cache, under those places: the blob may be elsewhere by now.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use shingle_base::{BLOCK_SIZE, Blocks, ZoneId};
use shingle_zone_kit::Pin;
use shingle_zoned::read_patiently;

use crate::blob::packing::Packing;
use crate::blob::{BLOCK, Blob, Place};
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::ids::ObjectId;
use crate::map::{Extent, by_shard};
use crate::state::State;
use crate::txn::Shards;

/// Commands of one read that are under way at once.
const DEPTH: usize = 8;

/// Blocks of a command at most.
const COMMAND_BLOCKS: u32 = 1024;

/// Units of a blob that are needed for some bytes.
struct Fetch {
    blob: Rc<Blob>,
    /// Bytes of content that are wanted, and the place in the answer that they have.
    content: Range<u32>,
    to: usize,
    source: Source,
}

enum Source {
    /// Stored bytes from a block on.
    Memory(u32, Bytes),
    Drive(Blocked),
}

/// Blocks of a blob on the drive, which stay there.
pub(crate) struct Blocked {
    /// Blocks of the blob: whole units.
    pub(crate) range: Range<u32>,
    places: Vec<Place>,
    _pins: Vec<Pin>,
}

impl State {
    /// Units of a blob, which stay on the drive. `None` if one of them has no place.
    pub(crate) fn blocked(&self, blob: &Blob, range: Range<u32>) -> Option<Blocked> {
        let places = blob.places(&range)?;
        let pins = places.iter().map(|place| self.zones.pin(ZoneId(place.zone))).collect();
        Some(Blocked { range, places, _pins: pins })
    }

    /// Units of a blob from the cache; `None` if one of them is not there.
    fn cached(&mut self, blob: &Blob, range: &Range<u32>) -> Option<Bytes> {
        let unit = 1u32 << blob.unit_shift;
        let mut units = Vec::new();
        for at in range.clone().step_by(unit as usize) {
            let place = *blob.places(&(at..at + 1))?.first()?;
            let epoch = self.zones.get(ZoneId(place.zone))?.epoch;
            let bytes = self.data.get(&(place.zone, epoch, place.block))?.clone();
            if bytes.len() != ((at + unit).min(range.end) - at) as usize * BLOCK_SIZE {
                return None;
            }
            units.push(bytes);
        }
        if let [one] = &units[..] { Some(one.clone()) } else { Some(units.concat().into()) }
    }

    /// The way to bytes of an extent.
    fn fetch(&mut self, extent: Extent, to: usize) -> BlueResult<Fetch> {
        let (blob, content) = (extent.blob.clone(), extent.content());
        if let Some(data) = blob.state.borrow().data.clone() {
            return Ok(Fetch { blob: blob.clone(), content, to, source: Source::Memory(0, data) });
        }
        let range = blob.needed(content.clone());
        let source = match self.cached(&blob, &range) {
            Some(bytes) => Source::Memory(range.start, bytes),
            None => {
                Source::Drive(self.blocked(&blob, range).ok_or_else(|| BlueError::senseless("blob without a place"))?)
            }
        };
        Ok(Fetch { blob, content, to, source })
    }
}

impl Engine {
    /// Reads bytes of an object; fewer at its end.
    pub(crate) async fn read(&self, id: &ObjectId, offset: u64, length: u64) -> BlueResult<Bytes> {
        let missing = || BlueError::new(BlueErrorKind::NotFound, format!("there is no object {id}"));
        let (fetches, length) = loop {
            let object = self.object(id, Shards::Some(0..0)).await?;
            let clipped = |size: u32| {
                let from = offset.min(u64::from(size));
                from as u32..offset.saturating_add(length).min(u64::from(size)).max(from) as u32
            };
            let size = object.state.borrow().head.as_ref().map(|head| head.size);
            let range = clipped(size.ok_or_else(missing)?);
            let shards: Vec<u32> = by_shard(range.clone()).map(|(shard, _)| shard).collect();
            if let (Some(first), Some(last)) = (shards.first(), shards.last()) {
                self.object(id, Shards::Some(*first..*last + 1)).await?;
            }
            // One step from here on. (BLU-READ-2)
            let object = object.state.borrow();
            if object.head.as_ref().map(|head| head.size) != size || !shards.iter().all(|shard| object.knows(*shard)) {
                // It has changed meanwhile.
                continue;
            }
            let mut state = self.state.borrow_mut();
            let mut fetches = Vec::new();
            for (shard, part) in by_shard(range.clone()) {
                for extent in object.extents(shard).parts(part) {
                    let to = (extent.at - range.start) as usize;
                    fetches.push(state.fetch(extent, to)?);
                }
            }
            break (fetches, (range.end - range.start) as usize);
        };
        let mut out = vec![0; length];
        let mut reading = stream::iter(fetches).map(|fetch| self.bytes_of(id, fetch)).buffered(DEPTH);
        while let Some(read) = reading.next().await {
            let (to, bytes) = read?;
            if let Some(part) = out.get_mut(to..to + bytes.len()) {
                part.copy_from_slice(&bytes);
            }
        }
        drop(reading);
        self.state.borrow_mut().counters.bytes_read += length as u64;
        Ok(out.into())
    }

    /// All of a blob's content, of which an object shows a part.
    pub(crate) async fn content(&self, id: &ObjectId, blob: &Rc<Blob>) -> BlueResult<Bytes> {
        let whole = Extent { at: 0, length: blob.raw, blob: blob.clone(), from: 0 };
        let fetch = self.state.borrow_mut().fetch(whole, 0)?;
        Ok(self.bytes_of(id, fetch).await?.1)
    }

    async fn bytes_of(&self, id: &ObjectId, fetch: Fetch) -> BlueResult<(usize, Bytes)> {
        let Fetch { blob, content, to, source } = fetch;
        let (first, stored) = match source {
            Source::Memory(first, bytes) => (first, bytes),
            Source::Drive(blocked) => {
                let stored = self.read_units(&|| format!("object {id}"), &blob, &blocked).await?;
                self.state.borrow_mut().keep_data(blob.unit_shift, &blocked.places, blocked.range.start, &stored);
                (blocked.range.start, stored)
            }
        };
        let corrupt = || corrupt(&format!("object {id}"), &blob, first);
        let bytes = match blob.packing {
            Packing::Plain => {
                let (from, end) = (content.start - first * BLOCK, content.end - first * BLOCK);
                stored.get(from as usize..end as usize).map(|bytes| stored.slice_ref(bytes))
            }
            packing => {
                let stored = stored.get(..blob.stored as usize).ok_or_else(corrupt)?;
                let all = packing.unpack(stored, blob.raw).map(Bytes::from);
                all.map(|all| all.slice(content.start as usize..content.end as usize))
            }
        };
        Ok((to, bytes.ok_or_else(corrupt)?))
    }

    /// Reads units of a blob, which hold their checks. (BLU-READ-1)
    pub(crate) async fn read_units(
        &self,
        who: &dyn Fn() -> String,
        blob: &Blob,
        blocked: &Blocked,
    ) -> BlueResult<Bytes> {
        let first = blocked.range.start;
        let read = self.read_blocks(blocked).await?;
        if blob.first_bad(first, &read).is_none() {
            return Ok(read);
        }
        let again = self.read_blocks(blocked).await?;
        blob.first_bad(first, &again).map_or(Ok(again), |bad| Err(corrupt(&who(), blob, bad)))
    }

    /// Reads blocks, whose checks are another matter.
    async fn read_blocks(&self, blocked: &Blocked) -> BlueResult<Bytes> {
        let commands = blocked.places.iter().flat_map(|place| {
            let steps = (0..place.count).step_by(COMMAND_BLOCKS as usize);
            steps.map(move |step| (place.zone, place.block + step, COMMAND_BLOCKS.min(place.count - step)))
        });
        let read = |(zone, block, count)| {
            let at = self.drive.block(zone, block);
            read_patiently(&self.drive.dev, at, Blocks(u64::from(count)))
        };
        let mut parts = Vec::new();
        let mut reading = stream::iter(commands).map(read).buffered(DEPTH);
        while let Some(part) = reading.next().await {
            parts.push(part?);
        }
        if let [one] = &parts[..] {
            Ok(one.clone())
        } else {
            Ok(crate::blob::checks::padded(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()))
        }
    }
}

fn corrupt(who: &str, blob: &Blob, block: u32) -> BlueError {
    let place = blob.places(&(block..block + 1)).and_then(|places| places.first().copied());
    let place = place.map_or(String::new(), |place| format!(" in data zone {} at block {}", place.zone, place.block));
    BlueError::new(BlueErrorKind::Corrupt, format!("bytes of {who}{place} are not those that were written"))
}
