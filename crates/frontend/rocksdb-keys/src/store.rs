//! The store of metadata.

use std::cell::RefCell;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_blue_store::Options;
use shingle_blue_store::kv::{
    Batch, KeyValue, KvError, KvErrorKind, KvFuture, KvResult, LogKvOptions, MergeOperator, OpenKeyValue, Order,
};
use shingle_files_server::serve_socket;
use shingle_runtime::{Runtime, Task};
use shingle_zone_files::{FilesErrorKind, ZoneFiles};

use crate::elsewhere::Elsewhere;
use crate::library::{Library, LoadError, OpenKeys, Parameters};
use crate::readers::Readers;
use crate::writer::Writer;

/// Directory of the database.
const PATH: &std::ffi::CStr = c"/rocksdb";
/// Most and least bytes of a table, and of the buffer in memory.
const TABLE_MAX: u64 = 32 << 20;
const TABLE_MIN: u64 = 1 << 20;
/// Tables that fit on the metadata's zones, where those are few.
const TABLES_MIN: u64 = 64;
/// Tables of room that compactions and the logs need at once: eight tables of input and as much of output, and three buffers with theirs.
const WORKING_TABLES: u64 = 22;

/// Metadata in RocksDB: keys on the drive, and memory for those in use. The library is loaded when the first of them is opened.
#[derive(Clone, Debug)]
pub struct RocksKeys {
    /// Memory for blocks of tables, in bytes.
    pub cache_bytes: u64,
    /// The library; `None` = the one beside the program, in `/usr/local/lib` or `/usr/lib`, or the one that `SHINGLE_ROCKSDB_LIBRARY` names.
    pub file: Option<PathBuf>,
}

impl RocksKeys {
    /// Fails where the library cannot be used.
    ///
    /// # Errors
    /// It is not there, lacks RocksDB, or is of another version.
    pub fn check(&self) -> Result<(), LoadError> {
        Library::load(self.file.as_deref()).map(drop)
    }
}

/// Options that also open stores whose metadata are in RocksDB: its tables get a quarter of the cache's bytes on top of it.
pub fn with_rocksdb(options: Options) -> Options {
    let keys = RocksKeys { cache_bytes: options.cache_bytes / 4, file: None };
    Options { rocksdb: Some(Rc::new(keys)), ..options }
}

impl OpenKeyValue for RocksKeys {
    fn open(
        &self,
        rt: &Runtime,
        files: ZoneFiles,
        operators: &'static [MergeOperator],
        read_only: bool,
    ) -> KvFuture<'static, Rc<dyn KeyValue>> {
        let (rt, library) = (rt.clone(), self.file.clone());
        let table_bytes = table_bytes(&files);
        let given =
            Parameters { read_only, cache_bytes: self.cache_bytes, buffer_bytes: table_bytes, table_bytes, operators };
        Box::pin(async move {
            if !is_made(&files)? && read_only {
                // Nothing was ever written: an empty store, which there is no database to read from yet.
                return LogKvOptions::default().open(&rt, files, operators, true).await;
            }
            Ok(Rc::new(RocksKv::open(rt, library, files, given).await?) as Rc<dyn KeyValue>)
        })
    }
}

fn table_bytes(files: &ZoneFiles) -> u64 {
    (files.stats().capacity_bytes / TABLES_MIN).clamp(TABLE_MIN, TABLE_MAX)
}

