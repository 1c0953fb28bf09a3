//! A frontier: the zone that a stream writes to, and what waits for it.

use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_record::NameKind;
use tokio::sync::oneshot;

use super::draft::Draft;
use super::piece::{Done, Piece, pieces_of};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::place::Place;

/// The stream of callers' writes.
pub(crate) const WRITES: u8 = 0;

/// The stream of copies. Nothing is found by scanning its zones: the journal says what was moved to them.
pub(crate) const COPIES: u8 = 1;

/// Number of streams.
pub(crate) const STREAMS: u8 = 2;

/// A stream's frontier.
#[derive(Default)]
pub(crate) struct Frontier {
    pub(crate) queue: VecDeque<Piece>,
    pub(crate) zone: Option<ZoneId>,
    /// A task writes what waits.
    busy: bool,
}

impl Frontier {
    /// Nothing waits, and nothing is being written.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.queue.is_empty()
    }

    /// Gives up what waits. Returns the callers.
    pub(crate) fn drain(&mut self) -> Vec<Done> {
        self.queue.drain(..).filter_map(|piece| piece.done).collect()
    }
}

impl Engine {
    /// Writes sectors, or names them without data. Completes once they are in the map.
    pub(crate) async fn write(
        self: &Rc<Self>,
        lba: u64,
        sectors: u64,
        kind: NameKind,
        data: Vec<Bytes>,
    ) -> Result<(), Failure> {
        self.enqueue(WRITES, pieces_of(lba, sectors, kind, data, self.drive.layout.shape))?
            .await
            .unwrap_or_else(|_| Err(Failure::gone()))
    }

    /// Puts pieces at the end of a stream's queue, at once. The receiver hears when the last one is written.
    pub(crate) fn enqueue(
        self: &Rc<Self>,
        stream: u8,
        mut pieces: Vec<Piece>,
    ) -> Result<oneshot::Receiver<Result<(), Failure>>, Failure> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.state.borrow_mut();
        state.running()?;
        if self.closing.get() && stream == WRITES {
            return Err(Failure::gone());
        }
        if let Some(last) = pieces.last_mut() {
            last.done = Some(done);
        }
        let frontier = &mut state.frontiers[usize::from(stream)];
        frontier.queue.extend(pieces);
        if !std::mem::replace(&mut frontier.busy, true) {
            self.rt.spawn_detached(self.clone().write_queue(stream));
        }
        Ok(receiver)
    }

    /// Writes what waits, until nothing does.
    async fn write_queue(self: Rc<Self>, stream: u8) {
        loop {
            {
                let frontier = &mut self.state.borrow_mut().frontiers[usize::from(stream)];
                if frontier.queue.is_empty() {
                    frontier.busy = false;
                    break;
                }
            }
            if let Err(failure) = self.write_some(stream).await {
                let waiting = self.state.borrow_mut().frontiers[usize::from(stream)].drain();
                for done in waiting {
                    let _ = done.send(Err(failure.clone()));
                }
            }
        }
        self.wakes.idle.notify_waiters();
    }

    /// One command.
    async fn write_some(self: &Rc<Self>, stream: u8) -> Result<(), Failure> {
        let zone = self.frontier_zone(stream).await?;
        let draft = self.draft(stream, zone);
        let buffers = self.frame(&draft);
        match self.drive.dev.write(self.drive.block(zone, draft.from), buffers).await {
            Ok(()) if stream == WRITES => {
                self.enter(draft);
                Ok(())
            }
            Ok(()) => self.enter_copies(draft).await,
            Err(error) => {
                let (zone, from) = (draft.zone, draft.from);
                self.put_back(stream, draft);
                self.after_failed_write(stream, zone, from, error).await
            }
        }
    }

    /// What could not be written waits again, in front of all others.
    fn put_back(&self, stream: u8, draft: Draft) {
        let queue = &mut self.state.borrow_mut().frontiers[usize::from(stream)].queue;
        let pieces = draft.pairs.into_iter().flat_map(|pair| pair.pieces);
        pieces.collect::<Vec<_>>().into_iter().rev().for_each(|piece| queue.push_front(piece));
    }

    /// Enters written pairs into the map, and tells their callers.
    fn enter(&self, draft: Draft) {
        let shape = self.drive.layout.shape;
        let mut state = self.state.borrow_mut();
        self.advance(&mut state, &draft);
        for pair in draft.pairs {
            let record = self.drive.block(draft.zone, pair.block);
            let mut sector = 0;
            for piece in pair.pieces {
                let place = match piece.kind {
                    NameKind::Data => {
                        sector += piece.sectors;
                        Place::new(record, sector - piece.sectors)
                    }
                    NameKind::Zeros | NameKind::Discarded => None,
                };
                state.place(shape, piece.lba, piece.sectors, place);
                state.counters.sectors_written += if piece.kind == NameKind::Data { piece.sectors.into() } else { 0 };
                if let Some(done) = piece.done {
                    // Its caller may have gone.
                    let _ = done.send(Ok(()));
                }
            }
            state.counters.pairs += 1;
        }
        state.counters.blocks_written += u64::from(draft.end - draft.from);
        let wanted = state.emptied || self.wants_room(&state);
        drop(state);
        if wanted || self.log.needs_checkpoint() {
            self.wakes.keeper.notify_one();
        }
    }
}
