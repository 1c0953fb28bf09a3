//! Frontiers at work: commands of all that waits, one after the other.

use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::select;
use shingle_base::ZoneId;
use shingle_record::NameKind;
use shingle_zone_kit::{Command, Writer, ZoneCommands, write_lane};
use shingle_zoned::DeviceError;

use super::draft::Draft;
use super::piece::{Piece, pieces_of};
use super::queue::{Frontier, Own};
use super::stream::is_copy;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::place::Place;
use crate::state::State;

/// The stream of a lane.
fn stream_of(lane: usize) -> u8 {
    lane as u8
}

impl Writer for Engine {
    type Piece = Piece;
    type Own = Own;
    type Draft = Draft;
    type Failure = Failure;

    fn commands(&self) -> &ZoneCommands {
        &self.drive.zones
    }

    fn lane<R>(&self, lane: usize, step: impl FnOnce(&mut Frontier) -> R) -> R {
        step(&mut self.state.borrow_mut().frontiers[lane])
    }

    /// All that waits is needed; a volume that stops takes it out itself. A command that failed has been judged by now.
    fn tidy(&self, lane: usize) {
        if std::mem::take(&mut self.state.borrow_mut().frontiers[lane].own.failed) {
            self.wakes.landed.notify_waiters();
        }
    }

    async fn ready(self: &Rc<Self>, lane: usize) -> Result<Option<ZoneId>, Failure> {
        let stream = stream_of(lane);
        if is_copy(stream) {
            self.callers_first().await;
        } else {
            self.above_low_water().await;
            self.below_map_limit().await;
        }
        self.align(stream).await?;
        self.zone_unless_held(stream).await.map(Some)
    }

    fn draft(&self, lane: usize, zone: ZoneId) -> Option<Command<Draft>> {
        let draft = self.draft_for(stream_of(lane), zone);
        if draft.pairs.is_empty() {
            // All that waited was taken out meanwhile.
            return None;
        }
        let data = self.frame(&draft);
        Some(Command { zone, from: draft.from, data, draft })
    }

    async fn landed(self: &Rc<Self>, lane: usize, draft: Draft) -> Result<(), Failure> {
        let stream = stream_of(lane);
        if is_copy(stream) {
            return self.enter_copies(stream, draft).await;
        }
        self.enter(stream, draft);
        Ok(())
    }

    fn undo(&self, lane: usize, draft: Draft) -> Vec<Piece> {
        let own = &mut self.state.borrow_mut().frontiers[lane].own;
        own.flying.clear();
        own.failed = true;
        self.wakes.served.notify_waiters();
        self.wakes.landed.notify_waiters();
        draft.pairs.into_iter().flat_map(|pair| pair.pieces).collect()
    }

    fn note_failure(&self, zone: ZoneId, broken: bool, counts: bool) -> u32 {
        let mut state = self.state.borrow_mut();
        // All failures count but those for want of room on the host.
        state.host_full |= !counts && self.closing.get();
        let failures = state.zones.note_failure(zone, broken, counts);
        if broken {
            state.doubt(zone);
            self.keeper.wake();
        }
        failures
    }

    async fn leave(self: &Rc<Self>, lane: usize, zone: ZoneId) -> Result<(), Failure> {
        self.end_zone(stream_of(lane), zone).await
    }

    fn stop(&self, gone: DeviceError) -> Failure {
        let failure = Failure::from(gone);
        Self::stop(self, failure.clone());
        failure
    }

    fn gave_up(self: &Rc<Self>, lane: usize, failure: Failure) -> bool {
        let mut state = self.state.borrow_mut();
        let waiting: Vec<_> = state.frontiers[lane].queue.drain(..).collect();
        self.send_deferred(&mut state);
        drop(state);
        for done in waiting.into_iter().filter_map(|piece| piece.done) {
            let _ = done.send(Err(failure.clone()));
        }
        true
    }

