//! `shingle array rebuild|add|remove`: lost, new and leaving drives.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use shingle_array_store::{
    ArrayStore, DriveId, DriveInspection, Inspection, Readmitted, RebuildOptions, RebuildProgress,
};
use shingle_base::ByteSize;

use super::place::{ArrayArgs, ArrayFile, Missing, is_same, look_past, with_array};
use super::taking::{Consent, take_drives};
use super::telling::Change;
use super::words::counted;
use crate::failure::{Failure, Outcome, status};
use crate::output::Progress;

/// Rebuilds the data of lost drives.
#[derive(Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    pace: Pace,
    /// Give up missing drives without a question: their data is rebuilt on others.
    #[arg(long, alias = "degraded")]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Adds drives.
#[derive(Args)]
pub(crate) struct Add {
    /// The drives, as other commands name them. A drive that the array's file names, and that was given up, is taken
    /// back as `shingle array readmit` does.
    #[arg(value_name = "DRIVE", required = true)]
    new: Vec<PathBuf>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    consent: Consent,
}

/// Takes drives back.
#[derive(Args)]
pub(crate) struct Readmit {
    /// The drives: their numbers, as `shingle array stat` shows them, or their names in the array's file [default: all
    /// that are present and out of use].
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
    /// The drive: its number, as `shingle array stat` shows it, or its name in the array's file or in `shingle array format`.
    #[arg(value_name = "DRIVE")]
    drive: String,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    change: Change,
}

/// Rate limit for writes to drives.
#[derive(Args, Clone, Copy)]
struct Pace {
    /// Write limit in bytes/s: `--rate 40MiB` [default: none].
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
}

impl Pace {
    fn options(self) -> RebuildOptions {
        RebuildOptions { bytes_per_second: self.rate.map(|rate| rate.0) }
    }
}

/// Rebuilds lost zones of an open array, and shows progress.
async fn rebuild(store: &ArrayStore, pace: Pace) -> Outcome<RebuildProgress> {
    let mut line = Progress::new();
    Ok(store.rebuild(pace.options(), |progress| show(&mut line, progress)).await?)
}

fn show(line: &mut Progress, progress: RebuildProgress) {
    let failed = if progress.failed > 0 { format!(", {} not", progress.failed) } else { String::new() };
    let (done, all) = (progress.done, progress.members);
    let words = format!("{done} of {all} zones rebuilt{failed}, {} written", ByteSize(progress.bytes));
    line.show_part(&words, progress.bytes, (done + progress.failed) as u64, all as u64);
}

/// Prints the outcome; in JSON together with `more`.
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
        let zones = counted(done.members, "zone", "zones");
        say!("{} of {zones} rebuilt, {} written", done.done, ByteSize(done.bytes));
    }
    if done.failed == 0 {
        return Ok(());
    }
    let lost = counted(done.failed, "zone is", "zones are");
    note!("shingle: {lost} still lost: add a drive, or free some space, and run it again");
    Err(Failure::silent(status::DAMAGED))
}

impl Rebuild {
    pub(crate) fn run(self) -> Outcome {
        // A missing drive is the reason for a rebuild, if it does not come back.
        with_array(&self.place, Missing::Ask { yes: self.yes }, false, |opened| async move {
            tell(rebuild(&opened.store, self.pace).await?, self.json, Map::new())
        })
    }
}

impl Readmit {
    pub(crate) fn run(self) -> Outcome {
        let chosen = |seen: &Inspection, given: &[String]| {
            let out: Vec<_> = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use).collect();
            if self.back.is_empty() && out.is_empty() {
                return Err(Failure::new("no drive of the array is there and out of use"));
            }
            match &self.back[..] {
                [] => Ok(out.iter().map(|drive| drive.id).collect()),
                names => names.iter().map(|name| named(seen, given, name).map(|(id, _)| id)).collect(),
            }
        };
        self.change.run_with(&self.change.place, chosen, |opened| async move {
            let told = taken_back(&opened.report.readmitted, self.change.json);
            tell(rebuild(&opened.store, self.pace).await?, self.change.json, told)
        })
    }
}

/// Prints the drives that were taken back, or returns them for JSON.
fn taken_back(back: &[Readmitted], json: bool) -> Map<String, Value> {
    for Readmitted { name, new, kept, missed, .. } in back.iter().filter(|_| !json) {
        say!("{name} is {new} of the array now: it has {}, and missed {missed}", counted(*kept, "zone", "zones"));
    }
    let told = |drive: &Readmitted| {
        json!({ "name": drive.name, "was": drive.old.0, "drive": drive.new.0, "kept": drive.kept,
                "missed": drive.missed })
    };
    Map::from_iter([("readmitted".to_owned(), Value::Array(back.iter().map(told).collect()))])
}

/// Drives to add, by their relation to the array.
struct Sorted {
    /// Drives that the array names and gave up.
    back: Vec<DriveId>,
    /// All others.
    new: Vec<PathBuf>,
    /// The array's place, without the names of the new drives.
    place: ArrayArgs,
}

