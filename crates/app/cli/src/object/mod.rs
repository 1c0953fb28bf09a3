//! `shingle object`: the objects of a server. Commands ask a running server; `rebuild-index` and `gc` need it stopped.

mod blues;
mod directory;
mod loss;
mod single;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shingle_array_store::CheckReport as ArrayReport;
use shingle_base::ByteSize;
use shingle_object_store::{CheckReport, ObjectName};
use shingle_server::{Checked, Counted, Error, Progress, Running};
use shingle_store_api::ObjectInfo;

use self::directory::{Directory, with_objects};
use crate::array::{found_json, outcome, tell_lacks};
use crate::failure::{Failure, Outcome, status};
use crate::findings::{findings_json, words_of};
use crate::named::Name;
use crate::output::{self, Objects, counted};

/// Commands on the objects of a data directory.
#[derive(Subcommand)]
pub(crate) enum Object {
    /// Rebuild the index from the drives: `shingle object rebuild-index --data shingle-data`. The server must be stopped.
    RebuildIndex(Rebuild),
    /// Compare index and drives, arrays included; beside clients, gently, if the server runs. Exit status: 0 clean, 4
    /// damage, 8 could not run.
    Check(Check),
    /// List all objects, also while the server runs.
    Ls(List),
    /// Write an object to a file, or to standard output, also while the server runs: `shingle object get photos/one.jpg -o one.jpg`
    Get(single::Get),
    /// Store a file, or standard input, in an existing bucket, also while the server runs: `shingle object put photos/one.jpg one.jpg`
    Put(single::Put),
    /// Delete objects, also while the server runs.
    Rm(single::Rm),
    /// Show an object, or the number of objects and their space; also while the server runs.
    Stat(Stat),
    /// Reclaim the space of deleted and replaced objects now. The server must be stopped.
    Gc(Directory),
    /// Give up what the drives can no longer read, so that no start looks for it: `shingle object accept-loss --data shingle-data`.
    /// Asks first. The server must be stopped.
    AcceptLoss(loss::AcceptLoss),
}

#[derive(Args)]
pub(crate) struct Rebuild {
    #[command(flatten)]
    directory: Directory,
    /// Read every drive from its beginning, even if there is a backup of the index.
    #[arg(long)]
    no_backup: bool,
}

#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    directory: Directory,
    /// Only compare index and chunk lists; do not read the objects.
    #[arg(long)]
    quick: bool,
}

#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    directory: Directory,
    /// Only keys that begin with this [default: all].
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    prefix: String,
}

#[derive(Args)]
pub(crate) struct Stat {
    /// The object: its bucket, a slash, and its key [default: all objects].
    #[arg(value_name = "BUCKET/KEY")]
    name: Option<Name>,
    #[command(flatten)]
    directory: Directory,
}

impl Object {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::RebuildIndex(rebuild) => rebuild.run(),
            Self::Check(check) => check.run(),
            Self::Ls(list) => list.run(),
            Self::Get(get) => get.run(),
            Self::Put(put) => put.run(),
            Self::Rm(rm) => rm.run(),
            Self::Stat(Stat { name: Some(name), directory }) => single::stat(&name, &directory),
            Self::Stat(Stat { name: None, directory }) => directory.stat(),
            Self::Gc(directory) => directory.gc(),
            Self::AcceptLoss(accept) => accept.run(),
        }
    }
}

impl Rebuild {
    fn run(self) -> Outcome {
        let directory = self.directory;
        with_objects(&directory, Some(!self.no_backup), |objects| async {
            let report = objects.report()?;
            let objects_now = objects.stats().await?.objects.map_or(0, |stats| stats.objects);
            if directory.json {
                let damage: Vec<_> = report.damage.iter().map(ToString::to_string).collect();
                say!(
                    "{}",
                    json!({ "objects": objects_now, "files": report.files, "entries": report.entries,
                            "read_bytes": report.bytes, "damage": damage })
                );
            } else {
                say!(
                    "{}; read: {} in {}, {}",
                    counted(objects_now, "object"),
                    entries(report.entries),
                    counted(report.files, "file"),
                    ByteSize(report.bytes)
                );
                report.damage.iter().for_each(|damage| say!("damaged: {damage}"));
            }
            Ok((objects, ()))
        })
    }
}

