//! Opening: the table, then the logs behind it.
//!
//! # Invariants
//! - BLU-LOG-3: a log ends with the first record that is not whole, which was never synced, as the files say; the logs behind it count only
//!   if their numbers go on. A record or a table that is there and fails its check is damage, and refuses the opening.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use shingle_runtime::Runtime;
use shingle_zone_files::{FileKind, FilesErrorKind, ZoneFiles};
use shingle_zone_kit::Joint;

use super::super::{Change, KvError, KvErrorKind, KvResult, MergeOperator};
use super::compact::CURRENT;
use super::record::{self, Fault, Record};
use super::{LogKv, LogKvOptions, Shared, State, files_error, log_number, of_kind, path};

/// Bytes of a file that are read at a time; more where a record is longer.
const PIECE: u64 = 512 << 10;

/// Files of an opening.
struct Found {
    /// Number of the table, and its bytes.
    table: u64,
    table_bytes: u64,
    /// The last log that counts, and whether it ends with a record that is not whole.
    last: u64,
    torn: bool,
    /// Logs were torn, or there are several: a table takes their place if there is room for it.
    unusual: bool,
}

fn damaged(path: &str, at: usize) -> KvError {
    KvError::new(KvErrorKind::Corrupt, format!("`{path}` fails its check at byte {at}"))
}

impl LogKv {
    /// Opens the metadata in some files, or makes empty ones.
    ///
    /// # Errors
    /// `Corrupt` if a table or a log is damaged; `Device`, `NoSpace`, `Unavailable`.
    pub async fn open(
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        options: LogKvOptions,
        read_only: bool,
    ) -> KvResult<Self> {
        // A table is written beside the one before it, and two logs.
        let most = files.stats().capacity_bytes / 16;
        let options = LogKvOptions { log_bytes: options.log_bytes.min(most) };
        let (state, rt) = (RefCell::new(State::default()), rt.clone());
        let (compacting, closing, compacted) = (Cell::new(false), Cell::new(false), tokio::sync::Notify::new());
        let shared = Rc::new_cyclic(|this: &Weak<Shared>| {
            let closed = || Err(KvError::new(KvErrorKind::Unavailable, "the store of metadata was closed"));
            let syncs = Joint::of(this.clone(), Shared::sync, closed);
            Shared { rt, files, operators, options, state, syncs, compacting, compacted, closing }
        });
        let found = match shared.current().await? {
            Some(table) => Some(shared.load(table).await?),
            None => None,
        };
        match found {
            _ if read_only => {}
            Some(found) => shared.go_on(found).await?,
            None => shared.begin_anew().await?,
        }
        Ok(Self(shared))
    }

    /// Number of keys.
    pub fn keys(&self) -> usize {
        self.0.state.borrow().map.len()
    }
}

impl Shared {
    /// The number in `current`; `None` if there are no metadata yet.
    async fn current(&self) -> KvResult<Option<u64>> {
        let file = match self.files.open_file(CURRENT) {
            Ok(file) => file,
            Err(error) if error.kind == FilesErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(files_error(error)),
        };
        let bytes = file.read(0, 4096).await.map_err(files_error)?;
        let record = record::read(&bytes).map_err(|_| damaged(CURRENT, 0))?;
        Ok(Some(record.number))
    }

    /// All records of a file, in order, and whether it ends with one that is not whole. The file is read in pieces.
    async fn records(&self, path: &str, mut each: impl FnMut(Record) -> Option<()>) -> KvResult<(usize, bool)> {
        let file = self.files.open_file(path).map_err(files_error)?;
        // Bytes behind the last whole record that were read, and the place of the first of them.
        let (mut bytes, mut at) = (Vec::new(), 0);
        loop {
            let more =
                file.read((at + bytes.len()) as u64, PIECE.max(bytes.len() as u64)).await.map_err(files_error)?;
            if more.is_empty() {
                return Ok((at, !bytes.is_empty()));
            }
            bytes.extend_from_slice(&more);
            let mut used = 0;
            while used < bytes.len() {
                match record::read(&bytes[used..]) {
                    Ok(record) => {
                        let length = record.bytes;
                        if each(record).is_none() {
                            return Ok((at + used, true));
                        }
                        used += length;
                    }
                    Err(Fault::Torn) => break,
                    Err(Fault::Damaged) => return Err(damaged(path, at + used)),
                }
            }
            bytes.drain(..used);
            at += used;
            // Others go on meanwhile.
            self.rt.yield_now().await;
        }
    }

