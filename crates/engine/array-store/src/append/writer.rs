//! Appending to open sets: framing, writing, settling. (SMORE, sections III-B and III-C; for which set it is see
//! [`crate::allocator`], for their end [`crate::append::ending`].)
//!
//! Each stream has one open set, and clients have several. An appended item lies behind the earlier ones, and its
//! writes are started in that order in every zone, so that write pointers advance together and several segments can be
//! on their way.
//!
//! # Invariants
//! - AS-WRITE-1: an item is durable when every member whose drive is there has it; and a drive that is not there is
//!   named by a durable superblock first. So after a power cut a drive that was there and is short of an item proves
//!   that the item was not acknowledged.
//! - AS-WRITE-2: a set is closed only when everything in its digest has been entered in the index (or given up): a
//!   snapshot that comes later covers it.
//! - AS-WRITE-3: items of a set are settled in the order of their places. The first that a member refuses ends the set:
//!   it and all behind it are void, and a durable superblock says so before any of them is tried again elsewhere. So what was
//!   refused for want of room is not found by a recovery. No other error says so: the superblock may have failed.
//! - AS-WRITE-5: an item goes only where a digest with its entry, and the trailer, fit behind it.
//!   `an_item_that_fills_a_set_leaves_room_for_its_digest`.
//! - AS-WRITE-4: placing and settling go on whether or not a caller waits for them: no caller that stops polling holds
//!   up others, or the closing of the array.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::future::{LocalBoxFuture, join_all};
use shingle_base::BLOCK_SIZE;
use shingle_record::{RecordPlace, frame};
use shingle_zoned::DeviceError;

use crate::allocator::Pass;
use crate::append::item::{Placed, Started};
use crate::append::open_set::{Flight, Flights, OpenSet};
use crate::drives::asking::at;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::Score;
use crate::format::{DigestItem, ItemBody, Member, SET_HEAD, SetHead, TOMBSTONES, encode_tombstones};
use crate::segment::{FrameContext, fragment_frames};
use crate::stats::add;
use crate::types::SetState;
use crate::zone_set::ZoneSet;

pub(crate) type Writes = LocalBoxFuture<'static, Vec<(Member, std::result::Result<(), DeviceError>)>>;

impl Engine {
    /// Frames `body` for every member at the set's end and starts the writes, in order.
    pub(crate) fn launch(
        self: &Rc<Self>,
        open: &mut OpenSet,
        (mut body, data): (ItemBody, Bytes),
        pass: Pass,
    ) -> Started {
        let block = open.next_item();
        let stamp = self.stamps.next();
        let consumed = data.len();
        let (frames, parts, segment_length) = match &mut body {
            ItemBody::Segment(marker) => {
                marker.stamp = stamp;
                self.puts.start(&marker.parts);
                let fragments = marker.fragments_at(block);
                let members = self.framing.rotation.in_order(open.members.clone(), fragments);
                let context = FrameContext {
                    array: self.array,
                    set: open.id,
                    epoch: open.epoch,
                    block,
                    members: &members,
                    pool: &self.framing.pool,
                    payload: self.framing.payload(open.set.state()),
                };
                let frames = fragment_frames(&context, &mut self.framing.coder.borrow_mut(), marker, data);
                let frames = self.framing.rotation.by_member(frames, fragments);
                (frames, marker.parts.clone(), marker.shape.length())
            }
            ItemBody::Tombstones { stamp: own, tombstones } => {
                *own = stamp;
                let payload = encode_tombstones(tombstones);
                let record = |member: &Member| {
                    let place = RecordPlace { store: self.array, epoch: open.epoch, zone: member.zone, block };
                    vec![frame(TOMBSTONES, &place, stamp, [0; shingle_record::INFO_SIZE], &[&payload])]
                };
                (open.members.iter().map(record).collect(), Vec::new(), 0)
            }
        };
        let fragments_at =
            block + frames.first().and_then(|pieces| pieces.first()).map_or(0, |head| head.len() / BLOCK_SIZE) as u32;
        let bytes: usize = frames.first().map_or(0, |pieces| pieces.iter().map(Bytes::len).sum());
        let from = open.next;
        let frames = if from == 0 { self.with_heads(open, frames) } else { frames };
        open.next = block + (bytes / BLOCK_SIZE) as u32;
        open.set.set_written(open.next);
        let flight = Flight::new(&self.snapshots.uncovered, open, block, &body);
        open.digest.push(DigestItem { block, body });
        if open.set.state() != SetState::Index {
            add(&self.counters.items, 1);
        }
        self.allocator.written(open.id, self.data_left(open));
        open.flights.unsettled.borrow_mut().insert(block);
        let writes = self.write_members(&open.members, from, frames);
        let placed = Placed { set: open.id, block: fragments_at, stamp, parts, segment_length, _flight: flight };
        let (engine, set, flights) = (self.clone(), open.set.clone(), open.flights.clone());
        let outcome = self.rt.spawn(async move {
            let settled = engine.settle(&set, &flights, block, writes, placed).await;
            drop(pass);
            settled
        });
        Started { outcome, consumed }
    }

