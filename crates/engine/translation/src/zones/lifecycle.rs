//! A zone's way: taken for a frontier, opened, advanced, ended, and left.

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_store_api::StoreErrorKind;
use shingle_zone_kit::Reset;

use super::change::Change;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::format::Entry;
use crate::state::State;
use crate::write::{is_copy, reserve};
use crate::zones::Zone;

/// The fewest blocks that a frontier can use: those of the shortest pair.
const PAIR_BLOCKS_MIN: u32 = 2;

impl Engine {
    /// The zone that a stream writes to: with room for a pair.
    pub(crate) async fn frontier_zone(self: &Rc<Self>, stream: u8) -> Result<ZoneId, Failure> {
        loop {
            let changed = self.wakes.room.notified();
            let (current, changes) = {
                let state = self.state.borrow();
                state.running()?;
                let frontier = &state.frontiers[usize::from(stream)];
                let entry = frontier.zone.and_then(|zone| Some((zone, state.zones.get(zone)?)));
                (entry.map(|(zone, entry)| (zone, entry.next.max(1))), frontier.own.changes > 0)
            };
            match current {
                // It is not open before that is durable, and not left before the drive has given it up.
                _ if changes => changed.await,
                Some((zone, next)) if self.drive.layout.shape.zone_blocks - next >= PAIR_BLOCKS_MIN => return Ok(zone),
                Some((zone, next)) if next < self.drive.layout.shape.zone_blocks => {
                    // The drive keeps it active until it is finished.
                    self.end_zone(stream, zone).await?;
                }
                Some((zone, _)) => {
                    let ended = self.end_zone(stream, zone);
                    self.rt.spawn_detached(async move {
                        // Without it a pair at the zone's end that rots may pass for torn; nothing else hangs on it.
                        let _ = ended.await;
                    });
                }
                None => {
                    if let Some((zone, change)) = self.free_zone(stream).await? {
                        self.open_zone(stream, zone, change).await?;
                    }
                }
            }
        }
    }

    /// Takes a free zone; `None` once there may be one that the stream may have.
    async fn free_zone(self: &Rc<Self>, stream: u8) -> Result<Option<(ZoneId, Change)>, Failure> {
        let freed = {
            let mut state = self.state.borrow_mut();
            state.running()?;
            if !state.may_open(stream) {
                // Callers' writes have a place since they were sent here, but not copies.
                return Err(Failure::new(StoreErrorKind::Invalid, "the drive allows no more open zones"));
            }
            if state.host_full {
                // It would go through all zones, again and again.
                let why = "the file system that holds the drive is full, and the volume closes";
                return Err(Failure::new(StoreErrorKind::NoSpace, why));
            }
            if state.zones.free() > reserve(stream)
                && let Some(zone) = state.zones.take_free()
            {
                if self.wants_room(&state) {
                    self.keeper.wake();
                    self.wakes.control.notify_waiters();
                }
                if !is_copy(stream) {
                    state.waiting_since = None;
                }
                return Ok(Some((zone, Change::begin(self, &mut state, stream))));
            }
            if is_copy(stream) {
                // The keeper waits for its own copies: nobody else makes room.
                return Err(no_space());
            }
            if self.keeper.has_ended() {
                return Err(Failure::gone());
            }
            state.hopeless = false;
            let now = self.rt.now();
            state.waiting_since.get_or_insert(now);
            self.wakes.room.notified()
        };
        self.keeper.wake();
        self.wakes.control.notify_waiters();
        freed.await;
        if self.state.borrow().hopeless { Err(no_space()) } else { Ok(None) }
    }

    /// Begins a generation of a free zone. One that cannot be reset for long is given up. (ZK-ZONE-4)
    async fn open_zone(self: &Rc<Self>, stream: u8, zone: ZoneId, _change: Change) -> Result<(), Failure> {
        let dirty = self.state.borrow().zones.get(zone).is_some_and(|entry| entry.dirty);
        let reset = if dirty { self.reset(zone).await? } else { Reset::Done };
        if reset != Reset::Done {
            let rest = self.state.borrow_mut().zones.not_reset(zone, reset);
            self.rt.sleep(rest).await;
            return Ok(());
        }
        if let Err(failure) = self.journal_room().await {
            self.state.borrow_mut().zones.give_back(zone);
            return Err(failure);
        }
        let opened = {
            let mut state = self.state.borrow_mut();
            let epoch = self.sequence.next();
            state.zones.open(zone, stream, epoch);
            state.frontiers[usize::from(stream)].zone = Some(zone);
            self.journal(&Entry::Open { zone, epoch, stream }, epoch)
        };
        opened.await
    }

