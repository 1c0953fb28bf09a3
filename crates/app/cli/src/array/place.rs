//! The array of a command, and opening it.
//!
//! # Invariants
//! - CLI-AOPEN-1: a missing drive is not given up silently: from then on the array no longer believes its contents.
//!   (`test_array_drives.py`)
//! - CLI-AOPEN-2: an array that was opened is closed, even if the work failed, and after Ctrl-C too.
//! - CLI-AOPEN-3: a drive that is there and cannot be opened is as one that is missing; to make it one of an array is refused.

use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::future::join_all;
use shingle_array_objects::NAMING;
use shingle_array_store::{
    ArrayDrive, ArrayStore, DriveId, IndexPlace, Inspection, Options, RecoveryReport, array_of, inspect, patient,
    two_files,
};
use shingle_runtime::Runtime;
use shingle_server::ErrorKind;
use shingle_server::inventory::DriveName;
use shingle_zoned_linux::OpenOptions;

use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};

/// Names the array's file if `--array` does not.
const VARIABLE: &str = "SHINGLE_ARRAY";

/// Exit status that shells report for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// The array: its file, or its drives.
#[derive(Args, Clone)]
pub(crate) struct ArrayArgs {
    /// The array's file, which `shingle array format` writes [default: $SHINGLE_ARRAY].
    #[arg(long, value_name = "FILE")]
    pub(crate) array: Option<PathBuf>,
    /// A drive of the array, as other commands name drives; repeat it for each [default: the drives in the array's
    /// file].
    #[arg(long = "drive", value_name = "DRIVE")]
    pub(crate) drives: Vec<PathBuf>,
    /// File of the index, on an SSD [default: the one in the array's file; without one it is made from the drives
    /// each time].
    #[arg(long, value_name = "FILE")]
    pub(crate) index: Option<PathBuf>,
    /// The two files of the buffer, each on its own SSD: small objects are safe in them before they go to the drives
    /// together [default: those in the array's file, or none].
    #[arg(long, num_args = 2, value_names = ["FILE", "FILE"])]
    pub(crate) buffer: Option<Vec<PathBuf>>,
    /// Open without the buffer if both of its files are lost: objects in them are lost.
    #[arg(long)]
    pub(crate) abandon_buffer: bool,
    /// Write to the array even if parts that opening needs cannot be read: objects may be lost, and deleted ones may be
    /// back.
    #[arg(long)]
    pub(crate) accept_loss: bool,
}

/// Contents of an array's file. Relative paths are relative to its folder.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrayFile {
    /// The drives, as commands name them, in any order.
    pub(crate) drives: Vec<PathBuf>,
    /// File of the index.
    pub(crate) index: Option<PathBuf>,
    /// The two files of the buffer of small objects; `None` = no buffer.
    pub(crate) buffer: Option<[PathBuf; 2]>,
    /// Seconds that an object may be in the buffer alone, for the server: a command empties it at its end.
    pub(crate) buffer_time_s: Option<u64>,
}

/// The array that a command is about.
pub(crate) struct Named {
    pub(crate) drives: Vec<PathBuf>,
    pub(crate) index: IndexPlace,
    pub(crate) buffer: Option<[PathBuf; 2]>,
    pub(crate) abandon_buffer: bool,
    pub(crate) accept_loss: bool,
}

impl ArrayArgs {
    /// The array's file, if one is named.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let said = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        self.array.clone().or_else(|| if self.drives.is_empty() { said() } else { None })
    }

    /// The array's drives, index and buffer.
    pub(crate) fn named(&self) -> Outcome<Named> {
        let file = match self.file() {
            Some(_) if !self.drives.is_empty() => {
                return Err(Failure::new("name the array by --array or by --drive, not by both").not_run());
            }
            Some(path) => ArrayFile::read(&path)?,
            None if self.drives.is_empty() => {
                return Err(Failure::new(format!(
                    "which array? Name its file with --array or {VARIABLE}, or each of its drives with --drive"
                ))
                .not_run());
            }
            None => ArrayFile { drives: self.drives.clone(), ..ArrayFile::default() },
        };
        let buffer = self.buffer_files()?.or(file.buffer);
        let index = self.index.clone().or(file.index).map_or(IndexPlace::Memory, IndexPlace::File);
        let Self { abandon_buffer, accept_loss, .. } = *self;
        Ok(Named { drives: file.drives, index, buffer, abandon_buffer, accept_loss })
    }

    /// The same array without some of its drives.
    pub(crate) fn without(&self, drives: &[PathBuf]) -> Outcome<Self> {
        if drives.is_empty() {
            return Ok(self.clone());
        }
        let named = self.named()?;
        let left = named.drives.into_iter().filter(|drive| !drives.contains(drive)).collect();
        let index = match named.index {
            IndexPlace::File(path) => Some(path),
            IndexPlace::Memory => None,
        };
        Ok(Self { array: None, drives: left, index, buffer: named.buffer.map(Vec::from), ..self.clone() })
    }

    /// The buffer's files that the command line names.
    pub(crate) fn buffer_files(&self) -> Outcome<Option<[PathBuf; 2]>> {
        let Some(files) = &self.buffer else { return Ok(None) };
        let files = files.clone().try_into().map_err(|_| Failure::new("a buffer has two files"))?;
        two_files(&files)?;
        Ok(Some(files))
    }
}

