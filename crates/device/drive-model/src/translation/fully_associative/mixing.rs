//! Cleaning mixed with the host's work, on drives that do. (Section 3.4.3, Figure 3.13 d.)

use crate::translation::managed::Inside;

use super::layer::FullyAssociativeLayer;

impl FullyAssociativeLayer {
    /// Cleans one step in a zone that was written to, if the share of cleaning says so.
    pub(super) fn mix(&mut self, inside: &mut Inside, zone_at: usize) {
        let now = inside.now();
        if self.mixing.as_ref().is_some_and(|mixing| mixing.is_due(now)) {
            self.merge(inside, zone_at, true);
            let runs = self.zones[zone_at].merging.as_ref().is_some_and(|merge| merge.runs);
            if let Some(mixing) = self.mixing.as_mut().filter(|_| runs) {
                mixing.step = Some(now);
            }
        }
    }

    /// A step of cleaning ended: commands that were held go on.
    pub(super) fn mixed(&mut self, inside: &mut Inside) {
        let Some(mixing) = &mut self.mixing else { return };
        if let Some(began) = mixing.step.take() {
            mixing.cleaned += inside.now() - began;
        }
        for (id, command) in std::mem::take(&mut mixing.held) {
            self.host_command(inside, id, command);
        }
    }
}
