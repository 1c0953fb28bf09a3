//! Cleaning mixed with the host's work, on drives that do. (Section 3.4.3, Figure 3.13 d.)

use std::collections::VecDeque;

use crate::command::{Command, CommandId, Nanos};
use crate::translation::managed::Inside;

use super::layer::FullyAssociativeLayer;

/// Cleaning that takes its share of the time while the host is at work.
#[derive(Clone, Debug)]
pub(super) struct Mixing {
    pub(super) share: f64,
    /// Begin of the host's work, and time of cleaning since then.
    pub(super) from: Nanos,
    pub(super) cleaned: Nanos,
    /// Begin of the step that is under way; commands of the host wait for its end.
    pub(super) step: Option<Nanos>,
    pub(super) held: VecDeque<(CommandId, Command)>,
}

impl Mixing {
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.step.is_none() && (self.cleaned as f64) < self.share * now.saturating_sub(self.from) as f64
    }
}

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