impl ArrayFile {
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        let named = |error: &dyn std::fmt::Display| {
            let error = error.to_string();
            let between = if error.contains('\n') { '\n' } else { ' ' };
            Failure::new(format!("{}:{between}{error}", path.display())).not_run()
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        let mut file: Self = shingle_server::read_toml(&text).map_err(|error| named(&error))?;
        if file.drives.is_empty() {
            return Err(named(&"it names no drives: drives = [\"serial:...\", \"serial:...\"]"));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let beside = |path: &PathBuf| if is_path(path) { folder.join(path) } else { path.clone() };
        file.drives = file.drives.iter().map(beside).collect();
        file.index = file.index.map(|index| folder.join(index));
        file.buffer = file.buffer.map(|files| files.map(|path| folder.join(path)));
        Ok(file)
    }

    /// The file's text. Relative paths become absolute: the file may lie elsewhere.
    pub(crate) fn text(&self) -> Outcome<String> {
        let quoted = |path: &Path| -> Outcome<String> {
            let path = if is_path(path) { std::path::absolute(path)? } else { path.to_owned() };
            let text = path.to_str().ok_or_else(|| Failure::new(format!("{}: no UTF-8", path.display())))?;
            // A string of JSON is one of TOML.
            Ok(serde_json::Value::from(text).to_string())
        };
        let mut text = "# An array of Shingle: `shingle array --help`.\ndrives = [\n".to_owned();
        for drive in &self.drives {
            text += &format!("  {},\n", quoted(drive)?);
        }
        text += "]\n";
        match &self.index {
            Some(index) => text += &format!("index = {}\n", quoted(index)?),
            None => {
                text += "# On an SSD, so that the array opens at once:\n# index = \"/var/lib/shingle/array.index\"\n"
            }
        }
        match &self.buffer {
            Some([first, second]) => text += &format!("buffer = [{}, {}]\n", quoted(first)?, quoted(second)?),
            None => {
                text += "# On two SSDs, so that small objects are safe at once and share what is written:\n\
                         # buffer = [\"/ssd1/array.buffer\", \"/ssd2/array.buffer\"]\n"
            }
        }
        if let Some(seconds) = self.buffer_time_s {
            text += &format!("buffer_time_s = {seconds}\n");
        }
        Ok(text)
    }
}

/// True if two names are of one drive: the same, or paths that lead to the same place.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let place = |name: &Path| is_path(name).then(|| name.canonicalize().or_else(|_| std::path::absolute(name)).ok());
    one == other || place(one).flatten().is_some_and(|one| place(other).flatten() == Some(one))
}

fn is_path(name: &Path) -> bool {
    matches!(DriveName::of_path(name), Ok(DriveName::Path(_)))
}

/// Drives by their names.
pub(super) struct Found {
    pub(super) drives: Vec<ArrayDrive>,
    /// Missing ones.
    pub(super) away: Vec<String>,
    /// Those that are there and cannot be opened: their names, and why.
    pub(super) broken: Vec<(String, Failure)>,
}

/// Opens those of the drives that are there, all at once: one that hangs keeps no other from being opened.
///
/// # Errors
/// One is named twice, in use, or not for this user.
pub(super) async fn find_drives(names: &[PathBuf], rt: &Runtime, options: OpenOptions) -> Outcome<Found> {
    for (number, path) in names.iter().enumerate() {
        if names.iter().take(number).any(|other| other == path) {
            return Err(Failure::new(format!("{} is named twice", path.display())));
        }
        DriveName::of_path(path).map_err(Failure::new)?;
    }
    let open = async |path: PathBuf| {
        let node = device::find(&path, rt).await.ok().filter(|node| node.exists())?;
        Some(shingle_server::open_drive_in_time(&node, rt, options).await)
    };
    let mut found = Found { drives: Vec::new(), away: Vec::new(), broken: Vec::new() };
    for (path, opened) in names.iter().zip(join_all(names.iter().cloned().map(open)).await) {
        let name = path.display().to_string();
        match opened {
            None => found.away.push(name),
            Some(Ok(dev)) => found.drives.push(ArrayDrive { name, dev }),
            Some(Err(error)) if error.kind == ErrorKind::Drive => {
                found.broken.push((name, Failure::from(error).not_run()));
            }
            Some(Err(error)) => return Err(Failure::from(error).not_run()),
        }
    }
    Ok(found)
}

