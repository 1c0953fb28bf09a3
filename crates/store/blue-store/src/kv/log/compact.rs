//! The table takes the log's place. (BLU-LOG-2) It is written in pieces, while batches go on. (BLU-LOG-4)

use std::rc::Rc;

use bytes::Bytes;
use shingle_zone_files::{File, FileKind, FilesErrorKind};

use super::super::{Change, KvResult};
use super::snapshot::Snapshot;
use super::{LogKv, Shared, State, files_error, of_kind, path, record};

/// Bytes of keys and values in a record of a table, about: what one step writes. Fewer where logs are short.
const PART: u64 = 256 << 10;

/// The file that says which table counts.
pub(super) const CURRENT: &str = "kv/current";

impl Shared {
    /// Writes a table beside all else. The log goes on growing if there is no room for one.
    pub(super) async fn compact_beside(self: Rc<Self>) {
        if let Err(error) = self.compact().await {
            match error.kind {
                super::KvErrorKind::NoSpace => tracing::warn!(%error, "the log of metadata stays long"),
                _ => self.stop(&error),
            }
        }
        self.compacting.set(false);
        self.compacted.notify_waiters();
    }

    /// Begins another log, writes a table of all that is before it, and removes the old ones.
    pub(super) async fn compact(&self) -> KvResult<()> {
        let old = self.state.borrow().generation;
        let unfinished = self.state.borrow().previous.clone();
        if let Some(previous) = unfinished {
            // The last table found no room. This one has both logs, and what comes meanwhile is in the newer log, too.
            previous.sync().await.map_err(files_error)?;
        } else {
            let next = old + 1;
            let log = self.files.create(&path("log", next), of_kind(FileKind::Wal)).await.map_err(files_error)?;
            let mut state = self.state.borrow_mut();
            state.previous = state.log.replace(Rc::new(log));
            state.generation = next;
            state.log_bytes = 0;
        }
        let (keys, next, generation) = {
            let mut state = self.state.borrow_mut();
            state.snapshot = Some(Snapshot::default());
            (state.map.len() as u64, state.next, state.generation)
        };
        let written = self.write_table(generation, next, keys).await;
        self.state.borrow_mut().snapshot = None;
        written?;
        self.set_current(generation).await?;
        self.state.borrow_mut().previous = None;
        self.remove_others(generation).await
    }

    /// Writes all keys as they were before batch `next`, when the snapshot was begun. Durable when it returns.
    async fn write_table(&self, generation: u64, next: u64, keys: u64) -> KvResult<()> {
        let table = self.files.create(&path("table", generation), of_kind(FileKind::Sst)).await.map_err(files_error)?;
        let mut head = next.to_le_bytes().to_vec();
        head.extend(keys.to_le_bytes());
        let head = Change::Put(Bytes::from_static(b""), head.into());
        append(&table, record::frame(0, &[head])).await?;
        let bytes = PART.min(self.options.log_bytes / 16).max(1) as usize;
        for number in 1.. {
            let (part, is_last) = {
                let State { map, snapshot, .. } = &mut *self.state.borrow_mut();
                snapshot.get_or_insert_default().piece(map, bytes)
            };
            append(&table, record::frame(number, &part)).await?;
            if is_last {
                break;
            }
            // Others go on meanwhile.
            self.rt.yield_now().await;
        }
        table.sync().await.map_err(files_error)
    }

    async fn set_current(&self, generation: u64) -> KvResult<()> {
        let (new, options) = ("kv/current.new", of_kind(FileKind::Other));
        let file = self.files.create(new, options).await.map_err(files_error)?;
        let number = Change::Put(Bytes::from_static(b""), Bytes::copy_from_slice(&generation.to_le_bytes()));
        append(&file, record::frame(generation, &[number])).await?;
        file.sync().await.map_err(files_error)?;
        self.files.rename(new, CURRENT).await.map_err(files_error)
    }

    /// Removes files that no opening needs.
    pub(super) async fn remove_others(&self, generation: u64) -> KvResult<()> {
        let kept = [path("log", generation), path("table", generation), CURRENT.to_owned()];
        for entry in self.files.list("kv").map_err(files_error)? {
            let name = format!("kv/{}", entry.name);
            if kept.contains(&name) {
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

async fn append(file: &File, bytes: Vec<u8>) -> KvResult<()> {
    file.append(vec![bytes.into()]).await.map_err(files_error)
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
