//! Drives that this process has open.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt;
use shingle_files_server::{Caching, Files, OpenError, OpenFiles, Opener, open_files};
use shingle_server::inventory::{DriveName, locate};
use shingle_server::{ErrorKind, drive_path, open_drive, start_log};
use shingle_zone_files::{FilesError, FilesErrorKind, Options};
use shingle_zoned_linux::{OpenOptions, System};

/// The files of a drive, as long as someone has them. Locked while the drive is opened.
type Slot = Arc<Mutex<Weak<Files>>>;

/// Drives by their paths. Locked for a moment only: a drive that hangs holds up no other one's opening.
static KNOWN: Mutex<Vec<(PathBuf, Slot)>> = Mutex::new(Vec::new());

/// The place of a drive among those that are known.
fn slot(path: &Path) -> Slot {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|(known, _)| known == path).map(|(_, slot)| slot.clone());
    found.unwrap_or_else(|| {
        let slot = Slot::default();
        known.push((path.to_owned(), slot.clone()));
        slot
    })
}

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
            open_drive(&path, &rt, OpenOptions { alone: true, ..OpenOptions::default() }).map_err(|error| OpenError {
                in_use: error.kind == ErrorKind::InUse,
                error: FilesError::new(FilesErrorKind::Unavailable, error.to_string()),
            })
        }
        .boxed_local()
    })
}

/// Levels of the log on standard error, unless the environment names others: what an operator has to know.
const LOG: &str = "warn";

/// Memory for tables: blocks of them, unless the environment asks for whole tables.
fn caching(bytes: u64) -> Result<Caching, FilesError> {
    match std::env::var("SHINGLE_ROCKSDB_CACHE").as_deref() {
        Err(_) | Ok("" | "blocks") => Ok(Caching::Blocks(bytes)),
        Ok("tables") => Ok(Caching::WholeTables(bytes)),
        Ok(other) => Err(invalid(format!("SHINGLE_ROCKSDB_CACHE: `blocks` or `tables`, not `{other}`"))),
    }
}

/// The files of a drive. (RK-DRIVE-1)
pub(crate) fn open(drive: &str, cache_bytes: u64) -> Result<Arc<Files>, FilesError> {
    let levels = std::env::var("SHINGLE_LOG").unwrap_or_else(|_| LOG.to_owned());
    start_log(&levels).map_err(|error| invalid(format!("SHINGLE_LOG: {error}")))?;
    let path = path_of(drive)?;
    // The same drive by another path is in use, and reached through the owner here like by any other process.
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let slot = slot(&path);
    let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
    // One whose owner has stopped serves nobody any more.
    if let Some(files) = known.upgrade().filter(|files| files.room().is_ok()) {
        return Ok(files);
    }
    let (holder, partition) = drive_path::split(&path);
    let parameters = OpenFiles {
        holder: Path::new(&holder),
        partition: partition.as_deref(),
        options: Options::default(),
        caching: caching(cache_bytes)?,
    };
    let opened = open_files(&parameters, opener(path.clone()));
    let files = Arc::new(opened.map_err(|error| FilesError::new(error.kind, format!("{}: {error}", path.display())))?);
    *known = Arc::downgrade(&files);
    Ok(files)
}