/// Opens those of an array's drives that can be opened; others come back by name. Parity makes up for one that is there and broken as for
/// one that is missing.
pub(crate) async fn open_drives(
    names: &[PathBuf],
    rt: &Runtime,
    options: OpenOptions,
) -> Outcome<(Vec<ArrayDrive>, Vec<String>)> {
    let Found { drives, mut away, broken } = find_drives(names, rt, options).await?;
    for (name, failure) in broken {
        note!("shingle: {}", failure.message);
        away.push(name);
    }
    Ok((drives, away))
}

/// Reaction of a command to a missing drive that the array uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The command only reads: the drive comes back as it was.
    Read,
    /// The command writes, and the drive would not be believed when it comes back: refuse.
    Refuse,
    /// The command writes, and may go on without the drive.
    GoOn,
    /// The command gives the drive up for good: ask, unless `yes`.
    Ask {
        /// Was given.
        yes: bool,
    },
}

impl Missing {
    /// Reaction of a command that writes; `degraded` is its flag `--degraded`.
    pub(crate) fn told(degraded: bool) -> Self {
        if degraded { Self::GoOn } else { Self::Refuse }
    }
}

/// Reads an array's superblock.
async fn inspected(rt: &Runtime, drives: &[ArrayDrive]) -> Outcome<Inspection> {
    inspect(&patient(rt, drives)).await.map_err(|error| Failure::from(error).not_run())
}

/// Reads an array's superblock; refuses missing drives that the array uses, as `missing` says.
async fn looked_at(
    rt: &Runtime,
    drives: &[ArrayDrive],
    away: &[String],
    missing: Missing,
    accept_loss: bool,
) -> Outcome<Inspection> {
    if drives.is_empty() {
        return Err(none_there(away));
    }
    let seen = inspected(rt, drives).await?;
    let Some(absent) = seen.absent() else { return Ok(seen) };
    let names = absent.names.join(", ");
    match (absent.too_many(), missing) {
        (Some(words), Missing::Read) => {
            note!("shingle: {words}; the rest is read, and may be older than the missing part")
        }
        (Some(words), _) if !accept_loss => {
            return Err(Failure::new(format!(
                "{words}\nAttach the missing drives and try again; nothing was changed. Commands that only read work without them"
            ))
            .not_run());
        }
        (None, Missing::Read) => note!("shingle: the array is read without drives that are missing: {names}"),
        _ => {}
    }
    match missing {
        Missing::Read | Missing::GoOn => return Ok(seen),
        Missing::Ask { yes } => {
            let what = format!(
                "missing from the array: {names}\nIf it is only unplugged, attach it and try again. To go on is to give it up: what it \
                 holds is written anew to others, and the array will not use it again as it is"
            );
            confirm(yes, &what)?;
            return Ok(seen);
        }
        Missing::Refuse => {}
    }
    Err(Failure::new(format!(
        "missing from the array: {names}\nAttach it and try again. If it is lost, add --degraded: the array works without it, \
         but will not use it again as it is, should it come back"
    ))
    .not_run())
}

/// An open array, for the work of a command.
pub(crate) struct Opened {
    pub(crate) rt: Runtime,
    pub(crate) store: ArrayStore,
    pub(crate) report: RecoveryReport,
    /// Inspection before it was opened.
    pub(crate) seen: Inspection,
    /// Present names of its drives; `seen` has their indexes in this list.
    pub(crate) names: Vec<String>,
}

/// Runs `work` with an array open, and closes it.
pub(crate) fn with_array<T, F: Future<Output = Outcome<T>>>(
    place: &ArrayArgs,
    missing: Missing,
    background: bool,
    work: impl FnOnce(Opened) -> F,
) -> Outcome<T> {
    with_array_and(place, missing, background, |_, _| Ok(Vec::new()), work)
}

