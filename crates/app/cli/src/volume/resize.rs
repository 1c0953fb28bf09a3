//! `shingle volume resize`: another size for a volume.

use std::path::PathBuf;

use clap::Args;
use shingle_base::ByteSize;
use shingle_store_api::BlockStore;
use shingle_translation::{Options, Volume as Store};

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::size;

const LONG: &str = "\
A volume grows into what it was made without (`shingle volume create --size`); the file system in it is grown afterwards (`resize2fs`). \
To shrink one, shrink the file system first: all that lies behind the new end is gone, but for snapshots. Stop the export first.";

#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Resize {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The new size, or `max` for all that the drive has room for.
    #[arg(value_name = "SIZE")]
    size: String,
    /// Do not ask before a volume becomes smaller.
    #[arg(long)]
    yes: bool,
}

impl Resize {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let drive = self.drive.display();
            let failed = |error| named(&self.drive, &error);
            let wanted = match self.size.as_str() {
                "max" => None,
                text => Some(text.parse::<ByteSize>().map_err(|error| Failure::new(format!("{text}: {error}")))?.0),
            };
            let device = device::open(&self.drive, &rt).await?;
            let opened = Store::open(&rt, device, Options::default()).await;
            let (volume, _) = opened.map_err(|error| failed(error).not_run())?;
            let before = volume.size_bytes();
            let wanted = wanted.unwrap_or_else(|| volume.size_max_bytes());
            if wanted < before {
                let words =
                    format!("{drive}: all that lies behind {} of its {} will be lost", size(wanted), size(before));
                if let Err(refused) = confirm(self.yes, &words) {
                    volume.close().await.map_err(failed)?;
                    return Err(refused);
                }
            }
            volume.resize(wanted).await.map_err(failed)?;
            say!("{drive}: the volume has {} now, it had {}", size(volume.size_bytes()), size(before));
            volume.close().await.map_err(failed)
        })?
    }
}
