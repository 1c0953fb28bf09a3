//! `shingle files check`: all bytes, read and verified. Nothing is written.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_base::ByteSize;

use super::look::report_json;
use super::opened::{examined, named, unknown};
use crate::failure::{Failure, Outcome, status};
use crate::output::counted;

#[derive(Args)]
pub(crate) struct Check {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Outcome {
        let checked = shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, true).await?;
            let found = files.check().await.map_err(|error| named(&self.drive, &error).not_run())?;
            let bytes: u64 = files.walk().iter().map(|(_, info)| info.size).sum();
            Ok::<_, Failure>((files.store().to_string(), files.stats().files, bytes, report, found))
        });
        let (store, count, bytes, report, found) = checked.map_err(|error| Failure::from(error).not_run())??;
        let damage: Vec<String> = unknown(&report).chain(found.iter().map(ToString::to_string)).collect();
        let warnings: Vec<String> = report
            .mended
            .iter()
            .map(|(zone, block)| format!("{zone}, block {block}: lost metadata, which others make up for"))
            .collect();
        let clean = damage.is_empty();
        let lost: u64 = found.iter().map(|damage| damage.bytes.end - damage.bytes.start).sum();
        if self.json {
            say!(
                "{}",
                json!({ "clean": clean, "repaired": 0, "damage": damage, "warnings": warnings, "store": store,
                        "files": count, "verified_bytes": bytes - lost.min(bytes), "opening": report_json(&report) })
            );
        } else {
            say!("{} in {} verified", ByteSize(bytes - lost.min(bytes)), counted(count, "file"));
            warnings.iter().for_each(|line| say!("warning: {line}"));
            damage.iter().for_each(|line| say!("damaged: {line}"));
            say!("{}", if clean { "clean" } else { "damage is left: restore those files from another copy" });
        }
        if clean { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }
}
