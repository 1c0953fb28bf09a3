//! The files that the buffer lies on: a contract, and its version on real files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::OFlags;
use shingle_runtime::{LocalBoxFuture, Runtime};

/// A file that keeps what was written through power cuts.
pub trait BufferFile {
    /// All it holds; empty if it is new.
    fn read(&self) -> LocalBoxFuture<'_, io::Result<Bytes>>;
    /// Writes `data` at `offset`; durable when it returns. A power cut may leave any part of a write that has not returned.
    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>>;
}

/// A file of the file system.
struct RealFile {
    rt: Runtime,
    file: Arc<File>,
}

/// Opens the file at `path`, or makes it; only its owner may read it.
///
/// # Errors
/// As the operating system's; if it is no plain file, or another process has it.
pub(crate) fn open_file(rt: &Runtime, path: &Path) -> io::Result<Rc<dyn BufferFile>> {
    let mut options = OpenOptions::new();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    file.try_lock().map_err(|_| io::Error::other("another process has it open"))?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        File::open(parent)?.sync_all()?;
    }
    Ok(Rc::new(RealFile { rt: rt.clone(), file: Arc::new(file) }))
}

impl RealFile {
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.file.clone();
        let done = self.rt.blocking(move || work(&file)).await;
        done.unwrap_or_else(|lost| Err(io::Error::other(lost)))
    }
}

impl BufferFile for RealFile {
    fn read(&self) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(self.blocking(|file| {
            let mut bytes = vec![0; file.metadata()?.len().min(super::log::FILE_MAX) as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes.into())
        }))
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.blocking(move |file| {
            file.write_all_at(&data, offset)?;
            file.sync_data()
        }))
    }
}
