//! The arm and the spindle.

use crate::command::Nanos;

/// The arm, and its last work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) cylinder: u64,
    pub(super) head: u32,
    /// When its last work ended, or will.
    pub(super) free_at: Nanos,
    /// The block behind the last one it transferred.
    pub(super) next_block: u64,
    /// First block of the last read, which the drive may be reading ahead of; `None` after anything else.
    pub(super) reading_from: Option<u64>,
}

/// Angle of the platter at one time; the angle soon after follows without a division.
pub(super) struct Rotation {
    pub(super) at: Nanos,
    pub(super) angle: Nanos,
    pub(super) revolution: Nanos,
}

impl Rotation {
    pub(super) fn angle_at(&self, time: Nanos) -> Nanos {
        let angle = self.angle + (time - self.at);
        if angle >= 4 * self.revolution {
            return angle % self.revolution;
        }
        let angle = angle.min(angle.wrapping_sub(2 * self.revolution));
        angle.min(angle.wrapping_sub(self.revolution))
    }
}
