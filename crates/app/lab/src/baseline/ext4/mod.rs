//! CS-Ext4: a chunkserver that keeps each chunk in a file of ext4, on a conventional drive. (SMRstore, section 2.1.)
//!
//! **Owns** the whole drive. Everything but data is in memory, as on a server with room to cache it.
//!
//! # Invariants
//! - LAB-EX-1: the extents of a file cover its blocks from 0 in order, and no two files share a block.
//! - LAB-EX-2: blocks set aside for a file count as used until it is sealed or deleted.

mod alloc;
mod journal;
mod layout;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::Stream;
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;
use tokio::sync::{Mutex, Semaphore};

use self::alloc::{Allocator, Run, window_end};
use self::journal::Journal;
use self::layout::{GROUP, Layout};
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

/// Blocks of a file's first 64 KiB, which come from the window that small files share.
const SMALL: u64 = 16;
/// Blocks of that window.
const SHARED_WINDOW: u64 = 512;
/// Extents that an inode holds by itself.
const EXTENTS_INLINE: usize = 4;
/// Extents in a block.
const EXTENTS_LEAF: usize = 340;

struct File {
    inode: u64,
    name: u64,
    frame: Frame,
    /// In order of the file's blocks: the first of them, and where they are.
    extents: Vec<(u32, Run)>,
    /// Set aside for later appends.
    window: Option<Run>,
    /// Blocks that hold extents.
    leaves: Vec<u64>,
    sealed: bool,
    /// Appends to a file go one after the other: ext4 holds the inode's lock while a file grows.
    lock: Rc<Mutex<()>>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<ChunkId, File>,
    /// The window that small files share.
    shared: Option<Run>,
    free_inodes: BTreeSet<u64>,
    next_inode: u64,
    live_blocks: u64,
    appended: u64,
}

