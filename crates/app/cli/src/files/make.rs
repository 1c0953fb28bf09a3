//! `shingle files format`: a new store of files.

use std::path::PathBuf;

use clap::Args;
use shingle_server::inventory::{self, Content};
use shingle_zone_files::{FormatOptions, ZoneFiles};
use shingle_zoned_linux::OpenOptions;

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};

#[derive(Args)]
pub(crate) struct Format {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Zones for checkpoints and journal [default: as many as the drive's size asks for, and at least 5].
    #[arg(long, value_name = "COUNT")]
    metazones: Option<u32>,
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
            let open = OpenOptions { force: self.force, keep_open: false, alone: false };
            let device = device::open_with(&self.drive, &rt, open).await?;
            let drive = self.drive.display();
            if !self.force {
                let content = inventory::content(&device).await;
                if matches!(content, Content::Array(_)) {
                    return Err(Failure::new(format!("{drive}: {content}: add --force to go on all the same")));
                }
            } else if let Some(data) = device::data_on(&device).await? {
                confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
            }
            let options = FormatOptions { metazones: self.metazones, force: self.force, store: None };
            let store = ZoneFiles::format(&rt, device, options).await.map_err(|error| named(&self.drive, &error))?;
            say!("{drive}: files {store}");
            Ok(())
        })?
    }
}
