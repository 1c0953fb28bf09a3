//! Copies that were written: sectors move to them where they still lie at the old place. (FSTL, section III-B, "safe copy".)

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;

use super::draft::Draft;
use super::piece::{Origin, Piece};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::format::{Entry, MOVES_MAX, Move};
use crate::map::Extent;
use crate::place::Place;
use crate::state::State;

/// The pause after a zone of copies of which the drive told nothing: each time costs a zone.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Moves the sectors of written copies (TL-WRITE-3). They are durable before anybody is told that they were moved.
    pub(super) async fn enter_copies(self: &Rc<Self>, stream: u8, mut draft: Draft) -> Result<(), Failure> {
        {
            let mut state = self.state.borrow_mut();
            self.advance(&mut state, draft.zone, draft.end);
            let own = &mut state.frontiers[usize::from(stream)].own;
            own.flying.clear();
            let took = self.rt.now().since(own.began);
            own.step.note(draft.pairs.len(), took, self.drive.writes_take_its_arm());
        }
        self.flush().await?;
        if !self.are_held(draft.zone).await? {
            return self.copy_again(stream, draft).await;
        }
        self.journal_room().await?;
        let mut state = self.state.borrow_mut();
        let mut moves = Vec::new();
        let mut told = Vec::new();
        for pair in &mut draft.pairs {
            let record = self.drive.block(draft.zone, pair.block);
            let mut sector = 0;
            for piece in &mut pair.pieces {
                if let Some(to) = Place::new(record, sector) {
                    moves.extend(self.still_there(&state, piece, to));
                }
                sector += piece.sectors;
                told.extend(piece.done.take());
            }
        }
        for moved in &moves {
            state.relocate(moved);
            state.counters.sectors_copied += u64::from(moved.sectors);
        }
        state.counters.blocks_copied += u64::from(draft.end - draft.from);
        for some in moves.chunks(MOVES_MAX) {
            self.journal_moves(&mut state, some);
        }
        drop(state);
        for done in told {
            let _ = done.send(Ok(()));
        }
        Ok(())
    }

    /// True if the drive says behind the flush that a zone with copies has not failed: its cache may have lost them before. (TL-WRITE-4)
    async fn are_held(&self, zone: ZoneId) -> Result<bool, Failure> {
        match self.drive.zones.is_intact(zone).await {
            Some(true) => return Ok(true),
            Some(false) => drop(self.state.borrow_mut().zones.note_failure(zone, true, false)),
            None => {
                self.rt.sleep(PAUSE).await;
                // A close waits for copies, and not for a drive that tells nothing.
                self.still_open()?;
            }
        }
        Ok(false)
    }

    /// Copies that may be lost go to another zone.
    async fn copy_again(self: &Rc<Self>, stream: u8, draft: Draft) -> Result<(), Failure> {
        let zone = draft.zone;
        {
            let queue = &mut self.state.borrow_mut().frontiers[usize::from(stream)].queue;
            for piece in draft.pairs.into_iter().rev().flat_map(|pair| pair.pieces.into_iter().rev()) {
                queue.push_front(piece);
            }
        }
        self.end_zone(stream, zone).await
    }

    /// The sectors of a copy that lie where it was read.
    fn still_there(&self, state: &State, piece: &Piece, to: Place) -> Vec<Move> {
        let stride = self.drive.layout.shape.stride();
        let (mut moves, mut first) = (Vec::new(), piece.lba);
        for Origin { sectors, place: from } in &piece.origins {
            let end = first + u64::from(*sectors);
            state.maps.still_there(first, *sectors, *from, |Extent { lba, sectors, place }| {
                // Both are at most the piece's length, which is a pair's at most.
                let in_piece = (lba - piece.lba) as u32;
                moves.push(Move { lba, sectors: sectors as u16, from: place, to: to.advance(in_piece, stride) });
            });
            first = end;
        }
        moves
    }

    /// Journals moves. The zones they lead from wait until that is durable.
    fn journal_moves(self: &Rc<Self>, state: &mut State, moves: &[Move]) {
        let zones: BTreeSet<ZoneId> = moves.iter().map(|moved| self.drive.layout.shape.zone_of(moved.from)).collect();
        for zone in &zones {
            state.zones.hold(*zone);
        }
        let journaled = self.journal(&Entry::Moved(moves.to_vec()), self.sequence.next());
        let engine = self.clone();
        self.rt.spawn_detached(async move {
            if journaled.await.is_err() {
                return;
            }
            let mut state = engine.state.borrow_mut();
            for zone in zones {
                state.zones.settle(zone);
            }
            drop(state);
            engine.keeper.wake();
        });
    }
}