    /// Loads table and logs. (BLU-LOG-3)
    async fn load(&self, current: u64) -> KvResult<Found> {
        let table = path("table", current);
        let (mut expected, mut next, mut count, mut seen) = (0, 0, u64::MAX, 0);
        let (at, torn) = self
            .records(&table, |record| {
                if record.number != expected {
                    return None;
                }
                let mut changes = record.changes;
                if expected == 0 {
                    let Some(Change::Put(_, head)) = changes.pop() else { return None };
                    let (first, second) = head.split_first_chunk()?;
                    next = u64::from_le_bytes(*first);
                    count = u64::from_le_bytes(*second.first_chunk()?);
                }
                seen += changes.len() as u64;
                self.state.borrow_mut().apply(&[], &changes);
                expected += 1;
                Some(())
            })
            .await?;
        if torn || seen != count {
            return Err(damaged(&table, at));
        }
        let mut found = Found { table: current, table_bytes: at as u64, last: current, torn: false, unusual: false };
        for log in self.logs(current)? {
            let (mut ended, name) = (false, path("log", log));
            let (_, torn) = self
                .records(&name, |record| {
                    if record.number < next {
                        // The table was written when the log had some batches already.
                        return Some(());
                    }
                    // A log whose beginning is missing in the one before it was never acknowledged.
                    if record.number > next {
                        ended = true;
                        return None;
                    }
                    next += 1;
                    self.state.borrow_mut().apply(self.operators, &record.changes);
                    Some(())
                })
                .await?;
            found.unusual |= torn || log != current;
            if ended {
                break;
            }
            (found.last, found.torn) = (log, torn);
        }
        self.state.borrow_mut().next = next;
        Ok(found)
    }

    /// Numbers of the logs from the current one on.
    fn logs(&self, current: u64) -> KvResult<Vec<u64>> {
        let entries = self.files.list("kv").map_err(files_error)?;
        let numbers = entries.iter().filter_map(|entry| log_number(&entry.name));
        let mut numbers: Vec<u64> = numbers.filter(|number| *number >= current).collect();
        numbers.sort_unstable();
        if numbers.first() != Some(&current) {
            return Err(KvError::new(KvErrorKind::Corrupt, format!("`{}` is missing", path("log", current))));
        }
        Ok(numbers)
    }

    /// Begins a log and a table of no keys.
    async fn begin_anew(&self) -> KvResult<()> {
        match self.files.make_dir("kv").await {
            Err(error) if error.kind != FilesErrorKind::Exists => return Err(files_error(error)),
            _ => {}
        }
        self.compact().await
    }

    /// Goes on with what was found. Several logs, or one that is torn, are replaced by a table if there is room for one. (BLU-LOG-5)
    async fn go_on(&self, found: Found) -> KvResult<()> {
        let generation = found.last + u64::from(found.torn);
        // Logs behind a gap go before anything is appended, which would close it.
        self.remove_others(found.table, found.last).await?;
        let name = path("log", generation);
        let log = match found.torn {
            // Behind a record that is not whole, nothing is read.
            true => self.files.create(&name, of_kind(FileKind::Wal)).await,
            false => self.files.open_file(&name),
        };
        {
            let mut state = self.state.borrow_mut();
            state.log = Some(Rc::new(log.map_err(files_error)?));
            state.generation = generation;
            // There are no other files.
            state.log_bytes = self.files.stats().live_bytes.saturating_sub(found.table_bytes);
        }
        match self.compact_found(found.unusual).await {
            Err(error) if error.kind == KvErrorKind::NoSpace => {
                tracing::warn!(%error, "the logs of metadata stay as they are");
                Ok(())
            }
            other => other,
        }
    }

    async fn compact_found(&self, unusual: bool) -> KvResult<()> {
        if unusual { self.compact().await } else { Ok(()) }
    }
}
