//! `shingle drive`: real drives, and emulated ones in files. Verbs follow blkzone.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use shingle_base::{Blocks, ByteSize, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{GeometrySpec, ZoneInfo, ZoneOp, ZoneState};
use shingle_zoned_linux::{CreateDrive, KernelDevice, OpenOptions, ZonedModel, create_drive, is_node, open_drive};

use crate::failure::{Failure, Outcome};

/// Commands on a drive.
#[derive(Subcommand)]
pub(crate) enum Drive {
    /// Make an emulated drive in a sparse file: `shingle drive create disk.shingle --size 20TB`
    Create(Create),
    /// List its zones: `shingle drive report disk.shingle`
    Report(Report),
    /// Open a zone explicitly: `shingle drive open disk.shingle 7`
    Open(OneZone),
    /// Close an open zone.
    Close(OneZone),
    /// Make a zone full.
    Finish(OneZone),
    /// Empty a zone. Its data is lost.
    Reset(Reset),
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// A host-managed SMR disk.
    HmSmr,
    /// A zoned NVMe SSD.
    Zns,
}

#[derive(Args)]
pub(crate) struct Create {
    /// The file to make, or the node of an ordinary block device to use.
    path: PathBuf,
    /// The drive's size: a number and a unit, such as 64GiB or 20TB. A file is sparse and takes what is written; on a
    /// block device all of it is used if this is left out.
    #[arg(long)]
    size: Option<ByteSize>,
    /// What kind of drive.
    #[arg(long, value_enum, default_value = "hm-smr")]
    kind: Kind,
    /// The size of a zone.
    #[arg(long)]
    zone_size: Option<ByteSize>,
    /// How much of a zone can be written.
    #[arg(long)]
    zone_capacity: Option<ByteSize>,
    /// How many conventional zones it begins with.
    #[arg(long)]
    conventional: Option<u32>,
    /// How many zones may be open at once.
    #[arg(long)]
    max_open: Option<u32>,
    /// How many zones may be open or closed at once.
    #[arg(long)]
    max_active: Option<u32>,
    /// Replace an emulated drive that is there; its data is lost.
    #[arg(long)]
    overwrite: bool,
    /// Use a block device although it is partitioned or holds a file system or the like, which is lost.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(crate) struct Report {
    /// The drive: its node, or its file.
    path: PathBuf,
    /// The first zone to list.
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// How many zones to list.
    #[arg(long, default_value_t = u32::MAX)]
    count: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct OneZone {
    /// The drive: its node, or its file.
    path: PathBuf,
    /// The zone's number.
    zone: u32,
}

#[derive(Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    which: OneZone,
    /// Do it: what lies in the zone is lost.
    #[arg(long)]
    yes: bool,
}

impl Drive {
    pub(crate) fn run(self) -> Outcome {
        match self {
            Self::Create(create) => create.run(),
            Self::Report(report) => shingle_runtime::real::run(|rt| report.run(rt))?,
            Self::Open(which) => which.run(ZoneOp::Open),
            Self::Close(which) => which.run(ZoneOp::Close),
            Self::Finish(which) => which.run(ZoneOp::Finish),
            Self::Reset(reset) if reset.yes => reset.which.run(ZoneOp::Reset),
            Self::Reset(reset) => {
                let zone = reset.which.zone;
                Err(Failure::new(format!("a reset loses what lies in zone {zone}; add --yes to do it")))
            }
        }
    }
}

impl Create {
    fn spec(&self, size: ByteSize) -> GeometrySpec {
        let mut spec = match self.kind {
            Kind::HmSmr => GeometrySpec::hm_smr(size),
            Kind::Zns => GeometrySpec::zns(size),
        };
        if let Some(zone_size) = self.zone_size {
            (spec.zone_size, spec.zone_capacity) = (zone_size, None);
            if self.conventional.is_none() && matches!(self.kind, Kind::HmSmr) {
                // The share of the preset: about one zone in a hundred.
                spec.conventional_zones = (size.0 / zone_size.0.max(1) / 93) as u32;
            }
        }
        spec.zone_capacity = self.zone_capacity.or(spec.zone_capacity);
        spec.conventional_zones = self.conventional.unwrap_or(spec.conventional_zones);
        spec.open_zones_max = self.max_open.or(spec.open_zones_max);
        spec.active_zones_max = self.max_active.or(spec.active_zones_max);
        spec
    }

