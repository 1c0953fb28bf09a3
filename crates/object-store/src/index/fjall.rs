//! The index in a directory of the local file system, kept by the LSM library fjall.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use bytes::Bytes;

use super::{Batch, Index, IndexError, IndexResult, Space, Step, View};

type Keyspaces = BTreeMap<Space, Keyspace>;

/// An index in a directory. One process at a time may have it open.
pub struct FjallIndex {
    database: Database,
    keyspaces: Keyspaces,
}

struct Moment {
    snapshot: Snapshot,
    keyspaces: Keyspaces,
}

impl FjallIndex {
    /// Opens the index in `directory`, which is made if it is not there. `cache_bytes` bounds the memory used for
    /// reading. Blocks.
    ///
    /// # Errors
    /// If the directory cannot be read or written, another process has it open, or what is in it is no index or a
    /// damaged one. Nothing is lost with it: remove it and rebuild.
    pub fn open(directory: impl AsRef<Path>, cache_bytes: u64) -> IndexResult<Self> {
        let directory = directory.as_ref();
        let failed =
            |error| IndexError::caused(format!("the index in {} cannot be opened", directory.display()), error);
        let database = Database::builder(directory).cache_size(cache_bytes).worker_threads(2).open().map_err(failed)?;
        let keyspaces = Space::ALL
            .into_iter()
            .map(|space| Ok((space, database.keyspace(space.name(), KeyspaceCreateOptions::default)?)))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Self { database, keyspaces })
    }
}

fn failed(what: &'static str) -> impl Fn(::fjall::Error) -> IndexError {
    move |error| IndexError::caused(format!("the index failed to {what}"), error)
}

fn keyspace(keyspaces: &Keyspaces, space: Space) -> IndexResult<&Keyspace> {
    keyspaces.get(&space).ok_or_else(|| IndexError::new("the index lacks a keyspace"))
}

fn scan(
    snapshot: &Snapshot,
    keyspace: &Keyspace,
    from: &[u8],
    visit: &mut dyn FnMut(&[u8], Bytes) -> Step,
) -> IndexResult<()> {
    let mut start = from.to_vec();
    'seek: loop {
        for record in snapshot.range::<&[u8], _>(keyspace, (Bound::Included(start.as_slice()), Bound::Unbounded)) {
            let (key, value) = record.into_inner().map_err(failed("scan"))?;
            match visit(&key, value.into()) {
                Step::Next => {}
                Step::Seek(to) => {
                    start = to;
                    continue 'seek;
                }
                Step::Stop => return Ok(()),
            }
        }
        return Ok(());
    }
}

impl View for Moment {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        let found = self.snapshot.get(keyspace(&self.keyspaces, space)?, key).map_err(failed("read"))?;
        Ok(found.map(Into::into))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        scan(&self.snapshot, keyspace(&self.keyspaces, space)?, from, visit)
    }
}

impl View for FjallIndex {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        let found = keyspace(&self.keyspaces, space)?.get(key).map_err(failed("read"))?;
        Ok(found.map(Into::into))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        scan(&self.database.snapshot(), keyspace(&self.keyspaces, space)?, from, visit)
    }
}

impl Index for FjallIndex {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        // Buffered: the journal reaches the operating system, so a killed process loses nothing; a power cut may take
        // the last batches, and they are made again from the log.
        let mut writes = self.database.batch().durability(Some(PersistMode::Buffer));
        // The library gives all writes of a batch one sequence number: of two to one key the later must win here.
        let mut last = BTreeMap::new();
        for (space, key, value) in batch.changes {
            last.insert((space, key), value);
        }
        for ((space, key), value) in last {
            let keyspace = keyspace(&self.keyspaces, space)?;
            match value {
                Some(value) => writes.insert(keyspace, key, value),
                None => writes.remove(keyspace, key),
            }
        }
        writes.commit().map_err(failed("write"))
    }

    fn persist(&self) -> IndexResult<()> {
        self.database.persist(PersistMode::SyncAll).map_err(failed("reach its disk"))
    }

    fn clear(&self) -> IndexResult<()> {
        for keyspace in self.keyspaces.values() {
            keyspace.clear().map_err(failed("clear"))?;
        }
        self.persist()
    }

    fn snapshot(&self) -> Box<dyn View> {
        Box::new(Moment { snapshot: self.database.snapshot(), keyspaces: self.keyspaces.clone() })
    }

    fn blocks(&self) -> bool {
        true
    }
}
