//! The share of their room that writers get as copies go on. (FSTL, section III-B, "low-water mark")
//!
//! **Owns** the share. **Knows nothing of** what is copied, and of waiting.
//!
//! # Invariants
//! - TL-PACE-1: while copies make room, writers get a share of what room they have in proportion to these. So a writer that has to wait does so for the next step
//!   of copies, and no writers use up all of their room while copies go on. (`no_write_waits_long_while_a_volume_is_cleaned`)

/// Copies that make room, and what writers get meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Blocks that writers had written when they began.
    written: u64,
    /// Blocks that writers had then, and those of zones that became free since.
    room: u64,
    /// Blocks of a zone, and zones of room that are no plenty.
    zone_blocks: u64,
    zones: u64,
    /// Steps that are to be done, and that were: each sector is read and written.
    work: u64,
    done: u64,
    ended: bool,
}

impl Pace {
    /// Copies of so many sectors begin. Writers have written so many blocks, and have `room`, of which `zones` zones are no plenty.
    pub(crate) fn new(written: u64, room: u64, zone_blocks: u64, zones: u64, sectors: u64) -> Self {
        let work = sectors.saturating_mul(2).max(1);
        Self { written, room, zone_blocks, zones: zones.max(1), work, done: 0, ended: false }
    }

    /// Some sectors were read, or written.
    pub(crate) fn step(&mut self, sectors: u64) {
        self.done = self.work.min(self.done.saturating_add(sectors));
    }

    /// A zone became free.
    pub(crate) fn add_zone(&mut self) {
        self.room += self.zone_blocks;
    }

    /// The copies are over.
    pub(crate) fn end(&mut self) {
        (self.done, self.ended) = (self.work, true);
    }

    pub(crate) fn has_ended(self) -> bool {
        self.ended
    }

    /// Writers that have written so many blocks have to wait.
    pub(crate) fn holds(self, written: u64) -> bool {
        written.saturating_sub(self.written) >= self.given()
    }

    /// Blocks that writers get: all that is plenty; of what is scarce a sixteenth of a share at once, and half of it in the end. When the copies are over
    /// they get more, so that they can go on until zones are free.
    fn given(self) -> u64 {
        let scarce = self.room.min(self.zone_blocks.saturating_mul(self.zones));
        let share = scarce / self.zones;
        let [wide, work, done] = [share, self.work, self.done].map(u128::from);
        let part = (wide * (work + 7 * done) / (16 * work)) as u64;
        self.room - scarce + part + if self.ended { share / 4 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TL-PACE-1
    #[test]
    fn room_is_given_as_work_is_done() {
        // Two zones of 1,600 blocks and 300 more, of which the zones are scarce.
        let mut pace = Pace::new(5, 3500, 1600, 2, 50);
        let given = [0, 10, 40, 50, 7].map(|sectors| {
            pace.step(sectors);
            pace.given()
        });
        assert_eq!(given, [400, 470, 750, 1100, 1100]);
        pace.end();
        assert_eq!((pace.given(), pace.holds(5 + 1499), pace.holds(5 + 1500)), (1500, false, true));
        pace.add_zone();
        assert_eq!(pace.given(), 3100);
        // Little room gives small shares, and none at all none.
        assert_eq!(Pace::new(0, 320, 1600, 2, 50).given(), 10);
        assert!(Pace::new(u64::MAX, 0, 1, 0, 0).holds(0));
    }
}
