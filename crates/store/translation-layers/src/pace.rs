//! Pace of writers while a layer cleans: room is given out as it is won, so that many wait a little and nobody long. (FSTL, section
//! III-B.)

use shingle_translation::Control;

/// Room that writers get while a layer wins some, in steps.
pub(crate) struct Pace<'c> {
    control: &'c Control,
    room: u64,
    gain: u64,
    steps: u64,
    done: u64,
}

impl<'c> Pace<'c> {
    /// Writers get the `gain` blocks that are being won in `steps` equal parts, of the room that they have now.
    pub(crate) fn begin(control: &'c Control, steps: u64, gain: u64) -> Self {
        let pace = Self { control, room: control.room(), gain, steps: steps.max(1), done: 0 };
        pace.set();
        pace
    }

    /// A step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        self.set();
    }

    fn set(&self) {
        let given = self.gain * (self.done + 1).min(self.steps) / self.steps;
        self.control.low_water(self.room.saturating_sub(given));
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        self.control.low_water(0);
    }
}
