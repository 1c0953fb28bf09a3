//! Index backups on the drives: with one, a lost index is rebuilt by reading only what was written since.
//!
//! # Invariants
//! - OS-BAK-1: a backup is one moment of the index, watermarks included, or it is not used.
//! - OS-BAK-2: the newest two are kept, so that one stays while the next is written.
//!   One whose end cannot be read at an opening is left to the next one. `a_backup_that_cannot_be_read_for_a_while_is_not_deleted`.
//! - OS-BAK-3: a backup knows of nothing that the index did not, durably, know when it was finished.
//! - OS-BAK-4: a drive that fails or does not answer holds up no backup for longer than its calls may take: another drive gets it.
//!   `a_backup_goes_to_a_drive_that_takes_it`.

mod state;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_chunk_store::{ChunkClient, ErrorKind, Result as ChunkResult, Stream};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::engine::Core;
use crate::errors::{from_chunk, from_index, lost};
use crate::format::{ChunkName, PIECE_HEADER_SIZE, Piece, decode_piece_header, decode_records, put_record};
use crate::index::{Batch, Index, IndexResult, Space, Step, View};
use crate::wire::Malformed;

pub(crate) use state::{BackupFile, BackupState};

/// Bytes of records in a piece, where chunks take as much.
const PIECE_BYTES_MAX: u64 = 256 << 10;
/// Complete backups that are kept.
const KEPT: usize = 2;

/// A place in an index being copied.
type Cursor = (usize, Vec<u8>);

/// The next piece's records: how many, their bytes, and where to go on.
fn piece_from(
    view: &dyn View,
    (mut space, mut key): Cursor,
    bytes: usize,
) -> IndexResult<(u32, Vec<u8>, Option<Cursor>)> {
    let (mut records, mut data) = (0, Vec::new());
    while let Some(at) = Space::ALL.get(space) {
        let mut next = None;
        view.scan(*at, &key, &mut |key, value| {
            if data.len() >= bytes {
                next = Some(key.to_vec());
                return Step::Stop;
            }
            put_record(&mut data, at.number(), key, &value);
            records += 1;
            Step::Next
        })?;
        if let Some(next) = next {
            return Ok((records, data, Some((space, next))));
        }
        (space, key) = (space + 1, Vec::new());
    }
    Ok((records, data, None))
}

impl Core {
    /// Backs the index up when a backup is due, until the engine closes.
    pub(crate) async fn run_backups(self: Rc<Self>) {
        let options = self.options.backup.clone();
        loop {
            self.runtime.sleep(options.interval).await;
            if self.closing.get() || self.working().is_err() {
                return;
            }
            let (written, last) = {
                let stats = self.stats.borrow();
                (stats.entry_bytes - self.backup.borrow().taken_at_bytes, stats.backup_bytes)
            };
            if written < options.bytes_min.max(last.saturating_mul(options.size_factor)) {
                continue;
            }
            if let Err(error) = self.back_up().await {
                tracing::warn!(%error, "the index could not be backed up; the next one is tried later");
            }
        }
    }

    /// Writes a backup, and deletes those it makes needless. Returns its size in bytes.
    pub(crate) async fn back_up(self: &Rc<Self>) -> StoreResult<u64> {
        if std::mem::replace(&mut self.backup.borrow_mut().running, true) {
            return Err(StoreError::new(StoreErrorKind::Busy, "a backup is being written"));
        }
        let result = self.write_backup().await;
        self.backup.borrow_mut().running = false;
        let broken: Vec<BackupFile> = {
            let mut state = self.backup.borrow_mut();
            let surplus = state.complete.len().saturating_sub(KEPT);
            let old: Vec<_> = state.complete.drain(..surplus).collect();
            state.broken.extend(old);
            std::mem::take(&mut state.broken)
        };
        for backup in broken {
            // It is asked once it answers again: calls would pile up there.
            if self.drives.borrow()[backup.drive].is_silent() {
                self.backup.borrow_mut().broken.push(backup);
                continue;
            }
            if let Err(error) = self.delete_backup(&backup).await {
                tracing::warn!(%error, backup = backup.number, "an old backup could not be deleted");
                self.backup.borrow_mut().broken.push(backup);
            }
        }
        result
    }

