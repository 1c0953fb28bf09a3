//! Drives as commands name them: by node or file, or by a name that stays.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_base::{ByteSize, ZoneId};
use shingle_runtime::Runtime;
use shingle_server::Look;
use shingle_server::inventory::{self, Content, DriveName};
use shingle_zoned::ZonedDevice;
use shingle_zoned_linux::{OpenOptions, System};

use crate::failure::{Failure, Outcome};

/// Opens the drive called `name`.
pub(crate) async fn open(name: &Path, rt: &Runtime) -> Outcome<Rc<dyn ZonedDevice>> {
    open_with(name, rt, OpenOptions::default()).await
}

/// As [`open`], with another function.
pub(crate) async fn open_with(name: &Path, rt: &Runtime, options: OpenOptions) -> Outcome<Rc<dyn ZonedDevice>> {
    shingle_server::open_drive(&find(name, rt).await?, rt, options).map_err(|error| Failure::from(error).not_run())
}

/// Looks at the drive called `name`, which others may have open, and changes nothing.
pub(crate) async fn look(name: &Path, rt: &Runtime) -> Outcome<Look> {
    shingle_server::look_at_drive(&find(name, rt).await?, rt).await.map_err(|error| Failure::from(error).not_run())
}

/// The node or file of the drive called `name`.
pub(crate) async fn find(name: &Path, rt: &Runtime) -> Outcome<PathBuf> {
    let name = DriveName::of_path(name).map_err(|words| Failure::new(words).not_run())?;
    inventory::locate(rt, &System::host(), &name).await.map_err(|error| Failure::from(error).not_run())
}

/// Refuses a drive that is divided into partitions, or is a part of an array: a store on all of it would take it from them.
pub(crate) async fn refuse_shared(name: &Path, drive: &Rc<dyn ZonedDevice>) -> Outcome {
    let name = name.display();
    match inventory::content(drive).await {
        content @ Content::Array(_) => {
            Err(Failure::new(format!("{name}: {content}: add --force to go on all the same")))
        }
        Content::Partitions(_) => Err(Failure::new(format!(
            "{name} is divided into partitions: name one of them, {name}#NAME (`shingle drive partition ls` lists them), or add --force \
             to have all of the drive"
        ))),
        _ => Ok(()),
    }
}

/// Data on a drive that would be lost, in words; `None` if nothing is written to it.
pub(crate) async fn data_on(drive: &Rc<dyn ZonedDevice>) -> Outcome<Option<String>> {
    match inventory::content(drive).await {
        Content::Nothing | Content::Unknown(_) => {}
        content => return Ok(Some(content.to_string())),
    }
    let geometry = drive.geometry();
    let zones = drive.report(ZoneId(0), geometry.zone_count).await?;
    let sequential = zones.iter().filter(|zone| zone.zone.0 >= geometry.conventional_zones);
    let written: u64 = sequential.map(|zone| zone.written.bytes()).sum();
    Ok((written > 0).then(|| format!("{} in zones, and no store", ByteSize(written))))
}
