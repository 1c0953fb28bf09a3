//! `shingle files ls|df|dump`: files and zones, which stay as they are.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::{ByteSize, printable};
use shingle_zone_files::{DirEntry, FileInfo, FileKind, RecoveryReport, ZoneDump, ZoneFiles};

use super::opened::{about, examined, told_of_loss};
use crate::failure::{Failure, Outcome, status};
use crate::output::{counted, size};

#[derive(Args)]
pub(crate) struct Ls {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The directory, or one file [default: the root].
    #[arg(value_name = "PATH")]
    path: Option<String>,
    /// List what directories hold, too.
    #[arg(long, short)]
    recursive: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Df {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Dump {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Wal => "log",
        FileKind::Sst => "table",
        FileKind::Manifest => "manifest",
        FileKind::Other => "file",
    }
}

impl Ls {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, true).await?;
            let path = self.path.as_deref().unwrap_or("");
            let found = files.stat(path).map_err(|error| about(path, &error))?;
            let mut all = Vec::new();
            match found {
                Some(info) => all.push((path.to_owned(), Some(info))),
                None => walk(&files, path.trim_end_matches('/'), self.recursive, &mut all)?,
            }
            if self.json {
                let all: Vec<Value> = all.iter().map(|(path, info)| entry_json(path, info.as_ref())).collect();
                say!("{}", json!({ "store": files.store().to_string(), "files": all }));
                return told_of_loss(&report);
            }
            for (path, info) in all {
                let path = printable(path.as_bytes());
                match info {
                    Some(info) => say!("{:>12}  {:<8}  {path}", info.size, kind(info.kind)),
                    None => say!("{:>12}  {:<8}  {path}/", "-", "dir"),
                }
            }
            told_of_loss(&report)
        })?
    }
}

/// Entries of a directory, with their paths.
pub(super) fn walk(
    files: &ZoneFiles,
    dir: &str,
    recursive: bool,
    all: &mut Vec<(String, Option<FileInfo>)>,
) -> Outcome {
    for DirEntry { name, file } in files.list(dir).map_err(|error| about(dir, &error))? {
        let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
        all.push((path.clone(), file));
        if file.is_none() && recursive {
            walk(files, &path, recursive, all)?;
        }
    }
    Ok(())
}

fn entry_json(path: &str, info: Option<&FileInfo>) -> Value {
    match info {
        Some(info) => json!({ "path": path, "kind": kind(info.kind), "size_bytes": info.size, "links": info.links,
                              "serial": info.serial, "created_ns": info.created.nanos,
                              "modified_ns": info.modified.nanos }),
        None => json!({ "path": path, "kind": "dir" }),
    }
}

impl Df {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, true).await?;
            let stats = files.stats();
            if self.json {
                say!("{}", state_json(&files, &report));
                return Ok(());
            }
            say!("store     {}", files.store());
            say!("files     {} in {}", stats.files, directories(stats.directories));
            say!("used      {} of {}", size(stats.live_bytes), size(stats.capacity_bytes));
            say!("free      {}, once zones are cleaned", size(stats.free_bytes));
            say!("zones     {} for data: {} free, {} broken", stats.zones, stats.zones_free, stats.zones_broken);
            say!("opening   {} and {}", entries(report.entries), counted(report.records, "record of a log"));
            for (words, count) in [
                ("ends of logs that a power cut tore, which never were synced", report.torn.len()),
                ("records of logs that are damaged", report.damaged.len()),
                ("places of logs of which it is not known what they held", report.unknown.len()),
                ("lost blocks of metadata that others make up for", report.mended.len()),
            ] {
                if count > 0 {
                    say!("          {count} {words}");
                }
            }
            Ok(())
        })?
    }
}

fn directories(count: u64) -> String {
    if count == 0 { "the root".to_owned() } else { format!("the root and {count} more directories") }
}

fn entries(count: u64) -> String {
    if count == 1 { "1 entry of the journal".to_owned() } else { format!("{count} entries of the journal") }
}

fn state_json(files: &ZoneFiles, report: &RecoveryReport) -> Value {
    let stats = files.stats();
    json!({ "store": files.store().to_string(),
            "stats": { "files": stats.files, "directories": stats.directories, "extents": stats.extents,
                       "capacity_bytes": stats.capacity_bytes, "live_bytes": stats.live_bytes,
                       "free_bytes": stats.free_bytes, "zones": stats.zones, "zones_free": stats.zones_free,
                       "zones_open": stats.zones_open, "zones_broken": stats.zones_broken },
            "opening": report_json(report) })
}

/// The findings of an opening, for programs.
pub(super) fn report_json(report: &RecoveryReport) -> Value {
    let places: Vec<_> = report.torn.iter().map(|(zone, block)| json!({ "zone": zone.0, "block": block })).collect();
    let mended: Vec<_> = report.mended.iter().map(|(zone, block)| json!({ "zone": zone.0, "block": block })).collect();
    let damaged: Vec<_> = report
        .damaged
        .iter()
        .map(|(zone, block, serial)| json!({ "zone": zone.0, "block": block, "serial": serial }))
        .collect();
    let unknown: Vec<_> = report
        .unknown
        .iter()
        .map(|(zone, blocks)| json!({ "zone": zone.0, "from": blocks.start, "to": blocks.end }))
        .collect();
    let lost: Vec<_> = report.lost.iter().map(|(serial, bytes)| json!({ "serial": serial, "bytes": bytes })).collect();
    json!({ "entries": report.entries, "records": report.records, "torn": places, "damaged": damaged,
            "unknown": unknown, "lost": lost, "mended": mended })
}

impl Dump {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, true).await?;
            let mut all = state_json(&files, &report);
            let zones: Vec<Value> = files.dump().iter().map(zone_json).collect();
            let listed: Vec<Value> = files.walk().iter().map(|(path, info)| entry_json(path, Some(info))).collect();
            all["zones"] = zones.into();
            all["files"] = listed.into();
            say!("{all}");
            if report.unknown.is_empty() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
        })?
    }
}

fn zone_json(zone: &ZoneDump) -> Value {
    let files: Vec<Value> = zone.files.iter().map(|(path, bytes)| json!({ "path": path, "bytes": bytes })).collect();
    json!({ "zone": zone.zone.0, "use": zone.use_of, "open": zone.open, "generation": zone.epoch,
            "blocks": zone.written, "live_bytes": zone.live_bytes, "files": files })
}

/// A size without its exact bytes, for messages.
pub(super) fn short(bytes: u64) -> ByteSize {
    ByteSize(bytes)
}
