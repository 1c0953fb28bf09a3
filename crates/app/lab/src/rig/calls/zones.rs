//! Recorded calls on files on zones, beside a cache of tables.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_zone_files::{CreateOptions, File, FileKind, FilesError, WriteLifetime, ZoneFiles};

use super::cache::{Caching, Tables};
use crate::calls::record::{Call, FileNumber, Kind, Recording, Use};
use crate::calls::target::Files;
use crate::error::LabError;

/// Bytes that the paper's file system gathers of a file before it writes (BlueFS' `bluefs_min_flush_size`).
const GATHERED: u64 = 512 << 10;

/// Time in which the crate `files-server` waits for other flushes before it writes.
const MOMENT: Duration = Duration::from_millis(10);

/// Time of a call in memory, and of a byte, beside the drive: those of the file system beside it.
const CALL: Duration = Duration::from_micros(5);
const BYTE_PS: u64 = 250;

/// Bytes of zeros to write from.
const ZEROS: usize = 1 << 20;

/// When appended bytes go to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// By 512 KiB; the thread waits for the drive (the paper's first iteration).
    Waiting,
    /// By 512 KiB; the thread goes on (the paper's second iteration).
    GoingOn,
    /// Logs 10 ms after a flush, other files by records: as the crate `files-server` does.
    Moment,
}

#[derive(Clone)]
struct Open {
    file: Rc<File>,
    name: String,
    /// Appended, and not yet handed over.
    gathered: Rc<Cell<u64>>,
    /// A flush is to come.
    flushing: Rc<Cell<bool>>,
}

/// Files on zones for a recording.
pub struct ZoneCalls {
    rt: Runtime,
    files: ZoneFiles,
    gathering: Gathering,
    zeros: Bytes,
    open: RefCell<BTreeMap<FileNumber, Open>>,
    tables: RefCell<Tables>,
    /// An error of a write in the background.
    failed: Rc<RefCell<Option<FilesError>>>,
}

fn failed(error: FilesError) -> LabError {
    LabError(format!("files on zones: {error}"))
}

const fn lifetime(hint: u8) -> WriteLifetime {
    match hint {
        2 => WriteLifetime::Short,
        3 => WriteLifetime::Medium,
        4 => WriteLifetime::Long,
        5 => WriteLifetime::Extreme,
        _ => WriteLifetime::None,
    }
}

impl ZoneCalls {
    /// No files yet.
    pub fn new(rt: &Runtime, files: ZoneFiles, gathering: Gathering, caching: Caching) -> Self {
        let (zeros, tables) = (vec![0; ZEROS].into(), RefCell::new(Tables::new(caching)));
        let (open, failed) = (RefCell::default(), Rc::default());
        Self { rt: rt.clone(), files, gathering, zeros, open, tables, failed }
    }

    fn of(&self, file: FileNumber) -> Result<Open, LabError> {
        let found = self.open.borrow().get(&file).cloned();
        found.ok_or_else(|| LabError(format!("file {file} of the recording is gone")))
    }

    async fn busy(&self, bytes: u64) {
        self.rt.sleep(CALL + Duration::from_nanos(bytes * BYTE_PS / 1000)).await;
    }

    async fn create(&self, recording: &Recording, number: FileNumber) -> Result<(), LabError> {
        let name = recording.files.get(number as usize).map_or("", |file| &file.name);
        let options = CreateOptions { kind: FileKind::of_name(name), ..CreateOptions::default() };
        let file = Rc::new(self.files.create(&format!("/{name}"), options).await.map_err(failed)?);
        let open = Open { file, name: name.to_owned(), gathered: Rc::default(), flushing: Rc::default() };
        self.open.borrow_mut().insert(number, open);
        Ok(())
    }

    /// Hands bytes over to the files.
    async fn hand_over(&self, file: &File, bytes: u64) -> Result<(), LabError> {
        let (whole, rest) = (bytes as usize / ZEROS, bytes as usize % ZEROS);
        let mut data = vec![self.zeros.clone(); whole];
        if rest > 0 {
            data.push(self.zeros.slice(..rest));
        }
        file.append(data).await.map_err(failed)
    }

    /// Writes what a file has after `time`, without anybody who waits.
    fn flush_after(&self, open: &Open, time: Duration) {
        if open.flushing.replace(true) {
            return;
        }
        let (rt, open, told) = (self.rt.clone(), open.clone(), self.failed.clone());
        self.rt.spawn_detached(async move {
            rt.sleep(time).await;
            open.flushing.set(false);
            if let Err(error) = open.file.flush().await {
                told.borrow_mut().get_or_insert(error);
            }
        });
    }

