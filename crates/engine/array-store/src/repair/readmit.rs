//! Drives that were given up and are back: what they missed is rebuilt, and what they did not is used again.
//!
//! Done while an array is opened, when nothing changes beside it. The drive gets another number (AS-NUMBER-1). A zone of it takes its old place
//! in a set under that number if it is proven to hold what the others do; what is left under the old number is what the drive
//! missed, and is rebuilt as what a lost drive held. Its free zones serve for that.
//!
//! # Invariants
//! - AS-READMIT-1: a zone is believed only if it ends with the same digest, in the same life of the set and at the same block, as
//!   another member's, and the last items before that verify: all others were written to the zone. Nothing else that the
//!   drive says is.
//! - AS-READMIT-2: a drive keeps its id, which goes over to the new number: whatever superblock a power cut left on which drives, each drive
//!   is known by the newest one that is found.

use std::rc::Rc;

use futures_util::stream::{self, StreamExt};

use crate::drives::asking::{Reports, has_pointer};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Member;
use crate::recovery::gather::Gathered;
use crate::types::{DriveId, DriveSet, SetId, SetState};
use crate::zone_set::ZoneSet;

/// Sets that are looked at side by side.
const SIDE_BY_SIDE: usize = 32;

/// Outcome for a drive that was given up and is back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readmitted {
    /// The name that its owner gave it.
    pub name: String,
    /// The number it had.
    pub old: DriveId,
    /// The number it has.
    pub new: DriveId,
    /// Zones that hold what they should.
    pub kept: usize,
    /// Zones of sets that were written or changed while it was away: they have to be rebuilt.
    pub missed: usize,
}

impl Gathered {
    /// Gives drives that were given up new numbers.
    ///
    /// # Errors
    /// `Invalid` if one of them is in use, or no drive of the array; `Device` if it is not there, did not answer, or did not show whose it is.
    pub(crate) fn readmit(&mut self, ids: &[DriveId]) -> Result<Vec<Readmitted>> {
        let mut readmitted = Vec::new();
        let members = self.superblock.sets.iter().flatten().flat_map(|set| &set.members);
        let named: DriveSet = members.map(|member| member.drive).collect();
        for &old in ids {
            let error = |kind, why: &str| Err(Error::new(kind, format!("{}: {why}", self.drives.name(old))));
            if self.drives.free_number(&named).is_none() {
                return error(
                    ErrorKind::Invalid,
                    "zones of the array's sets lie on as many drives as it can have: rebuild those that are gone",
                );
            }
            if !self.drives.was_given_up(old) {
                return error(
                    ErrorKind::Invalid,
                    "only a drive that was given up can be taken back; `shingle array add` takes it as a new one",
                );
            }
            let Some((new, name)) = self.drives.take_back(old, &named) else {
                return error(
                    ErrorKind::Device,
                    "it is missing, or does not answer, or nothing that can be read on it says that it is of this array: it can be \
                     taken back once it does",
                );
            };
            self.superblocks.renumber(old, new);
            if let Some(zones) = self.reports.remove(&old) {
                self.reports.insert(new, zones);
            }
            readmitted.push(Readmitted { name, old, new, ..Readmitted::default() });
        }
        Ok(readmitted)
    }
}

impl Engine {
    /// Puts zones of a drive that is back in their places, where they hold what the others do. (AS-READMIT-1)
    pub(crate) async fn adopt(&self, readmitted: &mut Readmitted, reports: &Reports) {
        let Readmitted { old, new, .. } = *readmitted;
        let of_it = |(_, set): &(SetId, Rc<ZoneSet>)| {
            set.state() != SetState::Empty && set.has_member(|member| member.drive == old)
        };
        let sets: Vec<_> = self.sets.all().filter(of_it).collect();
        let mut proven = stream::iter(&sets)
            .map(|(id, set)| async move { (set, self.still_holds(*id, set, old, new, reports).await) })
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some((set, holds)) = proven.next().await {
            match holds {
                true => {
                    set.renumber(old, new);
                    readmitted.kept += 1;
                }
                false => readmitted.missed += 1,
            }
        }
    }

    async fn still_holds(&self, id: SetId, set: &ZoneSet, old: DriveId, new: DriveId, reports: &Reports) -> bool {
        let capacity = self.capacity(set);
        let end = |member: &Member| {
            let zone = reports.get(&member.drive)?.get(member.zone.0 as usize)?;
            let written = (zone.written.0 as u32).min(capacity);
            (has_pointer(zone) && written > 0).then_some(written)
        };
        let renumbered = |mut member: Member| {
            member.drive = if member.drive == old { new } else { member.drive };
            member
        };
        let members: Vec<Member> = set.ordered_members(id).into_iter().map(renumbered).collect();
        let Some(own) = members.iter().find(|member| member.drive == new) else { return false };
        let Some(length) = end(own) else { return false };
        let Ok(Some(found)) = self.read_digest(id, &members, *own, length, u32::MAX).await else { return false };
        let mut same = false;
        for other in members.iter().filter(|member| member.drive != new && end(member) == Some(length)) {
            if let Ok(Some(others)) = self.read_digest(id, &members, *other, length, u32::MAX).await {
                same = others == found;
                break;
            }
        }
        // A recovery may have put the digest behind items that did not reach this zone: the last ones.
        let Some(number) = members.iter().position(|member| member == own).filter(|_| same) else { return false };
        for item in found.1.items.iter().rev().take(self.allocator.most()) {
            if !matches!(self.verify_member(number, *own, item).await, Ok(Some(()))) {
                return false;
            }
        }
        true
    }
}
