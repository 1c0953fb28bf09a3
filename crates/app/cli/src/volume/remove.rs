//! `shingle volume rm`: the end of a volume.

use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, Content};
use shingle_zoned::{ZoneOp, ZoneState, ZonedDevice};

use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::{Progress, counted};

#[derive(Args)]
pub(crate) struct Remove {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Remove {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move { self.remove(&rt).await })?
    }

    async fn remove(self, rt: &Runtime) -> Outcome {
        let device = device::open(&self.drive, rt).await?;
        let drive = self.drive.display();
        let content = inventory::content(&device).await;
        if !matches!(content, Content::Volume { .. }) {
            let words = format!("{drive}: it holds {content}, and no volume that could be removed");
            return Err(Failure::new(words).not_run());
        }
        confirm(self.yes, &format!("{drive}: {content}: all that it holds will be lost"))?;
        let removed = reset(&device).await?;
        say!("{drive}: {content} is removed, {} reset", counted(removed, "zone"));
        Ok(())
    }
}

/// Resets all zones that were written to. That with the superblock comes first: a removal that is cut short leaves no volume.
async fn reset(device: &Rc<dyn ZonedDevice>) -> Outcome<u64> {
    let first = device.geometry().conventional_zones;
    let zones = device.report(ZoneId(first), device.geometry().zone_count - first).await?;
    let written = |state| !matches!(state, ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline);
    let zones: Vec<_> = zones.into_iter().filter(|zone| written(zone.state)).collect();
    let (mut done, all) = (0, zones.len() as u64);
    let mut progress = Progress::new();
    for zone in zones {
        device.manage(zone.zone, ZoneOp::Reset).await?;
        if done == 0 {
            device.flush().await?;
        }
        done += 1;
        progress.show_part(&format!("{done} of {}", counted(all, "zone")), 0, done, all);
    }
    drop(progress);
    device.flush().await?;
    Ok(done)
}
