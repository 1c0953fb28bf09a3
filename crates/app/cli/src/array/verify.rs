//! `shingle array scrub|check`: verifies all data.

use clap::Args;
use serde_json::json;
use shingle_array_objects::NAMING;
use shingle_array_store::{CheckOptions, CheckReport, ScrubOptions, ScrubReport, check};
use shingle_base::ByteSize;
use shingle_server::Running;
use shingle_store_api::Finding;
use shingle_zoned_linux::OpenOptions;

use super::place::{ArrayArgs, none_there, open_drives};
use super::serving::Serving;
use super::telling::Change;
use super::words::{counted, zone_sets};
use crate::failure::{Failure, Outcome, status};
use crate::findings::{findings_json, words_of};
use crate::output::Progress;

/// Reads everything and repairs damage.
#[derive(Args)]
pub(crate) struct Scrub {
    #[command(flatten)]
    change: Change,
    /// Read limit in bytes/s: `--rate 200MiB` [default: none].
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteSize>,
}

/// Reads everything and changes nothing.
#[derive(Args)]
pub(crate) struct Check {
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    serving: Serving,
    /// Only check that everything is present, without reading the objects' bytes.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn show(line: &mut Progress, report: &ScrubReport) {
    let found = if report.damaged.is_empty() { String::new() } else { format!(", {} damaged", report.damaged.len()) };
    let words = format!("{} of {}, {} verified{found}", report.done, zone_sets(report.sets), ByteSize(report.bytes));
    line.show_part(&words, report.bytes, report.done as u64, report.sets as u64);
}

impl Scrub {
    pub(crate) fn run(self) -> Outcome {
        self.change.run(|opened| async move {
            let options = ScrubOptions { bytes_per_second: self.rate.map(|rate| rate.0), read_only: false };
            let mut line = Progress::new();
            let report = opened.store.scrub(options, |report| show(&mut line, report)).await?;
            drop(line);
            let left = report.damaged.len().saturating_sub(report.repaired);
            let unrepaired = if left > 0 { &*report.damaged } else { &[] };
            let whole = report.lost.is_empty() && report.away.is_empty();
            if self.change.json {
                let found = [("damaged", &*report.damaged), ("lost", &report.lost), ("away", &report.away)];
                say!(
                    "{}",
                    json!({ "clean": report.damaged.is_empty() && whole, "repaired": report.repaired,
                            "damage": words_of(&[unrepaired, &report.lost, &report.away]),
                            "findings": findings_json(&found),
                            "zone_sets": report.sets, "verified_bytes": report.bytes })
                );
            } else {
                say!("{} in {} verified", ByteSize(report.bytes), zone_sets(report.sets));
                report.damaged.iter().for_each(|zone| say!("damaged: {zone}"));
                if !report.damaged.is_empty() {
                    say!(
                        "{} of {} repaired",
                        report.repaired,
                        counted(report.damaged.len(), "damaged zone", "damaged zones")
                    );
                }
                tell_lacks(&report.lost, &report.away, "");
                if left > 0 {
                    say!("the rest needs a free zone: add a drive, or free some space, and run it again");
                }
            }
            if left == 0 && whole { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
        })
    }
}

/// Tells what cannot be read.
pub(crate) fn tell_lacks(lost: &[Finding], away: &[Finding], prefix: &str) {
    lost.iter().for_each(|lost| say!("{prefix}lost: {lost}"));
    away.iter().for_each(|away| say!("{prefix}away, until a drive is back: {away}"));
}

/// Findings of a check.
pub(crate) fn found_json(report: &CheckReport) -> serde_json::Value {
    findings_json(&[("repairable", &report.repairable), ("lost", &report.lost), ("away", &report.away)])
}

/// A check in a few words.
pub(crate) fn outcome(report: &CheckReport) -> &'static str {
    match report.repairable.is_empty() && report.lost.is_empty() {
        true if report.clean() => "clean",
        true => "nothing is damaged; not all can be read until drives are back",
        false => "damage is left",
    }
}

impl Check {
    /// Checks an array that no server has open.
    fn alone(&self) -> Outcome<CheckReport> {
        let named = self.place.named()?;
        shingle_runtime::real::run(|rt| async move {
            let (drives, away) = open_drives(&named.drives, &rt, OpenOptions::default()).await?;
            if drives.is_empty() {
                return Err(none_there(&away));
            }
            let mut line = Progress::new();
            let (buffer, abandon_buffer) = (named.buffer, named.abandon_buffer);
            let options = CheckOptions { quick: self.quick, buffer, abandon_buffer, naming: NAMING };
            Ok(check(&rt, &drives, options, |report| show(&mut line, report)).await?)
        })?
    }

    fn report(&self) -> Outcome<CheckReport> {
        let mut line = Progress::new();
        let ask = |running: Running, drives| running.check_array(drives, self.quick, |report| show(&mut line, report));
        match self.serving.asked(&self.place, ask)? {
            Some(report) => Ok(report),
            None => self.serving.advised(self.alone()),
        }
    }

    pub(crate) fn run(self) -> Outcome {
        let report = self.report().map_err(Failure::not_run)?;
        if self.json {
            say!(
                "{}",
                json!({ "clean": report.clean(), "repaired": 0,
                        "damage": words_of(&[&report.repairable, &report.lost, &report.away]),
                        "findings": found_json(&report),
                        "objects": report.objects,
                        "zone_sets": report.sets, "verified_bytes": report.bytes,
                        "missing_drives": report.missing_drives, "buffer": report.buffer })
            );
        } else {
            let objects = counted(report.objects as usize, "object of the array", "objects of the array");
            match self.quick {
                true => say!("{objects} in {}; their bytes were not read", zone_sets(report.sets)),
                false => say!("{objects} in {}, {} verified", zone_sets(report.sets), ByteSize(report.bytes)),
            }
            report
                .missing_drives
                .iter()
                .for_each(|drive| say!("missing: {drive}; `shingle array rebuild` replaces it"));
            report.buffer.iter().for_each(|file| say!("buffer: {file}"));
            report.repairable.iter().for_each(|zone| say!("damaged: {zone}; `shingle array scrub` repairs it"));
            tell_lacks(&report.lost, &report.away, "");
            say!("{}", outcome(&report));
        }
        if report.clean() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }
}
