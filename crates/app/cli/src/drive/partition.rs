//! `shingle drive partition`: several stores side by side on one drive.

use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_base::{Blocks, ByteSize};
use shingle_partitions::{Partition as Part, PartitionTable, Wanted, look};
use shingle_runtime::Runtime;
use shingle_server::drive_path;
use shingle_server::inventory::{self, Content};
use shingle_store_api::StoreError;
use shingle_zoned::{Geometry, Share, ZonedDevice};
use shingle_zoned_linux::OpenOptions;

use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::{print_columns, size};

pub(crate) const ABOUT: &str = "\
Divide a drive into partitions, each a drive of its own.

A partition is a range of zones with its own part of the drive's limits on open and active zones, so that no partition can starve another. \
DRIVE#NAME names it wherever a drive is named: in commands, and in a server's configuration. The partitions of a drive are served by \
one process: `shingle serve`, or `shingle volume export` with all of them.";

/// Commands on partitions.
#[derive(Subcommand)]
pub(crate) enum Partition {
    /// Make partitions: `shingle drive partition add disk.shingle store=40GiB vm1=max`
    Add(Add),
    /// List a drive's partitions, and the zones that none of them has.
    Ls(List),
    /// Remove a partition. All that it holds is lost; asks first.
    Rm(Remove),
}

#[derive(Args)]
pub(crate) struct Add {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Partitions: NAME=SIZE, or NAME=max for all that is left. `,open=N` and `,active=N` behind it give it so much of the drive's limits
    /// [default: an even part of what others leave, at most 16].
    #[arg(value_name = "NAME=SIZE", required = true)]
    partitions: Vec<Spec>,
    /// Go on even if the drive holds a store, or a file system that is not mounted; its data is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Args)]
pub(crate) struct List {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print one JSON object, all sizes in bytes.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// The partition: DRIVE#NAME.
    #[arg(value_name = "PARTITION")]
    partition: PathBuf,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// A partition as the command line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec {
    name: String,
    /// `None`: all that is left.
    size: Option<ByteSize>,
    share: Share,
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let first = words.next().unwrap_or_default();
        let (name, size) = first.split_once('=').ok_or("a partition is written NAME=SIZE, or NAME=max")?;
        let size = match size {
            "max" => None,
            size => Some(size.parse::<ByteSize>().map_err(|error| error.to_string())?),
        };
        let mut share = Share::default();
        for word in words {
            let limit = match word.split_once('=') {
                Some(("open", count)) => (&mut share.open_zones_max, count),
                Some(("active", count)) => (&mut share.active_zones_max, count),
                _ => return Err(format!("`{word}`: only open=COUNT and active=COUNT may follow the size")),
            };
            let (place, count) = limit;
            *place = Some(count.parse().map_err(|_| format!("`{word}`: {count} is no count of zones"))?);
        }
        Ok(Self { name: name.to_owned(), size, share })
    }
}

impl Spec {
    fn wanted(&self, geometry: &Geometry) -> Outcome<Wanted> {
        let zone = geometry.zone_capacity.bytes();
        let zones = self.size.map(|size| u32::try_from(size.0.div_ceil(zone)));
        let zones = zones.transpose().map_err(|_| Failure::new(format!("`{}`: no drive is so large", self.name)))?;
        Ok(Wanted { name: self.name.clone(), zones, share: self.share })
    }
}

impl Partition {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            match self {
                Self::Add(add) => add.run(&rt).await,
                Self::Ls(list) => list.run(&rt).await,
                Self::Rm(remove) => remove.run(&rt).await,
            }
        })?
    }
}

impl Add {
    async fn run(self, rt: &Runtime) -> Outcome {
        let drive = self.drive.display();
        let failed = |error: StoreError| Failure::new(format!("{drive}: {}", error.message));
        let options = OpenOptions { force: self.force, keep_open: false, alone: false };
        let device = device::open_with(&self.drive, rt, options).await?;
        let wanted = self.partitions.iter().map(|spec| spec.wanted(device.geometry()));
        let wanted: Vec<_> = wanted.collect::<Outcome<_>>()?;
        if !matches!(inventory::content(&device).await, Content::Partitions(_)) {
            self.begin(rt, &device).await?;
        }
        let mut table = PartitionTable::open(rt, &device).await.map_err(failed)?;
        table.add(rt, &wanted).await.map_err(failed)?;
        for part in table.partitions().iter().filter(|part| wanted.iter().any(|one| one.name == part.name)) {
            let path = drive_path::joined(&self.drive, &part.name);
            say!("{}: {} in {}", path.display(), size(bytes(device.geometry(), &part.zones)), zones(&part.zones));
        }
        Ok(())
    }

    /// Makes an empty table on a drive that has none.
    async fn begin(&self, rt: &Runtime, device: &Rc<dyn ZonedDevice>) -> Outcome {
        let drive = self.drive.display();
        if let Some(data) = device::data_on(device).await? {
            if !self.force {
                return Err(Failure::new(format!("{drive}: {data}: add --force to go on all the same")));
            }
            confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
        }
        let made = PartitionTable::format(rt, device, self.force).await;
        made.map_err(|error| Failure::new(format!("{drive}: {}", error.message)))
    }
}

