//! Trials of a drive that clients keep away from, to see that it is well again. (AS-AVOID-1)
//!
//! A read tells first: it holds up nobody, as a write does that is not settled (AS-WINDOW-1). Only a drive that reads
//! as its peers do is written to, so nobody's put waits for one that is slow at both.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use shingle_base::Blocks;

use crate::append::item::Item;
use crate::append::open_set::{RESERVED, Room};
use crate::drives::asking::at;
use crate::engine::Engine;
use crate::error::Result;
use crate::types::DriveId;
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

    async fn try_drive(self: &Rc<Self>, drive: DriveId) -> Result<()> {
        let took = self.read_beside(drive).await;
        if self.paces.reads_late(drive, &took) {
            return Ok(());
        }
        self.write_to(drive).await
    }

    /// Times of the members of a set on that drive to read the same block, somewhere; those that fail are left out.
    async fn read_beside(&self, drive: DriveId) -> Vec<(DriveId, Duration)> {
        let Some(set) = self.written_set_on(drive) else { return Vec::new() };
        // Not near its end: that may be on its way.
        let block = (self.rt.random() % u64::from(set.written() / 2).max(1)) as u32;
        let reads = set.members().into_iter().filter_map(|member| {
            let (dev, rt) = (self.drives.usable(member.drive)?, self.rt.clone());
            Some(async move {
                let began = rt.now();
                let read = dev.read(at(&dev, member.zone, block), Blocks(1)).await;
                read.ok().map(|_| (member.drive, rt.now().since(began)))
            })
        });
        join_all(reads).await.into_iter().flatten().collect()
    }

    fn written_set_on(&self, drive: DriveId) -> Option<Rc<ZoneSet>> {
        let id = self.sets.with_groups(|all| {
            let on_it = all.iter().filter(|(drives, _)| drives.has(drive));
            let written = |list: List| on_it.clone().find_map(|(_, of)| of.list(list).first().copied());
            [List::Closed, List::Indexed, List::Open].into_iter().find_map(written)
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
