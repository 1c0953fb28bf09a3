//! Tables in memory, block by block, as a page cache has files of the machine. (Dissertation, section 5.4.3; there, whole files in the
//! order in which they came.)
//!
//! Blocks that are written are there, too: compactions read what was written last.
//!
//! Scans do not push out what is used often: a block stays for long only if it is asked for again (S3-FIFO, `quick_cache`). Half of the
//! memory is left to blocks that are new: of tables, most are read once, by the compaction that ends them. Blocks go with their table.

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// Bytes of a block of the cache.
pub(crate) const BLOCK: u64 = 16 << 10;
/// Share of the memory for blocks that were asked for again.
const AGAIN: f64 = 0.5;
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
        if blocks == 0 {
            return Self { blocks: None };
        }
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(blocks).weight_capacity(bytes).hot_allocation(AGAIN);
        // Both sizes are given, and no more is needed.
        let built = options.build().ok();
        let made =
            |options| Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { blocks: built.map(made) }
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

    /// Forgets the blocks of a file of so many bytes, whose name was removed.
    pub(crate) fn removed(&self, serial: u64, size: u64) {
        if let Some(blocks) = &self.blocks {
            for block in 0..size.div_ceil(BLOCK) {
                blocks.remove(&(serial, block));
            }
        }
    }

    /// Forgets a file's blocks from `first` on: it was cut.
    pub(crate) fn cut(&self, serial: u64, first: u64) {
        if let Some(blocks) = &self.blocks {
            blocks.retain(|(of, block), _| *of != serial || *block < first);
        }
    }
}
