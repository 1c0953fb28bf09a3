//! Drives as commands name them: by node or file, or by a name that stays.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_server::inventory::{self, DriveName};
use shingle_zoned::{PeekDevice, ZonedDevice};
use shingle_zoned_linux::{OpenOptions, System};

use crate::failure::{Failure, Outcome};

/// Opens the drive called `name`.
pub(crate) async fn open(name: &Path, rt: &Runtime) -> Outcome<Rc<dyn ZonedDevice>> {
    open_with(name, rt, OpenOptions::default()).await
}

/// As [`open`], with another function.
pub(crate) async fn open_with(name: &Path, rt: &Runtime, options: OpenOptions) -> Outcome<Rc<dyn ZonedDevice>> {
    Ok(shingle_server::open_drive(&find(name, rt).await?, rt, options)?)
}

/// Looks at the drive called `name`, which others may have open, and changes nothing.
pub(crate) async fn look(name: &Path, rt: &Runtime) -> Outcome<PeekDevice> {
    Ok(shingle_server::look_at_drive(&find(name, rt).await?, rt)?)
}

/// The node or file of the drive called `name`.
pub(crate) async fn find(name: &Path, rt: &Runtime) -> Outcome<PathBuf> {
    let name = DriveName::of_path(name).map_err(Failure::new)?;
    Ok(inventory::locate(rt, &System::host(), &name).await?)
}
