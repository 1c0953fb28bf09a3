//! CS-Ext4: a chunkserver that keeps each chunk in a file of ext4, on a conventional drive. (SMRstore, section 2.1.)
//!
//! **Owns** the whole drive. Everything but data is in memory, as on a server with room to cache it.

pub(super) mod alloc;
pub(super) mod journal;
pub(super) mod layout;
pub(super) mod space;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::Stream;
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;
use tokio::sync::{Mutex, Semaphore};

use self::alloc::{Allocator, Run};
use self::journal::Journal;
use self::layout::{GROUP, Layout};
use self::space::{Extents, Inodes, Space};
use super::disk::Disk;
use super::frame::{Frame, PIECE};
use crate::rig::target::{ChunkTarget, TargetError, TargetFuture, TargetState};

/// Durability of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// `fdatasync` after every append: the file's new size commits with the journal.
    Synced,
    /// Nothing: the data is on the drive, the file's size follows with the journal's timer within 5 s.
    Timer,
    /// The file was given its blocks and size, and was written once, beforehand: an append changes no metadata.
    Preallocated,
}

/// Choices of a chunkserver on ext4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ext4Options {
    /// Durability of an append.
    pub durability: Durability,
    /// Bytes that a file is given beforehand with [`Durability::Preallocated`].
    pub preallocated_bytes: u64,
    /// Threads of the chunkserver that submit for this drive. Linux does asynchronous I/O that extends a file before
    /// the submission returns, so that each has one append under way. `None` = unlimited: in the baseline's favour.
    pub submitters: u32,
}

impl Default for Ext4Options {
    fn default() -> Self {
        Self { durability: Durability::Synced, preallocated_bytes: 256 << 20, submitters: u32::MAX }
    }
}

struct File {
    inode: u64,
    name: u64,
    frame: Frame,
    extents: Extents,
    sealed: bool,
    /// Appends to a file go one after the other: ext4 holds the inode's lock while a file grows.
    lock: Rc<Mutex<()>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<ChunkId, File>,
    inodes: Inodes,
    live_blocks: u64,
    appended: u64,
}

/// A chunkserver on ext4.
pub struct Ext4Target {
    options: Ext4Options,
    space: Space,
    disk: Rc<Disk>,
    state: RefCell<State>,
    submitters: Semaphore,
    capacity: u64,
}

fn failed<T>(why: &str) -> Result<T, TargetError> {
    Err(TargetError::Failed(why.to_owned()))
}

impl Ext4Target {
    /// A fresh file system on a device all of whose zones are conventional.
    ///
    /// # Errors
    /// The device is no conventional one, or too small.
    pub fn format(rt: &Runtime, device: Rc<dyn ZonedDevice>, options: Ext4Options) -> Result<Self, TargetError> {
        let geometry = device.geometry();
        if geometry.conventional_zones < geometry.zone_count || geometry.blocks().0 < 4 * GROUP {
            return failed("ext4 needs a conventional drive of 512 MiB at least");
        }
        let layout = Layout::new(geometry.blocks().0);
        let disk = Rc::new(Disk::new(device));
        let allocator = Rc::new(RefCell::new(Allocator::new(&layout)));
        let journal = Journal::new(rt, disk.clone(), allocator.clone(), layout.journal.clone());
        let capacity = allocator.borrow().free_blocks();
        let submitters = Semaphore::new(options.submitters.max(1) as usize);
        let space = Space::new(layout, allocator, journal);
        Ok(Self { options, space, disk, state: RefCell::default(), submitters, capacity })
    }

    /// Commits of the journal so far.
    pub fn commits(&self) -> u64 {
        self.space.journal().commits()
    }

