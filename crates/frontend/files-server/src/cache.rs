//! Tables in memory, block by block, as a page cache has files of the machine. (Dissertation, section 5.4.3; there, whole files in the
//! order in which they came.)
//!
//! What is written is there, too: compactions read what was written last.
//!
//! Scans do not push out what is used often: a block stays for long only if it is asked for again (S3-FIFO, `quick_cache`).

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Bytes of a block of the cache.
pub(crate) const BLOCK: u64 = 16 << 10;
/// Memory that a block needs beside its bytes.
const OVERHEAD: u64 = 128;

/// A block: the serial number of a file, and which of its blocks.
pub(crate) type Key = (u64, u64);

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Bytes> for Weight {
    fn weight(&self, _: &Key, bytes: &Bytes) -> u64 {
        bytes.len() as u64 + OVERHEAD
    }
}

/// Blocks of tables. (FS-CACHE-1)
pub(crate) struct TableCache {
    blocks: Option<Cache<Key, Bytes, Weight>>,
}

impl TableCache {
    /// A cache of so many bytes; zero for none.
    pub(crate) fn new(bytes: u64) -> Self {
        let blocks = (bytes / (BLOCK + OVERHEAD)) as usize;
        Self { blocks: (blocks > 0).then(|| Cache::with_weighter(blocks, bytes, Weight)) }
    }

    pub(crate) fn holds_any(&self) -> bool {
        self.blocks.is_some()
    }

    /// A block's bytes: fewer than a block if the file ended there once.
    pub(crate) fn get(&self, key: Key) -> Option<Bytes> {
        self.blocks.as_ref()?.get(&key)
    }

    pub(crate) fn insert(&self, key: Key, bytes: Bytes) {
        if let Some(blocks) = &self.blocks {
            blocks.insert(key, bytes);
        }
    }

    /// Forgets a file's blocks from `first` on: it was cut.
    pub(crate) fn cut(&self, serial: u64, first: u64) {
        if let Some(blocks) = &self.blocks {
            blocks.retain(|(of, block), _| *of != serial || *block < first);
        }
    }
}
