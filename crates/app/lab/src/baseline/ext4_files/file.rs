//! Files: their pages and places, and what calls change.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::{Rc, Weak};
use std::time::Duration;

use shingle_runtime::{Instant, Runtime};
use tokio::sync::Semaphore;

use super::cache::{Cache, Pages};
use super::drive::{Drive, Way};
use super::machine::{FileId, Machine, PAGE};
use super::resident::{Resident, UNIT};
use crate::baseline::ext4::alloc::Allocator;
use crate::baseline::ext4::journal::Journal;
use crate::baseline::ext4::layout::{GROUP, Layout};
use crate::baseline::ext4::space::{Extents, Inodes, Space};
use crate::rig::target::TargetError;

pub(super) struct File {
    inode: u64,
    /// The block with its name.
    name: u64,
    length: u64,
    pub(super) extents: Extents,
    pub(super) pages: Pages,
    /// The last transaction that changed it.
    pub(super) changed_in: u64,
}

/// A file system's state.
pub(super) struct Core {
    pub(super) rt: Runtime,
    machine: Machine,
    cores: Semaphore,
    pub(super) drive: Rc<Drive>,
    pub(super) space: Space,
    pub(super) cache: Cache,
    pub(super) files: RefCell<BTreeMap<FileId, File>>,
    /// Pages in memory.
    resident: RefCell<Resident>,
    /// Files with dirty pages, the one first that is to be written first.
    pub(super) queue: RefCell<BTreeSet<(Instant, FileId)>>,
    inodes: RefCell<Inodes>,
    next: Cell<u64>,
    /// The error of a write in the background.
    pub(super) failed: RefCell<Option<TargetError>>,
}

impl Core {
    pub(super) fn format(
        rt: &Runtime,
        drive: Rc<Drive>,
        cache: Cache,
        machine: Machine,
    ) -> Result<Rc<Self>, TargetError> {
        let blocks = drive.blocks();
        if blocks < 4 * GROUP {
            return Err(TargetError::Failed("ext4 needs 512 MiB at least".to_owned()));
        }
        let layout = Layout::new(blocks);
        let allocator = Rc::new(RefCell::new(Allocator::new(&layout)));
        Ok(Rc::new_cyclic(|core: &Weak<Self>| {
            let way = Rc::new(Way { drive: drive.clone(), files: core.clone() });
            let journal = Journal::new(rt, way, allocator.clone(), layout.journal.clone());
            Self {
                rt: rt.clone(),
                machine,
                cores: Semaphore::new(machine.cores.max(1) as usize),
                drive,
                space: Space::new(layout, allocator, journal),
                cache,
                files: RefCell::default(),
                resident: RefCell::default(),
                queue: RefCell::default(),
                inodes: RefCell::default(),
                next: Cell::new(0),
                failed: RefCell::default(),
            }
        }))
    }

    /// Takes the time of a call.
    pub(super) async fn call(&self, bytes: u64) -> Result<(), TargetError> {
        {
            // Never closed, so that there is a core in the end.
            let _core = self.cores.acquire().await.ok();
            let copying = Duration::from_nanos(bytes * self.machine.byte_ps / 1000);
            self.rt.sleep(self.machine.call + copying).await;
        }
        self.check()
    }

    fn check(&self) -> Result<(), TargetError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    pub(super) fn length(&self, file: FileId) -> u64 {
        self.files.borrow().get(&file).map_or(0, |file| file.length)
    }

    /// Metadata blocks of a file's name and inode change.
    fn change_name(&self, inode: u64, name: u64) {
        let (layout, journal) = (self.space.layout(), self.space.journal());
        for block in [layout.inode(inode), layout.inode_bitmap(inode), name] {
            journal.change(block);
        }
    }

    pub(super) fn create(&self) -> FileId {
        let id = FileId(self.next.replace(self.next.get() + 1));
        let files = &mut *self.files.borrow_mut();
        let inode = self.inodes.borrow_mut().take();
        // A hash scatters names.
        let name = self.space.layout().name(id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20, files.len() as u64);
        self.change_name(inode, name);
        let changed_in = self.space.journal().running();
        let (extents, pages) = (Extents::default(), Pages::default());
        files.insert(id, File { inode, name, length: 0, extents, pages, changed_in });
        id
    }