    /// Writes it to the drive that has the most room, or else to the next one that takes it. (OS-BAK-4)
    async fn write_backup(self: &Rc<Self>) -> StoreResult<u64> {
        self.working()?;
        self.refresh_ahead();
        let mut last = StoreError::new(StoreErrorKind::Device, "no drive takes a backup now");
        for drive in self.drives_for_a_backup() {
            match self.write_backup_to(drive).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => {
                    let name = self.options.name_of(self.drives.borrow()[drive].store);
                    tracing::warn!(%error, drive = name, "a drive takes no backup of the index");
                    last = error;
                }
            }
            self.writable()?;
        }
        Err(last)
    }

    /// The drives that answer, those that have the most room first; those that have just failed come last.
    fn drives_for_a_backup(&self) -> Vec<usize> {
        let (drives, now) = (self.drives.borrow(), self.runtime.now());
        let mut found: Vec<_> = drives.iter().enumerate().filter(|(_, drive)| !drive.is_silent()).collect();
        found.sort_by(|(_, a), (_, b)| {
            a.is_bad(now).cmp(&b.is_bad(now)).then(b.free_fraction().total_cmp(&a.free_fraction()))
        });
        found.into_iter().map(|(number, _)| number).collect()
    }

    async fn write_backup_to(self: &Rc<Self>, drive: usize) -> StoreResult<u64> {
        let number = self.next_number();
        let entry_bytes = self.stats.borrow().entry_bytes;
        let mut file = BackupFile { number, drive, chunks: Vec::new() };
        let written = {
            // Records of the index that it holds would keep the index from being opened anew.
            let writing = select(Box::pin(self.write_pieces(&mut file)), Box::pin(self.unwritable()));
            match writing.await {
                Either::Left((written, _)) => written,
                Either::Right((error, _)) => Err(error),
            }
        };
        let mut state = self.backup.borrow_mut();
        match written {
            Ok(bytes) => {
                state.complete.push(file);
                state.taken_at_bytes = entry_bytes;
                let mut stats = self.stats.borrow_mut();
                stats.backups += 1;
                stats.backup_bytes = bytes;
                Ok(bytes)
            }
            Err(error) => {
                state.broken.push(file);
                Err(error)
            }
        }
    }

    /// Completes, with the reason, when nothing can be written.
    async fn unwritable(&self) -> StoreError {
        loop {
            let changed = self.changed.notified();
            if let Err(error) = self.writable() {
                return error;
            }
            changed.await;
        }
    }

    async fn write_pieces(self: &Rc<Self>, file: &mut BackupFile) -> StoreResult<u64> {
        let mut view = Some(self.read(|index| index.snapshot()).await?);
        // So that the index, whatever becomes of it, never knows less than its backups: else it would let a chunk go on
        // where a backup knows of bytes that were lost (OS-REC-3).
        self.persist().await?;
        let mut cursor = Some((0, Vec::new()));
        let (mut pieces, mut bytes, mut offset) = (0, 0, None::<u64>);
        let room = self.drives.borrow()[file.drive].room.unwrap_or(PIECE_BYTES_MAX);
        let piece_bytes = PIECE_BYTES_MAX.min(room / 4) as usize;
        while let (Some(at), Some(moment)) = (cursor.take(), view.take()) {
            let work = move || {
                let piece = piece_from(moment.as_ref(), at, piece_bytes);
                (moment, piece)
            };
            let (moment, piece) =
                if self.index.blocks() { self.runtime.blocking(work).await.map_err(lost)? } else { work() };
            let (records, data, next) = piece.map_err(from_index)?;
            view = Some(moment);
            cursor = next;
            let piece = Bytes::from(Piece::encode(file.number, self.set, pieces, records, &data));
            pieces += 1;
            bytes += piece.len() as u64;
            offset = Some(self.append_piece(file, offset, piece).await?);
        }
        self.seal_last(file).await?;
        // In a chunk of its own, so that it is found without reading what comes before.
        let trailer = Bytes::from(Piece::encode_trailer(file.number, self.set, pieces));
        bytes += trailer.len() as u64;
        self.append_piece(file, None, trailer).await?;
        self.seal_last(file).await?;
        Ok(bytes)
    }

    /// Answer of a backup's drive, which others take the place of if it fails.
    async fn ask<T: 'static, F: Future<Output = ChunkResult<T>> + 'static>(
        self: &Rc<Self>,
        file: &BackupFile,
        call: impl FnOnce(ChunkClient) -> F,
    ) -> ChunkResult<T> {
        let client = self.drives.borrow()[file.drive].client.clone();
        let answer = self.answer(file.drive, call(client)).await;
        if answer.as_ref().is_err_and(|error| matches!(error.kind, ErrorKind::Device | ErrorKind::Stopped)) {
            let now = self.runtime.now();
            self.drives.borrow_mut()[file.drive].failed(now);
        }
        answer
    }

    /// Seals the backup's last chunk.
    async fn seal_last(self: &Rc<Self>, file: &BackupFile) -> StoreResult<()> {
        let Some(last) = file.chunks.last() else { return Ok(()) };
        let id = self.backup_chunk(file, *last).id();
        self.ask(file, |client| async move { client.seal(id).await }).await.map(drop).map_err(from_chunk)
    }

    /// Appends a piece to the backup's last chunk, whose end is given, or to a new one. Returns the new end.
    async fn append_piece(
        self: &Rc<Self>,
        file: &mut BackupFile,
        offset: Option<u64>,
        piece: Bytes,
    ) -> StoreResult<u64> {
        if let (Some(offset), Some(last)) = (offset, file.chunks.last()) {
            let (id, data) = (self.backup_chunk(file, *last).id(), vec![piece.clone()]);
            match self.ask(file, |client| async move { client.append(id, offset, data).await }).await {
                Ok(end) => return Ok(end),
                Err(error) if error.kind == ErrorKind::ChunkFull => self.seal_last(file).await?,
                Err(error) => return Err(from_chunk(error)),
            }
        }
        let ordinal = file.chunks.last().map_or(0, |last| last + 1);
        let id = self.backup_chunk(file, ordinal).id();
        // Known before it is made: a drive that does not answer may make it later, and then it is deleted with the others.
        file.chunks.push(ordinal);
        self.ask(file, |client| async move { client.create(id, Stream::Meta).await }).await.map_err(from_chunk)?;
        self.ask(file, |client| async move { client.append(id, 0, vec![piece]).await }).await.map_err(from_chunk)
    }

    fn backup_chunk(&self, file: &BackupFile, ordinal: u32) -> ChunkName {
        ChunkName { file: file.number, ordinal, stream: Stream::Meta, set: self.set }
    }

    /// Deletes a backup, trailer first: what an interrupted deletion leaves is no backup.
    async fn delete_backup(self: &Rc<Self>, file: &BackupFile) -> StoreResult<()> {
        for ordinal in file.chunks.iter().rev() {
            let id = self.backup_chunk(file, *ordinal).id();
            match self.ask(file, |client| async move { client.delete(id).await }).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(from_chunk(error)),
            }
        }
        Ok(())
    }
}

