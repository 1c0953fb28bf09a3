//! Cleaning: what lives in a zone is copied elsewhere, and the zone is free. (Dissertation, section 5.7.1, ZonedCleaner.)
//!
//! Namespace `G` says who has live blocks in a zone. Their blocks are copied as they are; then each holder's metadata
//! get the new places in a job of its collection, in turn with transactions. A transaction that came meanwhile has won: of the copies, only
//! blocks that are needed still are kept.
//!
//! # Invariants
//! - BLU-CLEAN-1: metadata name copies when those are durable; blocks that cannot be read stay where they are, and so do those that twice
//!   were not what was written: the drive may still have them whole, and a copy of a bad read never takes the place of good bytes. Copies
//!   whose zone has failed are given up, and made again. (BLU-KEPT-1)
//! - BLU-CLEAN-2: a shared blob is moved once, whoever shares it.
//! - BLU-CLEAN-3: a zone is passed over only if no batch has changed what lives in it since its holders were looked up. So those that were
//!   missed, as they got what lives there from another one meanwhile, are found the next time.
//! - BLU-CLEAN-4: what cannot be read for the sake of a zone, data or metadata, costs that zone's room for an hour, and for 15 seconds where
//!   somebody waits for room: then it is tried once more for all who wait. Nothing else is lost by it, and nobody waits without end.

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, ZoneId};

use crate::blob::ranges::Ranges;
use crate::blob::{Blob, Place};
use crate::change::Moved;
use crate::engine::Engine;
use crate::error::{BlueErrorKind, BlueResult};
use crate::format::key::{self, Holder};
use crate::map::needed_by_blob;
use crate::object::Object;
use crate::open::shown;
use crate::piece::Group;
use crate::relocate::Move;
use crate::state::COPIES;
use crate::txn::Shards;

/// Bytes that are copied before their holders are told.
const ROUND: u64 = 8 << 20;

/// A job for the collection of some pool and hash.
type Told = ((u64, u32), Move);

impl Engine {
    /// Moves what lives in a zone elsewhere. It fails only where the store has stopped.
    pub(crate) async fn clean(self: &Rc<Self>, zone: u32) -> BlueResult<()> {
        let changes = |engine: &Self| engine.state.borrow().zones.get(ZoneId(zone)).map(|entry| entry.own.changes);
        // In the step in which the zone was chosen: no batch of it is under way.
        let before = changes(self);
        let mut hurt = false;
        let moved = self.empty(zone, &mut hurt).await;
        self.state.borrow().running()?;
        match &moved {
            Err(error) if error.kind == BlueErrorKind::Unavailable => return Err(error.clone()),
            Err(error) if error.kind != BlueErrorKind::NoSpace => {
                tracing::warn!(zone, %error, "what lives in a zone cannot be moved");
                hurt = true;
            }
            _ => {}
        }
        let same = changes(self) == before;
        let mut state = self.state.borrow_mut();
        state.counters.cleaned += u64::from(moved == Ok(true));
        if let Some(own) = state.zones.own_mut(ZoneId(zone)) {
            match hurt {
                // Time may change it.
                true => own.hurt = Some(self.rt.now()),
                // Copies whose zone has failed are made again at once, in another one.
                false => own.passed = same && moved != Ok(false),
            }
        }
        Ok(())
    }

    /// Moves what lives in a zone elsewhere, and says whether some of it could not be read. False if copies were lost.
    async fn empty(self: &Rc<Self>, zone: u32, hurt: &mut bool) -> BlueResult<bool> {
        let (from, to) = key::live_in(zone);
        let holders = self.scan_all(from, to).await?;
        let (mut told, mut group): (Vec<Told>, Rc<Group>) = (Vec::new(), Rc::default());
        for (key, _) in holders {
            let Some((_, holder)) = key::parse_live(&key) else { continue };
            let (job, failed) = self.copy_holder(zone, holder, &group).await;
            told.extend(job);
            match failed {
                Ok(()) => {}
                // Its blocks stay, and so does the zone. (BLU-CLEAN-1)
                Err(error) if error.kind != BlueErrorKind::Unavailable => {
                    tracing::warn!(zone, %error, "some of what lives in a zone cannot be read");
                    *hurt = true;
                }
                Err(error) => return Err(error),
            }
            // Without room for the copies so far, nothing more is read.
            let ends = group.failed.get() || group.left.get() * BLOCK_SIZE as u64 >= ROUND;
            if ends && !self.tell(std::mem::take(&mut told), &std::mem::take(&mut group)).await? {
                return Ok(false);
            }
        }
        self.tell(told, &group).await
    }

    /// Has a holder's blocks in a zone copied, those that can be read. Returns the job that tells the holder of the copies.
    async fn copy_holder(
        self: &Rc<Self>,
        zone: u32,
        holder: Holder,
        group: &Rc<Group>,
    ) -> (Option<Told>, BlueResult<()>) {
        let who = || shown(&holder);
        let (blobs, shard, owner) = match self.blobs_of(&holder).await {
            Ok(found) => found,
            Err(error) => return (None, Err(error)),
        };
        let (mut moves, mut result) = (Vec::new(), Ok(()));
        for blob in blobs {
            let copied = self.copy_blob(zone, &who, &blob, group, &mut moves).await;
            result = result.and(copied);
        }
        ((!moves.is_empty()).then_some((owner, Move { shard, moves })), result)
    }

