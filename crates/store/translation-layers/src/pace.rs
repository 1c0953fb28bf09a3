//! Pace of writers while a layer cleans. (FSTL, section III-B.)

use shingle_translation::Control;

/// Writers get room as copies go on, until it is dropped.
pub(crate) struct Pace<'c>(&'c Control);

impl<'c> Pace<'c> {
    /// Copies of so many sectors begin.
    pub(crate) fn begin(control: &'c Control, sectors: u64) -> Self {
        control.pace(sectors.max(1));
        Self(control)
    }
}

impl Drop for Pace<'_> {
    fn drop(&mut self) {
        self.0.pace(0);
    }
}
