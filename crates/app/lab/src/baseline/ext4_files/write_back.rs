//! Write-back: dirty pages get places, and go to the drive.

use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use futures_util::future::select;
use shingle_runtime::Runtime;
use shingle_store_api::Durability;

use super::drive::{BIO_MAX, Ordered};
use super::file::Core;
use super::machine::FileId;
use crate::rig::target::{TargetError, TargetFuture};

/// Time between looks (`dirty_writeback_centisecs`).
const EVERY: Duration = Duration::from_secs(5);

/// Age at which pages are written in any case (`dirty_expire_centisecs`).
const EXPIRES: Duration = Duration::from_secs(30);

/// Pages of a file in its turn.
const TURN: usize = 8192;

/// Writes back until the file system is gone.
pub(super) async fn flusher(rt: Runtime, core: Weak<Core>) {
    loop {
        let Some(here) = core.upgrade() else { return };
        select(pin!(here.cache.wanted.notified()), pin!(rt.sleep(EVERY))).await;
        while let Some(id) = here.next_turn() {
            if let Err(error) = here.write_pages(id, TURN, u64::MAX).await {
                here.fail(error);
                return;
            }
        }
    }
}

impl Core {
    pub(super) fn fail(&self, error: TargetError) {
        self.failed.borrow_mut().get_or_insert(error);
        self.cache.written.notify_waiters();
    }

    /// The file that is written next; none if that is not due.
    fn next_turn(&self) -> Option<FileId> {
        let &(since, id) = self.queue.borrow().first()?;
        let due = self.cache.over_background() || self.rt.now().since(since) >= EXPIRES;
        due.then_some(id)
    }

    /// Begins to write dirty pages of a file, up to so many of those below `end`. False if there were none.
    async fn write_pages(self: &Rc<Self>, id: FileId, most: usize, end: u64) -> Result<bool, TargetError> {
        let bios = self.take_bios(id, most, end)?;
        let some = !bios.is_empty();
        for (at, blocks) in bios {
            let core = self.clone();
            // The place goes with the write: whoever writes back waits here, and for no write.
            let Some(place) = self.drive.place().await else { break };
            self.rt.spawn_detached(async move {
                let written = core.drive.write(at, blocks, Durability::Cached).await;
                drop(place);
                if let Some(file) = core.files.borrow_mut().get_mut(&id) {
                    file.pages.writing -= blocks;
                }
                core.cache.end(blocks);
                if let Err(error) = written {
                    core.fail(error);
                }
            });
        }
        Ok(some)
    }

    /// Takes dirty pages of a file, gives them places, and returns the I/Os to write them.
    fn take_bios(&self, id: FileId, most: usize, end: u64) -> Result<Vec<(u64, u64)>, TargetError> {
        let files = &mut *self.files.borrow_mut();
        let Some(file) = files.get_mut(&id) else { return Ok(Vec::new()) };
        let pages = file.pages.take(most, end);
        if let Some(queued) = file.pages.queued.take() {
            let queue = &mut *self.queue.borrow_mut();
            queue.remove(&(queued, id));
            if !file.pages.dirty.is_empty() {
                let now = self.rt.now();
                file.pages.queued = Some(now);
                queue.insert((now, id));
            }
        }
        self.cache.begin(pages.len() as u64);
        let placed = file.extents.blocks();
        let needed = pages.last().map_or(0, |last| last + 1);
        if needed > placed {
            self.space.grow(&mut file.extents, needed)?;
            self.change_inode(file);
            self.space.journal().order(id.0);
        }
        let mut bios: Vec<(u64, u64)> = Vec::new();
        for page in pages {
            let places = file.extents.places(&(page as u32..page as u32 + 1));
            let Some(place) = places.first() else { continue };
            match bios.last_mut() {
                Some((at, blocks)) if *at + *blocks == place.at && *blocks < BIO_MAX => *blocks += 1,
                _ => bios.push((place.at, 1)),
            }
        }
        Ok(bios)
    }

    /// Begins to write all dirty pages of a file below `end`.
    pub(super) async fn write_all(self: &Rc<Self>, id: FileId, end: u64) -> Result<(), TargetError> {
        while self.write_pages(id, TURN, end).await? {}
        Ok(())
    }
}

/// `data=ordered`: pages without a place are of a later transaction.
impl Ordered for Core {
    fn write_ordered(self: Rc<Self>, files: BTreeSet<u64>) -> TargetFuture<'static, ()> {
        Box::pin(async move {
            for &number in &files {
                let id = FileId(number);
                let placed = self.files.borrow().get(&id).map_or(0, |file| file.extents.blocks());
                self.write_all(id, placed).await?;
            }
            for number in files {
                self.settle(FileId(number)).await?;
            }
            Ok(())
        })
    }
}
