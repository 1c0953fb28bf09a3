//! Bringing logs up to what was flushed when the last owner of the drive was killed.

use bytes::Bytes;
use shingle_zone_files::{FilesError, FilesErrorKind, FilesResult, ZoneFiles};

use crate::tail::{Left, Tails};

/// Appends to logs what their tails have more, durably, and forgets the tails.
pub(crate) async fn append_missing(files: &ZoneFiles, tails: &Tails) -> FilesResult<()> {
    let failed = |error: std::io::Error| {
        let text = format!("ends of logs that a killed process left in shared memory cannot be read: {error}");
        FilesError::new(FilesErrorKind::Unavailable, text)
    };
    let left = tails.left().map_err(failed)?;
    let newest = newest_file(files)?;
    // Another has written to the drive since: it went on without these bytes. (FS-TAIL-2)
    if newest > tails.newest() {
        if !left.is_empty() {
            tracing::warn!("ends of logs in shared memory are left out: the drive was used elsewhere since");
        }
    } else {
        for log in left {
            append_to(files, &log).await?;
        }
    }
    tails.forget().map_err(failed)?;
    tails.begin(newest);
    Ok(())
}

async fn append_to(files: &ZoneFiles, log: &Left) -> FilesResult<()> {
    let found = match files.stat(&log.path) {
        Ok(found) => found.filter(|file| file.serial == log.serial),
        Err(error) if matches!(error.kind, FilesErrorKind::NotFound | FilesErrorKind::NotDirectory) => None,
        Err(error) => return Err(error),
    };
    // The log was removed, or has another name now.
    let Some(found) = found else { return Ok(()) };
    let missing = log.missing(found.size);
    if missing.is_empty() {
        return Ok(());
    }
    tracing::info!(path = log.path, bytes = missing.len(), "the end of a log was in shared memory");
    let file = files.open_file(&log.path)?;
    file.append(vec![Bytes::from(missing)]).await?;
    file.sync().await
}

/// Highest number of a file.
fn newest_file(files: &ZoneFiles) -> FilesResult<u64> {
    let (mut newest, mut directories) = (0, vec!["/".to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in files.list(&directory)? {
            match entry.file {
                Some(file) => newest = newest.max(file.serial),
                None => directories.push(format!("{}/{}", directory.trim_end_matches('/'), entry.name)),
            }
        }
    }
    Ok(newest)
}
