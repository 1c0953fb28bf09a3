//! Cleaning: what lives in a zone is copied elsewhere, and the zone is free. (Dissertation, section 5.7.1, ZonedCleaner.)
//!
//! Namespace `G` says who has live blocks in a zone. Their blocks are copied as they are; then each holder's metadata
//! get the new places in a job of its collection, in turn with transactions. A transaction that came meanwhile has won: of the copies, only
//! blocks that are needed still are kept.
//!
//! # Invariants
//! - BLU-CLEAN-1: metadata name copies when those are durable; blocks that cannot be read stay where they are.
//! - BLU-CLEAN-2: a shared blob is moved once, whoever shares it.

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, ZoneId};
use shingle_zone_kit::Zone;

use crate::blob::ranges::Ranges;
use crate::blob::{Blob, Place};
use crate::change::Moved;
use crate::engine::Engine;
use crate::error::{BlueErrorKind, BlueResult};
use crate::format::key::{self, Holder};
use crate::map::needed_by_blob;
use crate::object::Object;
use crate::options::Victims;
use crate::piece::Group;
use crate::relocate::Move;
use crate::state::{COPIES, Own, RESERVE};
use crate::txn::Shards;

/// Bytes that are copied before their holders are told.
const ROUND: u64 = 8 << 20;

/// A job for the collection of some pool and hash.
type Told = ((u64, u32), Move);

impl Engine {
    /// The zone to be cleaned next, if any is to be cleaned now, and whether that is urgent.
    pub(crate) fn victim(&self) -> Option<(u32, bool)> {
        let state = self.state.borrow();
        let all = state.epochs.len() as f64;
        let waits = state.waiters > 0 || state.lanes.iter().any(|lane| lane.own.waits);
        let free = state.zones.free();
        let zone_blocks = u64::from(self.drive.layout.zone_blocks);
        let (least, urgent) = match () {
            () if waits => (1, true),
            () if free <= RESERVE + 1 => (zone_blocks / 8, true),
            () if 1.0 - f64::from(free) / all >= self.options.clean_at => (zone_blocks / 3, false),
            () => return None,
        };
        let gain = |zone: &Zone<Own>| zone_blocks.saturating_sub(zone.live);
        let candidates = state.zones.candidates();
        let worth =
            candidates.filter(|(_, zone)| zone.own.pending == 0 && !zone.own.passed && gain(zone) >= least.max(1));
        let opened = state.zones.opened();
        let score = |zone: &Zone<Own>| match self.options.victims {
            Victims::Greedy => gain(zone) as f64,
            Victims::CostBenefit => {
                let age = (opened - zone.order.min(opened) + 1) as f64;
                gain(zone) as f64 / (zone_blocks + zone.live) as f64 * age.sqrt()
            }
        };
        let best = worth.max_by(|(_, one), (_, other)| score(one).total_cmp(&score(other)));
        best.map(|(zone, _)| (zone.0, urgent))
    }

    /// Moves what lives in a zone elsewhere.
    pub(crate) async fn clean(self: &Rc<Self>, zone: u32) -> BlueResult<()> {
        let (from, to) = key::live_in(zone);
        let holders = self.scan_all(from, to).await?;
        let (mut told, mut group): (Vec<Told>, Rc<Group>) = (Vec::new(), Rc::default());
        let mut moved = Ok(());
        for (key, _) in holders {
            let Some((_, holder)) = key::parse_live(&key) else { continue };
            let (job, failed) = self.copy_holder(zone, holder, &group).await;
            told.extend(job);
            match failed {
                Ok(()) => {}
                // Its blocks stay, and so does the zone. (BLU-CLEAN-1)
                Err(error) if error.kind != BlueErrorKind::Unavailable => {
                    tracing::warn!(zone, %error, "some of what lives in a zone cannot be read");
                    self.state.borrow_mut().zones.note_stuck(ZoneId(zone));
                }
                Err(error) => moved = Err(error),
            }
            if moved.is_ok() && group.left.get() * BLOCK_SIZE as u64 >= ROUND {
                moved = self.tell(std::mem::take(&mut told), &std::mem::take(&mut group)).await;
            }
            if moved.is_err() {
                break;
            }
        }
        if moved.is_ok() {
            moved = self.tell(told, &group).await;
        }
        let mut state = self.state.borrow_mut();
        state.running()?;
        state.counters.cleaned += u64::from(moved.is_ok());
        if let Some(own) = state.zones.own_mut(ZoneId(zone)) {
            // Until something changes in it, it is not tried again.
            own.passed = true;
        }
        match moved {
            Err(error) if error.kind == BlueErrorKind::Unavailable => Err(error),
            _ => Ok(()),
        }
    }

