//! The files that the buffer lies on: a contract, and its version on real files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::OFlags;
use shingle_runtime::{LocalBoxFuture, Runtime};

use crate::error::{Error, ErrorKind};

/// Two files, of which either is enough.
#[derive(Clone)]
pub struct BufferFiles(pub [Rc<dyn BufferFile>; 2]);

/// A file that keeps what was written through power cuts.
pub trait BufferFile {
    /// The bytes from `offset` on, `length` of them or those up to its end; a new file has none.
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>>;
    /// Writes `data` at `offset`; durable when it returns. A power cut may leave any part of a write that has not
    /// returned.
    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>>;
}

/// A file of the file system; made when it is first written to.
struct RealFile {
    rt: Runtime,
    place: Arc<Place>,
}

struct Place {
    path: PathBuf,
    /// `None` until it is there.
    file: Mutex<Option<Arc<File>>>,
}

/// A file that cannot be opened, where what it holds may not be needed.
struct NoFile(io::Error);

/// Opens the file at `path`, or makes it once something is written to it; only its owner may read it.
///
/// # Errors
/// As the operating system's; if it is no plain file, its folder is not there, or another process has it.
pub(crate) fn open_file(rt: &Runtime, path: &Path) -> io::Result<Rc<dyn BufferFile>> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(io::Error::other(format!("there is no folder {}", folder.display())));
    }
    real(rt, path, open(OpenOptions::new().read(true).write(true), path).and_then(locked))
}

/// Opens the file at `path` for reading. It may not be needed: a problem with it is reported to the first reader.
pub(crate) fn open_to_read(rt: &Runtime, path: &Path) -> Rc<dyn BufferFile> {
    let shared = |file: File| {
        file.try_lock_shared().map_err(|_| taken())?;
        Ok(file)
    };
    let opened = open(OpenOptions::new().read(true), path).and_then(shared);
    real(rt, path, opened).unwrap_or_else(|error| Rc::new(NoFile(error)))
}

/// Refuses two names of one file: a buffer that is lost with one SSD.
///
/// # Errors
/// `Invalid`.
pub fn two_files(files: &[PathBuf; 2]) -> Result<(), Error> {
    let whole = |path: &PathBuf| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or(path.clone());
    let [first, second] = files.each_ref().map(whole);
    if first != second {
        return Ok(());
    }
    let message = format!("both files of the buffer are {}: name two, each on its own SSD", first.display());
    Err(Error::new(ErrorKind::Invalid, message))
}

fn real(rt: &Runtime, path: &Path, opened: io::Result<File>) -> io::Result<Rc<dyn BufferFile>> {
    let file = match opened {
        Ok(file) => Some(Arc::new(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let place = Place { path: path.to_owned(), file: Mutex::new(file) };
    Ok(Rc::new(RealFile { rt: rt.clone(), place: Arc::new(place) }))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
}

fn taken() -> io::Error {
    io::Error::other("another process has it open, or it is named twice")
}

fn locked(file: File) -> io::Result<File> {
    file.try_lock().map_err(|_| taken())?;
    Ok(file)
}

impl Place {
    fn there(&self) -> Option<Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The file; made if it is not there.
    fn made(&self) -> io::Result<Arc<File>> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let new = locked(open(OpenOptions::new().read(true).write(true).create_new(true), &self.path)?)?;
        File::open(folder_of(&self.path))?.sync_all()?;
        Ok(file.insert(Arc::new(new)).clone())
    }
}

impl RealFile {
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let place = self.place.clone();
        let done = self.rt.blocking(move || work(&place)).await;
        done.unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }
}

impl BufferFile for RealFile {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(self.blocking(move |place| {
            let Some(file) = place.there() else { return Ok(Bytes::new()) };
            let rest = file.metadata()?.len().saturating_sub(offset);
            let mut bytes = vec![0; rest.min(length as u64) as usize];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes.into())
        }))
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.blocking(move |place| {
            let file = place.made()?;
            file.write_all_at(&data, offset)?;
            file.sync_data()
        }))
    }
}

impl NoFile {
    fn error(&self) -> io::Error {
        io::Error::new(self.0.kind(), self.0.to_string())
    }
}

impl BufferFile for NoFile {
    fn read(&self, _offset: u64, _length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async { Err(self.error()) })
    }

    fn write(&self, _offset: u64, _data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async { Err(self.error()) })
    }
}
