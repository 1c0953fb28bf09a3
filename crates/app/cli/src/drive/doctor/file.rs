//! Findings about an emulated drive, which is only a file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use shingle_base::ByteSize;

use crate::drive::doctor::facts::Who;
use crate::drive::doctor::finding::Finding;

/// All findings about the file at `path`.
///
/// # Errors
/// It cannot be looked at.
pub(crate) fn look(path: &Path) -> Result<Vec<Finding>, String> {
    let subject = path.display().to_string();
    let failed = |error: std::io::Error| format!("{subject}: {error}");
    let file = fs::metadata(path).map_err(failed)?;
    if !file.is_file() {
        return Err(format!("{subject}: neither a block device nor the file of an emulated drive"));
    }
    Ok(vec![permissions(&subject, &file), space(&subject, path, &file).map_err(failed)?])
}

fn permissions(subject: &str, file: &fs::Metadata) -> Finding {
    let (check, mode) = ("permissions", file.mode() & 0o777);
    if Who::me().may_use(file.uid(), file.gid(), mode) {
        return Finding::ok(subject, check, format!("you may read and write it (mode {mode:o})"));
    }
    let why = "opening a drive needs permission to read and to write";
    Finding::problem(subject, check, format!("you may not read and write it (mode {mode:o})"), why)
        .change(format!("chown USER {subject}"))
}

fn space(subject: &str, path: &Path, file: &fs::Metadata) -> std::io::Result<Finding> {
    let check = "space";
    let folder = path.canonicalize()?;
    let system = rustix::fs::statvfs(folder.parent().unwrap_or(&folder))?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let (free, taken) = (ByteSize(free), ByteSize(file.blocks().saturating_mul(512)));
    let found = format!("it takes {taken}, its file system has {free} left");
    if free.0 < 1 << 30 {
        let why = "the file is sparse: where its file system is full, writes to the drive fail";
        return Ok(Finding::advice(subject, check, found, why).change(format!("df -h {subject}, and make room")));
    }
    Ok(Finding::ok(subject, check, found))
}
