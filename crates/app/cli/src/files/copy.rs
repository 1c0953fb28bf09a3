//! `shingle files backup|restore`: all files, from the drive and back.

use std::fs;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use shingle_base::{ByteSize, printable};
use shingle_files_server::resume_logs;
use shingle_zone_files::{CreateOptions, FileKind, FilesErrorKind, ZoneFiles};

use super::look::walk;
use super::opened::{about, examined, named, opened, told_of_loss};
use crate::failure::{Failure, Outcome, status};
use crate::output::{Progress, counted};

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

#[derive(Args)]
pub(crate) struct Backup {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The directory, which must not exist or be empty.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Go on where bytes cannot be read: those files are left out, and the exit status is 4.
    #[arg(long)]
    accept_loss: bool,
}

#[derive(Args)]
pub(crate) struct Restore {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The directory of this machine.
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

fn of_host(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

impl Backup {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, self.accept_loss).await?;
            fs::create_dir_all(&self.to).map_err(|error| of_host(&self.to, &error))?;
            if fs::read_dir(&self.to).map_err(|error| of_host(&self.to, &error))?.next().is_some() {
                return Err(Failure::new(format!("{}: the directory is not empty", self.to.display())));
            }
            let mut all = Vec::new();
            walk(&files, "", true, &mut all)?;
            let total: u64 = all.iter().filter_map(|(_, info)| info.as_ref()).map(|info| info.size).sum();
            let (mut progress, mut done) = (Progress::new(), 0);
            let (mut copied, mut copied_bytes, mut left_out) = (0u64, 0, 0u64);
            for (path, info) in all {
                let target = self.to.join(&path);
                // A name on a drive may be anything; nothing is written outside of the directory.
                if !Path::new(&path).components().all(|part| matches!(part, Component::Normal(_))) {
                    return Err(Failure::new(format!("`{}` is no path here", printable(path.as_bytes()))));
                }
                let Some(info) = info else {
                    fs::create_dir(&target).map_err(|error| of_host(&target, &error))?;
                    continue;
                };
                match copy_out(&files, &path, &target).await {
                    Ok(()) => {
                        copied += 1;
                        copied_bytes += info.size;
                    }
                    Err(failure) if self.accept_loss => {
                        let _ = fs::remove_file(&target);
                        note!("left out: {}", failure.message);
                        left_out += 1;
                    }
                    Err(failure) => return Err(failure),
                }
                done += info.size;
                progress.show_bytes(done, total);
            }
            drop(progress);
            say!("{} of {} copied", counted(copied, "file"), ByteSize(copied_bytes));
            told_of_loss(&report)?;
            if left_out == 0 { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
        })?
    }
}

async fn copy_out(files: &ZoneFiles, path: &str, target: &Path) -> Outcome {
    let file = files.open_file(path).map_err(|error| about(path, &error))?;
    let mut out = fs::File::create_new(target).map_err(|error| of_host(target, &error))?;
    let (mut at, size) = (0, file.size());
    while at < size {
        let bytes = file.read(at, PIECE as u64).await.map_err(|error| about(path, &error))?;
        at += bytes.len() as u64;
        out.write_all(&bytes).map_err(|error| of_host(target, &error))?;
    }
    out.sync_all().map_err(|error| of_host(target, &error))
}

impl Restore {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let files = opened(&self.drive, &rt, false).await?;
            // New files come behind the ends of logs that a killed database left in memory.
            if let Err(error) = resume_logs(&files).await {
                let _ = files.close().await;
                return Err(named(&self.drive, &error).not_run());
            }
            let mut count = (0, 0);
            let copied = copy_in(&files, &self.from, "", &mut count).await;
            let closed = files.close().await.map_err(|error| named(&self.drive, &error));
            copied.and(closed)?;
            say!("{} of {} copied", counted(count.0, "file"), ByteSize(count.1));
            Ok(())
        })?
    }
}

/// Copies what a directory holds.
async fn copy_in(files: &ZoneFiles, from: &Path, to: &str, count: &mut (u64, u64)) -> Outcome {
    let mut entries = Vec::new();
    for entry in fs::read_dir(from).map_err(|error| of_host(from, &error))? {
        entries.push(entry.map_err(|error| of_host(from, &error))?.path());
    }
    entries.sort();
    for source in entries {
        let name = source.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Failure::new(format!("{}: the name is no UTF-8", source.display())))?;
        let path = if to.is_empty() { name.to_owned() } else { format!("{to}/{name}") };
        let kind = fs::symlink_metadata(&source).map_err(|error| of_host(&source, &error))?.file_type();
        if kind.is_dir() {
            match files.make_dir(&path).await {
                Err(error) if error.kind != FilesErrorKind::Exists => return Err(about(&path, &error)),
                _ => {}
            }
            Box::pin(copy_in(files, &source, &path, count)).await?;
        } else if kind.is_file() {
            let bytes = copy_file_in(files, &source, &path).await?;
            *count = (count.0 + 1, count.1 + bytes);
        } else {
            return Err(Failure::new(format!("{}: neither a file nor a directory", source.display())));
        }
    }
    Ok(())
}

async fn copy_file_in(files: &ZoneFiles, source: &Path, path: &str) -> Outcome<u64> {
    let mut input = fs::File::open(source).map_err(|error| of_host(source, &error))?;
    let size = input.metadata().map_err(|error| of_host(source, &error))?.len();
    let options = CreateOptions {
        kind: FileKind::of_name(path),
        expected_bytes: size,
        exclusive: true,
        ..CreateOptions::default()
    };
    let failed = |error| about(path, &error);
    let file = files.create(path, options).await.map_err(failed)?;
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let read = Read::by_ref(&mut input).take(PIECE as u64).read_to_end(&mut piece);
        if read.map_err(|error| of_host(source, &error))? == 0 {
            break;
        }
        file.append(vec![Bytes::from(piece)]).await.map_err(failed)?;
    }
    file.sync().await.map_err(failed)?;
    Ok(file.size())
}
