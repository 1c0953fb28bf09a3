//! Drives that this process has open.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt;
use shingle_files_server::{Files, OpenError, OpenFiles, Opener, open_files};
use shingle_server::inventory::{DriveName, locate};
use shingle_server::{ErrorKind, drive_path, open_drive};
use shingle_zone_files::{FilesError, FilesErrorKind, Options};
use shingle_zoned_linux::{OpenOptions, System};

/// A drive, and the files on it as long as someone has them.
struct Known {
    path: PathBuf,
    files: Weak<Files>,
}

static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn invalid(text: String) -> FilesError {
    FilesError::new(FilesErrorKind::Invalid, text)
}

/// The node or file that a text names: `file:PATH`, `dev:PATH`, or `uuid:STORE`, `serial:NUMBER`, `wwn:NAME` of a block device.
fn path_of(drive: &str) -> Result<PathBuf, FilesError> {
    if let Some(path) = drive.strip_prefix("file:").or_else(|| drive.strip_prefix("dev:")) {
        return Ok(PathBuf::from(path));
    }
    let name = DriveName::parse(drive).map_err(invalid)?;
    if let DriveName::Path(_) = name {
        return Err(invalid(format!("`{drive}` names no drive: write `file:PATH`, `dev:PATH` or `uuid:STORE`")));
    }
    let located = on_a_thread(move |rt| async move { locate(&rt, &System::host(), &name).await });
    located?.map_err(|error| FilesError::new(FilesErrorKind::NotFound, error.to_string()))
}

/// Runs a future on a thread of its own, as the caller's thread may have an executor already.
fn on_a_thread<T, F>(main: impl FnOnce(shingle_runtime::Runtime) -> F + Send + 'static) -> Result<T, FilesError>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let failed = |text: &str| FilesError::new(FilesErrorKind::Unavailable, text);
    let thread =
        shingle_runtime::real::spawn_thread("shingle-locate", main).map_err(|error| failed(&error.to_string()))?;
    let joined = thread.join().map_err(|_| failed("the search for the drive stopped"))?;
    joined.map_err(|error| failed(&error.to_string()))
}

fn opener(path: PathBuf) -> Opener {
    Arc::new(move |rt| {
        let path = path.clone();
        async move {
            open_drive(&path, &rt, OpenOptions::default()).map_err(|error| OpenError {
                in_use: error.kind == ErrorKind::InUse,
                error: FilesError::new(FilesErrorKind::Unavailable, error.to_string()),
            })
        }
        .boxed_local()
    })
}

/// The files of a drive. (RK-DRIVE-1)
pub(crate) fn open(drive: &str, cache_bytes: u64) -> Result<Arc<Files>, FilesError> {
    let path = path_of(drive)?;
    // The same drive by another path is in use, and reached through the owner here like by any other process.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|known| known.files.strong_count() > 0);
    let found = known.iter().find(|known| known.path == path).and_then(|known| known.files.upgrade());
    // One whose owner has stopped serves nobody any more.
    if let Some(files) = found.filter(|files| files.room().is_ok()) {
        return Ok(files);
    }
    known.retain(|known| known.path != path);
    let (holder, partition) = drive_path::split(&path);
    let parameters = OpenFiles {
        holder: Path::new(&holder),
        partition: partition.as_deref(),
        options: Options::default(),
        cache_bytes,
    };
    let opened = open_files(&parameters, opener(path.clone()));
    let files = Arc::new(opened.map_err(|error| FilesError::new(error.kind, format!("{}: {error}", path.display())))?);
    known.push(Known { path, files: Arc::downgrade(&files) });
    Ok(files)
}
