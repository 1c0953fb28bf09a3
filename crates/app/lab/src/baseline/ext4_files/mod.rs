//! ext4 with its page cache, on a block store: which blocks are written for calls of programs, in which order, and when.
//!
//! **Owns** all blocks of the store. **Knows nothing of** data, and of folders: names have places in one directory.
//!
//! | choice | value | |
//! |---|---|---|
//! | layout, allocation, journal | those of [`ext4`](super::ext4): mke2fs's and Linux's defaults | published (there) |
//! | data | `data=ordered`: data for new places goes to the drive before the commit that names them | published (ext4's documentation) |
//! | commits | every 5 s, or when somebody waits | published (the same) |
//! | commit's record | flush, then a write with FUA (`barrier=1`) | published (fs/jbd2/commit.c) |
//! | fsync | the file's dirty pages, then the transaction that changed it; a flush if that has committed | published (fs/ext4/fsync.c) |
//! | delayed allocation | pages get places when they are written back | published |
//! | write-back | each 5 s, of files dirty for 30 s; at any time, if 10 % of the memory is dirty | published (Documentation/admin-guide/sysctl/vm.rst) |
//! | writers wait | while 20 % of the memory is dirty | published; Linux slows them down from 15 % on, which is left out |
//! | pages that a file gets in its turn | 8192, in ascending order from where the last turn ended | assumed (Linux: half a second's, 1024 at least) |
//! | pages given up | those used longest ago, in units of 128 KiB, what Linux reads ahead; dirty ones stay | assumed (Linux: two lists, by page) |
//! | longest I/O; I/Os at the drive | 1 MiB; 128 | published (256 pages; `nr_requests`) |
//! | memory | 8 GiB | assumed: the paper does not say it |
//! | cores; time of a call; of a byte | 2; 100 us; 0.25 ns | published (i3-4340); fitted to the 70 MB/s with which Figure 9 (a) begins; assumed |
//!
//! Metadata is in memory throughout; of files, what was used last. Blocks of the journal go to the drive in one I/O, as request-based drivers merge them; Linux gives them to layers of
//! device-mapper one by one, which is left out in their favour. No discards are sent: `discard` is no default.
//!
//! # Invariants
//! - LAB-XF-1: a page is dirty, or on its way to the drive, or neither; the counts of the cache are the sums over all files.
//! - LAB-XF-2: when `fsync` ends, all that was written to the file before is on the drive, with the metadata to find it.

mod cache;
mod drive;
mod file;
mod machine;
mod resident;
#[cfg(test)]
mod tests;
mod write_back;

use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_store_api::BlockStore;

use self::cache::Cache;
use self::drive::Drive;
use self::file::Core;
pub use self::machine::{FileId, Machine};
use super::ext4::journal::Journal;
use crate::rig::target::TargetError;

/// A file system.
#[derive(Clone)]
pub struct Ext4Files(Rc<Core>);

impl Ext4Files {
    /// A fresh file system.
    ///
    /// # Errors
    /// The store has less than 512 MiB.
    pub fn format(rt: &Runtime, store: Rc<dyn BlockStore>, machine: Machine) -> Result<Self, TargetError> {
        let cache = Cache::new(machine.memory_bytes);
        let core = Core::format(rt, Rc::new(Drive::new(store)), cache, machine)?;
        rt.spawn_detached(write_back::flusher(rt.clone(), Rc::downgrade(&core)));
        Ok(Self(core))
    }

    /// Creates an empty file.
    ///
    /// # Errors
    /// That of an earlier write to the drive, here and below.
    pub async fn create(&self) -> Result<FileId, TargetError> {
        self.0.call(0).await?;
        Ok(self.0.create())
    }

    /// Bytes of a file; 0 of none.
    pub fn length(&self, file: FileId) -> u64 {
        self.0.length(file)
    }

    /// Writes so many bytes at `offset`, at most the file's end. They are in memory when it ends.
    pub async fn write(&self, file: FileId, offset: u64, length: u64) -> Result<(), TargetError> {
        self.0.call(length).await?;
        self.0.write(file, offset, length)?;
        self.0.balance().await
    }

    /// Reads from a file, and returns how much of that it had.
    pub async fn read(&self, file: FileId, offset: u64, length: u64) -> Result<u64, TargetError> {
        let length = self.0.length(file).saturating_sub(offset).min(length);
        self.0.call(length).await?;
        if length > 0 {
            self.0.fetch(file, offset, length).await?;
        }
        Ok(length)
    }

    /// Gives a file another name.
    pub async fn rename(&self, file: FileId) -> Result<(), TargetError> {
        self.0.call(0).await?;
        self.0.rename(file)
    }

    /// Makes names durable: those of a directory (`fsync` of it).
    pub async fn sync_names(&self) -> Result<(), TargetError> {
        self.0.call(0).await?;
        self.journal().commit().await
    }

    /// Sends dirty pages of a file on their way to the drive (`sync_file_range`).
    pub async fn write_back(&self, file: FileId) -> Result<(), TargetError> {
        self.0.call(0).await?;
        self.0.write_all(file, u64::MAX).await
    }

    /// A call that only looks: at a name, or a file's size.
    pub async fn look(&self) -> Result<(), TargetError> {
        self.0.call(0).await
    }

    /// Makes durable what was written to a file. (LAB-XF-2)
    pub async fn fsync(&self, file: FileId) -> Result<(), TargetError> {
        self.0.call(0).await?;
        self.0.fsync(file).await
    }

    /// Deletes a file. Pages that are only in memory never go to the drive.
    pub async fn delete(&self, file: FileId) -> Result<(), TargetError> {
        self.0.call(0).await?;
        self.0.delete(file).await
    }

    /// Makes all durable.
    pub async fn sync(&self) -> Result<(), TargetError> {
        self.0.sync().await
    }

    /// Commits of the journal so far.
    pub fn commits(&self) -> u64 {
        self.journal().commits()
    }

    fn journal(&self) -> &Rc<Journal> {
        self.0.space.journal()
    }
}