    /// Has a holder's blocks in a zone copied, those that can be read. Returns the job that tells the holder of the copies.
    async fn copy_holder(
        self: &Rc<Self>,
        zone: u32,
        holder: Holder,
        group: &Rc<Group>,
    ) -> (Option<Told>, BlueResult<()>) {
        let (blobs, shard, owner) = match self.blobs_of(holder).await {
            Ok(found) => found,
            Err(error) => return (None, Err(error)),
        };
        let (mut moves, mut result) = (Vec::new(), Ok(()));
        for blob in blobs {
            let copied = self.copy_blob(zone, &blob, group, &mut moves).await;
            result = result.and(copied);
        }
        ((!moves.is_empty()).then_some((owner, Move { shard, moves })), result)
    }

    /// Blobs of a holder, its shard, and pool and hash of its objects.
    async fn blobs_of(&self, holder: Holder) -> BlueResult<(Vec<Rc<Blob>>, Option<(Rc<Object>, u32)>, (u64, u32))> {
        match holder {
            Holder::Object(id, shard) => {
                let object = self.object(&id, Shards::Some(shard..shard + 1)).await?;
                let known = object.state.borrow().knows(shard);
                let extents = if known { object.state.borrow().extents(shard) } else { Rc::default() };
                // A shared blob has a key of its own. (BLU-CLEAN-2)
                let own = |blob: &Rc<Blob>| blob.state.borrow().shared.is_none();
                let blobs = needed_by_blob(&extents).into_iter().map(|(blob, _)| blob).filter(own).collect();
                Ok((blobs, Some((object, shard)), (id.pool, id.hash)))
            }
            Holder::Shared(number) => {
                let blob = self.shared_blob(number).await?;
                let owner = blob.state.borrow().owner;
                Ok((vec![blob], None, owner))
            }
        }
    }

    /// Has a blob's blocks in a zone copied.
    async fn copy_blob(
        self: &Rc<Self>,
        zone: u32,
        blob: &Rc<Blob>,
        group: &Rc<Group>,
        moves: &mut Vec<Moved>,
    ) -> BlueResult<()> {
        let here: Vec<Place> = blob.state.borrow().places.iter().filter(|place| place.zone == zone).copied().collect();
        // Units are read as a whole, for their checks; blocks of them that are in other zones stay there.
        let units: Ranges = here.iter().map(|place| blob.units(&place.range())).collect();
        for range in units.iter() {
            let blocked = self.state.borrow().blocked(blob, range.clone());
            // A transaction has let some of it go meanwhile, and the rest is for the next time.
            let Some(blocked) = blocked else { continue };
            let data = self.read_blocks(&blocked).await?;
            if let Some(bad) = blob.first_bad(range.start, &data) {
                // Its readers are told, at the new place as at the old one.
                tracing::warn!(zone, block = bad, "bytes that are copied are not those that were written");
            }
            for place in here.iter().filter_map(|place| place.part(&range)) {
                let start = (place.at - range.start) as usize * BLOCK_SIZE;
                let part = data.slice(start..start + place.count as usize * BLOCK_SIZE);
                let writing = self.write_out(COPIES, blob, place.at, part, group);
                moves.push(Moved { blob: blob.clone(), writing });
            }
        }
        Ok(())
    }

    /// Tells holders of their new places, once the copies are durable. (BLU-CLEAN-1)
    async fn tell(self: &Rc<Self>, told: Vec<Told>, group: &Rc<Group>) -> BlueResult<()> {
        let landed = self.landed(group).await;
        if let Err(error) = landed {
            // Copies that are there are garbage.
            self.give_up(&told);
            return Err(error);
        }
        self.flush().await?;
        let jobs = told.into_iter().map(|(owner, job)| self.relocate(owner, job));
        join_all(jobs).await.into_iter().collect()
    }

    fn give_up(&self, told: &[Told]) {
        let mut state = self.state.borrow_mut();
        let moves = told.iter().flat_map(|(_, job)| &job.moves);
        for place in moves.flat_map(Moved::places) {
            let zone = ZoneId(place.zone);
            state.zones.take_live(zone, u64::from(place.count));
            if let Some(own) = state.zones.own_mut(zone) {
                own.pending -= place.count;
            }
        }
    }
}
