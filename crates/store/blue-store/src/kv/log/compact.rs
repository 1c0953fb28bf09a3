//! The table takes the logs' place. (BLU-LOG-2) It is written in pieces, while batches go on. (BLU-LOG-4) One that finds no room leaves nothing
//! behind, and the logs go on.

use std::rc::Rc;

use bytes::Bytes;
use shingle_zone_files::{File, FileKind, FilesErrorKind};

use super::super::{Change, KvErrorKind, KvResult};
use super::snapshot::Snapshot;
use super::{LogKv, Shared, State, files_error, log_number, of_kind, path, record};

/// The file that says which table counts.
pub(super) const CURRENT: &str = "kv/current";
/// The one that takes its place.
const NEW_CURRENT: &str = "kv/current.new";

impl Shared {
    /// Has a table written beside all else, unless that is being done.
    pub(super) fn begin_table(self: &Rc<Self>) {
        if !self.closing.get() && !self.compacting.replace(true) {
            self.rt.spawn_detached(self.clone().compact_beside());
        }
    }

    /// Writes a table beside all else. The log goes on growing if there is no room for one.
    async fn compact_beside(self: Rc<Self>) {
        if let Err(error) = self.compact().await {
            match error.kind {
                KvErrorKind::NoSpace => tracing::warn!(%error, "the log of metadata stays long"),
                _ => self.stop(&error),
            }
        }
        self.compacting.set(false);
        self.compacted.notify_waiters();
    }

    /// Begins another log, writes a table of all that is before it, and removes the old ones. With `NoSpace`, the logs stay as they are.
    pub(super) async fn compact(&self) -> KvResult<()> {
        let slack = self.slack()?;
        let generation = self.state.borrow().generation + 1;
        let log = self.files.create(&path("log", generation), of_kind(FileKind::Wal)).await.map_err(files_error)?;
        let (keys, next, old_bytes) = {
            let mut state = self.state.borrow_mut();
            let old = state.log.replace(Rc::new(log));
            state.previous.extend(old);
            state.generation = generation;
            state.snapshot = Some(Snapshot::default());
            (state.slack, state.beside) = (Some(slack), 0);
            (state.map.len() as u64, state.next, std::mem::take(&mut state.log_bytes))
        };
        let replaced = self.replace_logs(generation, next, keys).await;
        let mut state = self.state.borrow_mut();
        (state.snapshot, state.slack, state.rest_until) = (None, None, 0);
        if replaced.is_err() {
            state.log_bytes += old_bytes;
            state.rest_until = state.log_bytes + self.options.log_bytes;
        }
        replaced
    }

    /// Writes the table of the snapshot, has it take the place of the logs before `generation`, and removes those.
    async fn replace_logs(&self, generation: u64, next: u64, keys: u64) -> KvResult<()> {
        let name = path("table", generation);
        let table = self.files.create(&name, of_kind(FileKind::Sst)).await.map_err(files_error)?;
        let mut written = self.write_table(&table, next, keys).await;
        self.state.borrow_mut().snapshot = None;
        if written.is_ok() {
            written = self.set_current(generation).await;
        }
        if written.as_ref().is_err_and(|error| error.kind == KvErrorKind::NoSpace) {
            // Nothing names it, as `current` did not change. The room is the logs' again, and no bytes wait for some.
            let _ = self.files.remove(&name).await;
            let _ = self.files.remove(NEW_CURRENT).await;
        }
        written?;
        self.state.borrow_mut().previous.clear();
        self.remove_others(generation, generation).await
    }

    /// Writes all keys as they were before batch `next`, when the snapshot was begun. Durable when it returns.
    async fn write_table(&self, table: &File, next: u64, keys: u64) -> KvResult<()> {
        let mut head = next.to_le_bytes().to_vec();
        head.extend(keys.to_le_bytes());
        let head = Change::Put(Bytes::from_static(b""), head.into());
        append(table, 0, &[head]).await?;
        let bytes = self.part_bytes() as usize;
        for number in 1.. {
            let (part, is_last) = {
                let State { map, snapshot, .. } = &mut *self.state.borrow_mut();
                snapshot.get_or_insert_default().piece(map, bytes)
            };
            append(table, number, &part).await?;
            if is_last {
                break;
            }
            // Others go on meanwhile.
            self.rt.yield_now().await;
        }
        table.sync().await.map_err(files_error)
    }

    async fn set_current(&self, generation: u64) -> KvResult<()> {
        let file = self.files.create(NEW_CURRENT, of_kind(FileKind::Other)).await.map_err(files_error)?;
        let number = Change::Put(Bytes::from_static(b""), Bytes::copy_from_slice(&generation.to_le_bytes()));
        append(&file, generation, &[number]).await?;
        file.sync().await.map_err(files_error)?;
        self.files.rename(NEW_CURRENT, CURRENT).await.map_err(files_error)
    }

    /// Removes files that no opening needs: all but a table, and the logs behind it up to `last`.
    pub(super) async fn remove_others(&self, table: u64, last: u64) -> KvResult<()> {
        let named = [path("table", table), CURRENT.to_owned()];
        for entry in self.files.list("kv").map_err(files_error)? {
            let name = format!("kv/{}", entry.name);
            let is_log = log_number(&entry.name).is_some_and(|number| (table..=last).contains(&number));
            if is_log || named.contains(&name) {
                continue;
            }
            match self.files.remove(&name).await {
                Err(error) if error.kind != FilesErrorKind::NotFound => return Err(files_error(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

async fn append(file: &File, number: u64, changes: &[Change]) -> KvResult<()> {
    let record = record::frame(number, changes).ok_or_else(record::too_long)?;
    file.append(vec![record.into()]).await.map_err(files_error)
}

impl LogKv {
    /// Has the table take the log's place now; behind one that is being written.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for a table; nothing has changed then. `Unavailable`.
    pub async fn compact(&self) -> KvResult<()> {
        loop {
            self.0.running()?;
            let ended = self.0.compacted.notified();
            if !self.0.compacting.replace(true) {
                break;
            }
            ended.await;
        }
        let done = self.0.compact().await;
        self.0.compacting.set(false);
        self.0.compacted.notify_waiters();
        done
    }
}
