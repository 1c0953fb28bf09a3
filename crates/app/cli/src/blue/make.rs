//! `shingle blue format`: a new store of objects.

use std::path::PathBuf;

use clap::Args;
use shingle_blue_store::{FormatOptions, Store};
use shingle_zoned_linux::OpenOptions;

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::Outcome;

#[derive(Args)]
pub(crate) struct Format {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Zones for metadata [default: a fiftieth of the drive's, and at least 20].
    #[arg(long, value_name = "COUNT")]
    metazones: Option<u32>,
    /// Writes of fewer bytes go to the metadata first [default: 65536 on a disk, 16384 on an SSD].
    #[arg(long, value_name = "BYTES")]
    small: Option<u32>,
    /// Go on even if the drive holds a store, or a file system that is not mounted; its data is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Format {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let open = OpenOptions { force: self.force, keep_open: false };
            let device = device::open_with(&self.drive, &rt, open).await?;
            let drive = self.drive.display();
            if !self.force {
                device::refuse_shared(&self.drive, &device).await?;
            } else if let Some(data) = device::data_on(&device).await? {
                confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
            }
            let (meta_zones, small_bytes) = (self.metazones, self.small);
            let options = FormatOptions { meta_zones, small_bytes, force: self.force, store: None };
            let store = Store::format(&rt, device, options).await.map_err(|error| named(&self.drive, &error))?;
            say!("{drive}: objects {store}");
            Ok(())
        })?
    }
}
