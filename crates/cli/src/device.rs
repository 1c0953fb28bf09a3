//! Drives as commands name them.

use std::path::Path;
use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_zoned::{FileDevice, ZonedDevice};

use crate::failure::Outcome;

/// Opens the drive at `path`.
pub(crate) fn open(path: &Path, rt: &Runtime) -> Outcome<Rc<dyn ZonedDevice>> {
    Ok(Rc::new(FileDevice::open(path, rt)?))
}
