//! The index: a B+ tree, by the library redb, of where the parts of objects lie, and of the objects that are complete.
//!
//! **Owns** the tree's tables and, on flash, its file and the mark that says it was left clean.
//! **Knows nothing of** zones, markers, clocks: it is told what was written, and whether to believe it is the engine's.
//!
//! Two tables. PARTS: (name, version, offset) to [`PartPlace`], all versions, complete or not. COMPLETE: (name, version,
//! newest first) to size and attributes, one for each version whose last part is in PARTS. So the newest complete
//! version of a name is the first of COMPLETE, whatever is removed, and neither `head` nor a listing touches PARTS.
//! (SMORE, sections III-D and IV-A.)
//!
//! All calls block on the local file system, at worst; none waits for a disk to sync but [`Index::close_clean`]. The library is not
//! asked for durable transactions either, which take it most of the time of a change: nobody reads the file after an unclean
//! stop. But for one in 64: only those free the pages that earlier durable ones hold.
//!
//! # Invariants
//! - IX-1: [`Index::apply`] is whole or absent, also for readers and snapshots. `agrees_with_a_model`.
//! - IX-2: COMPLETE has a version exactly if PARTS has its last part. `agrees_with_a_model`.
//! - IX-3: a [`Snapshot`] shows one moment, whatever is applied later. `a_snapshot_is_a_moment`.
//! - IX-4: a file is taken only if it is byte for byte what [`Index::close_clean`] left, of the array and with the
//!   generation that the engine knows, and only once. `tests/clean.rs`.

mod apply;
mod backend;
mod chunks;
mod error;
mod read;
mod snapshot;
mod wire;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};

use shingle_base::StoreId;

use crate::types::{PartPlace, SetId, Version};

#[allow(unused_imports)]
pub(crate) use apply::{Applied, Change};
pub(crate) use chunks::Chunks;
pub(crate) use error::IndexError;
#[allow(unused_imports)]
pub(crate) use snapshot::{Keep, Loader, Snapshot};

/// What index calls come to.
pub(crate) type IndexResult<T> = Result<T, IndexError>;

/// Bytes of a [`PartPlace`] in PARTS.
const PLACE_LENGTH: usize = 29;

type PartsKey = (&'static [u8], u64, u64);
type CompleteKey = (&'static [u8], u64);

/// (name, version, offset) to place.
const PARTS: TableDefinition<'_, PartsKey, &[u8; PLACE_LENGTH]> = TableDefinition::new("parts");

/// (name, version with all bits flipped) to size (8) and attributes.
const COMPLETE: TableDefinition<'_, CompleteKey, &[u8]> = TableDefinition::new("complete");

/// Memory for pages of an index on flash.
const FILE_CACHE_BYTES: usize = 256 << 20;

/// Memory for pages of an index in memory, beside the pages themselves.
const MEMORY_CACHE_BYTES: usize = 32 << 20;

/// One transaction in as many is durable, as far as the library knows.
const DURABLE_EVERY: u64 = 64;

/// Which index of which array it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) array: StoreId,
    pub(crate) generation: u64,
}

/// Names a part.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartKey {
    pub(crate) name: Bytes,
    pub(crate) version: Version,
    pub(crate) offset: u64,
}

/// A complete version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) version: Version,
    pub(crate) size: u64,
    pub(crate) attributes: Bytes,
}

/// The index.
pub(crate) struct Index {
    database: Database,
    /// Names in COMPLETE: kept beside the tree, since counting them reads all of it.
    objects: AtomicU64,
    /// Transactions that changed it.
    changes: AtomicU64,
    /// Where it lies, if not in memory.
    file: Option<backend::IndexFile>,
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
    /// else nothing. Its mark is gone, for good, before this returns: a second call gives nothing (IX-4).
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
        Ok(opened.and_then(|index| index.reader().map(|_| index)).ok())
    }

    fn with(database: Database, objects: u64, file: Option<backend::IndexFile>) -> IndexResult<Self> {
        Ok(Self { database, objects: AtomicU64::new(objects), changes: AtomicU64::new(0), file })
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

    /// Takes a snapshot: a read transaction of the tree, microseconds, whatever its size. Changes go on meanwhile; pages
    /// that they replace stay in the file until the snapshot is dropped.
    pub(crate) fn snapshot(&self) -> IndexResult<Snapshot> {
        Snapshot::new(self.database.begin_read()?)
    }

    /// Objects: names with a complete version.
    pub(crate) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    fn count_objects(&self, change: i64) {
        self.objects.fetch_add(change.cast_unsigned(), Ordering::Relaxed);
    }
}

/// A version as COMPLETE has it: the newest first.
fn newest_first(version: Version) -> u64 {
    !version.0
}

fn version_of(newest_first: u64) -> Version {
    Version(!newest_first)
}

fn place_to_bytes(place: &PartPlace) -> [u8; PLACE_LENGTH] {
    let mut bytes = [0; PLACE_LENGTH];
    bytes[0..4].copy_from_slice(&place.set.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&place.block.to_le_bytes());
    bytes[8..16].copy_from_slice(&place.stamp.to_le_bytes());
    bytes[16..20].copy_from_slice(&place.segment_length.to_le_bytes());
    bytes[20..24].copy_from_slice(&place.at.to_le_bytes());
    bytes[24..28].copy_from_slice(&place.length.to_le_bytes());
    bytes[28] = u8::from(place.last);
    bytes
}

fn place_from_bytes(bytes: &[u8; PLACE_LENGTH]) -> PartPlace {
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    PartPlace {
        set: SetId(number(0)),
        block: number(4),
        stamp: u64::from(number(8)) | u64::from(number(12)) << 32,
        segment_length: number(16),
        at: number(20),
        length: number(24),
        last: bytes[28] != 0,
    }
}

fn complete_value(size: u64, attributes: &[u8]) -> Vec<u8> {
    [&size.to_le_bytes(), attributes].concat()
}

/// Size and attributes.
fn complete_parts(value: &[u8]) -> IndexResult<(u64, &[u8])> {
    let (size, attributes) =
        value.split_first_chunk().ok_or(IndexError::Malformed("an object's entry is too short"))?;
    Ok((u64::from_le_bytes(*size), attributes))
}

fn object_of(version: u64, value: &[u8]) -> IndexResult<Object> {
    let (size, attributes) = complete_parts(value)?;
    Ok(Object { version: version_of(version), size, attributes: Bytes::copy_from_slice(attributes) })
}
