//! The arm as a camera behind a window in the drive's lid would see it. (Skylight, section 2.4.2.)

use crate::command::Nanos;

/// One motion of the arm, and the work at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Motion {
    /// The arm leaves.
    pub left: Nanos,
    /// It is at the first block of its work.
    pub reached: Nanos,
    /// The work ends.
    pub ended: Nanos,
    /// Cylinder that it left, counted from the outermost.
    pub from: u64,
    /// Cylinder at which the work began.
    pub at: u64,
    /// Cylinder at which it ended.
    pub to: u64,
}
