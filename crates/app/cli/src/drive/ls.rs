//! `shingle drive ls`: the drives of this machine, and their owners.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::ByteSize;
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, Found};
use shingle_zoned_linux::{Drive, System, ZonedModel};

use crate::failure::Outcome;
use crate::output::print_columns;

const LONG: &str = "\
Columns: NODE; MODEL and SERIAL as the drive says them; SIZE; ZONES and their size (ZONE); CONV, how many of them are \
conventional; OPEN and ACTIVE, the most zones that may be open, and open or closed, at once (`-`: no limit); HOLDS, what \
is on it: a chunk store with its identity, the mark of a file system or partition table, or nothing. Where several nodes \
are paths to one drive, this says so; use the one that joins them.

Sizes are in the units they are printed with; --json gives bytes. Nothing is written to any drive, and drives that are in \
use can be listed too. What is on a drive is seen only by those who may read its node.";

/// Lists drives.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Ls {
    /// The drives to list: nodes, or files of emulated ones [default: all zoned drives of the machine].
    #[arg(value_name = "DRIVE")]
    paths: Vec<PathBuf>,
    /// List ordinary drives as well.
    #[arg(long, short)]
    all: bool,
    /// Print one JSON object, all sizes in bytes.
    #[arg(long)]
    json: bool,
    /// Another machine's tree of /sys, /proc, /dev and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

impl Ls {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let system = System::under(&self.root);
        let mut found = Vec::new();
        if self.paths.is_empty() {
            found = inventory::block_devices(&rt, &system, self.all).await?;
        }
        for path in &self.paths {
            found.extend(inventory::with_partitions(&rt, inventory::at(&rt, &system, path).await?).await);
        }
        let all = system.discover().unwrap_or_default();
        if self.json {
            let rows: Vec<_> = found.iter().map(|found| found_json(found, &all)).collect();
            say!("{}", json!({ "drives": rows }));
            return Ok(());
        }
        if found.is_empty() {
            note!("no zoned drive is attached; --all lists ordinary ones, `shingle drive doctor` says more");
            return Ok(());
        }
        let head = ["NODE", "MODEL", "SERIAL", "SIZE", "ZONES", "ZONE", "CONV", "OPEN", "ACTIVE", "HOLDS"];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(found.iter().map(|found| columns(found, &all)));
        print_columns(&rows, 3..9)
    }
}

/// Zones as the kernel describes them, for drives that could not be opened.
struct Zones {
    count: Option<u32>,
    size: Option<u64>,
    conventional: Option<u32>,
    open: Option<u32>,
    active: Option<u32>,
}

impl Zones {
    fn of(found: &Found) -> Self {
        if let Some(geometry) = &found.geometry {
            return Self {
                count: Some(geometry.zone_count),
                size: Some(geometry.zone_size.bytes()),
                conventional: Some(geometry.conventional_zones),
                open: geometry.open_zones_max,
                active: geometry.active_zones_max,
            };
        }
        let drive = found.drive.as_ref();
        Self {
            count: drive.and_then(|drive| drive.zone_count),
            size: drive.and_then(|drive| drive.zone_size_bytes),
            conventional: None,
            open: drive.and_then(|drive| drive.max_open_zones),
            active: drive.and_then(|drive| drive.max_active_zones),
        }
    }
}

fn size_bytes(found: &Found) -> Option<u64> {
    let whole = found.geometry.as_ref().map(|geometry| geometry.blocks().bytes());
    found.drive.as_ref().map(|drive| drive.size_bytes).or(whole)
}

fn columns(found: &Found, all: &[Drive]) -> [String; 10] {
    let dash = || "-".to_owned();
    let text = |text: Option<&String>| text.cloned().unwrap_or_else(dash);
    let number = |number: Option<u32>| number.map_or_else(dash, |number| number.to_string());
    let size = |bytes: Option<u64>| bytes.map_or_else(dash, |bytes| ByteSize(bytes).to_string());
    let drive = found.drive.as_ref();
    let zones = Zones::of(found);
    let mut holds = found.content.to_string();
    if found.emulated {
        holds += " on emulated zones";
    }
    if let Some(mount) = drive.and_then(|drive| drive.mounts.first()) {
        holds = format!("{holds}, in use at {}", mount.display());
    }
    if let Some(relation) = drive.and_then(|drive| inventory::relation(drive, all)) {
        holds = format!("{holds}; {relation}");
    }
    [
        found.path.display().to_string(),
        text(drive.and_then(|drive| drive.model.as_ref())),
        text(drive.and_then(|drive| drive.serial.as_ref())),
        size(size_bytes(found)),
        number(zones.count),
        size(zones.size),
        number(zones.conventional),
        number(zones.open),
        number(zones.active),
        holds,
    ]
}

/// One drive among `all`, for programs.
pub(crate) fn found_json(found: &Found, all: &[Drive]) -> Value {
    let drive = found.drive.as_ref();
    let others = drive.map(|drive| inventory::same_drive(drive, all)).unwrap_or_default();
    let zones = Zones::of(found);
    let model = drive.map_or(if found.emulated { "emulated" } else { "none" }, |drive| match drive.zoned {
        ZonedModel::None if found.emulated => "emulated",
        model => model.name(),
    });
    json!({
        "node": found.path.display().to_string(),
        "names": found.names().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "model": drive.and_then(|drive| drive.model.clone()),
        "vendor": drive.and_then(|drive| drive.vendor.clone()),
        "serial": drive.and_then(|drive| drive.serial.clone()),
        "wwn": drive.and_then(|drive| drive.wwn.clone()),
        "size_bytes": size_bytes(found),
        "zone_model": model,
        "zones": zones.count,
        "zone_size_bytes": zones.size,
        "zone_capacity_bytes": found.geometry.as_ref().map(|geometry| geometry.zone_capacity.bytes()),
        "conventional_zones": zones.conventional,
        "open_zones_max": zones.open,
        "active_zones_max": zones.active,
        "engine": found.content.kind(),
        "store": found.content.store().map(|store| store.to_string()),
        "holds": found.content.to_string(),
        "multipath": drive.is_some_and(|drive| drive.multipath),
        "same_drive": others.iter().map(|other| other.node.display().to_string()).collect::<Vec<_>>(),
        "in_use": drive.is_some_and(|drive| drive.in_use()),
        "mounts": drive.map(|drive| drive.mounts.iter().map(|at| at.display().to_string()).collect::<Vec<_>>()),
    })
}
