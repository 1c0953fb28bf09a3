//! `shingle array rebuild|add|remove`: drives come and go.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use shingle_array_store::{ArrayStore, DriveId, Inspection, Readmitted, RebuildOptions, RebuildProgress};
use shingle_base::ByteSize;

use super::place::{ArrayFile, Missing, Place, with_array};
use super::taking::{Consent, take_drives};
use super::telling::Change;
use crate::failure::{Failure, Outcome, status};
use crate::output::Progress;

/// Replaces what lost drives held.
#[derive(Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    pace: Pace,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Adds drives.
#[derive(Args)]
pub(crate) struct Add {
    /// The drives, as other commands name them.
    #[arg(value_name = "NEW", required = true)]
    new: Vec<PathBuf>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    consent: Consent,
}

/// Takes drives back.
#[derive(Args)]
pub(crate) struct Readmit {
    /// The drives: their numbers, as `shingle array stat` shows them, or the names that the array's file gives them; all that
    /// are there and out of use where absent.
    #[arg(value_name = "DRIVE")]
    back: Vec<String>,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    change: Change,
}

/// Takes a drive out.
#[derive(Args)]
pub(crate) struct Remove {
    /// The drive: its number, as `shingle array stat` shows it, or the name that the array's file gives it.
    drive: String,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    change: Change,
}

/// How fast zones are written anew.
#[derive(Args, Clone, Copy)]
struct Pace {
    /// Write at most so many bytes a second: `--rate 40MiB`.
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
}

impl Pace {
    fn options(self) -> RebuildOptions {
        RebuildOptions { bytes_per_second: self.rate.map(|rate| rate.0) }
    }
}

/// Rebuilds what is lost of an open array, and shows how far it is.
async fn rebuild(store: &ArrayStore, pace: Pace) -> Outcome<RebuildProgress> {
    let mut line = Progress::new();
    Ok(store.rebuild(pace.options(), |progress| show(&mut line, progress)).await?)
}

fn show(line: &mut Progress, progress: RebuildProgress) {
    let failed = if progress.failed > 0 { format!(", {} not", progress.failed) } else { String::new() };
    let (done, all) = (progress.done, progress.members);
    line.show(&format!("{done} of {all} zones rebuilt{failed}, {} written", ByteSize(progress.bytes)));
}

/// Says what came of it; in JSON together with `more`.
fn tell(done: RebuildProgress, json: bool, more: Map<String, Value>) -> Outcome {
    if json {
        let mut told = more;
        let figures = [("zones", done.members), ("rebuilt", done.done), ("failed", done.failed)];
        told.extend(figures.map(|(name, zones)| (name.to_owned(), zones.into())));
        told.insert("bytes".into(), done.bytes.into());
        say!("{}", Value::Object(told));
    } else if done.members == 0 {
        say!("nothing to rebuild: no zone is lost");
    } else {
        say!("{} of {} zones rebuilt, {} written", done.done, done.members, ByteSize(done.bytes));
    }
    if done.failed == 0 {
        return Ok(());
    }
    note!("shingle: {} zones are still lost: add a drive, or free some space, and run it again", done.failed);
    Err(Failure::silent(status::DAMAGED))
}

impl Rebuild {
    pub(crate) fn run(self) -> Outcome {
        // A drive that is missing is what this is for.
        with_array(&self.place, Missing::GoOn, false, |opened| async move {
            tell(rebuild(&opened.store, self.pace).await?, self.json, Map::new())
        })
    }
}