/// The same, and drives that were given up are taken back: those that `readmit` returns for the inspection and the
/// drives' names.
pub(crate) fn with_array_and<T, F: Future<Output = Outcome<T>>>(
    place: &ArrayArgs,
    missing: Missing,
    background: bool,
    readmit: impl FnOnce(&Inspection, &[String]) -> Outcome<Vec<DriveId>>,
    work: impl FnOnce(Opened) -> F,
) -> Outcome<T> {
    let named = place.named()?;
    let result = shingle_runtime::real::run(|rt| async move {
        let (drives, away) = open_drives(&named.drives, &rt, OpenOptions::default()).await?;
        let Named { buffer, abandon_buffer, accept_loss, .. } = named;
        let seen = looked_at(&rt, &drives, &away, missing, accept_loss).await?;
        let names: Vec<String> = drives.iter().map(|drive| drive.name.clone()).collect();
        let (read_only, readmit) = (missing == Missing::Read, readmit(&seen, &names)?);
        let naming = NAMING;
        let options = Options {
            background,
            read_only,
            buffer,
            abandon_buffer,
            accept_loss,
            readmit,
            naming,
            ..Options::default()
        };
        let opened = ArrayStore::open(&rt, &drives, &named.index, options).await;
        let (store, report) = opened.map_err(|error| Failure::from(error).not_run())?;
        // Those that are missing now were named before.
        let absent = seen.absent().filter(|_| read_only).map_or(Vec::new(), |absent| absent.names);
        let new = report.missing_drives.iter().filter(|drive| !is_named(drive, &absent));
        new.for_each(|drive| note!("shingle: the array goes on without {drive}"));
        report.buffer.iter().for_each(|file| note!("shingle: {file}"));
        report.damage.iter().for_each(|damage| note!("shingle: damaged: {damage}"));
        let work = work(Opened { rt: rt.clone(), store: store.clone(), report, seen, names });
        let result = tokio::select! {
            result = work => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::new("interrupted").with_status(INTERRUPTED)),
        };
        let closed = store.close().await;
        if let Err(failure) = &result
            && failure.status == INTERRUPTED
        {
            note!("shingle: {}", failure.message);
            // A thread that waits for standard input would keep the process.
            std::process::exit(INTERRUPTED.into());
        }
        let value = result?;
        closed?;
        Ok(value)
    });
    result?
}

/// Looks at an array without those of its drives that are `asked` about and hold no array at all, which come last;
/// changes nothing. Returns the names of the other present drives, by index.
pub(crate) fn look_past(
    place: &ArrayArgs,
    asked: impl Fn(&Path) -> bool,
) -> Outcome<(Inspection, Vec<String>, Vec<PathBuf>)> {
    let named = place.named()?;
    shingle_runtime::real::run(|rt| async move {
        let (mut drives, _) = open_drives(&named.drives, &rt, OpenOptions::default()).await?;
        let mut strange = Vec::new();
        for path in named.drives.iter().filter(|path| asked(path)) {
            let name = path.display().to_string();
            if let Some(drive) = drives.iter().find(|drive| drive.name == name)
                && array_of(drive).await?.is_none()
            {
                drives.retain(|drive| drive.name != name);
                strange.push(path.clone());
            }
        }
        let names = drives.iter().map(|drive| drive.name.clone()).collect();
        Ok((inspected(&rt, &drives).await?, names, strange))
    })?
}

/// Looks at an array without opening it, which changes nothing on its drives.
pub(crate) fn look(place: &ArrayArgs) -> Outcome<(Inspection, Vec<String>)> {
    let named = place.named()?;
    shingle_runtime::real::run(|rt| async move {
        let (drives, away) = open_drives(&named.drives, &rt, OpenOptions::default()).await?;
        if drives.is_empty() {
            return Err(none_there(&away));
        }
        Ok((inspected(&rt, &drives).await?, away))
    })?
}

/// For want of any drive.
pub(super) fn none_there(away: &[String]) -> Failure {
    Failure::new(format!("none of the array's drives is there: {}", away.join(", "))).not_run()
}

/// True if a drive in an opening's words, with its number and name, is one of those `names`.
fn is_named(drive: &str, names: &[String]) -> bool {
    names.iter().any(|name| drive.ends_with(&format!(" ({name})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_not_taken_for_one_whose_name_it_begins_with() {
        let names = ["/dev/disk/by-id/x1".to_owned()];
        assert!(is_named("drive 3 (/dev/disk/by-id/x1)", &names));
        assert!(!is_named("drive 4 (/dev/disk/by-id/x10)", &names));
    }
}