/// Reason why a backup cannot be used.
#[derive(Debug)]
pub(crate) enum BackupError {
    Chunk(shingle_chunk_store::Error),
    Malformed(Malformed),
    Index(crate::index::IndexError),
}

impl std::fmt::Display for BackupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chunk(error) => error.fmt(f),
            Self::Malformed(error) => error.fmt(f),
            Self::Index(error) => error.fmt(f),
        }
    }
}

impl BackupError {
    /// The backup is none, at any opening: it was read, and is wrong.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Chunk(error) if matches!(error.kind, ErrorKind::Device | ErrorKind::Stopped))
    }
}

/// Number of pieces of a backup, from its trailer.
///
/// # Errors
/// `Malformed` if it was never finished.
pub(crate) async fn pieces_of(client: &ChunkClient, file: &BackupFile, set: u32) -> Result<u32, BackupError> {
    let unfinished = || BackupError::Malformed(Malformed("backup: unfinished"));
    let ordinal = *file.chunks.last().ok_or_else(unfinished)?;
    let name = ChunkName { file: file.number, ordinal, stream: Stream::Meta, set };
    // The chunks are there from the first on; else the backup is being deleted.
    if file.chunks.iter().enumerate().any(|(at, ordinal)| at as u32 != *ordinal) {
        return Err(unfinished());
    }
    let bytes = client.read(name.id(), 0, PIECE_HEADER_SIZE as u64).await.map_err(BackupError::Chunk)?;
    let trailer = decode_piece_header(&bytes, file.number, set).map_err(BackupError::Malformed)?.err();
    Ok(trailer.ok_or_else(unfinished)?.pieces)
}