impl Readmit {
    pub(crate) fn run(self) -> Outcome {
        let chosen = |seen: &Inspection| {
            let out: Vec<_> = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use).collect();
            if self.back.is_empty() && out.is_empty() {
                return Err(Failure::new("no drive of the array is there and out of use"));
            }
            match &self.back[..] {
                [] => Ok(out.iter().map(|drive| drive.id).collect()),
                names => names.iter().map(|name| named(seen, name).map(|(id, _)| id)).collect(),
            }
        };
        self.change.run_with(chosen, |opened| async move {
            let back = &opened.report.readmitted;
            for drive in back.iter().filter(|_| !self.change.json) {
                let Readmitted { name, new, kept, missed, .. } = drive;
                say!("{name} is {new} of the array now: it has {kept} zones, and missed {missed}");
            }
            let told = |drive: &Readmitted| {
                json!({ "name": drive.name, "was": drive.old.0, "drive": drive.new.0, "kept": drive.kept,
                        "missed": drive.missed })
            };
            let readmitted = Value::Array(back.iter().map(told).collect());
            let done = rebuild(&opened.store, self.pace).await?;
            tell(done, self.change.json, Map::from_iter([("readmitted".to_owned(), readmitted)]))
        })
    }
}

impl Add {
    pub(crate) fn run(self) -> Outcome {
        let file = self.change.place.file();
        self.change.run(|opened| async move {
            let drives = take_drives(&self.new, &opened.rt, self.consent).await?;
            let mut added = Vec::new();
            for drive in &drives {
                let id = opened.store.add_drive(drive).await?;
                added.push(json!({ "drive": id.0, "name": drive.name }));
                if !self.change.json {
                    say!("{} is {id} of the array", drive.name);
                }
            }
            if self.change.json {
                say!("{}", json!({ "added": added }));
            }
            match file {
                Some(file) => renamed(&file, |drives| drives.extend(self.new.iter().cloned())),
                None if self.change.json => Ok(()),
                None => {
                    say!("name it with --drive from now on, beside the others");
                    Ok(())
                }
            }
        })
    }
}

/// Writes the array's file anew with other drives. What it was is kept beside it, since people write in it too.
fn renamed(file: &Path, change: impl FnOnce(&mut Vec<PathBuf>)) -> Outcome {
    let mut named = ArrayFile::read(file)?;
    change(&mut named.drives);
    let text = named.text()?;
    let beside = |ending: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let write = || {
        std::fs::copy(file, beside(".before"))?;
        std::fs::write(beside(".new"), &text)?;
        std::fs::rename(beside(".new"), file)
    };
    write().map_err(|error| {
        Failure::new(format!(
            "the array was changed, but not its file: {}: {error}\nIt should say:\n{text}",
            file.display()
        ))
    })
}

impl Remove {
    pub(crate) fn run(self) -> Outcome {
        let file = self.change.place.file();
        self.change.run(|opened| async move {
            let (id, name) = named(&opened.seen, &self.drive)?;
            let mut line = Progress::new();
            let show = |progress| show(&mut line, progress);
            let done = opened.store.remove_drive(id, self.pace.options(), show).await?;
            drop(line);
            if !self.change.json {
                say!("{id} ({name}) is no part of the array any more");
            }
            if let Some(file) = file {
                renamed(&file, |drives| drives.retain(|drive| drive.display().to_string() != name))?;
            }
            tell(done, self.change.json, Map::new())
        })
    }
}

/// The drive of that number or name.
fn named(seen: &Inspection, drive: &str) -> Outcome<(DriveId, String)> {
    let known = seen.drives.iter().filter(|known| !known.removed);
    let number = drive.strip_prefix("drive ").unwrap_or(drive).parse::<u8>().ok();
    let found: Vec<_> = known.filter(|known| known.name == drive || number == Some(known.id.0)).collect();
    match found[..] {
        [one] => Ok((one.id, one.name.clone())),
        _ => {
            let drives: Vec<_> = seen.drives.iter().filter(|drive| !drive.removed).collect();
            let drives: Vec<_> = drives.iter().map(|drive| format!("{} {}", drive.id.0, drive.name)).collect();
            Err(Failure::new(format!("which drive is {drive}? The array has: {}", drives.join(", "))))
        }
    }
}