    fn run(self) -> Outcome {
        if self.size.is_none() && !is_node(&self.path) {
            return Err(Failure::new("say how large the drive is to be: --size 64GiB"));
        }
        let options = CreateDrive { overwrite: self.overwrite, force: self.force };
        let spec = |bytes: Option<u64>| self.spec(self.size.or(bytes.map(ByteSize)).unwrap_or(ByteSize(0)));
        let geometry = create_drive(&self.path, spec, options)?;
        println!(
            "{}: {} zones of {}, {} of them conventional",
            self.path.display(),
            geometry.zone_count,
            ByteSize(geometry.zone_size.bytes()),
            geometry.conventional_zones
        );
        Ok(())
    }
}

/// The condition's abbreviation, as blkzone prints it.
fn abbreviation(state: ZoneState) -> &'static str {
    match state {
        ZoneState::NotWritePointer => "nw",
        ZoneState::Empty => "em",
        ZoneState::ImplicitOpen => "oi",
        ZoneState::ExplicitOpen => "oe",
        ZoneState::Closed => "cl",
        ZoneState::Full => "fu",
        ZoneState::ReadOnly => "ro",
        ZoneState::Offline => "ol",
    }
}

/// Whether `path` names a zoned block device.
fn is_zoned(path: &std::path::Path) -> bool {
    shingle_zoned_linux::describe(path).is_ok_and(|drive| drive.zoned != ZonedModel::None)
}

impl Report {
    async fn run(self, rt: Runtime) -> Outcome {
        let zones = if is_zoned(&self.path) {
            // Looking changes nothing, and does not mind who uses the drive.
            let zones = KernelDevice::look(&self.path)?.2;
            zones.into_iter().skip(self.first as usize).take(self.count as usize).collect()
        } else {
            let device = open_drive(&self.path, &rt, OpenOptions::default())?;
            device.report(ZoneId(self.first), self.count).await?
        };
        if self.json {
            let rows: Vec<_> = zones.iter().map(zone_json).collect();
            println!("{}", json!({ "device": self.path.display().to_string(), "zones": rows }));
            return Ok(());
        }
        println!("{:>7}  {:>16}  {:>12}  {:>12}  cond  type", "zone", "start (byte)", "capacity", "written");
        for zone in zones {
            let kind = if zone.state == ZoneState::NotWritePointer { "conventional" } else { "seq-write-required" };
            println!(
                "{:>7}  {:>16}  {:>12}  {:>12}  {:<4}  {kind}",
                zone.zone.0,
                zone.start.byte_offset(),
                size(zone.capacity),
                size(zone.written),
                abbreviation(zone.state),
            );
        }
        Ok(())
    }
}

fn size(blocks: Blocks) -> String {
    ByteSize(blocks.bytes()).to_string()
}

fn zone_json(zone: &ZoneInfo) -> serde_json::Value {
    json!({
        "zone": zone.zone.0,
        "start_bytes": zone.start.byte_offset(),
        "capacity_bytes": zone.capacity.bytes(),
        "written_bytes": zone.written.bytes(),
        "condition": abbreviation(zone.state),
    })
}

impl OneZone {
    fn run(self, op: ZoneOp) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            // Zones are looked after on drives that others have written to, too.
            let device = open_drive(&self.path, &rt, OpenOptions { force: true })?;
            device.manage(ZoneId(self.zone), op).await?;
            device.flush().await?;
            Ok(())
        })?
    }
}
