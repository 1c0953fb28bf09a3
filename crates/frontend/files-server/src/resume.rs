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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use shingle_base::{Blocks, StoreId};
    use shingle_runtime::Runtime;
    use shingle_zone_files::{CreateOptions, FileKind, FormatOptions, Options};
    use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

    use super::*;

    const LOG: CreateOptions = CreateOptions {
        kind: FileKind::Wal,
        lifetime: shingle_zone_files::WriteLifetime::None,
        expected_bytes: 0,
        exclusive: true,
    };

    async fn files(rt: &Runtime) -> ZoneFiles {
        let device: Rc<dyn ZonedDevice> = Rc::new(MemoryDevice::new(Geometry::hm_smr(Blocks(64), 40, 0, 8)));
        ZoneFiles::format(rt, device.clone(), FormatOptions::default()).await.unwrap();
        ZoneFiles::open(rt, device, Options::default()).await.unwrap().0
    }

    /// A log of which ten bytes were written, and twenty flushed, by a process that was killed.
    async fn killed(files: &ZoneFiles, tails: &Tails) -> u64 {
        files.make_dir("/db").await.unwrap();
        let mut making = tails.making();
        let file = files.create("/db/000004.log", LOG).await.unwrap();
        making.serial = file.info().unwrap().serial;
        let serial = making.serial;
        drop(making);
        file.append(vec![Bytes::from_static(b"0123456789")]).await.unwrap();
        file.sync().await.unwrap();
        let mut tail = tails.tail(serial, "/db/000004.log").unwrap();
        assert!(tail.keep(4, b"456789abcdef") && tail.keep(16, b"ghij"));
        std::mem::forget(tail);
        serial
    }

    fn run<F: Future<Output = ()>>(name: &str, body: impl FnOnce(Runtime, ZoneFiles, Tails) -> F) {
        let memory = std::env::temp_dir().join(format!("shingle-resume-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&memory);
        std::fs::create_dir(&memory).unwrap();
        let tails = Tails::below(&memory, StoreId(3)).unwrap();
        shingle_runtime::real::run(|rt| async move { body(rt.clone(), files(&rt).await, tails).await }).unwrap();
        std::fs::remove_dir_all(&memory).unwrap();
    }

    async fn bytes(files: &ZoneFiles) -> Vec<u8> {
        files.open_file("/db/000004.log").unwrap().read(0, 100).await.unwrap().to_vec()
    }

    /// FS-TAIL-1.
    #[test]
    fn a_log_goes_on_where_its_flushes_ended() {
        run("goes-on", |_, files, tails| async move {
            killed(&files, &tails).await;
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await, b"0123456789abcdefghij");
            assert!(tails.left().unwrap().is_empty());
            // Nothing is appended twice.
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await.len(), 20);
        });
    }

    /// FS-TAIL-2.
    #[test]
    fn tails_are_left_out_where_another_used_the_drive_or_the_log_is_another() {
        run("elsewhere", |_, files, tails| async move {
            killed(&files, &tails).await;
            files.create("/elsewhere", CreateOptions::default()).await.unwrap();
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await, b"0123456789");
            assert!(tails.left().unwrap().is_empty());
        });
        run("another", |_, files, tails| async move {
            killed(&files, &tails).await;
            let mut making = tails.making();
            files.remove("/db/000004.log").await.unwrap();
            making.serial = files.create("/db/000004.log", LOG).await.unwrap().info().unwrap().serial;
            drop(making);
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await, b"");
        });
        run("removed", |_, files, tails| async move {
            killed(&files, &tails).await;
            files.remove("/db/000004.log").await.unwrap();
            files.remove_dir("/db").await.unwrap();
            append_missing(&files, &tails).await.unwrap();
            assert!(tails.left().unwrap().is_empty());
        });
    }

    /// A process that was killed while it made a file: it alone may have made it.
    #[test]
    fn a_file_that_was_being_made_is_no_sign_of_others() {
        run("making", |_, files, tails| async move {
            killed(&files, &tails).await;
            std::mem::forget(tails.making());
            files.create("/db/000005.sst", CreateOptions::default()).await.unwrap();
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await, b"0123456789abcdefghij");
        });
    }
}
