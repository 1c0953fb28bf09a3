//! The rows of objects that were read or written last, in memory: a caller that finds one here need not go to the index's thread.
//!
//! **Owns** copies of rows of [`Space::Objects`], a bounded number of bytes of them, before another index that has them all.
//! **Knows nothing of** their meaning.
//!
//! # Invariants
//! - OS-ROW-1: a row here is never older than one that a caller has seen: rows of a batch are not here while it is applied, and a row
//!   that was read before a batch changed it does not get in after it. `no_row_is_older_than_one_that_was_seen`.
//! - OS-ROW-2: rows and their keys take at most the bytes that they may. `rows_take_no_more_memory_than_they_may`.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use shingle_base::crc32c;

use super::{Batch, Index, IndexResult, Space, Step, View};

/// Parts that are locked one at a time.
const SHARDS: usize = 16;
/// A longer row, which has much metadata, is left to the index.
const ROW_MAX: usize = 4 << 10;
/// Memory of a row beside its key and value.
const ROW_EXTRA: usize = 96;

type Rows = BTreeMap<Vec<u8>, Bytes>;

/// An index, and before it the rows used last.
pub(crate) struct Recent {
    index: Arc<dyn Index>,
    rows: Arc<RecentRows>,
}

/// The rows alone: callers who have them do not keep the index open.
pub(crate) struct RecentRows {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes of half a shard. 0: no rows are kept.
    half: usize,
}

#[derive(Default)]
struct Shard {
    /// Rows used since it was last full, and those used before: the latter go when it is full again.
    young: Rows,
    old: Rows,
    young_bytes: usize,
    /// Keys of the batch that is being applied.
    changing: BTreeSet<Vec<u8>>,
    /// Keys that are being read from the index.
    reading: BTreeMap<Vec<u8>, Reading>,
}

/// Readers of one key, under way.
#[derive(Default)]
struct Reading {
    readers: u32,
    /// The row has changed meanwhile, or is about to: what they find may be old.
    late: bool,
}

fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ROW_EXTRA
}

impl Shard {
    fn look(&mut self, key: &[u8], half: usize) -> (Option<Bytes>, Rows) {
        if let Some(row) = self.young.get(key) {
            return (Some(row.clone()), Rows::new());
        }
        match self.old.remove(key) {
            Some(row) => (Some(row.clone()), self.keep(key.to_vec(), row, half)),
            None => (None, Rows::new()),
        }
    }

    /// Keeps a row. Returns rows that have to go, to be dropped without the lock.
    fn keep(&mut self, key: Vec<u8>, row: Bytes, half: usize) -> Rows {
        let more = cost(&key, &row);
        if row.len() > ROW_MAX || more > half {
            return Rows::new();
        }
        let gone = if self.young_bytes + more > half {
            self.young_bytes = 0;
            mem::replace(&mut self.old, mem::take(&mut self.young))
        } else {
            Rows::new()
        };
        self.young_bytes += more;
        self.young.insert(key, row);
        gone
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(row) = self.young.remove(key) {
            self.young_bytes -= cost(key, &row);
        }
        self.old.remove(key);
    }

    fn begin_reading(&mut self, key: &[u8]) {
        let late = self.changing.contains(key);
        let reading = self.reading.entry(key.to_vec()).or_default();
        reading.readers += 1;
        reading.late |= late;
    }

    /// A reader is done; whether what it found is still the newest.
    fn end_reading(&mut self, key: &[u8]) -> bool {
        let Some(reading) = self.reading.get_mut(key) else { return false };
        reading.readers -= 1;
        let good = !reading.late;
        if reading.readers == 0 {
            self.reading.remove(key);
        }
        good
    }

    fn begin_change(&mut self, key: &[u8]) {
        self.remove(key);
        if let Some(reading) = self.reading.get_mut(key) {
            reading.late = true;
        }
        self.changing.insert(key.to_vec());
    }
}

impl Recent {
    /// `bytes` of rows before `index`.
    pub(crate) fn new(index: Arc<dyn Index>, bytes: u64) -> Arc<Self> {
        let half = usize::try_from(bytes).unwrap_or(usize::MAX) / SHARDS / 2;
        Arc::new(Self { index, rows: Arc::new(RecentRows { shards: Default::default(), half }) })
    }

    /// As [`RecentRows::row`].
    pub(crate) fn row(&self, key: &[u8]) -> Option<Bytes> {
        self.rows.row(key)
    }

    /// The rows in memory.
    pub(crate) fn rows(&self) -> Arc<RecentRows> {
        self.rows.clone()
    }
}

impl RecentRows {
    /// The row of an object, if it is in memory. Never blocks.
    pub(crate) fn row(&self, key: &[u8]) -> Option<Bytes> {
        if self.half == 0 {
            return None;
        }
        let (row, gone) = self.shard(key).look(key, self.half);
        drop(gone);
        row
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        self.shards[crc32c(key) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.reading.values_mut().for_each(|reading| reading.late = true);
            shard.young_bytes = 0;
            let gone = (mem::take(&mut shard.young), mem::take(&mut shard.old));
            drop(shard);
            drop(gone);
        }
    }
}

impl View for Recent {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        if space != Space::Objects || self.rows.half == 0 {
            return self.index.get(space, key);
        }
        if let Some(row) = self.rows.row(key) {
            return Ok(Some(row));
        }
        self.rows.shard(key).begin_reading(key);
        let found = self.index.get(space, key);
        let mut shard = self.rows.shard(key);
        if shard.end_reading(key)
            && let Ok(Some(row)) = &found
        {
            // A copy: what the index gives may keep a whole block of it in memory.
            let gone = shard.keep(key.to_vec(), Bytes::copy_from_slice(row), self.rows.half);
            drop(shard);
            drop(gone);
        }
        found
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.index.scan(space, from, visit)
    }
}

impl Index for Recent {
    /// One batch at a time, as [`crate::indexer`] applies them.
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        if self.rows.half == 0 {
            return self.index.apply(batch);
        }
        let objects = batch.changes.iter().filter(|(space, ..)| *space == Space::Objects);
        // Of two changes of one key the later counts.
        let rows: BTreeMap<Vec<u8>, Option<Bytes>> =
            objects.map(|(_, key, row)| (key.clone(), row.as_deref().map(Bytes::copy_from_slice))).collect();
        for key in rows.keys() {
            self.rows.shard(key).begin_change(key);
        }
        let applied = self.index.apply(batch);
        for (key, row) in rows {
            let mut shard = self.rows.shard(&key);
            shard.changing.remove(&key);
            // The index may hold all of a batch that failed or nothing of it.
            if applied.is_ok()
                && let Some(row) = row
            {
                let gone = shard.keep(key, row, self.rows.half);
                drop(shard);
                drop(gone);
            }
        }
        applied
    }

    fn persist(&self) -> IndexResult<()> {
        self.index.persist()
    }

    fn revive(&self) -> IndexResult<()> {
        // Records read of a batch that failed may not be there any more.
        self.rows.forget();
        let revived = self.index.revive();
        self.rows.forget();
        revived
    }

    fn clear(&self) -> IndexResult<()> {
        self.rows.forget();
        let cleared = self.index.clear();
        self.rows.forget();
        cleared
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        self.index.snapshot()
    }

    fn blocks(&self) -> bool {
        self.index.blocks()
    }
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