    /// The frames with the heads of their zones before them.
    pub(crate) fn with_heads(&self, open: &OpenSet, frames: Vec<Vec<Bytes>>) -> Vec<Vec<Bytes>> {
        let opened = self.rt.unix_time().nanos;
        let framed = open.members.iter().zip(frames).enumerate().map(|(fragment, (member, frames))| {
            let place = RecordPlace { store: self.array, epoch: open.epoch, zone: member.zone, block: 0 };
            let drive_id = self.drives.own_id(member.drive);
            let head = SetHead { set: open.id, member: fragment as u8, drive: member.drive, opened, drive_id };
            let mut pieces = vec![frame(SET_HEAD, &place, open.epoch, head.encode(), &[])];
            pieces.extend(frames);
            pieces
        });
        framed.collect()
    }

    /// Starts a write of each member that is there; each ends when it is durable. The time is counted with the flush:
    /// on a drive with a cache, that is the true time.
    pub(crate) fn write_members(&self, members: &[Member], block: u32, frames: Vec<Vec<Bytes>>) -> Writes {
        let there: Vec<_> = members
            .iter()
            .zip(frames)
            .filter_map(|(&member, pieces)| {
                let start = at(&self.drives.usable(member.drive)?, member.zone, block);
                Some((member, start, self.drives.flusher(member.drive)?, pieces))
            })
            .collect();
        let race = self.paces.race(there.iter().map(|(member, ..)| member.drive).collect());
        let writes: Vec<_> = there
            .into_iter()
            .map(|(member, start, flusher, pieces)| {
                let race = race.clone();
                async move {
                    let result = flusher.write(start, pieces).await;
                    race.ended(member.drive, result.is_ok());
                    (member, result)
                }
            })
            .collect();
        start_now(Box::pin(join_all(writes)))
    }

    /// Waits until a started item is durable. `None`: a member failed, and the item has to be placed anew.
    pub(crate) async fn finish(&self, started: Started) -> Result<Option<Placed>> {
        let settled = started.outcome.await.unwrap_or_else(|_| Err(Error::stopped()));
        settled.map_err(Error::behind_a_write)
    }

    /// Waits for an item's writes, and for all before it, and says what came of it. (AS-WRITE-3)
    async fn settle(
        &self,
        set: &ZoneSet,
        flights: &Flights,
        block: u32,
        writes: Writes,
        placed: Placed,
    ) -> Result<Option<Placed>> {
        let durable = self.durable(set, flights, writes).await;
        flights.settled_before(block).await;
        let outcome = match durable {
            _ if flights.refused.get().is_some() => self.say_refused(flights).await,
            Ok(true) => Ok(Some(placed)),
            Ok(false) => {
                flights.refuse(set, block);
                self.say_refused(flights).await
            }
            Err(error) => {
                // The next superblock says that it does not count.
                flights.refuse(set, block);
                Err(error)
            }
        };
        flights.unsettled.borrow_mut().remove(&block);
        flights.landed.notify_waiters();
        outcome
    }

    /// Says in a superblock where a set was ended, unless one does. (AS-WRITE-3)
    async fn say_refused(&self, flights: &Flights) -> Result<Option<Placed>> {
        if !flights.said.get() {
            self.write_superblock(None).await?;
            flights.said.set(true);
        }
        Ok(None)
    }

    /// Waits for an item's writes. `false`: a member refused its one. (AS-WRITE-1)
    async fn durable(&self, set: &ZoneSet, flights: &Flights, writes: Writes) -> Result<bool> {
        let mut whole = true;
        let mut errors = Vec::new();
        for (member, result) in writes.await {
            match result {
                Ok(()) => self.drives.wrote(member.drive),
                Err(error) => errors.push((member.drive, error)),
            }
        }
        let mut common = None;
        for (drive, error) in errors {
            if !self.judge(drive, &error) {
                // Elsewhere it would be the same. (AS-EVICT-3)
                if error.kind.is_host_full() || self.many_fail(Score::is_too_much) {
                    common.get_or_insert_with(|| {
                        format!("the array's drives fail their writes: {}: {error}", self.drives.name(drive))
                    });
                }
                tracing::warn!(drive = self.drives.name(drive), %error, "a zone refused a write; its set is closed");
                set.hurt();
                flights.failed.set(true);
                flights.landed.notify_waiters();
                whole = false;
            }
        }
        let missing = self.missing(set);
        if missing > 0 {
            // One that failed here or elsewhere meanwhile is on record before anybody goes on (AS-WRITE-1).
            self.record_failures().await?;
        }
        if missing > self.code.parity() {
            let message = format!("{missing} drives of a zone set are gone: {} may be", self.code.parity());
            return Err(Error::new(ErrorKind::Device, message));
        }
        match common {
            Some(message) => Err(Error::new(ErrorKind::Device, message)),
            None => Ok(whole),
        }
    }
}

/// Polls a future once, so that the commands in it have started, in the order of such calls.
pub(crate) fn start_now<T: 'static>(mut future: LocalBoxFuture<'static, T>) -> LocalBoxFuture<'static, T> {
    // The task that awaits it polls it again first, and is woken from then on.
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Box::pin(std::future::ready(output)),
        Poll::Pending => future,
    }
}
