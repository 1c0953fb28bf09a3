//! The index in a directory of the local file system, kept by the LSM library fjall.
//!
//! The library takes no more writes after one that failed, for it cannot know what its files hold. They are then closed and
//! opened again ([`Index::revive`]), once there is room for what opening writes: it stays readable until then.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use bytes::Bytes;

use super::{Batch, Index, IndexError, IndexErrorKind, IndexResult, Space, Step, View};

/// Room on the file system from which on an index that failed is opened again: opening writes, and must not fail half-way.
const REVIVE_BYTES: usize = 16 << 20;
/// Longest time that new readers wait for those before them to leave, so that the index can be opened again. One that holds a moment of it
/// for longer, as a check does, is waited for in the next try; readers go on until then.
const LEAVING: Duration = Duration::from_millis(250);

type Keyspaces = BTreeMap<Space, Keyspace>;

/// An index in a directory. One process at a time may have it open.
pub struct FjallIndex {
    directory: PathBuf,
    cache_bytes: u64,
    /// None if it could not be opened again.
    opened: RwLock<Option<Arc<Opened>>>,
    /// A write has failed since it was opened.
    broken: AtomicBool,
}

struct Opened {
    database: Database,
    keyspaces: Keyspaces,
    /// Goes last, when the files are closed: whoever waits for that hears of it.
    closed: Mutex<Option<mpsc::Sender<()>>>,
}

struct Moment {
    snapshot: Snapshot,
    opened: Arc<Opened>,
}

impl FjallIndex {
    /// Opens the index in `directory`, which is made if it is not there. `cache_bytes` bounds the memory used for
    /// reading. Blocks.
    ///
    /// # Errors
    /// `Damaged` if what is in the directory is no index or a damaged one: nothing is lost with it, remove it and rebuild.
    /// `Full` or `Unreachable` if it cannot be read or written now, or another process has it open.
    pub fn open(directory: impl AsRef<Path>, cache_bytes: u64) -> IndexResult<Self> {
        let directory = directory.as_ref().to_owned();
        let opened = RwLock::new(Some(Arc::new(Opened::open(&directory, cache_bytes)?)));
        Ok(Self { directory, cache_bytes, opened, broken: AtomicBool::new(false) })
    }

    fn opened(&self) -> IndexResult<Arc<Opened>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| IndexError::new("the index could not be opened again after a write that failed"))
    }

    /// Takes note of a write that failed.
    fn written<T>(&self, result: IndexResult<T>) -> IndexResult<T> {
        if result.is_err() {
            self.broken.store(true, Ordering::Relaxed);
        }
        result
    }

    /// As after a write that failed.
    #[cfg(test)]
    pub(crate) fn break_for_test(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Fails unless the file system has room for some writes.
    fn probe(&self) -> IndexResult<()> {
        let path = self.directory.with_extension("probe");
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&vec![0x5a; REVIVE_BYTES])?;
            file.sync_all()
        });
        let removed = std::fs::remove_file(&path);
        let failed = |error: std::io::Error| {
            let kind = of_io(&error);
            IndexError::caused("the file system of the index takes no writes", error).of_kind(kind)
        };
        written.and(removed).map_err(failed)
    }
}

impl Opened {
    fn open(directory: &Path, cache_bytes: u64) -> IndexResult<Self> {
        let failed = |error: ::fjall::Error| {
            let kind = of_opening(&error);
            IndexError::caused(format!("the index in {} cannot be opened", directory.display()), InWords(error))
                .of_kind(kind)
        };
        let database = Database::builder(directory).cache_size(cache_bytes).worker_threads(2).open().map_err(failed)?;
        let keyspaces = Space::ALL
            .into_iter()
            .map(|space| Ok((space, database.keyspace(space.name(), KeyspaceCreateOptions::default)?)))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Self { database, keyspaces, closed: Mutex::default() })
    }

    /// Closes it once nobody reads it any more; gives it back if that takes too long. Nobody may begin to read it meanwhile.
    fn close(self: Arc<Self>) -> Result<(), Arc<Self>> {
        let (sender, closed) = mpsc::channel();
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let back = Arc::downgrade(&self);
        drop(self);
        match closed.recv_timeout(LEAVING) {
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        match back.upgrade() {
            Some(held) => Err(held),
            None => {
                // The last reader has left, and is closing it.
                let _ = closed.recv();
                Ok(())
            }
        }
    }
}

fn of_io(error: &std::io::Error) -> IndexErrorKind {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => IndexErrorKind::Full,
        _ => IndexErrorKind::Unreachable,
    }
}

fn io_of(error: &::fjall::Error) -> Option<&std::io::Error> {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref() {
            return Some(io);
        }
        source = error.source();
    }
    None
}

