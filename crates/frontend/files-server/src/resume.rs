//! Bringing logs up to what was flushed when the last owner of the drive was killed.

use std::path::Path;

use bytes::Bytes;
use shingle_zone_files::{FilesError, FilesErrorKind, FilesResult, ZoneFiles};

use crate::left::Left;
use crate::tail::{SHARED_MEMORY, Tails};

/// Brings the logs of files that were just opened up to what was flushed when their last owner was killed: for those who change files
/// without this crate. (FS-TAIL-3)
///
/// # Errors
/// `Unavailable` if another user's process left what is missing; `NoSpace` if there is no room for it.
pub async fn resume_logs(files: &ZoneFiles) -> FilesResult<()> {
    match resumed(files).await? {
        Ok(tails) if tails.carries() => return Err(no_room()),
        Ok(tails) => tails.end(),
        Err(error) => tracing::debug!(%error, "there is no memory for ends of logs"),
    }
    Ok(())
}

fn no_room() -> FilesError {
    let text = "ends of logs, which a process that ended left in memory, have no room; `shingle files rm` makes some";
    FilesError::new(FilesErrorKind::NoSpace, text)
}

/// As [`resume_logs`]. The tails are the caller's from now on, if there is memory for them. Ends of logs that have no room can be read, and are
/// written once there is some; their tails stay until then. (FS-TAIL-1)
pub(crate) async fn resumed(files: &ZoneFiles) -> FilesResult<std::io::Result<Tails>> {
    let memory = Path::new(SHARED_MEMORY);
    refuse_others(files, &Tails::of_others(memory, files.store()))?;
    let tails = match Tails::below(memory, files.store()) {
        Ok(tails) => tails,
        Err(error) => return Ok(Err(error)),
    };
    append_missing(files, &tails).await?;
    Ok(Ok(tails))
}

/// Bytes that another user's process flushed are no reason to go on without them, and that user alone may say that they are good. (FS-TAIL-3)
fn refuse_others(files: &ZoneFiles, others: &[Tails]) -> FilesResult<()> {
    for tails in others {
        if newest_file(files)? > tails.newest() {
            continue;
        }
        for log in tails.left().map_err(|error| failed(tails, &error))? {
            if missing(files, &log)?.is_some() {
                let text = format!(
                    "a process of another user was killed, and the end of log `{}` is in {} alone: open the drive as that user first, or remove \
                     that directory if nobody needs these bytes",
                    shingle_base::printable(log.path.as_bytes()),
                    tails.directory().display()
                );
                return Err(FilesError::new(FilesErrorKind::Unavailable, text));
            }
        }
    }
    Ok(())
}

fn failed(tails: &Tails, error: &std::io::Error) -> FilesError {
    let directory = tails.directory().display();
    let text = format!("ends of logs that a killed process left in {directory} cannot be read: {error}");
    FilesError::new(FilesErrorKind::Unavailable, text)
}

/// Appends to logs what their tails have more, durably, and forgets the tails.
async fn append_missing(files: &ZoneFiles, tails: &Tails) -> FilesResult<()> {
    let left = tails.left().map_err(|error| failed(tails, &error))?;
    let newest = newest_file(files)?;
    // Another has written to the drive since: it went on without these bytes. (FS-TAIL-2)
    if newest > tails.newest() {
        if !left.is_empty() {
            tracing::warn!("ends of logs in shared memory are left out: the drive was used elsewhere since");
        }
    } else {
        for log in left {
            if !append_to(files, &log).await? {
                tails.carry(&log);
            }
        }
    }
    tails.forget().map_err(|error| failed(tails, &error))?;
    tails.begin(newest);
    Ok(())
}

/// Bytes that a log lacks. `None` if it lacks none, was removed, or has another name now.
fn missing(files: &ZoneFiles, log: &Left) -> FilesResult<Option<Vec<u8>>> {
    let found = match files.stat(&log.path) {
        Ok(found) => found.filter(|file| file.serial == log.serial),
        Err(error) if matches!(error.kind, FilesErrorKind::NotFound | FilesErrorKind::NotDirectory) => None,
        Err(error) => return Err(error),
    };
    Ok(found.map(|found| log.missing(found.size)).filter(|missing| !missing.is_empty()))
}

/// False if what was appended has no room yet.
async fn append_to(files: &ZoneFiles, log: &Left) -> FilesResult<bool> {
    let Some(missing) = missing(files, log)? else { return Ok(true) };
    tracing::info!(path = log.path, bytes = missing.len(), "the end of a log was in shared memory");
    let file = files.open_file(&log.path)?;
    // Another log's end may wait for room already.
    file.take_or_wait(vec![Bytes::from(missing)])?;
    match file.sync().await {
        Err(error) if error.kind == FilesErrorKind::NoSpace => {
            tracing::warn!(path = log.path, "the end of the log has no room: make some with `shingle files rm`");
            Ok(false)
        }
        synced => synced.map(|()| true),
    }
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
        let making = tails.making();
        let file = files.create("/db/000004.log", LOG).await.unwrap();
        let serial = file.info().unwrap().serial;
        making.made(serial);
        file.append(vec![Bytes::from_static(b"0123456789")]).await.unwrap();
        file.sync().await.unwrap();
        let mut tail = tails.tail(serial, "/db/000004.log").unwrap();
        assert!(tail.keep(10, 4, b"456789abcdef") && tail.keep(10, 16, b"ghij"));
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
            let making = tails.making();
            files.remove("/db/000004.log").await.unwrap();
            making.made(files.create("/db/000004.log", LOG).await.unwrap().info().unwrap().serial);
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

    /// FS-TAIL-3: another user's process was killed; its bytes are neither taken nor passed over.
    #[test]
    fn what_another_users_process_left_is_not_passed_over() {
        run("others", |_, files, tails| async move {
            killed(&files, &tails).await;
            let error = refuse_others(&files, std::slice::from_ref(&tails)).unwrap_err();
            assert_eq!(error.kind, FilesErrorKind::Unavailable);
            assert!(error.to_string().contains("/db/000004.log") && error.to_string().contains("resume-"), "{error}");
            append_missing(&files, &tails).await.unwrap();
            refuse_others(&files, &[tails]).unwrap();
        });
        run("others-elsewhere", |_, files, tails| async move {
            killed(&files, &tails).await;
            files.create("/elsewhere", CreateOptions::default()).await.unwrap();
            refuse_others(&files, &[tails]).unwrap();
        });
    }

    /// A process that was killed while it made a file: it alone may have made it.
    #[test]
    fn a_file_that_was_being_made_is_no_sign_of_others() {
        run("making", |_, files, tails| async move {
            killed(&files, &tails).await;
            tails.making().unsure();
            files.create("/db/000005.sst", CreateOptions::default()).await.unwrap();
            append_missing(&files, &tails).await.unwrap();
            assert_eq!(bytes(&files).await, b"0123456789abcdefghij");
        });
    }
}
