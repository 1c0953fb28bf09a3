//! `shingle volume create`: a new volume.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use shingle_base::ByteSize;
use shingle_translation::{FormatOptions, Volume as Store};
use shingle_zoned_linux::OpenOptions;

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::Outcome;
use crate::output::size;

#[derive(Args)]
pub(crate) struct Create {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The volume's size [default: nine tenths of what the drive's zones hold; the rest makes room for cleaning].
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Bytes of a sector, the smallest write. 512 is for programs that need it: the map of such a volume takes more zones.
    #[arg(long, value_name = "BYTES", default_value = "4096",
          value_parser = PossibleValuesParser::new(["4096", "512"]).map(|text| if text == "512" { 512u64 } else { 4096 }))]
    sector: u64,
    /// Zones for checkpoints and journal [default: as many as the largest map takes, and at least 6].
    #[arg(long, value_name = "COUNT")]
    metazones: Option<u32>,
    /// Go on even if the drive holds a store, or a file system that is not mounted; its data is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Create {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let open = OpenOptions { force: self.force, keep_open: false, alone: false };
            let device = device::open_with(&self.drive, &rt, open).await?;
            let drive = self.drive.display();
            if !self.force {
                device::refuse_shared(&self.drive, &device).await?;
            } else if let Some(data) = device::data_on(&device).await? {
                confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
            }
            let options = FormatOptions {
                size_bytes: self.size.map(|size| size.0),
                sector_bytes: self.sector,
                metazones: self.metazones,
                force: self.force,
                store: None,
            };
            Store::format(&rt, device.clone(), options).await.map_err(|error| named(&self.drive, &error))?;
            let made = Store::identify(&device).await.map_err(|error| named(&self.drive, &error))?;
            say!(
                "{drive}: volume {} of {} in sectors of {} bytes",
                made.store,
                size(made.size_bytes),
                made.sector_bytes
            );
            Ok(())
        })?
    }
}
