//! `shingle files cat|rm`: one file, or a directory.

use std::path::PathBuf;

use clap::Args;
use shingle_base::printable;

use super::look::{short, walk};
use super::opened::{about, examined, named, opened, told_of_loss};
use crate::confirm::confirm;
use crate::failure::{Failure, Outcome};
use crate::output::counted;
use crate::transfer::Output;

#[derive(Args)]
pub(crate) struct Cat {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The file.
    #[arg(value_name = "PATH")]
    path: String,
    /// Go on without bytes of logs that cannot be read; the exit status is 4.
    #[arg(long)]
    accept_loss: bool,
    /// Print to a terminal, whatever the bytes are.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Rm {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The file, or the directory.
    #[arg(value_name = "PATH")]
    path: String,
    /// Remove a directory with all that it holds.
    #[arg(long, short)]
    recursive: bool,
    /// Go on without bytes of logs that cannot be read.
    #[arg(long)]
    accept_loss: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Cat {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, self.accept_loss).await?;
            let file = files.open_file(&self.path).map_err(|error| about(&self.path, &error))?;
            let output = Output::begin(None, &self.path, self.force)?;
            output.copy((0, file.size()), async |at, length| file.read(at, length).await).await?;
            told_of_loss(&report)
        })?
    }
}

impl Rm {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let files = opened(&self.drive, &rt, self.accept_loss).await?;
            let removed = self.remove(&files).await;
            let closed = files.close().await.map_err(|error| named(&self.drive, &error));
            removed.and(closed)
        })?
    }

    async fn remove(&self, files: &shingle_zone_files::ZoneFiles) -> Outcome {
        let path = self.path.trim_end_matches('/');
        let failed = |error| about(path, &error);
        let shown = printable(path.as_bytes());
        if let Some(info) = files.stat(path).map_err(failed)? {
            confirm(self.yes, &format!("`{shown}`: {} will be lost", short(info.size)))?;
            return files.remove(path).await.map_err(failed);
        }
        let mut all = Vec::new();
        walk(files, path, true, &mut all)?;
        if !self.recursive {
            return Err(Failure::new(format!("`{shown}` is a directory: add --recursive to remove it and all in it")));
        }
        let bytes: u64 = all.iter().filter_map(|(_, info)| info.as_ref()).map(|info| info.size).sum();
        let count = all.iter().filter(|(_, info)| info.is_some()).count();
        confirm(self.yes, &format!("`{shown}`: {} of {} will be lost", counted(count as u64, "file"), short(bytes)))?;
        // Entries of a directory come behind it.
        for (path, info) in all.iter().rev() {
            let removed = if info.is_some() { files.remove(path).await } else { files.remove_dir(path).await };
            removed.map_err(|error| about(path, &error))?;
        }
        if path.is_empty() { Ok(()) } else { files.remove_dir(path).await.map_err(failed) }
    }
}
