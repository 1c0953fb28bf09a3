//! A volume as it was found.

use std::rc::Rc;

use shingle_base::ZoneId;

use super::report::RecoveryReport;
use crate::engine::Engine;

/// Something that a zone needs before the volume may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is not written on: the journal is to say where it ends.
    Close { zone: ZoneId, epoch: u64, end: u32 },
    /// It is not written on, and the drive has it active. (TL-LIMIT-2)
    Release { zone: ZoneId, epoch: u64 },
    /// It is free, and the drive has it active.
    Reset(ZoneId),
}

/// A volume that was found, and what is left to be done before it can be used.
pub(crate) struct Found {
    pub(crate) engine: Rc<Engine>,
    pub(crate) report: RecoveryReport,
    pub(super) endings: Vec<Ending>,
    /// A checkpoint comes first.
    pub(super) settles: bool,
}