/// An error of the library, for people: its own text is that of a programmer.
#[derive(Debug)]
struct InWords(::fjall::Error);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (io_of(&self.0), &self.0) {
            (Some(io), _) => io.fmt(f),
            (None, ::fjall::Error::Poisoned) => f.write_str("an earlier write to it failed"),
            (None, ::fjall::Error::Locked) => f.write_str("another process has it open"),
            (None, error) => f.write_str(error.to_string().trim_start_matches("FjallError: ")),
        }
    }
}

impl std::error::Error for InWords {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Meaning of an error at opening. Files that end early or are not there are damage; that they cannot be
/// opened or read is not.
fn of_opening(error: &::fjall::Error) -> IndexErrorKind {
    match (io_of(error), error) {
        (Some(io), _) => match io.kind() {
            ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => IndexErrorKind::Damaged,
            _ => of_io(io),
        },
        (None, ::fjall::Error::Locked) => IndexErrorKind::Unreachable,
        (None, _) => IndexErrorKind::Damaged,
    }
}

fn failed(what: &'static str) -> impl Fn(::fjall::Error) -> IndexError {
    move |error| {
        let kind = match (io_of(&error), &error) {
            (Some(io), _) => of_io(io),
            // A write before it failed, most likely for want of room: whether that is so still shows when it is revived.
            (None, ::fjall::Error::Poisoned) => IndexErrorKind::Full,
            (None, _) => IndexErrorKind::Unreachable,
        };
        IndexError::caused(format!("the index failed to {what}"), InWords(error)).of_kind(kind)
    }
}

/// As [`failed`], for reads: what the library does not understand is damage.
fn unread(what: &'static str) -> impl Fn(::fjall::Error) -> IndexError {
    move |error| {
        let kind = match &error {
            ::fjall::Error::Poisoned => IndexErrorKind::Full,
            _ => of_opening(&error),
        };
        IndexError::caused(format!("the index failed to {what}"), InWords(error)).of_kind(kind)
    }
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
            let (key, value) = record.into_inner().map_err(unread("scan"))?;
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
        let found = self.snapshot.get(keyspace(&self.opened.keyspaces, space)?, key).map_err(unread("read"))?;
        Ok(found.map(Into::into))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        scan(&self.snapshot, keyspace(&self.opened.keyspaces, space)?, from, visit)
    }
}

impl View for FjallIndex {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        let opened = self.opened()?;
        let found = keyspace(&opened.keyspaces, space)?.get(key).map_err(unread("read"))?;
        Ok(found.map(Into::into))
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        let opened = self.opened()?;
        scan(&opened.database.snapshot(), keyspace(&opened.keyspaces, space)?, from, visit)
    }
}

impl Index for FjallIndex {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        let opened = self.opened()?;
        // Buffered: the journal reaches the operating system, so a killed process loses nothing; a power cut may take
        // the last batches, and they are made again from the log.
        let mut writes = opened.database.batch().durability(Some(PersistMode::Buffer));
        // The library gives all writes of a batch one sequence number: of two to one key the later must win here.
        let mut last = BTreeMap::new();
        for (space, key, value) in batch.changes {
            last.insert((space, key), value);
        }
        for ((space, key), value) in last {
            let keyspace = keyspace(&opened.keyspaces, space)?;
            match value {
                Some(value) => writes.insert(keyspace, key, value),
                None => writes.remove(keyspace, key),
            }
        }
        self.written(writes.commit().map_err(failed("write")))
    }

    fn persist(&self) -> IndexResult<()> {
        self.written(self.opened()?.database.persist(PersistMode::SyncAll).map_err(failed("reach its disk")))
    }

    fn revive(&self) -> IndexResult<()> {
        if !self.broken.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.probe()?;
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // Readers that come now wait: were they let in, some would be there at every moment.
        if let Some(held) = opened.take()
            && let Err(held) = held.close()
        {
            *opened = Some(held);
            return Err(IndexError::new("the index is being read, and is opened again when nobody does"));
        }
        *opened = Some(Arc::new(Opened::open(&self.directory, self.cache_bytes)?));
        self.broken.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&self) -> IndexResult<()> {
        for keyspace in self.opened()?.keyspaces.values() {
            self.written(keyspace.clear().map_err(failed("clear")))?;
        }
        self.persist()
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        let opened = self.opened()?;
        Ok(Box::new(Moment { snapshot: opened.database.snapshot(), opened }))
    }

    fn blocks(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_in_words() {
        let full = || ::fjall::Error::Io(std::io::Error::from_raw_os_error(28));
        for error in [full(), ::fjall::Error::Poisoned, ::fjall::Error::Locked] {
            let text = failed("write")(error).to_string();
            assert!(text.starts_with("the index failed to write: "), "{text}");
            assert!(!text.contains("Fjall") && !text.contains('{'), "{text}");
        }
        assert_eq!(failed("write")(full()).kind(), IndexErrorKind::Full);
    }
}