    /// Makes pages dirty.
    pub(super) fn write(&self, id: FileId, offset: u64, length: u64) -> Result<(), TargetError> {
        let files = &mut *self.files.borrow_mut();
        let file = files.get_mut(&id).ok_or_else(no_file)?;
        if offset > file.length {
            return Err(TargetError::Failed("a write behind the file's end would leave a hole".to_owned()));
        }
        let end = offset + length;
        let mut more = 0;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            more += u64::from(file.pages.dirty.insert(page));
        }
        self.cache.count_dirty(more, 0);
        file.length = file.length.max(end);
        if more > 0 && file.pages.queued.is_none() {
            let now = self.rt.now();
            file.pages.queued = Some(now);
            self.queue.borrow_mut().insert((now, id));
        }
        self.change_inode(file);
        let resident = &mut *self.resident.borrow_mut();
        for unit in offset / PAGE / UNIT..end.div_ceil(PAGE).div_ceil(UNIT) {
            resident.touch(id, unit);
        }
        self.shrink(resident, files);
        Ok(())
    }

    /// Gives up pages that memory has no room for; dirty ones stay.
    fn shrink(&self, resident: &mut Resident, files: &BTreeMap<FileId, File>) {
        resident.shrink(self.cache.memory_pages / UNIT, |id, unit| {
            let pages = files.get(&id).map(|file| &file.pages);
            pages.is_some_and(|pages| pages.dirty.range(unit * UNIT..(unit + 1) * UNIT).next().is_some())
        });
    }

    /// Reads from the drive what is not in memory.
    pub(super) async fn fetch(&self, id: FileId, offset: u64, length: u64) -> Result<(), TargetError> {
        let runs = {
            let (files, resident) = (&*self.files.borrow(), &mut *self.resident.borrow_mut());
            let file = files.get(&id).ok_or_else(no_file)?;
            let end = file.length.div_ceil(PAGE);
            let mut missing: Vec<(u64, u64)> = Vec::new();
            for unit in offset / PAGE / UNIT..(offset + length).div_ceil(PAGE).div_ceil(UNIT) {
                let (first, last) = (unit * UNIT, end.min((unit + 1) * UNIT));
                if !resident.touch(id, unit) && first < last {
                    match missing.last_mut() {
                        Some((_, end)) if *end == first => *end = last,
                        _ => missing.push((first, last)),
                    }
                }
            }
            self.shrink(resident, files);
            let places =
                missing.into_iter().flat_map(|(first, last)| file.extents.places(&(first as u32..last as u32)));
            places.map(|run| (run.at, run.blocks)).collect()
        };
        self.drive.read_runs(runs).await
    }

    /// A file gets another name.
    pub(super) fn rename(&self, id: FileId) -> Result<(), TargetError> {
        let files = &mut *self.files.borrow_mut();
        let file = files.get_mut(&id).ok_or_else(no_file)?;
        self.change_name(file.inode, file.name);
        file.changed_in = self.space.journal().running();
        Ok(())
    }

    /// Size or times of a file change, or its places.
    pub(super) fn change_inode(&self, file: &mut File) {
        let journal = self.space.journal();
        journal.change(self.space.layout().inode(file.inode));
        file.changed_in = journal.running();
    }

    /// Waits while too much is dirty.
    pub(super) async fn balance(&self) -> Result<(), TargetError> {
        if self.cache.over_background() {
            self.cache.wanted.notify_one();
        }
        loop {
            let waits = self.cache.written.notified();
            if !self.cache.over_limit() {
                return self.check();
            }
            self.cache.wanted.notify_one();
            waits.await;
            self.check()?;
        }
    }

    /// Waits until nothing of a file is on its way to the drive.
    pub(super) async fn settle(&self, id: FileId) -> Result<(), TargetError> {
        loop {
            let waits = self.cache.written.notified();
            if self.files.borrow().get(&id).is_none_or(|file| file.pages.writing == 0) {
                return self.check();
            }
            waits.await;
        }
    }

    pub(super) async fn fsync(self: &Rc<Self>, id: FileId) -> Result<(), TargetError> {
        self.write_all(id, u64::MAX).await?;
        self.settle(id).await?;
        let changed_in = self.files.borrow().get(&id).map(|file| file.changed_in).ok_or_else(no_file)?;
        if !self.space.journal().complete(changed_in).await? {
            self.drive.flush().await?;
        }
        Ok(())
    }

    pub(super) async fn delete(&self, id: FileId) -> Result<(), TargetError> {
        self.forget_pages(id);
        self.settle(id).await?;
        self.forget_pages(id);
        let mut file = self.files.borrow_mut().remove(&id).ok_or_else(no_file)?;
        self.resident.borrow_mut().forget(id);
        self.space.release(&mut file.extents);
        self.change_name(file.inode, file.name);
        self.inodes.borrow_mut().give(file.inode);
        Ok(())
    }

    /// Drops dirty pages.
    fn forget_pages(&self, id: FileId) {
        let files = &mut *self.files.borrow_mut();
        let Some(file) = files.get_mut(&id) else { return };
        self.cache.count_dirty(0, std::mem::take(&mut file.pages.dirty).len() as u64);
        if let Some(queued) = file.pages.queued.take() {
            self.queue.borrow_mut().remove(&(queued, id));
        }
    }

    pub(super) async fn sync(self: &Rc<Self>) -> Result<(), TargetError> {
        let all: Vec<FileId> = self.files.borrow().keys().copied().collect();
        for &id in &all {
            self.write_all(id, u64::MAX).await?;
        }
        for id in all {
            self.settle(id).await?;
        }
        self.space.journal().commit().await?;
        self.drive.flush().await
    }
}

pub(super) fn no_file() -> TargetError {
    TargetError::Failed("there is no such file".to_owned())
}