    fn create_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let state = &mut *self.state.borrow_mut();
        if state.files.contains_key(&id) {
            return failed("the chunk exists");
        }
        let (inode, layout) = (state.inodes.take(), self.space.layout());
        let hash = id.0.iter().fold(14_695_981_039_346_656_037_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
        });
        let name = layout.name(hash, state.files.len() as u64);
        let mut file = File {
            inode,
            name,
            frame: Frame::default(),
            extents: Extents::default(),
            sealed: false,
            lock: Rc::default(),
        };
        for block in [layout.inode(inode), layout.inode_bitmap(inode), name] {
            self.space.journal().change(block);
        }
        if self.options.durability == Durability::Preallocated {
            let blocks = self.options.preallocated_bytes.div_ceil(PIECE);
            if let Err(error) = self.space.preallocate(&mut file.extents, blocks) {
                self.space.release(&mut file.extents);
                state.inodes.give(inode);
                return Err(error);
            }
        }
        state.files.insert(id, file);
        Ok(())
    }

    /// Allocates an append's blocks, and returns their places.
    fn grow(&self, id: ChunkId, offset: u64, length: u32) -> Result<(Vec<Run>, Rc<Mutex<()>>), TargetError> {
        let state = &mut *self.state.borrow_mut();
        let Some(file) = state.files.get_mut(&id) else { return failed("there is no such chunk") };
        if file.sealed || file.frame.bytes() != offset || length == 0 {
            return failed("not an append at the chunk's end");
        }
        let blocks = file.frame.next(length);
        let (start, end) = (u64::from(blocks.start), u64::from(blocks.end));
        self.space.grow(&mut file.extents, end)?;
        // Only now: an append that found no room leaves the chunk as it was.
        file.frame.append(length);
        state.live_blocks += end - start;
        state.appended += u64::from(length);
        if self.options.durability != Durability::Preallocated {
            self.space.journal().change(self.space.layout().inode(file.inode));
        }
        Ok((file.extents.places(&blocks), file.lock.clone()))
    }

    async fn write(&self, runs: Vec<Run>, lock: Rc<Mutex<()>>) -> Result<(), TargetError> {
        self.space.journal().check()?;
        {
            let _growing = lock.lock().await;
            let extends = self.options.durability != Durability::Preallocated;
            // Never closed, so that it always has a permit to give in the end.
            let _submitter = if extends { self.submitters.acquire().await.ok() } else { None };
            self.disk.write_runs(runs.into_iter().map(|run| (run.at, run.blocks))).await?;
        }
        match self.options.durability {
            Durability::Synced => self.space.journal().commit().await,
            Durability::Timer | Durability::Preallocated => Ok(()),
        }
    }

    async fn read_now(&self, id: ChunkId, offset: u64, length: u32) -> Result<(), TargetError> {
        let runs = {
            let state = self.state.borrow();
            let Some(file) = state.files.get(&id) else { return failed("there is no such chunk") };
            let Some(blocks) = file.frame.locate(offset, length) else { return failed("a read past the chunk's end") };
            file.extents.places(&blocks)
        };
        let reads = runs.into_iter().map(|run| self.disk.read(run.at, run.blocks));
        join_all(reads).await.into_iter().collect()
    }

    fn seal_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let mut state = self.state.borrow_mut();
        let Some(file) = state.files.get_mut(&id) else { return failed("there is no such chunk") };
        file.sealed = true;
        self.space.give_window(&mut file.extents);
        Ok(())
    }

    fn delete_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let state = &mut *self.state.borrow_mut();
        let Some(mut file) = state.files.remove(&id) else { return failed("there is no such chunk") };
        self.space.release(&mut file.extents);
        let layout = self.space.layout();
        for block in [layout.inode(file.inode), layout.inode_bitmap(file.inode), file.name] {
            self.space.journal().change(block);
        }
        state.inodes.give(file.inode);
        state.live_blocks -= u64::from(file.frame.blocks());
        Ok(())
    }
}

impl ChunkTarget for Ext4Target {
    fn create(&self, id: ChunkId, _: Stream) -> TargetFuture<'_, ()> {
        // A new name commits with the file's first append.
        let created = self.create_now(id);
        Box::pin(async move { created })
    }

    fn append(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        let grown = self.grow(id, offset, length);
        Box::pin(async move {
            let (runs, lock) = grown?;
            self.write(runs, lock).await
        })
    }

    fn read(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        Box::pin(self.read_now(id, offset, length))
    }

    fn seal(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        let sealed = self.seal_now(id);
        Box::pin(async move { sealed })
    }

    fn delete(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        let deleted = self.delete_now(id);
        Box::pin(async move { deleted })
    }

    fn state(&self) -> TargetState {
        let state = self.state.borrow();
        let used: Vec<f32> = self.space.allocator.borrow().used().collect();
        TargetState {
            appended_bytes: state.appended,
            written_bytes: self.disk.written_bytes(),
            live_bytes: Blocks(state.live_blocks).bytes(),
            capacity_bytes: Blocks(self.capacity).bytes(),
            free_zones: used.iter().filter(|&&used| used == 0.0).count() as u32,
            utilisation: used.into_iter().filter(|&used| used > 0.0).collect(),
            ..TargetState::default()
        }
    }
}

#[cfg(test)]
mod tests;
