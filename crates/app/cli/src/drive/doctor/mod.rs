//! `shingle drive doctor`: finds obstacles on this machine and its drives, and tells how to remove them. Changes
//! nothing.
//!
//! # Exit status
//! Exit status as of checks: 0 nothing to change, 1 advice only, 4 a problem, 8 could not run.

mod disk;
mod facts;
mod file;
mod finding;
mod machine;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, Content, DriveName};
use shingle_zoned_linux::{Drive, System, ZonedModel};

use crate::drive::doctor::facts::{Facts, Who};
use crate::drive::doctor::finding::{Finding, Level};
use crate::failure::{Failure, Outcome, status};
use crate::output;

const LONG: &str = "\
What it looks at: the kernel's version and configuration, io_uring, memory locks; and of each drive its scheduler, \
write cache, queue, permissions, and whether something else uses it.

Each finding is `ok`, `advice` (works, could be better) or `problem` (does not work, or not safely), with the command \
that changes it and why. Nothing is changed.

Exit status: 0 nothing to change, 1 advice only, 4 a problem, 8 could not run.";

/// Looks at machine and drives.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Doctor {
    /// Drives: block devices, or files of emulated ones [default: every zoned drive of the machine].
    #[arg(value_name = "DRIVE")]
    drives: Vec<PathBuf>,
    /// Also print findings that need no change.
    #[arg(long, short)]
    verbose: bool,
    /// Print one JSON object with every finding.
    #[arg(long)]
    json: bool,
    /// Another machine's tree of /sys, /proc, /dev, /boot and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

impl Doctor {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let findings = self.look(&rt).await.map_err(Failure::not_run)?;
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        let (problems, advice) = (count(Level::Problem), count(Level::Advice));
        if self.json {
            let rows: Vec<_> = findings.iter().map(Finding::json).collect();
            say!("{}", json!({ "problems": problems, "advice": advice, "findings": rows }));
        } else {
            let shown = findings.iter().filter(|finding| self.verbose || finding.level != Level::Ok);
            let text: String = shown.map(Finding::text).collect();
            output::print(&text)?;
            let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
            say!("{}, {} of advice, {} in order", many(problems, "problem"), many(advice, "piece"), count(Level::Ok));
        }
        match (problems, advice) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::silent(status::FAILED)),
            _ => Err(Failure::silent(status::DAMAGED)),
        }
    }

    async fn look(&self, rt: &Runtime) -> Outcome<Vec<Finding>> {
        let system = System::under(&self.root);
        let facts = Facts::read(&self.root);
        let who = Who::me();
        let drives = system.discover().unwrap_or_default();
        let mut findings = machine::look(&facts, &who);
        if self.drives.is_empty() {
            let zoned: Vec<_> = drives.iter().filter(|drive| drive.zoned != ZonedModel::None).collect();
            if zoned.is_empty() {
                findings.push(Finding::ok("machine", "drives", "no zoned drive is attached"));
            }
            for drive in zoned {
                findings.extend(disk::look(drive, &system, &facts, &who));
                findings.extend(content(rt, drive).await);
            }
            return Ok(findings);
        }
        let mut found = Vec::new();
        for path in &self.drives {
            let name = DriveName::of_path(path).map_err(Failure::new)?;
            let path = inventory::locate(rt, &system, &name).await?;
            found.push((find(&system, &drives, &path), path));
        }
        if found.iter().all(|(drive, _)| drive.is_none()) {
            // Files need nothing of the kernel.
            findings.clear();
        }
        for (drive, path) in found {
            match drive {
                Some(drive) => {
                    findings.extend(disk::look(&drive, &system, &facts, &who));
                    findings.extend(content(rt, &drive).await);
                }
                None => findings.extend(file::look(&path).map_err(Failure::new)?),
            }
        }
        Ok(findings)
    }
}

/// Tells if a usable drive holds other software's data.
async fn content(rt: &Runtime, drive: &Drive) -> Option<Finding> {
    let subject = drive.node.display().to_string();
    match inventory::of_drive(rt, drive.clone()).await.content {
        Content::Foreign(what) if !drive.in_use() => {
            let why = "engines refuse a drive that holds somebody else's data";
            let change = if drive.zoned == ZonedModel::None {
                format!("if that is not needed (all of it will be lost): wipefs --all {subject}")
            } else {
                format!(
                    "if that is not needed (all of it will be lost): shingle drive reset --all --force {subject}\nand, where \
                     its mark is in a conventional zone: wipefs --all {subject}"
                )
            };
            Some(Finding::problem(&subject, "content", format!("it holds {what}"), why).change(change))
        }
        Content::Unknown(_) | Content::Foreign(_) => None,
        content => Some(Finding::ok(&subject, "content", format!("it holds {content}"))),
    }
}

/// The block device at `path`, by whatever name.
fn find(system: &System, drives: &[Drive], path: &Path) -> Option<Drive> {
    let whole = path.canonicalize().ok()?;
    let known = drives.iter().find(|drive| drive.node.canonicalize().is_ok_and(|node| node == whole));
    known.cloned().or_else(|| system.describe(path).ok())
}