/// Finds out which of the drives the array names, and has, already. Changes nothing.
///
/// # Errors
/// One of them is in use, or missing.
fn sorted(place: &ArrayArgs, wanted: Vec<PathBuf>) -> Outcome<Sorted> {
    let known = place.named()?.drives;
    let is_known = |drive: &Path| known.iter().find(|known| is_same(drive, known)).cloned();
    let mut sorted = Sorted { back: Vec::new(), new: Vec::new(), place: place.clone() };
    let mut own = Vec::new();
    for drive in wanted {
        match is_known(&drive) {
            Some(known) => own.push(known),
            None => sorted.new.push(drive),
        }
    }
    if own.is_empty() {
        return Ok(sorted);
    }
    let (seen, names, mut strangers) = look_past(place, |drive| own.iter().any(|own| drive == own))?;
    own.retain(|drive| !strangers.contains(drive));
    for drive in own {
        let name = drive.display().to_string();
        let at = names.iter().position(|known| *known == name);
        let of_it = |seen: &&DriveInspection| seen.given.is_some() && seen.given == at;
        match seen.drives.iter().find(of_it) {
            Some(seen) if seen.in_use => {
                return Err(Failure::new(format!("{name} is {} of the array already", seen.id)));
            }
            Some(seen) if !seen.removed => sorted.back.push(seen.id),
            _ if at.is_none() => return Err(Failure::new(format!("there is no drive {name}"))),
            _ => strangers.push(drive),
        }
    }
    sorted.place = place.without(&strangers)?;
    sorted.new.extend(strangers);
    Ok(sorted)
}

impl Add {
    pub(crate) fn run(self) -> Outcome {
        let file = self.change.place.file();
        let Sorted { back, new, place } = &sorted(&self.change.place, self.new)?;
        self.change.run_with(
            place,
            |_, _| Ok(back.clone()),
            |opened| async move {
                let told = taken_back(&opened.report.readmitted, self.change.json);
                let drives = take_drives(new, &opened.rt, self.consent).await?;
                let mut added = Vec::new();
                for (drive, path) in drives.iter().zip(new) {
                    let id = opened.store.add_drive(drive).await?;
                    if let Some(file) = &file {
                        // At once: the next one may fail, and this one is of the array all the same.
                        renamed(file, added.is_empty(), |drives| {
                            drives.retain(|drive| drive != path);
                            drives.push(path.clone());
                        })?;
                    }
                    added.push(json!({ "drive": id.0, "name": drive.name }));
                    if !self.change.json {
                        say!("{} is {id} of the array", drive.name);
                    }
                }
                if file.is_none() && !self.change.json && !new.is_empty() {
                    say!("name it with --drive from now on, beside the others");
                }
                match back.is_empty() {
                    true if self.change.json => say!("{}", json!({ "added": added })),
                    true => {}
                    false => {
                        let mut told = told;
                        told.insert("added".into(), added.into());
                        // Writes to the array that it missed.
                        tell(rebuild(&opened.store, Pace { rate: None }).await?, self.change.json, told)?;
                    }
                }
                Ok(())
            },
        )
    }
}

/// Writes the array's file anew with other drives. With `keep` the old file is kept beside it, since people edit it, too.
fn renamed(file: &Path, keep: bool, change: impl FnOnce(&mut Vec<PathBuf>)) -> Outcome {
    let mut named = ArrayFile::read(file)?;
    change(&mut named.drives);
    let text = named.text()?;
    let beside = |ending: &str| {
        let mut path = file.as_os_str().to_owned();
        path.push(ending);
        PathBuf::from(path)
    };
    let write = || {
        if keep {
            std::fs::copy(file, beside(".before"))?;
        }
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
            let (id, name) = named(&opened.seen, &opened.names, &self.drive)?;
            let mut line = Progress::new();
            let show = |progress| show(&mut line, progress);
            let done = opened.store.remove_drive(id, self.pace.options(), show).await?;
            drop(line);
            if !self.change.json {
                say!("{id} ({name}) is no part of the array any more");
            }
            if let Some(file) = file {
                renamed(&file, true, |drives| drives.retain(|drive| !is_same(drive, Path::new(&name))))?;
            }
            tell(done, self.change.json, Map::new())
        })
    }
}

/// The drive of that number or name, and its present name. `names` are those of the present drives.
fn named(seen: &Inspection, names: &[String], drive: &str) -> Outcome<(DriveId, String)> {
    let known: Vec<_> = seen.drives.iter().filter(|known| !known.removed).collect();
    let now = |known: &DriveInspection| known.given.and_then(|at| names.get(at)).unwrap_or(&known.name).clone();
    let number = drive.strip_prefix("drive ").unwrap_or(drive).parse::<u8>().ok();
    let exactly = |known: &DriveInspection| known.name == drive || now(known) == drive || number == Some(known.id.0);
    // As it was named when the array was made, perhaps from another folder.
    let nearly = |known: &DriveInspection| {
        let (now, drive) = (now(known), Path::new(drive));
        is_same(Path::new(&now), drive) || Path::new(&now).ends_with(drive)
    };
    let found =
        |is: &dyn Fn(&DriveInspection) -> bool| match known.iter().filter(|known| is(known)).collect::<Vec<_>>()[..] {
            [one] => Some((one.id, now(one))),
            _ => None,
        };
    found(&exactly).or_else(|| found(&nearly)).ok_or_else(|| {
        let drives: Vec<_> = known.iter().map(|known| format!("{} {}", known.id.0, now(known))).collect();
        Failure::new(format!("which drive is {drive}? The array has: {}", drives.join(", ")))
    })
}
