//! `shingle drive create`: emulated drives, in files or on ordinary block devices.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use shingle_base::ByteSize;
use shingle_server::ErrorKind;
use shingle_zoned::GeometrySpec;
use shingle_zoned_linux::{CreateDrive, OpenOptions, create_drive, is_node};

use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::counted;

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
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// The drive's size: a number and a unit, such as 64GiB or 20TB. A file is sparse and takes only written bytes.
    /// [default: all of a block device]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Kind of drive.
    #[arg(long, value_enum, value_name = "KIND", default_value = "hm-smr")]
    kind: Kind,
    /// The size of a zone [default: 256MiB (hm-smr) or 2GiB (zns)].
    #[arg(long, value_name = "SIZE")]
    zone_size: Option<ByteSize>,
    /// Writable part of a zone [default: all of it (hm-smr, or with --zone-size) or 1077MiB (zns)].
    #[arg(long, value_name = "SIZE")]
    zone_capacity: Option<ByteSize>,
    /// Conventional zones at the drive's start [default: about one zone in a hundred (hm-smr) or none (zns)].
    #[arg(long, value_name = "COUNT")]
    conventional: Option<u32>,
    /// Limit of open zones [default: 128 (hm-smr) or 14 (zns)].
    #[arg(long, value_name = "COUNT")]
    max_open: Option<u32>,
    /// Limit of active zones, which are open or closed [default: none (hm-smr) or 14 (zns)].
    #[arg(long, value_name = "COUNT")]
    max_active: Option<u32>,
    /// Replace an existing emulated drive; its data is lost. Asks first.
    #[arg(long)]
    overwrite: bool,
    /// Use a block device although it is partitioned or holds a file system or the like, which is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Description of the loss that goes with the drive at `path`.
///
/// # Errors
/// Somebody has it open.
fn loss_of(path: &Path) -> Outcome<String> {
    let data = shingle_runtime::real::run(|rt| async move {
        match shingle_server::open_drive(path, &rt, OpenOptions::default()) {
            Ok(device) => device::data_on(&device).await,
            Err(error) if error.kind == ErrorKind::InUse => Err(error.into()),
            Err(_) => Ok(Some("not a drive that can be read".to_owned())),
        }
    })??;
    Ok(match data {
        Some(data) => format!("{data}: all that it holds will be lost"),
        None => "a drive with nothing in its zones will be replaced".to_owned(),
    })
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

    pub(crate) fn run(self) -> Outcome {
        if self.size.is_none() && !is_node(&self.path) {
            return Err(Failure::new("say how large the drive is to be: --size 64GiB"));
        }
        if let Some(parent) = self.path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists()) {
            return Err(Failure::new(format!(
                "there is no directory {}: make it first (`mkdir -p`)",
                parent.display()
            )));
        }
        if (self.overwrite || self.force) && self.path.exists() {
            confirm(self.yes, &format!("{}: {}", self.path.display(), loss_of(&self.path)?))?;
        }
        let options = CreateDrive { overwrite: self.overwrite, force: self.force };
        let spec = |bytes: Option<u64>| self.spec(self.size.or(bytes.map(ByteSize)).unwrap_or(ByteSize(0)));
        let geometry = create_drive(&self.path, spec, options)?;
        say!(
            "{}: {} of {}, {} of them conventional",
            self.path.display(),
            counted(geometry.zone_count, "zone"),
            ByteSize(geometry.zone_size.bytes()),
            geometry.conventional_zones
        );
        Ok(())
    }
}
