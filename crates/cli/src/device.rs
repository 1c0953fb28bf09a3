//! Drives as commands name them.

use std::path::Path;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, PeekDevice, ZonedDevice};

use crate::failure::Outcome;

/// Opens the drive at `path`.
pub(crate) fn open(path: &Path, rt: &Runtime) -> Outcome<Rc<dyn ZonedDevice>> {
    Ok(Rc::new(FileDevice::open(path, rt)?))
}

/// Looks at the drive at `path`, which others may have open, and changes nothing.
pub(crate) fn look(path: &Path, rt: &Runtime) -> Outcome<PeekDevice> {
    Ok(FileDevice::peek(path, rt)?)
}
