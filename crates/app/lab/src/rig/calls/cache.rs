//! Tables in memory, beside files on zones.
//!
//! **Owns** which bytes are in memory. **Knows nothing of** the bytes.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};

use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};

use crate::calls::record::FileNumber;

/// Bytes of a block, the share of blocks that were asked for again, and what is read ahead of one who reads in order: those of the crate
/// `files-server`.
const BLOCK: u64 = 16 << 10;
const AGAIN: f64 = 0.5;
const AHEAD_MIN: u64 = 64 << 10;
const AHEAD_MAX: u64 = 1 << 20;

/// A way to keep tables in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// None is kept.
    Nothing,
    /// Whole tables as they are written, up to so many bytes; the first one goes first. (Dissertation, section 5.4.3)
    WholeTables(u64),
    /// Blocks that were written or read, up to so many bytes, those that are used again for longer: the cache of the crate `files-server`.
    Blocks(u64),
}

/// Blocks in memory; hashed without chance, so that each run is the same.
type Blocks = Cache<(FileNumber, u64), (), UnitWeighter, BuildHasherDefault<DefaultHasher>>;

/// One who reads a table in order.
#[derive(Clone, Copy, Default)]
pub(super) struct Reader {
    last: Option<u64>,
    ahead: u64,
}

/// Tables in memory.
pub(super) enum Tables {
    Nothing,
    Whole { most: u64, held: u64, tables: VecDeque<(FileNumber, u64)> },
    Blocks { blocks: Blocks, readers: BTreeMap<FileNumber, Reader> },
}

impl Tables {
    pub(super) fn new(caching: Caching) -> Self {
        match caching {
            Caching::Nothing => Self::Nothing,
            Caching::WholeTables(most) => Self::Whole { most, held: 0, tables: VecDeque::new() },
            Caching::Blocks(bytes) => {
                let count = bytes / BLOCK;
                let mut options = OptionsBuilder::new();
                options.estimated_items_capacity(count as usize).weight_capacity(count).hot_allocation(AGAIN);
                let made = |options| {
                    Cache::with_options(
                        options,
                        UnitWeighter,
                        BuildHasherDefault::default(),
                        DefaultLifecycle::default(),
                    )
                };
                let Ok(blocks) = options.build().map(made) else { return Self::Nothing };
                Self::Blocks { blocks, readers: BTreeMap::new() }
            }
        }
    }

    /// A table got `length` bytes at `offset`.
    pub(super) fn wrote(&mut self, file: FileNumber, offset: u64, length: u64) {
        if let Self::Blocks { blocks, .. } = self {
            for block in offset / BLOCK..(offset + length) / BLOCK {
                blocks.insert((file, block), ());
            }
        }
    }

    /// A table of `length` bytes is complete.
    pub(super) fn completed(&mut self, file: FileNumber, length: u64) {
        let Self::Whole { most, held, tables } = self else { return };
        tables.push_back((file, length));
        *held += length;
        while *held > *most
            && let Some((_, bytes)) = tables.pop_front()
        {
            *held -= bytes;
        }
    }

    /// The name of a table of `length` bytes was removed.
    pub(super) fn forget(&mut self, file: FileNumber, length: u64) {
        match self {
            Self::Nothing => {}
            Self::Whole { held, tables, .. } => {
                tables.retain(|(of, bytes)| {
                    *held -= if *of == file { *bytes } else { 0 };
                    *of != file
                });
            }
            Self::Blocks { blocks, readers } => {
                readers.remove(&file);
                for block in 0..length.div_ceil(BLOCK) {
                    blocks.remove(&(file, block));
                }
            }
        }
    }

    /// Ranges that must be read from the drive for `length` bytes at `offset` of a table of `size` bytes; they are in memory then.
    pub(super) fn missing(&mut self, file: FileNumber, offset: u64, length: u64, size: u64) -> Vec<(u64, u64)> {
        match self {
            Self::Nothing => vec![(offset, length)],
            Self::Whole { tables, .. } if tables.iter().any(|(of, _)| *of == file) => Vec::new(),
            Self::Whole { .. } => vec![(offset, length)],
            Self::Blocks { blocks, readers } => {
                let reader = readers.entry(file).or_default();
                let in_order = reader.last == Some(offset);
                reader.ahead = if in_order { (reader.ahead * 2).clamp(AHEAD_MIN, AHEAD_MAX) } else { 0 };
                reader.last = Some(offset + length);
                let (end, wanted) = ((offset + length).div_ceil(BLOCK), (offset + length + reader.ahead).min(size));
                let (mut block, mut missing) = (offset / BLOCK, Vec::new());
                while block < end {
                    if blocks.get(&(file, block)).is_some() {
                        block += 1;
                        continue;
                    }
                    // All from the first missing block on is read at once.
                    let to = wanted.div_ceil(BLOCK).max(block + 1);
                    missing.push((block * BLOCK, (to * BLOCK).min(size).saturating_sub(block * BLOCK)));
                    for read in block..to {
                        blocks.insert((file, read), ());
                    }
                    break;
                }
                missing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_tables_go_in_the_order_in_which_they_came() {
        let mut tables = Tables::new(Caching::WholeTables(100));
        for table in 0..3 {
            tables.completed(table, 40);
        }
        assert_eq!(tables.missing(0, 0, 10, 40), [(0, 10)]);
        assert!(tables.missing(1, 0, 10, 40).is_empty());
        tables.forget(1, 40);
        tables.completed(3, 60);
        assert!(tables.missing(2, 0, 10, 40).is_empty() && tables.missing(3, 0, 10, 60).is_empty());
    }

    #[test]
    fn blocks_are_read_once_and_ahead_of_one_who_reads_in_order() {
        let mut tables = Tables::new(Caching::Blocks(16 << 20));
        let size = 8 << 20;
        assert_eq!(tables.missing(1, 5, 100, size), [(0, BLOCK)]);
        assert!(tables.missing(1, 200, 100, size).is_empty());
        assert_eq!(tables.missing(1, 1 << 20, 1 << 20, size), [(1 << 20, 1 << 20)]);
        assert_eq!(tables.missing(1, 2 << 20, 1 << 20, size), [(2 << 20, (1 << 20) + AHEAD_MIN)]);
        // Bytes read ahead are there, and more is read ahead the longer it goes on.
        assert_eq!(tables.missing(1, 3 << 20, 1 << 20, size), [((3 << 20) + AHEAD_MIN, (1 << 20) + AHEAD_MIN)]);
        assert_eq!(tables.missing(1, size - 10, 10, size), [(size - BLOCK, BLOCK)]);
        tables.wrote(2, 0, 1 << 20);
        assert!(tables.missing(2, 0, 1 << 20, size).is_empty());
    }
}
