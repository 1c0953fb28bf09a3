//! Tables in memory: block by block, as a page cache has files of the machine; or, to be compared with that, whole tables as they are
//! written, the first one of which goes first. (Dissertation, section 5.4.3.)
//!
//! Blocks that are written are there, too: compactions read what was written last.
//!
//! Scans do not push out what is used often: a block stays for long only if it is asked for again (S3-FIFO, `quick_cache`). Half of the
//! memory is left to blocks that are new: of tables, most are read once, by the compaction that ends them. Blocks go with their table.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Memory for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Blocks that were written or read, in so many bytes; zero for none.
    Blocks(u64),
    /// Whole tables, as they are written, in so many bytes.
    WholeTables(u64),
}

/// Whole tables, in the order in which they came.
struct Tables {
    most: u64,
    held: u64,
    order: VecDeque<u64>,
    blocks: BTreeMap<u64, BTreeMap<u64, Bytes>>,
}

impl Tables {
    fn insert(&mut self, (serial, block): Key, bytes: Bytes) {
        let table = self.blocks.entry(serial).or_insert_with(|| {
            self.order.push_back(serial);
            BTreeMap::new()
        });
        self.held += weight(&bytes);
        self.held -= table.insert(block, bytes).as_ref().map_or(0, weight);
        while self.held > self.most
            && let Some(first) = self.order.front().copied()
        {
            self.cut(first, 0);
        }
    }

    /// Forgets a table's blocks from `first` on.
    fn cut(&mut self, serial: u64, first: u64) {
        let Some(table) = self.blocks.get_mut(&serial) else { return };
        self.held -= table.split_off(&first).values().map(weight).sum::<u64>();
        if table.is_empty() {
            self.blocks.remove(&serial);
            self.order.retain(|of| *of != serial);
        }
    }
}

fn weight(bytes: &Bytes) -> u64 {
    bytes.len() as u64 + OVERHEAD
}

enum Kept {
    Nothing,
    Blocks(Cache<Key, Bytes, Weight>),
    Tables(Mutex<Tables>),
}

/// Blocks of tables. (FS-CACHE-1)
pub(crate) struct TableCache(Kept);

impl TableCache {
    pub(crate) fn new(caching: Caching) -> Self {
        let most = match caching {
            Caching::Blocks(bytes) | Caching::WholeTables(bytes) => bytes,
        };
        let blocks = (most / (BLOCK + OVERHEAD)) as usize;
        if blocks == 0 {
            return Self(Kept::Nothing);
        }
        if let Caching::WholeTables(_) = caching {
            let (order, blocks) = (VecDeque::new(), BTreeMap::new());
            return Self(Kept::Tables(Mutex::new(Tables { most, held: 0, order, blocks })));
        }
        let mut options = OptionsBuilder::new();
        options.estimated_items_capacity(blocks).weight_capacity(most).hot_allocation(AGAIN);
        // Both sizes are given, and no more is needed.
        let built = options.build().ok();
        let made =
            |options| Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self(built.map(made).map_or(Kept::Nothing, Kept::Blocks))
    }

    pub(crate) fn holds_any(&self) -> bool {
        !matches!(self.0, Kept::Nothing)
    }

    /// Blocks that are read stay for those who read them again.
    pub(crate) fn holds_reads(&self) -> bool {
        matches!(self.0, Kept::Blocks(_))
    }

    /// A block's bytes: fewer than a block if the file ended there once.
    pub(crate) fn get(&self, key: Key) -> Option<Bytes> {
        match &self.0 {
            Kept::Nothing => None,
            Kept::Blocks(blocks) => blocks.get(&key),
            Kept::Tables(tables) => locked(tables).blocks.get(&key.0)?.get(&key.1).cloned(),
        }
    }

    /// A block was written.
    pub(crate) fn wrote(&self, key: Key, bytes: Bytes) {
        match &self.0 {
            Kept::Tables(tables) => locked(tables).insert(key, bytes),
            _ => self.read(key, bytes),
        }
    }

    /// A block was read.
    pub(crate) fn read(&self, key: Key, bytes: Bytes) {
        if let Kept::Blocks(blocks) = &self.0 {
            blocks.insert(key, bytes);
        }
    }

    /// Forgets the blocks of a file of so many bytes, whose name was removed.
    pub(crate) fn removed(&self, serial: u64, size: u64) {
        match &self.0 {
            Kept::Nothing => {}
            Kept::Blocks(blocks) => {
                for block in 0..size.div_ceil(BLOCK) {
                    blocks.remove(&(serial, block));
                }
            }
            Kept::Tables(tables) => locked(tables).cut(serial, 0),
        }
    }

    /// Forgets a file's blocks from `first` on: it was cut.
    pub(crate) fn cut(&self, serial: u64, first: u64) {
        match &self.0 {
            Kept::Nothing => {}
            Kept::Blocks(blocks) => blocks.retain(|(of, block), _| *of != serial || *block < first),
            Kept::Tables(tables) => locked(tables).cut(serial, first),
        }
    }
}

/// Each step leaves them whole, so they are used also behind a thread that panicked.
fn locked(tables: &Mutex<Tables>) -> MutexGuard<'_, Tables> {
    tables.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_tables_go_in_the_order_in_which_they_came() {
        let cache = TableCache::new(Caching::WholeTables(10 * (BLOCK + OVERHEAD)));
        let write = |table, blocks: std::ops::Range<u64>| {
            blocks.for_each(|block| cache.wrote((table, block), Bytes::from(vec![table as u8; BLOCK as usize])));
        };
        let held = |table| (0..10).filter(|block| cache.get((table, *block)).is_some()).count();
        write(1, 0..4);
        write(2, 0..4);
        write(1, 3..4);
        assert_eq!((held(1), held(2)), (4, 4));
        cache.read((9, 0), Bytes::from_static(b"read"));
        assert_eq!((held(9), cache.holds_reads()), (0, false));
        write(3, 0..3);
        assert_eq!((held(1), held(2), held(3)), (0, 4, 3), "the first one goes as a whole");
        cache.cut(3, 1);
        cache.removed(2, 4 * BLOCK);
        assert_eq!((held(2), held(3)), (0, 1));
        write(4, 0..9);
        assert_eq!((held(3), held(4)), (1, 9));
        write(5, 0..1);
        assert_eq!((held(3), held(4), held(5)), (0, 9, 1));
        // One that is larger than the memory.
        write(6, 0..10);
        assert_eq!((held(4), held(5), held(6)), (0, 0, 10));
        write(6, 10..11);
        assert_eq!(held(6), 0);
    }
}
