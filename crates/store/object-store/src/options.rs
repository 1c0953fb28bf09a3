//! Options of a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shingle_base::StoreId;
use shingle_chunk_store::ChunkClient;
use shingle_runtime::memory::Memory;

/// A drive: its chunk store and that store's identity.
#[derive(Clone)]
pub struct Drive {
    /// The chunk store.
    pub client: ChunkClient,
    /// Its identity, as it was formatted.
    pub store: StoreId,
    /// Its chunk store could not read all when it was opened: open chunks may be longer than they seem now.
    pub hides: bool,
}

/// A stretch of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: u64,
    /// The chunk in the file.
    pub ordinal: u32,
    /// First byte, in the chunk.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
}

impl Place {
    /// True if `other` lies in it.
    pub(crate) fn has(&self, other: &Self) -> bool {
        (self.file, self.ordinal) == (other.file, other.ordinal) && self.from <= other.from && other.to <= self.to
    }
}

/// Options of a store. The defaults suit full drives and small emulated ones.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of an object that go into one entry; larger objects are cut into segments of this size. Less where a
    /// drive's chunks take less.
    pub segment_bytes: u32,
    /// Bytes after which a file is closed and another begun; by default 1/256 of the drive, at most 1 GiB.
    pub file_bytes: Option<u64>,
    /// Files of one stream open on one drive at a time. A second is opened only when the first is busy.
    pub files_open_max: usize,
    /// Bytes of a drive that only deletions and GC may use, by default 1/32 of it: so that a full drive can be emptied.
    pub reserve_bytes: Option<u64>,
    /// Bytes of objects that may be on their way to the drives: writers wait beyond it. By default 128 MiB, and more with many drives: each is to
    /// have some objects waiting while it writes others.
    pub write_budget_bytes: Option<u32>,
    /// Memory for objects whose bytes are still coming. Without enough of it for a segment, an object gets smaller segments.
    pub memory: Arc<Memory>,
    /// Memory for rows of the index that were used last. 0: none.
    pub row_cache_bytes: u64,
    /// Calls that wait for the engine, of each of reading and writing.
    pub queue_depth: usize,
    /// The least size of a part other than an upload's last.
    pub part_bytes_min: u64,
    /// Interval at which the index is made durable: bounds the scan of a restart after a power cut.
    pub persist_interval: Duration,
    /// Object GC.
    pub gc: GcOptions,
    /// Index backups.
    pub backup: BackupOptions,
    /// Drives that the store is known to be on, whatever the index knows: one that is not there is missing.
    pub known_drives: Vec<StoreId>,
    /// The drives' names for people, where they have others than their stores.
    pub names: BTreeMap<StoreId, String>,
    /// Drives of which the opening gives up these places, if it cannot read them, so that no later one looks at them (OS-REC-5):
    /// [`empty_given_up`](crate::ObjectStoreClient::empty_given_up) is to empty the files that have them. For an opening by someone who
    /// knows that the drives will not get better. Rot on these drives goes with them.
    pub accept_loss: BTreeMap<StoreId, Vec<Place>>,
    /// Open although drives are missing: their objects give errors, others work.
    pub allow_missing_drives: bool,
}

/// When and how fast object GC works.
#[derive(Clone, Debug)]
pub struct GcOptions {
    /// It runs by itself; it can be asked for in either case.
    pub enabled: bool,
    /// The part of a file that must be garbage before it is rewritten, while there is space.
    pub garbage_fraction: f64,
    /// The part of a drive that must be free; below it, less garbage is worth a rewrite, and the rate does not count.
    pub free_fraction_low: f64,
    /// Interval of looks at files.
    pub interval: Duration,
    /// Bytes a second that are read and rewritten on one drive, while there is space.
    pub rate_bytes_per_s: u64,
}

/// When the index is backed up to the drives.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// It is made by itself; it can be asked for in either case.
    pub enabled: bool,
    /// Interval of looks if a backup is due.
    pub interval: Duration,
    /// A backup is due once this many bytes were written since the last one,
    pub bytes_min: u64,
    /// and this many times the last backup's size.
    pub size_factor: u64,
}

/// The least default budget of writes, and what each drive needs of it.
const WRITE_BUDGET_BYTES: u32 = 128 << 20;
const WRITE_BUDGET_BYTES_EACH: u32 = 4 << 20;

impl Options {
    /// A drive's name for people.
    pub(crate) fn name_of(&self, store: StoreId) -> String {
        self.names.get(&store).cloned().unwrap_or_else(|| format!("store {store}"))
    }

    /// True if the loss of that place is accepted.
    pub(crate) fn accepts(&self, store: StoreId, place: &Place) -> bool {
        self.accept_loss.get(&store).into_iter().flatten().any(|shown| shown.has(place))
    }

    /// The budget of writes, with so many drives.
    pub(crate) fn write_budget(&self, drives: usize) -> u32 {
        let each = u32::try_from(drives).unwrap_or(u32::MAX).saturating_mul(WRITE_BUDGET_BYTES_EACH);
        self.write_budget_bytes.unwrap_or(each.max(WRITE_BUDGET_BYTES)).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 4 << 20,
            file_bytes: None,
            files_open_max: 8,
            reserve_bytes: None,
            write_budget_bytes: None,
            memory: Memory::unbounded(),
            row_cache_bytes: 16 << 20,
            queue_depth: 256,
            part_bytes_min: 5 << 20,
            persist_interval: Duration::from_secs(5),
            gc: GcOptions::default(),
            backup: BackupOptions::default(),
            known_drives: Vec::new(),
            names: BTreeMap::new(),
            accept_loss: BTreeMap::new(),
            allow_missing_drives: false,
        }
    }
}

impl Default for GcOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            garbage_fraction: 0.3,
            free_fraction_low: 0.15,
            interval: Duration::from_secs(1),
            rate_bytes_per_s: 64 << 20,
        }
    }
}

impl Default for BackupOptions {
    fn default() -> Self {
        Self { enabled: true, interval: Duration::from_secs(60), bytes_min: 1 << 30, size_factor: 32 }
    }
}