/// True if there is a database. One that lost the file by which it is found is not made anew: that would bury what it holds.
fn is_made(files: &ZoneFiles) -> KvResult<bool> {
    let entries = match files.list("/rocksdb") {
        Ok(entries) => entries,
        Err(error) if error.kind == FilesErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let is_there = |ends: &[&str]| entries.iter().any(|entry| ends.iter().any(|end| entry.name.ends_with(end)));
    match (is_there(&["CURRENT"]), is_there(&[".sst", ".log"])) {
        (false, true) => {
            Err(KvError::new(KvErrorKind::Corrupt, "the database of the metadata lacks its file `CURRENT`"))
        }
        (made, _) => Ok(made),
    }
}

/// An error of the database, which calls a drive that is gone one that failed a command. Its files know better.
fn told(files: &ZoneFiles, error: KvError) -> KvError {
    files.running().map_or_else(failed, |()| error)
}

fn failed(error: impl std::fmt::Display) -> KvError {
    KvError::new(KvErrorKind::Unavailable, format!("the store of metadata: {error}"))
}

/// All that runs as long as the database is open.
struct Running {
    keys: Arc<OpenKeys>,
    writer: Writer,
    readers: Readers,
    /// The end at which the files are served.
    socket: UnixStream,
    /// Serves the files; it ends when the library lets go of them.
    serving: Task<()>,
}

struct RocksKv {
    rt: Runtime,
    files: ZoneFiles,
    table_bytes: u64,
    read_only: bool,
    /// `None` once closed.
    running: RefCell<Option<Running>>,
}

impl RocksKv {
    async fn open(rt: Runtime, library: Option<PathBuf>, files: ZoneFiles, given: Parameters) -> KvResult<Self> {
        let (own, theirs) = UnixStream::pair().map_err(failed)?;
        let socket = own.try_clone().map_err(failed)?;
        let serving = rt.spawn(serve_socket(&rt, &files, own).map_err(failed)?);
        let (here, shared) = (std::thread::current().id(), socket.try_clone().map_err(failed)?);
        let opened = rt.blocking(move || {
            let library = Library::load(library.as_deref()).map_err(failed)?;
            let keys = OpenKeys::open(&library, theirs, PATH, given)?;
            // The opening may be dropped when this is done, and before it is looked at.
            Ok(Elsewhere::new((keys, shared), here, |(keys, socket)| leave(keys, &socket)))
        });
        let opened = opened.await.unwrap_or_else(|lost| Err(failed(lost)));
        let lost = || failed("it was lost on its way");
        let keys = match opened.and_then(|opened| opened.take().ok_or_else(lost)) {
            Ok((keys, _)) => Arc::new(keys),
            Err(error) => {
                let _ = serving.await;
                return Err(error);
            }
        };
        let writer = match Writer::start(keys.clone()) {
            Ok(writer) => writer,
            Err(error) => {
                // Not on this thread (RKK-END-1).
                let _ = rt.blocking(move || drop(keys)).await;
                let _ = serving.await;
                return Err(failed(error));
            }
        };
        let readers = Readers::default();
        let running = RefCell::new(Some(Running { keys, writer, readers, socket, serving }));
        Ok(Self { rt, files, table_bytes: given.table_bytes, read_only: given.read_only, running })
    }

    /// Runs a call of the database on another thread. (RKK-END-1, RKK-READ-1)
    async fn on_keys<T: Send + 'static>(
        &self,
        call: impl FnOnce(&OpenKeys) -> KvResult<T> + Send + 'static,
    ) -> KvResult<T> {
        let called = match &*self.running.borrow() {
            Some(running) => match running.writer.failure() {
                None => {
                    let keys = running.keys.clone();
                    Ok(running.readers.run(move || call(&keys)))
                }
                Some(error) => Err(error),
            },
            None => Err(failed("it was closed")),
        };
        let ended = match called {
            Ok(call) => call.await.unwrap_or_else(|| Err(failed("a call of it has no thread, or did not end"))),
            Err(error) => Err(error),
        };
        ended.map_err(|error| told(&self.files, error))
    }
}

impl KeyValue for RocksKv {
    fn get(&self, key: &[u8]) -> KvFuture<'_, Option<Bytes>> {
        let key = Bytes::copy_from_slice(key);
        Box::pin(self.on_keys(move |keys| keys.get(&key)))
    }

    fn scan(&self, range: Range<Bytes>, order: Order, limit: usize) -> KvFuture<'_, Vec<(Bytes, Bytes)>> {
        if range.start >= range.end || limit == 0 {
            return Box::pin(async { Ok(Vec::new()) });
        }
        Box::pin(self.on_keys(move |keys| keys.scan(&range.start, &range.end, order, limit)))
    }

    fn write(&self, batch: Batch) -> KvFuture<'static, ()> {
        let written = match &*self.running.borrow() {
            _ if self.read_only => Err(failed("it was opened for reading alone")),
            Some(running) => Ok(running.writer.write(&batch)),
            None => Err(failed("it was closed")),
        };
        let files = self.files.clone();
        Box::pin(async move { written?.await.map_err(|error| told(&files, error)) })
    }

    fn room(&self) -> u64 {
        // A key is written to the log, then to a table; deletions need room, too, before they give any back.
        self.files.free_bytes().saturating_sub(WORKING_TABLES * self.table_bytes) / 2
    }

    fn close(&self) -> KvFuture<'_, ()> {
        let running = self.running.borrow_mut().take();
        Box::pin(async move {
            let Some(Running { keys, mut writer, readers, serving, socket: _socket }) = running else { return Ok(()) };
            let failure = writer.failure();
            let ended = self.rt.blocking(move || {
                if let Some(thread) = writer.end() {
                    let _ = thread.join();
                }
                for thread in readers.end() {
                    let _ = thread.join();
                }
                drop(keys);
            });
            ended.await.map_err(failed)?;
            // The files' handles are let go.
            serving.await.map_err(failed)?;
            failure.map_or(Ok(()), Err)
        })
    }
}

impl Drop for RocksKv {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            leave(running.keys, &running.socket);
        }
    }
}

/// A database that was not closed stays in memory, without its files: to close it takes time, and it must not happen on this thread, which
/// serves them (RKK-END-1), nor beside the end of the process.
fn leave<T>(keys: T, socket: &UnixStream) {
    // The files are free for others.
    let _ = socket.shutdown(std::net::Shutdown::Both);
    std::mem::forget(keys);
}