/// A chunkserver on ext4.
pub struct Ext4Target {
    options: Ext4Options,
    layout: Layout,
    disk: Rc<Disk>,
    allocator: Rc<RefCell<Allocator>>,
    journal: Rc<Journal>,
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
        Ok(Self { options, layout, disk, allocator, journal, state: RefCell::default(), submitters, capacity })
    }

    /// Commits of the journal so far.
    pub fn commits(&self) -> u64 {
        self.journal.commits()
    }

    fn create_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let state = &mut *self.state.borrow_mut();
        if state.files.contains_key(&id) {
            return failed("the chunk exists");
        }
        let inode = state.free_inodes.pop_first().unwrap_or_else(|| {
            state.next_inode += 1;
            state.next_inode - 1
        });
        let hash = id.0.iter().fold(14_695_981_039_346_656_037_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
        });
        let name = self.layout.name(hash, state.files.len() as u64);
        let mut file = File {
            inode,
            name,
            frame: Frame::default(),
            extents: Vec::new(),
            window: None,
            leaves: Vec::new(),
            sealed: false,
            lock: Rc::default(),
        };
        for block in [self.layout.inode(inode), self.layout.inode_bitmap(inode), name] {
            self.journal.change(block);
        }
        if self.options.durability == Durability::Preallocated {
            let mut left = self.options.preallocated_bytes.div_ceil(PIECE);
            while left > 0 {
                let Some(run) = self.allocator.borrow_mut().take(left) else {
                    self.release(&file);
                    state.free_inodes.insert(inode);
                    return Err(TargetError::NoSpace);
                };
                left -= run.blocks;
                self.add(&mut file, run);
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
        let mut at = file.extents.last().map_or(0, |&(first, run)| u64::from(first) + run.blocks);
        while at < end {
            let run = self.next_run(file, &mut state.shared, at, end)?;
            self.add(file, run);
            at += run.blocks;
        }
        // Only now: an append that found no room leaves the chunk as it was.
        file.frame.append(length);
        state.live_blocks += end - start;
        state.appended += u64::from(length);
        if self.options.durability != Durability::Preallocated {
            self.journal.change(self.layout.inode(file.inode));
        }
        Ok((runs_of(file, &blocks), file.lock.clone()))
    }

    /// Blocks for `at..end` of a file: as many as one run has.
    fn next_run(&self, file: &mut File, shared: &mut Option<Run>, at: u64, end: u64) -> Result<Run, TargetError> {
        let allocator = &mut *self.allocator.borrow_mut();
        let (window, want) =
            if end <= SMALL { (shared, SHARED_WINDOW) } else { (&mut file.window, window_end(at, end) - at) };
        let whole = match window.take() {
            Some(run) => run,
            None => {
                let goal = file.extents.last().map(|&(_, run)| run.end());
                match goal {
                    Some(goal) if end > SMALL && allocator.take_at(goal, want) => Run { at: goal, blocks: want },
                    _ => allocator.take(want).ok_or(TargetError::NoSpace)?,
                }
            }
        };
        let used = Run { at: whole.at, blocks: whole.blocks.min(end - at) };
        if used.blocks < whole.blocks {
            *window = Some(Run { at: used.end(), blocks: whole.blocks - used.blocks });
        }
        Ok(used)
    }

    /// Adds a run to a file, with all metadata that this changes.
    fn add(&self, file: &mut File, run: Run) {
        let first = file.extents.last().map_or(0, |&(first, run)| first + run.blocks as u32);
        match file.extents.last_mut() {
            Some((_, last)) if last.end() == run.at && last.blocks + run.blocks <= GROUP => last.blocks += run.blocks,
            _ => file.extents.push((first, run)),
        }
        self.change_bits(run);
        let needed = if file.extents.len() <= EXTENTS_INLINE { 0 } else { file.extents.len().div_ceil(EXTENTS_LEAF) };
        while file.leaves.len() < needed {
            // Without room for a leaf there is none for its blocks either: the next append finds out.
            let Some(leaf) = self.allocator.borrow_mut().take(1) else { break };
            self.change_bits(leaf);
            file.leaves.push(leaf.at);
        }
        if let Some(&leaf) = file.leaves.last() {
            self.journal.change(leaf);
        }
    }

    /// The bits of a run change, and with them the counts in their groups' descriptors.
    fn change_bits(&self, run: Run) {
        for group in run.at / GROUP..=(run.end() - 1) / GROUP {
            self.journal.change(self.layout.bitmap(group));
            self.journal.change(self.layout.descriptor(group));
        }
    }

    /// Gives back all blocks of a file: those with bits once that has committed, those set aside at once.
    fn release(&self, file: &File) {
        let leaves = file.leaves.iter().map(|&at| Run { at, blocks: 1 });
        for run in file.extents.iter().map(|&(_, run)| run).chain(leaves) {
            self.change_bits(run);
            self.journal.free(run);
        }
        if let Some(window) = file.window {
            self.allocator.borrow_mut().give(window);
        }
    }

    async fn write(&self, runs: Vec<Run>, lock: Rc<Mutex<()>>) -> Result<(), TargetError> {
        self.journal.check()?;
        {
            let _growing = lock.lock().await;
            let extends = self.options.durability != Durability::Preallocated;
            // Never closed, so that it always has a permit to give in the end.
            let _submitter = if extends { self.submitters.acquire().await.ok() } else { None };
            self.disk.write_runs(runs.into_iter().map(|run| (run.at, run.blocks))).await?;
        }
        match self.options.durability {
            Durability::Synced => self.journal.commit().await,
            Durability::Timer | Durability::Preallocated => Ok(()),
        }
    }

    async fn read_now(&self, id: ChunkId, offset: u64, length: u32) -> Result<(), TargetError> {
        let runs = {
            let state = self.state.borrow();
            let Some(file) = state.files.get(&id) else { return failed("there is no such chunk") };
            let Some(blocks) = file.frame.locate(offset, length) else { return failed("a read past the chunk's end") };
            runs_of(file, &blocks)
        };
        let reads = runs.into_iter().map(|run| self.disk.read(run.at, run.blocks));
        join_all(reads).await.into_iter().collect()
    }

    fn seal_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let mut state = self.state.borrow_mut();
        let Some(file) = state.files.get_mut(&id) else { return failed("there is no such chunk") };
        file.sealed = true;
        if let Some(window) = file.window.take() {
            self.allocator.borrow_mut().give(window);
        }
        Ok(())
    }

    fn delete_now(&self, id: ChunkId) -> Result<(), TargetError> {
        let state = &mut *self.state.borrow_mut();
        let Some(file) = state.files.remove(&id) else { return failed("there is no such chunk") };
        self.release(&file);
        for block in [self.layout.inode(file.inode), self.layout.inode_bitmap(file.inode), file.name] {
            self.journal.change(block);
        }
        state.free_inodes.insert(file.inode);
        state.live_blocks -= u64::from(file.frame.blocks());
        Ok(())
    }
}

/// Places of `blocks` of a file.
fn runs_of(file: &File, blocks: &Range<u32>) -> Vec<Run> {
    let mut runs = Vec::with_capacity(1);
    let from = file.extents.partition_point(|extent| extent.0 <= blocks.start).saturating_sub(1);
    for &(first, run) in &file.extents[from..] {
        let begin = u64::from(first.max(blocks.start));
        let end = (u64::from(first) + run.blocks).min(u64::from(blocks.end));
        if begin >= end {
            break;
        }
        runs.push(Run { at: run.at + begin - u64::from(first), blocks: end - begin });
    }
    runs
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
        let used: Vec<f32> = self.allocator.borrow().used().collect();
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
