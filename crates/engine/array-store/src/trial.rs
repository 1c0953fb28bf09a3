//! Trials of a drive that clients keep away from, to see that it is well again. (AS-AVOID-1)
//!
//! A read tells first: it holds up nobody, as a write does that is not settled (AS-WINDOW-1). Only a drive that reads
//! as its peers do is written to, so nobody's put waits for one that is slow at both.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use shingle_base::{Blocks, ZoneId};

use crate::append::item::Item;
use crate::append::open_set::{RESERVED, Room};
use crate::drives::asking::at;
use crate::engine::Engine;
use crate::error::Result;
use crate::types::{DriveId, DriveSet, SetId};
use crate::zone_set::{List, ZoneSet};

impl Engine {
    /// Tries the drives that clients keep away from; nobody waits for that.
    pub(crate) fn try_avoided(self: &Rc<Self>) {
        for drive in self.paces.avoided().iter() {
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                if let Err(error) = engine.try_drive(drive).await {
                    tracing::debug!(%drive, %error, "a drive that is avoided was not tried");
                }
            });
        }
    }

    pub(crate) async fn try_drive(self: &Rc<Self>, drive: DriveId) -> Result<()> {
        let took = self.read_beside(drive).await;
        if !took.iter().any(|(other, _)| *other == drive) || self.paces.reads_late(drive, &took) {
            return Ok(());
        }
        self.write_to(drive).await
    }

    /// Times of that drive and others to read a block; those that fail are left out.
    async fn read_beside(&self, drive: DriveId) -> Vec<(DriveId, Duration)> {
        let reads = self.places_beside(drive).into_iter().filter_map(|(drive, zone, block)| {
            let (dev, rt) = (self.drives.usable(drive)?, self.rt.clone());
            Some(async move {
                let began = rt.now();
                let read = dev.read(at(&dev, zone, block), Blocks(1)).await;
                read.ok().map(|_| (drive, rt.now().since(began)))
            })
        });
        join_all(reads).await.into_iter().flatten().collect()
    }

    /// Places that take as long to read, on that drive and on others that sets lie on with it: the same block of a set,
    /// somewhere; where none of those holds anything, the beginning of their superblocks.
    pub(crate) fn places_beside(&self, drive: DriveId) -> Vec<(DriveId, ZoneId, u32)> {
        if let Some(set) = self.written_set_on(drive).filter(|set| set.written() > 0) {
            // Not near its end: that may be on its way.
            let block = (self.rt.random() % u64::from(set.written() / 2).max(1)) as u32;
            return set.members().into_iter().map(|member| (member.drive, member.zone, block)).collect();
        }
        let beside = self.sets.with_groups(|all| all.keys().find(|drives| drives.has(drive)).copied());
        let superblock = |drive: DriveId| {
            let zone = self.superblock.log.newest_zone(drive)?;
            Some((drive, self.drives.superblock_zones(drive)?[zone], 0))
        };
        beside.into_iter().flat_map(DriveSet::iter).filter_map(superblock).collect()
    }

    /// Some set that holds something there, another one each time: what was read the last time is in the drive's cache.
    fn written_set_on(&self, drive: DriveId) -> Option<Rc<ZoneSet>> {
        let (one, from) = (self.rt.random() as usize, self.rt.random() as usize % self.sets.numbers().max(1));
        let id = self.sets.with_groups(|all| {
            let on_it = all.iter().filter(|(drives, _)| drives.has(drive)).map(|(_, of)| of);
            let lists = [List::Closed, List::Indexed, List::Open];
            let written = on_it.flat_map(|of| lists.map(|list| of.list(list))).filter(|list| !list.is_empty());
            let written: Vec<_> = written.collect();
            let list = written.get(one % written.len().max(1))?;
            list.range(SetId(from as u32)..).next().or(list.first()).copied()
        });
        self.sets.get(id?)
    }

    /// Writes a deletion of nothing to a set on the drive. Clients may have none open there, since drives were grouped
    /// otherwise.
    async fn write_to(self: &Rc<Self>, drive: DriveId) -> Result<()> {
        let stream = match self.allocator.stream_on(drive) {
            Some(stream) => stream,
            None => {
                let Some(stream) = self.allocator.slot_beside(drive) else { return Ok(()) };
                self.open_next(stream, Room { reserved: RESERVED + 1, ..Room::SPARE }).await?;
                stream
            }
        };
        self.append_with(stream, Room::SPARE, &Item::Tombstones(Vec::new())).await.map(drop)
    }
}
