//! An index in memory, for simulations: it can be lost, and a crash can take back its last batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::{Batch, Index, IndexError, IndexErrorKind, IndexResult, Space, Step, View};

type Key = (Space, Vec<u8>);
type Records = BTreeMap<Key, Bytes>;

#[derive(Default)]
struct State {
    records: Arc<Records>,
    /// Changes that undo each batch since the last persist, oldest first.
    undo: Vec<Vec<(Key, Option<Bytes>)>>,
    failing: bool,
    unreadable: bool,
    unpersistable: bool,
}

/// An index in memory. Clones are the same index.
#[derive(Clone, Default)]
pub struct MemoryIndex(Arc<Mutex<State>>);

struct Snapshot(Arc<Records>);

impl MemoryIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of batches that a crash may take back.
    pub fn unpersisted(&self) -> usize {
        self.state().undo.len()
    }

    /// Takes back the last `batches` batches, but none that was persisted: what a crash may do.
    pub fn crash(&self, batches: usize) {
        let mut state = self.state();
        for _ in 0..batches {
            let Some(undo) = state.undo.pop() else { return };
            let records = Arc::make_mut(&mut state.records);
            for (key, value) in undo.into_iter().rev() {
                match value {
                    Some(value) => records.insert(key, value),
                    None => records.remove(&key),
                };
            }
        }
    }

    /// A copy that shares nothing with this one.
    pub fn fork(&self) -> Self {
        let state = self.state();
        Self(Arc::new(Mutex::new(State {
            records: state.records.clone(),
            undo: state.undo.clone(),
            ..State::default()
        })))
    }

    /// From now on every write fails, as on a full or broken disk; or works again.
    pub fn fail(&self, failing: bool) {
        self.state().failing = failing;
    }

    /// From now on nothing can be read, as from a disk that does not answer; or it can again.
    pub fn fail_reads(&self, failing: bool) {
        self.state().unreadable = failing;
    }

    /// From now on it cannot be made durable; or it can again.
    pub fn fail_persists(&self, failing: bool) {
        self.state().unpersistable = failing;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn writable(&self) -> IndexResult<()> {
        if !self.failing {
            return Ok(());
        }
        Err(IndexError::new("the index in memory was told to be full").of_kind(IndexErrorKind::Full))
    }

    fn readable(&self) -> IndexResult<()> {
        if !self.unreadable {
            return Ok(());
        }
        Err(IndexError::new("the index in memory was told not to be read"))
    }
}

fn scan(records: &Records, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) {
    let mut start = from.to_vec();
    'seek: loop {
        for ((found, key), value) in records.range((space, start.clone())..) {
            if *found != space {
                return;
            }
            match visit(key, value.clone()) {
                Step::Next => {}
                Step::Seek(to) => {
                    debug_assert!(to > *key, "a scan only goes forward");
                    start = to;
                    continue 'seek;
                }
                Step::Stop => return,
            }
        }
        return;
    }
}

impl View for Snapshot {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        Ok(self.0.get(&(space, key.to_vec())).cloned())
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        scan(&self.0, space, from, visit);
        Ok(())
    }
}

impl View for MemoryIndex {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        let state = self.state();
        state.readable()?;
        Ok(state.records.get(&(space, key.to_vec())).cloned())
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        let records = {
            let state = self.state();
            state.readable()?;
            state.records.clone()
        };
        scan(&records, space, from, visit);
        Ok(())
    }
}

impl Index for MemoryIndex {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        let mut state = self.state();
        state.writable()?;
        let records = Arc::make_mut(&mut state.records);
        let mut undo = Vec::with_capacity(batch.changes.len());
        for (space, key, value) in batch.changes {
            let key = (space, key);
            let before = match value {
                Some(value) => records.insert(key.clone(), value.into()),
                None => records.remove(&key),
            };
            undo.push((key, before));
        }
        state.undo.push(undo);
        Ok(())
    }

    fn persist(&self) -> IndexResult<()> {
        let mut state = self.state();
        state.writable()?;
        if state.unpersistable {
            return Err(IndexError::new("the index in memory was told not to be durable"));
        }
        state.undo.clear();
        Ok(())
    }

    fn revive(&self) -> IndexResult<()> {
        self.state().writable()
    }

    fn clear(&self) -> IndexResult<()> {
        let mut state = self.state();
        state.writable()?;
        state.records = Arc::default();
        state.undo.clear();
        Ok(())
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        Ok(Box::new(Snapshot(self.state().records.clone())))
    }

    fn blocks(&self) -> bool {
        false
    }
}