    /// Blobs of a holder, its shard, and pool and hash of its objects.
    async fn blobs_of(&self, holder: &Holder) -> BlueResult<(Vec<Rc<Blob>>, Option<(Rc<Object>, u32)>, (u64, u32))> {
        match holder {
            Holder::Object(id, shard) => {
                let shard = *shard;
                let object = self.object(id, Shards::Some(shard..shard + 1)).await?;
                let known = object.state.borrow().knows(shard);
                let extents = if known { object.state.borrow().extents(shard) } else { Rc::default() };
                // A shared blob has a key of its own. (BLU-CLEAN-2)
                let own = |blob: &Rc<Blob>| blob.state.borrow().shared.is_none();
                let blobs = needed_by_blob(&extents).into_iter().map(|(blob, _)| blob).filter(own).collect();
                Ok((blobs, Some((object, shard)), (id.pool, id.hash)))
            }
            Holder::Shared(number) => {
                let blob = self.shared_blob(*number).await?;
                let owner = self.mover_of(&blob);
                Ok((vec![blob], None, owner))
            }
        }
    }

    /// Pool and hash whose collection moves a shared blob: that of its holders. Earlier builds noted the hash of any object that was changed
    /// when it was first shared, which may be in no collection by now. Any other one does as well: the move changes no object.
    fn mover_of(&self, blob: &Blob) -> (u64, u32) {
        let ((pool, hash), state) = (blob.state.borrow().owner, self.state.borrow());
        let first = || state.collections.keys().next().map(|id| (id.pool, id.seed));
        let noted = state.collection_of(pool, hash).map(|_| (pool, hash));
        noted.or_else(first).unwrap_or((pool, hash))
    }

    /// Has a blob's blocks in a zone copied, those that can be read as they were written. (BLU-CLEAN-1)
    async fn copy_blob(
        self: &Rc<Self>,
        zone: u32,
        who: &dyn Fn() -> String,
        blob: &Rc<Blob>,
        group: &Rc<Group>,
        moves: &mut Vec<Moved>,
    ) -> BlueResult<()> {
        let here: Vec<Place> = blob.state.borrow().places.iter().filter(|place| place.zone == zone).copied().collect();
        // Units are read as a whole, for their checks; blocks of them that are in other zones stay there.
        let units: Ranges = here.iter().map(|place| blob.units(&place.range())).collect();
        let (mut left, mut result) = (units.iter().collect::<Vec<_>>(), Ok(()));
        while let Some(range) = left.pop() {
            let blocked = self.state.borrow().blocked(blob, range.clone());
            // A transaction has let some of it go meanwhile, and the rest is for the next time. (BLU-CLEAN-3)
            let Some(blocked) = blocked else { continue };
            let data = match self.read_units(who, blob, &blocked).await {
                Ok(data) => data,
                Err(error) if error.kind == BlueErrorKind::Unavailable => return Err(error),
                Err(error) => {
                    let unit = 1 << blob.unit_shift;
                    match range.end - range.start > unit {
                        // The others are moved.
                        true => {
                            left.extend(range.clone().step_by(unit as usize).map(|at| at..range.end.min(at + unit)))
                        }
                        false => result = result.and(Err(error)),
                    }
                    continue;
                }
            };
            for place in here.iter().filter_map(|place| place.part(&range)) {
                let start = (place.at - range.start) as usize * BLOCK_SIZE;
                let part = data.slice(start..start + place.count as usize * BLOCK_SIZE);
                let writing = self.write_out(COPIES, blob, place.at, part, group);
                moves.push(Moved { blob: blob.clone(), writing });
            }
        }
        result
    }

    /// Tells holders of their new places, once the copies are durable. False if copies were lost. (BLU-CLEAN-1, BLU-KEPT-1)
    async fn tell(self: &Rc<Self>, told: Vec<Told>, group: &Rc<Group>) -> BlueResult<bool> {
        let landed = self.landed(group).await;
        let places = || told.iter().flat_map(|(_, job)| &job.moves).flat_map(Moved::places).collect::<Vec<_>>();
        let kept = match landed {
            Ok(()) => self.flush_and_keep(&places()).await,
            Err(error) => Err(error),
        };
        if kept != Ok(true) {
            self.give_up(&places());
            return kept;
        }
        let jobs = told.into_iter().map(async |(owner, job)| {
            let places: Vec<Place> = job.moves.iter().flat_map(Moved::places).collect();
            let relocated = self.relocate(owner, job).await;
            // A store that has not stopped has made no batch of it.
            if relocated.is_err() && self.state.borrow().running().is_ok() {
                self.give_up(&places);
            }
            relocated
        });
        join_all(jobs).await.into_iter().collect::<BlueResult<()>>()?;
        Ok(true)
    }

    /// Blocks that were written are garbage: no batch will name them.
    pub(crate) fn give_up(&self, places: &[Place]) {
        let mut state = self.state.borrow_mut();
        for place in places {
            let zone = ZoneId(place.zone);
            state.zones.take_live(zone, u64::from(place.count));
            state.looked.note(zone.0);
            if let Some(own) = state.zones.own_mut(zone) {
                own.pending -= place.count;
            }
        }
    }
}