/// Loads a backup into an empty index. Returns how many records it held.
pub(crate) async fn restore(
    client: &ChunkClient,
    file: &BackupFile,
    set: u32,
    index: &Arc<dyn Index>,
    runtime: &shingle_runtime::Runtime,
) -> Result<u64, BackupError> {
    let expected = pieces_of(client, file, set).await?;
    let (mut pieces, mut records) = (0, 0);
    for ordinal in file.chunks.iter().take(file.chunks.len() - 1) {
        let name = ChunkName { file: file.number, ordinal: *ordinal, stream: Stream::Meta, set };
        let size = client.stat(name.id()).await.map_err(BackupError::Chunk)?.size;
        let mut offset = 0;
        while offset < size {
            let (piece, data) = read_piece(client, name, offset, size).await?;
            if piece.number != pieces {
                return Err(BackupError::Malformed(Malformed("backup: a piece is missing")));
            }
            pieces += 1;
            offset += PIECE_HEADER_SIZE as u64 + u64::from(piece.length);
            let mut batch = Batch::default();
            for (space, key, value) in decode_records(&piece, &data).map_err(BackupError::Malformed)? {
                let space = Space::from_number(space).ok_or(BackupError::Malformed(Malformed("backup: keyspace")))?;
                records += 1;
                // The owner of the index is written once it is whole.
                if (space, key) != (Space::About, crate::keys::ABOUT_OWNER) {
                    batch.changes.push((space, key.to_vec(), Some(value.to_vec())));
                }
            }
            let target = index.clone();
            let applied = if index.blocks() {
                runtime.blocking(move || target.apply(batch)).await.unwrap_or_else(|error| {
                    Err(crate::index::IndexError::caused("the index could not be written", error))
                })
            } else {
                target.apply(batch)
            };
            applied.map_err(BackupError::Index)?;
        }
    }
    if pieces == expected { Ok(records) } else { Err(BackupError::Malformed(Malformed("backup: pieces are missing"))) }
}

async fn read_piece(
    client: &ChunkClient,
    name: ChunkName,
    offset: u64,
    size: u64,
) -> Result<(Piece, Bytes), BackupError> {
    let cut = || BackupError::Malformed(Malformed("backup piece: cut short"));
    let read = async |at: u64, length: u64| -> ChunkResult<Bytes> {
        if length == 0 { Ok(Bytes::new()) } else { client.read(name.id(), at, length).await }
    };
    if offset + PIECE_HEADER_SIZE as u64 > size {
        return Err(cut());
    }
    let header = read(offset, PIECE_HEADER_SIZE as u64).await.map_err(BackupError::Chunk)?;
    let piece = decode_piece_header(&header, name.file, name.set).map_err(BackupError::Malformed)?;
    let piece = piece.map_err(|_| BackupError::Malformed(Malformed("backup: a trailer too early")))?;
    let at = offset + PIECE_HEADER_SIZE as u64;
    if at + u64::from(piece.length) > size {
        return Err(cut());
    }
    Ok((piece, read(at, u64::from(piece.length)).await.map_err(BackupError::Chunk)?))
}