impl List {
    async fn run(self, rt: &Runtime) -> Outcome {
        let device = device::look(&self.drive, rt).await?.device;
        let geometry = device.geometry();
        let failed = |error: StoreError| Failure::new(format!("{}: {}", self.drive.display(), error.message)).not_run();
        let parts = look(rt, &device).await.map_err(failed)?;
        let mut rows = Vec::new();
        for part in &parts {
            let path = drive_path::joined(&device::find(&self.drive, rt).await?, &part.name);
            let holds = match shingle_server::look_at_drive(&path, rt).await {
                Ok(look) => inventory::content(&look.device).await,
                Err(error) => Content::Unknown(error.message),
            };
            rows.push((part, holds));
        }
        if self.json {
            let row = |(part, holds): &(&Part, Content)| {
                json!({
                    "name": part.name, "first_zone": part.zones.start, "zones": part.zones.len(),
                    "size_bytes": bytes(geometry, &part.zones), "open_zones_max": part.share.open_zones_max,
                    "active_zones_max": part.share.active_zones_max, "engine": holds.kind(), "holds": holds.to_string(),
                })
            };
            let free: u64 = shingle_partitions::free_zones(geometry, &parts).iter().map(|run| run.len() as u64).sum();
            say!("{}", json!({ "partitions": rows.iter().map(row).collect::<Vec<_>>(), "free_zones": free }));
            return Ok(());
        }
        let limit = |limit: Option<u32>| limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
        let head = ["PARTITION", "ZONES", "SIZE", "OPEN", "ACTIVE", "HOLDS"].map(str::to_owned);
        let mut lines = vec![head];
        lines.extend(rows.iter().map(|(part, holds)| {
            let Share { open_zones_max, active_zones_max } = part.share;
            [
                part.name.clone(),
                zones(&part.zones),
                ByteSize(bytes(geometry, &part.zones)).to_string(),
                limit(open_zones_max),
                limit(active_zones_max),
                holds.to_string(),
            ]
        }));
        for run in shingle_partitions::free_zones(geometry, &parts) {
            let dash = || "-".to_owned();
            lines.push([
                dash(),
                zones(&run),
                ByteSize(bytes(geometry, &run)).to_string(),
                dash(),
                dash(),
                "no partition".to_owned(),
            ]);
        }
        print_columns(&lines, 2..5)
    }
}

impl Remove {
    async fn run(self, rt: &Runtime) -> Outcome {
        let (drive, Some(name)) = drive_path::split(&self.partition) else {
            let words = format!("{}: name the partition: DRIVE#NAME", self.partition.display());
            return Err(Failure::new(words).not_run());
        };
        let failed = |error: StoreError| Failure::new(format!("{}: {}", drive.display(), error.message));
        let device = device::open(&drive, rt).await?;
        let mut table = PartitionTable::open(rt, &device).await.map_err(failed)?;
        let part = table.find(&name).map_err(failed)?;
        let what = match table.view(&name).await {
            Ok(view) => {
                let view: Rc<dyn ZonedDevice> = Rc::new(view);
                device::data_on(&view).await?.unwrap_or_else(|| "nothing was written to it".to_owned())
            }
            // One that cannot be opened beside the others can be removed all the same.
            Err(error) => error.message,
        };
        confirm(self.yes, &format!("{}: {what}: all that it holds will be lost", self.partition.display()))?;
        let kept = table.remove(&name).await.map_err(failed)?;
        say!("{}: partition {name} is removed, {} are free", drive.display(), zones(&part.zones));
        if !kept.is_empty() {
            let kept: Vec<_> = kept.iter().map(u32::to_string).collect();
            note!("the drive does not empty zones {}: what they hold can still be read", kept.join(", "));
        }
        Ok(())
    }
}

fn zones(zones: &Range<u32>) -> String {
    format!("zones {} to {}", zones.start, zones.end - 1)
}

fn bytes(geometry: &Geometry, zones: &Range<u32>) -> u64 {
    Blocks(geometry.zone_capacity.0 * zones.len() as u64).bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_a_name_a_size_and_maybe_limits() {
        let share = |open, active| Share { open_zones_max: open, active_zones_max: active };
        let spec = |size, share| Ok(Spec { name: "vm1".to_owned(), size, share });
        assert_eq!("vm1=4KiB".parse(), spec(Some(ByteSize(4096)), share(None, None)));
        assert_eq!("vm1=max,open=3".parse(), spec(None, share(Some(3), None)));
        assert_eq!("vm1=max,active=2,open=3".parse(), spec(None, share(Some(3), Some(2))));
        for wrong in ["vm1", "vm1=", "vm1=4KiB,shut=3", "vm1=4KiB,open", "vm1=4KiB,open=x"] {
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
    }
}
