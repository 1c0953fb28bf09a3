//! Tables go to the cache as they are written, as they go to a page cache: compactions read what was written last.
//!
//! **Owns** the bytes of a table's last block, until there are more or it is complete. **Knows nothing of** whether they reached the drive.

use bytes::Bytes;

use crate::cache::{BLOCK, TableCache};

/// The end of a table that is being written.
#[derive(Default)]
pub(crate) struct Fresh {
    serial: u64,
    /// The place of the next bytes.
    end: u64,
    /// Bytes from the last whole block on; none where its first ones are not known.
    edge: Vec<u8>,
}

impl Fresh {
    /// That of a table, whose first `end` bytes were written before.
    pub(crate) fn new(serial: u64, end: u64) -> Self {
        Self { serial, end, edge: Vec::new() }
    }

    /// Takes bytes that follow.
    pub(crate) fn take(&mut self, cache: &TableCache, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK - self.end % BLOCK;
            let part = bytes.len().min(room as usize);
            let (now, rest) = bytes.split_at(part);
            let known = self.edge.len() as u64 == self.end % BLOCK;
            self.end += part as u64;
            if known {
                self.edge.extend_from_slice(now);
                if self.edge.len() as u64 == BLOCK {
                    cache.wrote((self.serial, self.end / BLOCK - 1), Bytes::copy_from_slice(&self.edge));
                    self.edge.clear();
                }
            }
            bytes = rest;
        }
    }

    /// The table is complete: its last block is short.
    pub(crate) fn complete(&mut self, cache: &TableCache) {
        let edge = std::mem::take(&mut self.edge);
        if !edge.is_empty() {
            cache.wrote((self.serial, self.end / BLOCK), edge.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Caching;

    /// FS-CACHE-1.
    #[test]
    fn blocks_are_whole_whatever_the_pieces_and_the_last_one_is_short() {
        let bytes: Vec<u8> = (0..5 * BLOCK + 100).map(|at| (at % 251) as u8).collect();
        for piece in [1000, BLOCK as usize, 70_000] {
            for before in [0, 5, BLOCK, BLOCK + 7] {
                let cache = TableCache::new(Caching::Blocks(1 << 20));
                let mut fresh = Fresh::new(9, before);
                bytes[before as usize..].chunks(piece).for_each(|piece| fresh.take(&cache, piece));
                fresh.complete(&cache);
                for block in 0..6 {
                    let range = (block * BLOCK) as usize..bytes.len().min(((block + 1) * BLOCK) as usize);
                    // Of a block that had bytes before, not all are known.
                    let expected = (block >= before.div_ceil(BLOCK)).then(|| &bytes[range]);
                    assert_eq!(cache.get((9, block)).as_deref(), expected, "{piece}, {before}, {block}");
                }
            }
        }
    }
}
