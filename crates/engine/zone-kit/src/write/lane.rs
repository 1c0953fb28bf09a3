//! Lanes: queues of pieces, each of which is written to one zone at a time.
//!
//! One command of a lane is under way, and all that comes meanwhile joins the next one. An engine says which zone a lane has, how pieces
//! become commands, and what it means that they are written.
//!
//! **Owns** the order of a lane's pieces, and its task. **Knows nothing of** records, streams, free zones, or those who wait.
//!
//! # Invariants
//! - ZK-LANE-1: pieces of a lane are written in their order, whatever writes and zones fail.
//! - ZK-LANE-2: a piece stays with the lane until a command that wrote it has succeeded, or the engine has given it up.
//! - ZK-LANE-3: one command of a lane is under way at a time.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};

use super::commands::{AfterFailure, ZoneCommands};

/// A queue of pieces, and the zone that they go to. `Own` is the engine's part.
#[derive(Debug)]
pub struct Lane<Piece, Own> {
    /// The zone that is written; none until a piece comes.
    pub zone: Option<ZoneId>,
    /// Pieces that wait, the next one first.
    pub queue: VecDeque<Piece>,
    /// A task writes the queue.
    writing: bool,
    /// The engine's part.
    pub own: Own,
}

impl<Piece, Own: Default> Default for Lane<Piece, Own> {
    fn default() -> Self {
        Self { zone: None, queue: VecDeque::new(), writing: false, own: Own::default() }
    }
}

impl<Piece, Own> Lane<Piece, Own> {
    /// Puts pieces behind those that wait. True if nobody writes them: the caller spawns [`write_lane`].
    #[must_use]
    pub fn push(&mut self, pieces: impl IntoIterator<Item = Piece>) -> bool {
        self.queue.extend(pieces);
        !self.queue.is_empty() && !std::mem::replace(&mut self.writing, true)
    }

    /// Something waits, or is being written.
    pub fn is_busy(&self) -> bool {
        self.writing || !self.queue.is_empty()
    }
}

/// A write of a lane's first pieces, which have left its queue.
pub struct Command<Draft> {
    /// The lane's zone.
    pub zone: ZoneId,
    /// The block at which it begins.
    pub from: u32,
    /// Its blocks.
    pub data: Vec<Bytes>,
    /// The pieces, and what the engine knows of them.
    pub draft: Draft,
}

/// An engine with lanes.
pub trait Writer: Sized + 'static {
    /// The thing that waits in a lane.
    type Piece;
    /// The engine's part of a lane.
    type Own;
    /// Pieces that one command writes.
    type Draft;
    /// An error of the engine.
    type Failure;

    /// Commands on the drive's zones.
    fn commands(&self) -> &ZoneCommands;

    /// Does something with a lane, in one step.
    fn lane<R>(&self, lane: usize, step: impl FnOnce(&mut Lane<Self::Piece, Self::Own>) -> R) -> R;

    /// Takes pieces out of a lane that are needed no more; all of them, once the engine has stopped. Called before each command.
    fn tidy(&self, lane: usize);

    /// Sees that a lane has a zone with room, and returns it; `None` if the lane is to be looked at again.
    fn ready(self: &Rc<Self>, lane: usize) -> impl Future<Output = Result<Option<ZoneId>, Self::Failure>>;

    /// Takes pieces out of a lane's queue, as many as one command and the zone hold; `None` if the lane is to be looked at again. A place
    /// that a piece gets here counts only once the command has succeeded.
    fn draft(&self, lane: usize, zone: ZoneId) -> Option<Command<Self::Draft>>;

    /// A command has succeeded.
    fn landed(self: &Rc<Self>, lane: usize, draft: Self::Draft) -> impl Future<Output = Result<(), Self::Failure>>;

    /// A command has failed: its pieces, in their order. They wait again, before all others. (ZK-LANE-1)
    fn undo(&self, lane: usize, draft: Self::Draft) -> Vec<Self::Piece>;

    /// As [`ZoneTable::note_failure`](crate::ZoneTable::note_failure).
    fn note_failure(&self, zone: ZoneId, broken: bool, counts: bool) -> u32;

    /// Ends a zone that can be written no more. The lane has none afterwards, or another one.
    fn leave(self: &Rc<Self>, lane: usize, zone: ZoneId) -> impl Future<Output = Result<(), Self::Failure>>;

    /// The drive is gone: the engine stops.
    fn stop(&self, gone: shingle_zoned::DeviceError) -> Self::Failure;

    /// A step has failed: the engine takes out of the queue what it gives up. False if the lane's task ends, whatever waits.
    fn gave_up(self: &Rc<Self>, lane: usize, failure: Self::Failure) -> bool;

    /// The lane's task has ended.
    fn idle(self: &Rc<Self>, lane: usize);
}

/// Writes a lane's queue until it is empty: the lane's task.
pub async fn write_lane<W: Writer>(writer: Rc<W>, lane: usize) {
    loop {
        writer.tidy(lane);
        let ends = writer.lane(lane, |lane| {
            lane.writing = !lane.queue.is_empty();
            !lane.writing
        });
        if ends {
            break;
        }
        if let Err(failure) = write_some(&writer, lane).await
            && !writer.gave_up(lane, failure)
        {
            writer.lane(lane, |lane| lane.writing = false);
            break;
        }
    }
    writer.idle(lane);
}

/// One command.
async fn write_some<W: Writer>(writer: &Rc<W>, lane: usize) -> Result<(), W::Failure> {
    let Some(zone) = writer.ready(lane).await? else { return Ok(()) };
    let Some(Command { zone, from, data, draft }) = writer.draft(lane, zone) else { return Ok(()) };
    let device = writer.commands().device();
    let at = device.geometry().start_of(zone) + Blocks(u64::from(from));
    let Err(error) = device.write(at, data).await else { return writer.landed(lane, draft).await };
    let pieces = writer.undo(lane, draft);
    // ZK-LANE-1, ZK-LANE-2.
    writer.lane(lane, |lane| pieces.into_iter().rev().for_each(|piece| lane.queue.push_front(piece)));
    let note = |broken, counts| writer.note_failure(zone, broken, counts);
    match writer.commands().after_failed_write(zone, from, error, note).await {
        Ok(AfterFailure::Again) => Ok(()),
        Ok(AfterFailure::Leave) => writer.leave(lane, zone).await,
        Err(gone) => Err(writer.stop(gone)),
    }
}
