//! `shingle blue check`: names, metadata and zones against each other, and with `--deep` all data. Nothing is written without `--repair`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use shingle_base::ByteSize;
use shingle_blue_objects::{Checked, check, repair};
use shingle_blue_store::{Options, Repaired, ShortZone, Store};
use shingle_rocksdb_keys::with_rocksdb;
use shingle_runtime::Runtime;
use shingle_store_api::{Finding, Touched};

use super::opened::{examined, named};
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome, status};
use crate::findings::{findings_json, words_of};
use crate::output::{Progress, counted};

#[derive(Args)]
pub(crate) struct Check {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Read and verify all data, too.
    #[arg(long)]
    deep: bool,
    /// First take away bytes whose metadata are damaged: their objects, which cannot be read, can be deleted then, and their room is
    /// free again. Asks first.
    #[arg(long)]
    repair: bool,
    /// Do not ask.
    #[arg(long, requires = "repair")]
    yes: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Outcome {
        let (drive, deep) = (&self.drive, self.deep);
        if self.repair {
            let lost = "all bytes whose metadata are damaged will be lost (without --repair, they are only named)";
            confirm(self.yes, &format!("{}: {lost}", drive.display()))?;
        }
        let checked = shingle_runtime::real::run(|rt| async move {
            let repaired = if self.repair { repaired(drive, &rt).await? } else { Repaired::default() };
            let (store, report) = examined(drive, &rt).await?;
            let mut line = Progress::new();
            let told = |at: shingle_blue_objects::Progress| line.show_bytes(at.done_bytes, at.all_bytes);
            let mut checked = check(&store, deep, told).await.map_err(|error| Failure::from(error).not_run())?;
            checked.findings.extend(report.short.iter().map(short));
            Ok::<_, Failure>((store.id().to_string(), repaired, checked))
        });
        let (store, repaired, checked) = checked.map_err(|error| Failure::from(error).not_run())??;
        let clean = checked.findings.is_empty();
        let Checked { findings, buckets, objects, bytes, uploads, going } = checked;
        if self.json {
            say!(
                "{}",
                json!({ "clean": clean, "repaired": repaired.removed.len(), "damage": words_of(&[&findings]),
                        "findings": findings_json(&[("damage", &findings)]), "store": store, "buckets": buckets,
                        "objects": objects, "object_bytes": bytes, "uploads": uploads, "going": going, "deep": deep })
            );
        } else {
            let verified = if deep { "verified" } else { "whose bytes were not read" };
            let (objects, buckets) = (counted(objects, "object"), counted(buckets, "bucket"));
            say!("{objects} of {} in {buckets}, {verified}", ByteSize(bytes));
            if self.repair {
                say!("{} taken away", counted(repaired.removed.len() as u64, "damaged piece"));
            }
            if going > 0 {
                say!("{} to be removed by the next opening", counted(going, "deleted object or part"));
            }
            findings.iter().for_each(|finding| say!("damaged: {finding}"));
            say!("{}", if clean { "clean" } else { "damage is left: restore what is named above from another copy" });
        }
        if clean { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }
}

/// Takes away what has damaged metadata.
async fn repaired(drive: &Path, rt: &Runtime) -> Outcome<Repaired> {
    let device = device::open(drive, rt).await?;
    let opened = Store::open(rt, device, with_rocksdb(Options::default())).await;
    let (store, _) = opened.map_err(|error| named(drive, &error).not_run())?;
    repair(store).await.map_err(|error| Failure::from(error).not_run())
}

/// A zone that lost its end.
fn short(zone: &ShortZone) -> Finding {
    let ShortZone { zone, named, written, holders } = zone;
    let place = format!(
        "data zone {zone}: {named} blocks were written, and the drive has {written}, of {}",
        holders.join(", ")
    );
    Finding::at(place, Touched::untold())
}
