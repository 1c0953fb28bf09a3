//! Pace of writers while a layer cleans: room is given out as it is won, so that many wait a little and nobody long. (FSTL, section
//! III-B.)

use shingle_translation::Control;

/// Room that writers get while a layer wins some, in steps.
pub(crate) struct Pace<'c> {
    control: &'c Control,
    room: u64,
    steps: u64,
    done: u64,
}

impl<'c> Pace<'c> {
    /// Writers get the last zone of their room in `steps` equal parts: by the time it is used up, there is more.
    pub(crate) fn begin(control: &'c Control, steps: u64) -> Self {
        let room = control.room().min(control.shape().zone_blocks.into());
        let pace = Self { control, room, steps: steps.max(1), done: 0 };
        pace.set();
        pace
    }

    /// A step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        self.set();
    }

    fn set(&self) {
        let given = self.room * (self.done + 1).min(self.steps) / self.steps;
        self.control.low_water(self.room - given);
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        self.control.low_water(0);
    }
}
