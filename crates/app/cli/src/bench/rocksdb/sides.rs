//! The two sides: a drive in a file, and the file system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::program::{Load, Place};
use crate::failure::{Failure, Outcome};

/// Names the library, if it is not where it is looked for.
const VARIABLE: &str = "SHINGLE_ROCKSDB_LIBRARY";
const LIBRARY: &str = "libshingle_rocksdb.so";

/// A drive in a file and a directory, side by side in one directory.
pub(super) struct Sides {
    library: PathBuf,
    drive: Vec<String>,
    directory: Vec<String>,
}

impl Sides {
    pub(super) fn new(scratch: &Path) -> Outcome<Self> {
        let library = library()?;
        let drive = scratch.join("disk.shingle");
        shingle(&["drive", "create", &drive.to_string_lossy(), "--size", "8GiB", "--zone-size", "64MiB"])?;
        shingle(&["files", "format", &drive.to_string_lossy()])?;
        let own = vec![format!("--fs_uri=shingle://file:{}", drive.display()), "--db=/bench".to_owned()];
        let directory = vec![format!("--db={}", scratch.join("database").display())];
        Ok(Self { library, drive: own, directory })
    }

    /// Operations a second of a load: on the drive (0) or in the directory (1).
    pub(super) fn run(&self, side: usize, load: &Load) -> Outcome<f64> {
        let place = match side {
            0 => Place { options: &self.drive, library: Some(&self.library) },
            _ => Place { options: &self.directory, library: None },
        };
        load.run(&place)
    }
}

/// The library with RocksDB's file system.
fn library() -> Outcome<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return Ok(path.into());
    }
    let beside = std::env::current_exe()?.with_file_name(LIBRARY);
    let places = [beside, Path::new("/usr/local/lib").join(LIBRARY)];
    places.into_iter().find(|path| path.exists()).ok_or_else(|| {
        Failure::new(format!("there is no {LIBRARY}: build it by `make -C bindings/rocksdb`, or name it in {VARIABLE}"))
    })
}

fn shingle(arguments: &[&str]) -> Outcome {
    let done = Command::new(std::env::current_exe()?).args(arguments).stdin(Stdio::null()).output()?;
    if done.status.success() {
        Ok(())
    } else {
        Err(Failure::new(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
    }
}
