//! `shingle drive create`: emulated drives in files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shingle_base::ByteSize;
use shingle_zoned::{CreateOptions, FileDevice, GeometrySpec};

use crate::failure::Outcome;

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    /// A host-managed SMR disk.
    HmSmr,
    /// A zoned NVMe SSD.
    Zns,
}

#[derive(Args)]
pub(crate) struct Create {
    /// The file to make.
    path: PathBuf,
    /// The drive's size: a number and a unit, such as 64GiB or 20TB. The file is sparse and takes what is written.
    #[arg(long)]
    size: ByteSize,
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
    /// Replace a drive that is there; its data is lost.
    #[arg(long)]
    overwrite: bool,
}

impl Create {
    pub(crate) fn run(self) -> Outcome {
        let mut spec = match self.kind {
            Kind::HmSmr => GeometrySpec::hm_smr(self.size),
            Kind::Zns => GeometrySpec::zns(self.size),
        };
        if let Some(zone_size) = self.zone_size {
            (spec.zone_size, spec.zone_capacity) = (zone_size, None);
            if self.conventional.is_none() && matches!(self.kind, Kind::HmSmr) {
                // The share of the preset: about one zone in a hundred.
                spec.conventional_zones = (self.size.0 / zone_size.0.max(1) / 93) as u32;
            }
        }
        spec.zone_capacity = self.zone_capacity.or(spec.zone_capacity);
        spec.conventional_zones = self.conventional.unwrap_or(spec.conventional_zones);
        spec.open_zones_max = self.max_open.or(spec.open_zones_max);
        spec.active_zones_max = self.max_active.or(spec.active_zones_max);
        let geometry = spec.build()?;
        FileDevice::create(&self.path, &geometry, CreateOptions { overwrite: self.overwrite })?;
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