/// `1 entry`, `2 entries`.
fn entries(count: u64) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

impl Check {
    fn run(self) -> Outcome {
        let directory = self.directory;
        let line = Arc::new(Mutex::new(output::Progress::new()));
        let shown = line.clone();
        let show = move |now: Progress<'_>| {
            let mut line = shown.lock().unwrap_or_else(PoisonError::into_inner);
            match now {
                Progress::Drives(done, all) => line.show_bytes(done, all),
                Progress::Array(name, done, all, bytes) => {
                    let words =
                        format!("array {name}: {done} of {}, {bytes} verified", counted(all as u64, "zone set"));
                    line.show_part(&words, bytes.0, done as u64, all as u64);
                }
                Progress::Blue(name, done, all) => {
                    let words = format!("blue store {name}: {} of {}", ByteSize(done), ByteSize(all));
                    line.show_part(&words, done, done, all);
                }
            }
        };
        let checked = match directory.asked(|running| running.check(!self.quick, show.clone())) {
            Ok(Some(checked)) => Ok(checked),
            Ok(None) => with_objects(&directory, None, |objects| async {
                let checked = objects.check(!self.quick, show).await?;
                Ok((objects, checked))
            }),
            Err(failure) => Err(failure),
        };
        drop(line);
        let checked = checked?;
        if directory.json {
            tell_json(&checked)
        } else {
            tell(&checked, self.quick)
        }
        let reports = || checked.arrays.iter().filter_map(|(_, report)| report.as_ref().ok());
        let blues = || checked.blues.iter().filter_map(|(_, checked)| checked.as_ref().ok());
        let clean = checked.objects.as_ref().is_none_or(CheckReport::is_clean)
            && reports().all(|report| report.clean())
            && blues().all(|checked| checked.findings.is_empty());
        let all_ran = reports().count() == checked.arrays.len() && blues().count() == checked.blues.len();
        match (clean, all_ran) {
            (false, _) => Err(Failure::silent(status::DAMAGED)),
            (true, false) => Err(Failure::silent(status::NOT_RUN)),
            (true, true) => Ok(()),
        }
    }
}

fn tell_json(checked: &Checked) {
    let name = |object: &ObjectName| json!({ "bucket": object.bucket, "key": object.key });
    let names = |of: &BTreeSet<ObjectName>| of.iter().map(name).collect::<Vec<_>>();
    let arrays: Vec<_> = checked.arrays.iter().map(|(name, report)| array_json(name, report)).collect();
    let default = CheckReport::default();
    let report = checked.objects.as_ref().unwrap_or(&default);
    let blues_clean = checked.blues.iter().all(|(_, found)| found.as_ref().is_ok_and(|it| it.findings.is_empty()));
    let clean = report.is_clean()
        && checked.arrays.iter().all(|(_, found)| found.as_ref().is_ok_and(|it| it.clean()))
        && blues_clean;
    let blues: Vec<_> = checked.blues.iter().map(blues::check_json).collect();
    say!(
        "{}",
        json!({ "clean": clean, "repaired": 0, "damage": words_of(&[&report.damage]), "damage_more": report.damage_more,
                "findings": findings_json(&[("damage", &report.damage)]),
                "damaged_objects": names(&report.damaged_objects), "damaged_uploads": names(&report.damaged_uploads), "unnamed": report.unnamed,
                "arrays": arrays, "blues": blues })
    );
}

fn array_json(name: &str, report: &Result<ArrayReport, Error>) -> Value {
    match report {
        Err(error) => json!({ "array": name, "error": error.message }),
        Ok(report) => json!({ "array": name, "clean": report.clean(), "objects": report.objects,
            "verified_bytes": report.bytes, "missing_drives": report.missing_drives, "buffer": report.buffer,
            "repairable": words_of(&[&report.repairable]), "lost": words_of(&[&report.lost]),
            "away": words_of(&[&report.away]), "findings": found_json(report) }),
    }
}

