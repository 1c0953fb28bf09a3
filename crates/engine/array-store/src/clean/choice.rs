//! Choice of the next victim, of its cleaner, and of the sets that are left alone meanwhile.

use std::rc::Rc;

use futures_util::future::{Either, select};

use crate::append::open_set::{CUT_MIN, OpenSet, RESERVED};
use crate::clean::cleaners::{Cleaner, Cleaners};
use crate::clean::stuck::Conditions;
use crate::engine::Engine;
use crate::types::{DriveSet, SetId};
use crate::zone_set::ZoneSet;

impl Engine {
    /// Waits until that holds of the cleaners, or space changed. (AS-CLEAN-6)
    pub(crate) async fn wait_for_cleaners(&self, holds: impl Fn(&Cleaners) -> bool) {
        let mut space = Box::pin(self.space.notified());
        loop {
            let changed = Box::pin(self.cleaners.changed());
            if holds(&self.cleaners) {
                return;
            }
            if let Either::Left(_) = select(&mut space, changed).await {
                return;
            }
        }
    }

    /// Another cleaner, with what it empties on drives other than those: where that needs nothing of what is reserved.
    /// (AS-CLEAN-4)
    pub(crate) fn another_cleaner(self: &Rc<Self>, without: &DriveSet) -> Option<(Cleaner, SetId, Rc<ZoneSet>)> {
        if self.sets.free_without(without) <= RESERVED {
            return None;
        }
        let (id, set) = self.victim(without)?;
        let cleaner = self.cleaners.another()?;
        Some((cleaner, id, set))
    }

    /// The set to collect next, of those that nobody empties and that are on none of those drives: those that lost a
    /// member's write first, then as the policy says. Sets on drives on which nobody cleans come before others, unless
    /// they win far less: with two on the same drives neither is faster than one.
    pub(crate) fn victim(&self, without: &DriveSet) -> Option<(SetId, Rc<ZoneSet>)> {
        let now = self.stamps.last();
        let idle = |id| !self.cleaners.empty(id);
        let best = self.sets.victim(now, |drives| !drives.meets(without), idle)?;
        let busy = self.cleaners.drives();
        if !best.1.drives().meets(&busy) {
            return Some(best);
        }
        let apart = busy.with(without);
        let wins = |set: &ZoneSet| self.set_data(set).saturating_sub(set.live());
        let apart = self.sets.victim(now, |drives| !drives.meets(&apart), idle);
        let apart = apart.filter(|(_, set)| wins(set) >= wins(&best.1) / 4 * 3);
        Some(apart.unwrap_or(best))
    }

    /// The open set of a cleaner beside the first one that is not at work, the one with the most room, if that is worth it: nothing is
    /// won that it could take.
    pub(crate) fn idle_cleaners_set(&self) -> Option<OpenSet> {
        let room = |stream| self.allocator.look_at(stream, |open| self.data_left(open)).unwrap_or(0);
        let (room, stream) = self.cleaners.idle().into_iter().map(|stream| (room(stream), stream)).max()?;
        if room < u64::from(self.segment_length / CUT_MIN) {
            return None;
        }
        let open = self.allocator.take(stream)?;
        Some(OpenSet { packed: false, ..open })
    }

    fn conditions(&self) -> Conditions {
        Conditions::new(self.superblock.replaced(), &self.drives)
    }

    /// Leaves a set alone until it may have been mended. (AS-STUCK-1)
    pub(crate) fn pass_over(&self, id: SetId, set: &ZoneSet) {
        self.stuck.pass_over(id, set, self.rt.now(), self.conditions());
    }

    /// True if sets that were passed over may be tried again from now on. (AS-STUCK-1)
    pub(crate) fn retry_stuck(&self) -> bool {
        !self.stuck.is_empty() && self.stuck.retry(&self.sets, self.rt.now(), &self.conditions())
    }
}