    /// Resets a zone on the drive.
    pub(crate) async fn reset(&self, zone: ZoneId) -> Result<Reset, Failure> {
        self.drive.zones.reset(zone).await.map_err(|gone| {
            let failure = Failure::from(gone);
            self.stop(failure.clone());
            failure
        })
    }

    /// A command was written.
    pub(crate) fn advance(&self, state: &mut State, zone: ZoneId, end: u32) {
        let durable = !self.drive.geometry.volatile_cache;
        state.zones.advance(zone, end, durable);
    }

    /// Writes no more to a frontier's zone: takes note at once, and completes once that is durable. Its blocks are, by then.
    pub(crate) fn end_zone(
        self: &Rc<Self>,
        stream: u8,
        zone: ZoneId,
    ) -> impl Future<Output = Result<(), Failure>> + use<> {
        let (ended, change) = {
            let mut state = self.state.borrow_mut();
            let frontier = &mut state.frontiers[usize::from(stream)];
            // Another caller may have ended it, and it may be another stream's by now.
            let own = frontier.zone.take_if(|open| *open == zone).is_some();
            let ended = state.zones.get(zone).filter(|_| own).copied();
            if ended.is_some() {
                state.zones.close(zone);
            }
            // A full zone is active no more.
            let full = ended.is_some_and(|entry| entry.next >= self.drive.layout.shape.zone_blocks);
            let begin = if full { Change::leave_full } else { Change::begin };
            (ended, ended.map(|_| begin(self, &mut state, stream)))
        };
        let engine = self.clone();
        async move {
            let _change = change;
            let Some(Zone { epoch, next, durable, broken, .. }) = ended else { return Ok(()) };
            engine.flush().await?;
            if !broken {
                engine.look_at_end(stream, zone, epoch, next).await?;
            }
            engine.journal_room().await?;
            // Nobody may take for durable what the zone may have lost: the blocks behind count once a checkpoint has them. (TL-LOSS-1)
            let end = if broken { durable } else { next };
            engine.journal(&Entry::Closed { zone, epoch, end }, engine.sequence.next()).await?;
            if !broken && end < engine.drive.layout.shape.zone_blocks {
                engine.release(zone, epoch).await;
            }
            Ok(())
        }
    }

    /// Asks the drive behind a flush for a zone that ends at block `end`: no write need have failed for it to have lost some. If it may have, a
    /// checkpoint has all that was written there before the journal says where it ends; flushes that began meanwhile may have been
    /// answered. (TL-LOSS-1)
    async fn look_at_end(&self, stream: u8, zone: ZoneId, epoch: u64, end: u32) -> Result<(), Failure> {
        // No opening looks at copies, and they were looked at when they were written. (TL-WRITE-4)
        let intact = if is_copy(stream) { Some(true) } else { self.drive.zones.is_intact(zone).await };
        {
            let mut state = self.state.borrow_mut();
            if intact == Some(true) {
                state.zones.mark_durable_before(zone, epoch, end);
                return Ok(());
            }
            if intact == Some(false) {
                state.zones.note_failure(zone, true, false);
            }
            state.doubt(zone);
        }
        self.checkpoint().await
    }

    /// Gives back what the drive keeps for a zone that is left before its end.
    pub(crate) async fn release(&self, zone: ZoneId, epoch: u64) {
        let still = || self.state.borrow().zones.get(zone).is_some_and(|entry| entry.epoch == epoch);
        self.drive.zones.release(zone, still).await;
    }
}

/// No zone is free, and none will be.
pub(crate) fn no_space() -> Failure {
    Failure::new(StoreErrorKind::NoSpace, "no zone of the drive is free, and none can be won by copying")
}