    fn idle(self: &Rc<Self>, _: usize) {
        self.wakes.idle.notify_waiters();
        if self.state.borrow().writers_wait() {
            // The lane's zone may be one that can be ended.
            self.keeper.wake();
        }
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
        self.room_beside_snapshots(&(lba..lba + sectors), kind == NameKind::Data)?;
        let pieces = pieces_of(lba, sectors, kind, data, self.drive.layout.shape);
        self.send(lba..lba + sectors, pieces)?.await.unwrap_or_else(|_| Err(Failure::gone()))
    }

    /// Puts pieces at the end of a stream's queue, at once. The receiver hears when the last one is written.
    pub(crate) fn enqueue(self: &Rc<Self>, state: &mut State, stream: u8, pieces: Vec<Piece>) {
        if state.frontiers[usize::from(stream)].push(pieces) {
            self.rt.spawn_detached(write_lane(self.clone(), usize::from(stream)));
        }
    }

    /// A zone to write to. Callers' writes wait as long as they are held, so that nothing lies between the answer and their numbering.
    async fn zone_unless_held(self: &Rc<Self>, stream: u8) -> Result<ZoneId, Failure> {
        loop {
            let zone = self.frontier_zone(stream).await?;
            let released = self.wakes.released.notified();
            if is_copy(stream) || !self.state.borrow().held {
                return Ok(zone);
            }
            released.await;
        }
    }

    /// Ends the zone of a stream that goes on in another one at the sector that comes next.
    async fn align(self: &Rc<Self>, stream: u8) -> Result<(), Failure> {
        let ends = {
            let state = self.state.borrow();
            let frontier = &state.frontiers[usize::from(stream)];
            let align = state.router.route.align_of(stream);
            let next = frontier.queue.front().map(|piece| piece.lba);
            let at_border = align.zip(next).is_some_and(|(align, next)| next.is_multiple_of(align));
            let begun = |zone: &ZoneId| state.zones.get(*zone).is_some_and(|zone| zone.next > 1);
            frontier.zone.filter(begun).filter(|_| at_border)
        };
        match ends {
            Some(zone) => self.end_zone(stream, zone).await,
            None => Ok(()),
        }
    }

    /// Waits while a controller's mark has writers wait, but not for longer than that lasts when the wait begins (TL-CTL-3).
    async fn above_low_water(&self) {
        let until = self.state.borrow().low_water.map(|mark| mark.until);
        let Some(until) = until else { return };
        loop {
            let moved = pin!(self.wakes.room.notified());
            let now = self.rt.now();
            {
                let state = self.state.borrow();
                let below = state.is_below_mark();
                if !below || now >= until || state.stopped.is_some() {
                    return;
                }
            }
            select(moved, pin!(self.rt.sleep(until - now))).await;
        }
    }

    /// Enters written pairs into the map, and tells their callers.
    fn enter(self: &Rc<Self>, stream: u8, draft: Draft) {
        let mut state = self.state.borrow_mut();
        self.advance(&mut state, draft.zone, draft.end);
        state.frontiers[usize::from(stream)].own.flying.clear();
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
                state.place(piece.lba, u64::from(piece.sectors), place);
                state.counters.sectors_written += if piece.kind == NameKind::Data { piece.sectors.into() } else { 0 };
                if let Some(done) = piece.done {
                    // Its caller may have gone.
                    let _ = done.send(Ok(()));
                }
            }
            state.counters.pairs += 1;
        }
        state.counters.blocks_written += u64::from(draft.end - draft.from);
        self.send_deferred(&mut state);
        self.wakes.served.notify_waiters();
        // Room only becomes less where a frontier takes a zone, which wakes the keeper, too.
        let (due, held) = (state.zones.has_emptied() || self.wants_gathering(&state), state.held);
        drop(state);
        if held {
            self.wakes.landed.notify_waiters();
        }
        if due || self.wants_checkpoint() {
            self.keeper.wake();
        }
    }
}