    async fn append(&self, is: Use, number: FileNumber, bytes: u64) -> Result<(), LabError> {
        if let Some(error) = self.failed.borrow().clone() {
            return Err(failed(error));
        }
        let open = self.of(number)?;
        if is == Use::Table {
            let before = open.file.size() + open.gathered.get();
            self.tables.borrow_mut().wrote(number, before, bytes);
        }
        if self.gathering == Gathering::Moment {
            self.hand_over(&open.file, bytes).await?;
            if is == Use::Log {
                self.flush_after(&open, MOMENT);
            }
            return Ok(());
        }
        open.gathered.set(open.gathered.get() + bytes);
        if open.gathered.get() >= GATHERED { self.write_gathered(&open).await } else { Ok(()) }
    }

    async fn write_gathered(&self, open: &Open) -> Result<(), LabError> {
        let bytes = open.gathered.replace(0);
        if bytes == 0 {
            return Ok(());
        }
        self.hand_over(&open.file, bytes).await?;
        if self.gathering == Gathering::Waiting {
            return open.file.flush().await.map_err(failed);
        }
        self.flush_after(open, Duration::ZERO);
        Ok(())
    }

    async fn read(&self, is: Use, number: FileNumber, offset: u64, length: u64) -> Result<(), LabError> {
        let open = self.of(number)?;
        self.write_gathered(&open).await?;
        let size = open.file.size();
        let length = length.min(size.saturating_sub(offset));
        let ranges = match is {
            Use::Table => self.tables.borrow_mut().missing(number, offset, length, size),
            _ => vec![(offset, length)],
        };
        for (offset, length) in ranges {
            open.file.read(offset, length).await.map_err(failed)?;
        }
        Ok(())
    }

    fn forget(&self, number: FileNumber) -> Option<Open> {
        let open = self.open.borrow_mut().remove(&number)?;
        self.tables.borrow_mut().forget(number, open.file.size());
        Some(open)
    }

    async fn call(&self, recording: &Recording, call: &Call) -> Result<(), LabError> {
        let is = recording.is(call);
        match call.kind {
            Kind::Was(bytes) => {
                self.create(recording, call.file).await?;
                self.hand_over(&self.of(call.file)?.file, bytes).await?;
            }
            Kind::Create => {
                self.busy(0).await;
                self.create(recording, call.file).await?;
            }
            Kind::Append(bytes) => {
                self.busy(bytes).await;
                self.append(is, call.file, bytes).await?;
            }
            Kind::Sync => {
                self.busy(0).await;
                let open = self.of(call.file)?;
                self.write_gathered(&open).await?;
                open.file.sync().await.map_err(failed)?;
            }
            Kind::Read { offset, length } => {
                self.busy(length).await;
                self.read(is, call.file, offset, length).await?;
            }
            Kind::Close => {
                let open = self.of(call.file)?;
                self.write_gathered(&open).await?;
                if is == Use::Table {
                    self.tables.borrow_mut().completed(call.file, open.file.size());
                }
            }
            Kind::Rename => {
                self.busy(0).await;
                let from = self.of(call.file)?.name;
                // The name that it gets is not needed again but to be removed.
                let to = format!("{}.{}", call.file, from);
                self.files.rename(&format!("/{from}"), &format!("/{to}")).await.map_err(failed)?;
                if let Some(open) = self.open.borrow_mut().get_mut(&call.file) {
                    open.name = to;
                }
            }
            Kind::Delete => {
                self.busy(0).await;
                if let Some(open) = self.forget(call.file) {
                    self.files.remove(&format!("/{}", open.name)).await.map_err(failed)?;
                }
            }
            Kind::Lifetime(hint) => self.of(call.file)?.file.set_lifetime(lifetime(hint)),
            // RocksDB allocates tables beforehand, and other files little by little.
            Kind::Expect(bytes) if is == Use::Table => self.of(call.file)?.file.expect(bytes),
            Kind::Open => self.busy(0).await,
            // Names are durable already, and bytes are on their way.
            Kind::RangeSync | Kind::SyncNames | Kind::Expect(_) => {}
        }
        if let Some(replaced) = call.replaces.and_then(|file| self.forget(file)) {
            // A file that was made in its place has removed it.
            if call.kind == Kind::Rename {
                self.files.remove(&format!("/{}", replaced.name)).await.map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl Files for ZoneCalls {
    fn perform<'a>(&'a self, recording: &'a Recording, call: &'a Call) -> LocalBoxFuture<'a, Result<(), LabError>> {
        Box::pin(self.call(recording, call))
    }
}