fn tell(checked: &Checked, quick: bool) {
    let verified = |bytes: u64| match quick {
        true => "; their bytes were not read".to_owned(),
        false => format!(", {} verified", ByteSize(bytes)),
    };
    if let Some(report) = &checked.objects {
        say!("{}{}", counted(report.objects, "object"), verified(report.bytes));
        report.damage.iter().for_each(|damage| say!("damaged: {damage}"));
        if report.damage_more > 0 {
            say!("damaged: {}", counted(report.damage_more, "more place"));
        }
        report.damaged_objects.iter().for_each(|object| say!("damaged object: {object}"));
        report.damaged_uploads.iter().for_each(|upload| say!("damaged upload: {upload}"));
        if report.unnamed {
            say!("more objects are damaged than are named here");
        }
        say!("{}", if report.is_clean() { "clean" } else { "damage is left: restore what is named above" });
    }
    for (name, report) in &checked.arrays {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                say!("array {name}: not checked: {}", error.message);
                continue;
            }
        };
        // As `object stat` counts them.
        let objects = counted(report.objects, "object");
        say!("array {name}: {objects} of the array{}", verified(report.bytes));
        report.missing_drives.iter().for_each(|drive| say!("array {name}: missing: {drive}"));
        report.buffer.iter().for_each(|file| say!("array {name}: {file}"));
        report
            .repairable
            .iter()
            .for_each(|zone| say!("array {name}: damaged: {zone}; `shingle array scrub` repairs it"));
        tell_lacks(&report.lost, &report.away, &format!("array {name}: "));
        say!("array {name}: {}", outcome(report));
    }
    for of in &checked.blues {
        let bytes = of.1.as_ref().map_or(0, |checked| checked.bytes);
        blues::tell_check(of, &verified(bytes));
    }
}

impl List {
    fn run(self) -> Outcome {
        let directory = self.directory;
        let mut rows = Objects::new(directory.json);
        let mut row = |bucket: &str, key: &str, size: u64, etag: &str| {
            let name = || ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
            rows.row(
                || json!({ "bucket": bucket, "key": key, "size_bytes": size, "etag": etag }),
                || format!("{size:>14}  {}", name()),
            );
        };
        let listed = directory.asked(|running| running.objects(&self.prefix, &mut row));
        if listed?.is_none() {
            with_objects(&directory, None, |objects| async {
                let row = |bucket: &str, object: &ObjectInfo| row(bucket, &object.key, object.size, &object.etag);
                objects.list(&self.prefix, row).await?;
                Ok((objects, ()))
            })?;
        }
        rows.end();
        Ok(())
    }
}

impl Directory {
    fn stat(self) -> Outcome {
        let stats = match self.asked(Running::stats)? {
            Some(stats) => stats,
            None => with_objects(&self, None, |objects| async {
                let stats = objects.stats().await?;
                Ok((objects, stats))
            })?,
        };
        let Counted { objects, arrays, blues } = stats;
        if self.json {
            let arrays: Vec<_> = arrays
                .iter()
                .map(|(name, stats)| {
                    json!({ "array": name, "objects": stats.objects, "live_bytes": stats.live,
                            "capacity_bytes": stats.capacity })
                })
                .collect();
            let mut all = objects.map_or_else(
                || json!({}),
                |stats| {
                    json!({ "objects": stats.objects, "live_bytes": stats.live_bytes, "files": stats.files,
                        "file_bytes": stats.file_bytes })
                },
            );
            all["arrays"] = arrays.into();
            all["blues"] = blues.iter().map(blues::stat_json).collect();
            say!("{all}");
            return Ok(());
        }
        if let Some(stats) = objects {
            say!("objects  {}", stats.objects);
            say!("live     {}", ByteSize(stats.live_bytes));
            say!("files    {}, {}", stats.files, ByteSize(stats.file_bytes));
        }
        for (name, stats) in arrays {
            // The array's own count: parts of large objects, and buckets, are objects of it, too.
            let held = counted(stats.objects, "object");
            say!("array {name}: {held} of the array, {} of {}", ByteSize(stats.live), ByteSize(stats.capacity));
        }
        blues.iter().for_each(blues::tell_stat);
        Ok(())
    }

    fn gc(self) -> Outcome {
        let freed = with_objects(&self, None, |objects| async {
            let freed = objects.gc().await?;
            Ok((objects, freed))
        })?;
        if self.json {
            say!("{}", json!({ "freed_bytes": freed }));
        } else {
            say!("{} of files deleted", ByteSize(freed));
        }
        Ok(())
    }
}
