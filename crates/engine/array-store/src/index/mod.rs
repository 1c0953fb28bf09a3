//! The index: a B+ tree, by the library redb, of where the parts of objects lie, and of the objects that are complete.
//!
//! **Owns** the tree's tables and, on flash, its file and the mark that says it was left clean.
//! **Knows nothing of** zones, markers, times: it is told what was written, and whether to believe it is the engine's.
//!
//! Two tables. PARTS: (name, version, offset) to [`PartPlace`], all versions, complete or not. COMPLETE: (name, version,
//! newest first) to size and attributes, one for each version whose last part is in PARTS. So the newest complete
//! version of a name is the first of COMPLETE, whatever is removed, and neither `head` nor a listing touches PARTS.
//! (SMORE, sections III-D and IV-A.)
//!
//! All calls block on the local file system, at worst; none waits for a disk to sync but [`Index::close_clean`]. The
//! library is not asked for durable transactions either, which take it most of the time of a change: nobody reads the
//! file after an unclean stop. But for one in 64: only those free the pages that earlier durable ones hold.
//!
//! # Invariants
//! - AS-IX-1: [`Index::apply`] is whole or absent, also for readers and snapshots. `agrees_with_a_model`.
//! - AS-IX-2: COMPLETE has a version exactly if PARTS has its last part. `agrees_with_a_model`.
//! - AS-IX-3: a [`Snapshot`] shows one moment, whatever is applied later. `a_snapshot_is_a_moment`.
//! - AS-IX-4: a file is taken only if it is byte for byte what [`Index::close_clean`] left, of the array and with the
//!   generation that the engine knows, and only once. `tests/clean.rs`.
//! - AS-IX-5: once a change was refused the array writes nothing more, and does not leave the index as that of an orderly end: it lacks what is
//!   on the drives. `an_index_that_refuses_a_change_ends_all_writes`.

mod apply;
mod backend;
mod chunks;
mod error;
mod read;
mod snapshot;
mod tables;
mod wire;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Builder, Database, Durability, WriteTransaction};
use shingle_runtime::{Runtime, Work};

#[allow(unused_imports)]
pub(crate) use apply::{Applied, Change};
pub(crate) use backend::Moment;
pub(crate) use chunks::Chunks;
pub(crate) use error::{IndexError, IndexResult};
#[allow(unused_imports)]
pub(crate) use snapshot::{Keep, Loader, Snapshot};
pub(crate) use tables::{Object, PartKey};

use tables::{COMPLETE, PARTS};

/// Memory for pages of an index on flash.
const FILE_CACHE_BYTES: usize = 256 << 20;

/// Memory for pages of an index in memory, beside the pages themselves.
const MEMORY_CACHE_BYTES: usize = 32 << 20;

/// One transaction in as many is durable, as far as the library knows.
const DURABLE_EVERY: u64 = 64;

/// The index.
pub(crate) struct Index {
    database: Database,
    /// Names in COMPLETE: kept beside the tree, since counting them reads all of it.
    objects: AtomicU64,
    /// Transactions that changed it.
    changes: AtomicU64,
    /// Its file, if it is not in memory.
    file: Option<backend::IndexFile>,
    /// Told of its work, if there is one.
    runtime: Option<Runtime>,
    /// It refuses changes.
    #[cfg(test)]
    pub(crate) refuses: std::sync::atomic::AtomicBool,
}

impl Index {
    /// An index in memory, empty.
    pub(crate) fn memory() -> IndexResult<Self> {
        let database = Builder::new()
            .set_cache_size(MEMORY_CACHE_BYTES)
            .create_with_backend(redb::backends::InMemoryBackend::new());
        Self::with(database?, 0, None)?.emptied()
    }

    /// An empty index in the file at `path`, which is made if it is not there, and loses what it held if it is. Only its
    /// owner may read it. A mark of an earlier one is removed.
    ///
    /// # Errors
    /// `File`, if the file cannot be made, is a symbolic link or no plain file, or another process has it.
    pub(crate) fn create(path: &Path) -> IndexResult<Self> {
        let (file, backend) = backend::IndexFile::create(path)?;
        let database = Builder::new().set_cache_size(FILE_CACHE_BYTES).create_with_backend(backend)?;
        Self::with(database, 0, Some(file))?.emptied()
    }

    /// The index in the file at `path`, if it was left by [`Index::close_clean`] of that moment and is whole;
    /// else nothing. Its mark is gone, for good, before this returns: a second call gives nothing (AS-IX-4).
    ///
    /// # Errors
    /// `File`, if another process has the file, or the mark cannot be removed.
    pub(crate) fn open_clean(path: &Path, of: Moment) -> IndexResult<Option<Self>> {
        let Some((file, backend, objects)) = backend::IndexFile::open_clean(path, of)? else {
            return Ok(None);
        };
        // The library reads what it wrote, byte for byte. Should a newer one refuse an older one's format, or a table
        // not be there, the index is built anew.
        let opened = Builder::new().set_cache_size(FILE_CACHE_BYTES).create_with_backend(backend).map_err(Into::into);
        let opened = opened.and_then(|database| Self::with(database, objects, Some(file)));
        Ok(opened.and_then(|index| index.view().map(|_| index)).ok())
    }

    fn with(database: Database, objects: u64, file: Option<backend::IndexFile>) -> IndexResult<Self> {
        Ok(Self {
            database,
            objects: AtomicU64::new(objects),
            changes: AtomicU64::new(0),
            file,
            runtime: None,
            #[cfg(test)]
            refuses: Default::default(),
        })
    }

    /// The same index, which tells `runtime` of its work.
    pub(crate) fn told(self, runtime: &Runtime) -> Self {
        Self { runtime: Some(runtime.clone()), ..self }
    }

    fn worked(&self, work: Work, entries: u64) {
        if let Some(runtime) = &self.runtime {
            runtime.worked(work, entries);
        }
    }

    /// A transaction for changes.
    fn begin(&self) -> IndexResult<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        if !self.changes.fetch_add(1, Ordering::Relaxed).is_multiple_of(DURABLE_EVERY) {
            transaction.set_durability(Durability::None)?;
        }
        Ok(transaction)
    }

    /// Makes the tables, so that readers find them.
    fn emptied(self) -> IndexResult<Self> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(PARTS)?;
        transaction.open_table(COMPLETE)?;
        transaction.commit()?;
        Ok(self)
    }

    /// Closes the index so that [`Index::open_clean`] takes it again for the same moment: syncs the file and its
    /// directory, then the mark. In memory it does nothing. Snapshots that are still there end with it.
    ///
    /// # Errors
    /// Any failure to write or sync. The index counts as not clean then.
    pub(crate) fn close_clean(self, of: Moment) -> IndexResult<()> {
        let objects = self.objects.load(Ordering::Relaxed);
        self.database.close()?;
        match self.file {
            Some(file) => file.mark_clean(of, objects),
            None => Ok(()),
        }
    }

    /// Objects: names with a complete version.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    fn count_objects(&self, change: i64) {
        self.objects.fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }
}
