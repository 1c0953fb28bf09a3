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

/// Contents that cannot be read now, for this reason, in words: no proof that there are none.
pub(crate) fn unread(why: &str) -> String {
    format!("a store or the like that cannot be read now ({why})")
}

/// Data on a drive that would be lost, in words; `None` if nothing is written to it.
pub(crate) async fn data_on(drive: &Rc<dyn ZonedDevice>) -> Outcome<Option<String>> {
    match inventory::content(drive).await {
        Content::Nothing => {}
        Content::Unknown(why) => return Ok(Some(unread(&why))),
        content => return Ok(Some(content.to_string())),
    }
    let geometry = drive.geometry();
    let zones = drive.report(ZoneId(0), geometry.zone_count).await?;
    let sequential = zones.iter().filter(|zone| zone.zone.0 >= geometry.conventional_zones);
    let written: u64 = sequential.map(|zone| zone.written.bytes()).sum();
    Ok((written > 0).then(|| format!("{} in zones, and no store", ByteSize(written))))
}

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;
    use shingle_chunk_store::{ChunkStore, FormatOptions};
    use shingle_zoned::{CreateOptions, FileDevice, Geometry, ZoneState};

    use super::*;

    /// Its zones may be readable again tomorrow.
    #[test]
    fn a_superblock_that_cannot_be_read_is_no_proof_of_an_empty_drive() {
        let path = std::env::temp_dir().join(format!("shingle-unread-{}", std::process::id()));
        let geometry = Geometry::hm_smr(Blocks(256), 16, 0, 8);
        FileDevice::create(&path, &geometry, CreateOptions { overwrite: true }).unwrap();
        let data = shingle_runtime::real::run(|rt| async move {
            let device = Rc::new(FileDevice::open(&path, &rt).unwrap());
            ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.unwrap();
            for zone in 0..2 {
                device.set_state(ZoneId(zone), ZoneState::Offline).unwrap();
            }
            let device: Rc<dyn ZonedDevice> = device;
            let data = data_on(&device).await.unwrap_or_else(|failure| panic!("{}", failure.message));
            drop(device);
            std::fs::remove_file(path).unwrap();
            data
        });
        assert!(data.as_ref().unwrap().as_ref().is_some_and(|data| data.contains("cannot be read now")), "{data:?}");
    }
}
