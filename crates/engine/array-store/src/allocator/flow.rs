//! Limit and order of the items on their way to the drives: those that a power cut may tear.
//!
//! # Invariants
//! - AS-WINDOW-1: an item is launched only when the one that was launched [`Flow::most`] before it is settled, whatever
//!   set either goes to. Stamps are taken in the order of launches: so of all items that a recovery finds without proof
//!   that they are whole, only those with the newest stamps, as many as that, have to be verified. A trial of a slow
//!   drive, which says nothing, holds up nobody: nothing is lost with it, whatever of it is durable.
//! - AS-WINDOW-2: of all that is on its way to one drive, everything goes to one set, in the order in which it asked:
//!   with two, the drive would seek from one to the other and back with every command. Sets that share no drive do not
//!   wait for each other, and nothing waits for a trial.

use std::collections::BTreeMap;

use crate::types::{DriveSet, SetId};

/// Items between the oldest that is not settled and the newest, for each set that finds drives of its own.
const IN_FLIGHT_MAX: usize = 16;

/// Segments that are on their way to a drive at once: what they take of memory, and what one waits for who goes to
/// another set or deletes.
const SEGMENTS: usize = 4;

/// Items on their way, and those that are about to be.
pub(crate) struct Flow {
    most: usize,
    /// Numbers of those who ask, and of launches.
    asked: u64,
    launched: u64,
    waiting: BTreeMap<u64, Target>,
    /// By the numbers of their launches.
    unsettled: BTreeMap<u64, Target>,
}

/// Target of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) set: SetId,
    pub(crate) drives: DriveSet,
    /// It is a segment.
    pub(crate) segment: bool,
    /// It says nothing.
    pub(crate) trial: bool,
}

impl Flow {
    /// For as many sets side by side as have drives of their own.
    pub(crate) fn new(side_by_side: usize) -> Self {
        let most = IN_FLIGHT_MAX * side_by_side.max(1);
        Self { most, asked: 0, launched: 0, waiting: BTreeMap::new(), unsettled: BTreeMap::new() }
    }

    /// Items between the oldest that is not settled and the newest.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The stamp from which on items may be torn, of all that were found without proof. (AS-WINDOW-1)
    pub(crate) fn torn_from(&self, mut stamps: Vec<u64>) -> u64 {
        stamps.sort_unstable_by(|a, b| b.cmp(a));
        stamps.get(self.most - 1).copied().unwrap_or(0)
    }

    /// Asks for the place of an item, or goes on asking under that number: behind all that asked before, if for another
    /// set. The number to ask again with.
    pub(crate) fn ask(&mut self, number: Option<u64>, target: Target) -> u64 {
        if let Some(number) = number {
            if self.waiting.get(&number) == Some(&target) {
                return number;
            }
            self.waiting.remove(&number);
        }
        let number = self.asked;
        self.asked += 1;
        self.waiting.insert(number, target);
        number
    }

    /// Launches an item that asked, if it may go. The number of its launch; it has to go now.
    pub(crate) fn launch(&mut self, asked: u64) -> Option<u64> {
        let target = *self.waiting.get(&asked).filter(|target| self.may_go(asked, target))?;
        self.waiting.remove(&asked);
        let number = self.launched;
        self.launched += 1;
        self.unsettled.insert(number, target);
        Some(number)
    }

    /// One that asked waits no more.
    pub(crate) fn leave(&mut self, asked: u64) {
        self.waiting.remove(&asked);
    }

    /// An item that was launched is settled.
    pub(crate) fn settled(&mut self, launch: u64) {
        self.unsettled.remove(&launch);
    }

    fn may_go(&self, asked: u64, target: &Target) -> bool {
        let counting = || self.unsettled.iter().filter(|(_, target)| !target.trial);
        let oldest = counting().next().map_or(self.launched, |(number, _)| *number);
        let mut before = self.waiting.range(..asked).map(|(_, other)| other);
        let near = || counting().map(|(_, other)| other).filter(|other| other.drives.meets(&target.drives));
        self.launched - oldest < self.most as u64
            && !before.any(|other| other.drives.meets(&target.drives))
            && near().all(|other| other.set == target.set)
            && (!target.segment || near().filter(|other| other.segment).count() < SEGMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DriveId;

    /// To a set on drives 3 * `group` to 3 * `group` + 2.
    fn to(set: u32, group: u8) -> Target {
        let drives = (3 * group..3 * group + 3).map(DriveId).collect();
        Target { set: SetId(set), drives, segment: true, trial: false }
    }

    /// Asks once, and goes away if it may not go.
    fn once(flow: &mut Flow, target: Target) -> Option<u64> {
        let asked = flow.ask(None, target);
        let launch = flow.launch(asked);
        flow.leave(asked);
        launch
    }

    #[test]
    fn the_oldest_holds_up_those_behind_it() {
        let mut flow = Flow::new(1);
        let oldest = once(&mut flow, to(1, 0)).unwrap();
        // Younger items that are settled change nothing.
        for _ in 1..IN_FLIGHT_MAX {
            let launch = once(&mut flow, to(1, 0)).unwrap();
            flow.settled(launch);
        }
        assert!(once(&mut flow, to(1, 0)).is_none());
        flow.settled(oldest);
        let launches: Vec<u64> = (0..SEGMENTS).map(|_| once(&mut flow, to(1, 0)).unwrap()).collect();
        assert!(once(&mut flow, to(1, 0)).is_none());
        let deletion = Target { segment: false, ..to(1, 0) };
        assert!(once(&mut flow, deletion).is_some(), "deletions do not wait for segments to land");
        launches.into_iter().for_each(|launch| flow.settled(launch));
        assert!(once(&mut flow, to(1, 0)).is_some());
    }

    /// AS-WINDOW-1: a trial may take as long as it likes; those behind it are still as few as an opening verifies.
    #[test]
    fn a_trial_holds_up_nobody() {
        let mut flow = Flow::new(2);
        let trial = once(&mut flow, Target { segment: false, trial: true, ..to(1, 0) }).unwrap();
        // Another set of its drives may be open elsewhere, since drives were grouped otherwise.
        let beside = once(&mut flow, to(3, 0)).unwrap();
        flow.settled(beside);
        let oldest = once(&mut flow, to(2, 1)).unwrap();
        let again = once(&mut flow, Target { segment: false, trial: true, ..to(1, 0) }).unwrap();
        // Both count among those that were launched since the oldest.
        for _ in 2..2 * IN_FLIGHT_MAX {
            let launch = once(&mut flow, to(2, 1)).unwrap();
            flow.settled(launch);
        }
        assert!(once(&mut flow, to(2, 1)).is_none());
        flow.settled(oldest);
        for _ in 0..4 * IN_FLIGHT_MAX {
            let launch = once(&mut flow, to(2, 1)).unwrap();
            flow.settled(launch);
        }
        flow.settled(trial);
        flow.settled(again);
    }

    /// AS-WINDOW-2.
    #[test]
    fn drives_go_to_another_set_once_and_who_waits_for_that_is_next() {
        let mut flow = Flow::new(1);
        let launches = [once(&mut flow, to(1, 0)).unwrap(), once(&mut flow, to(1, 0)).unwrap()];
        let other = flow.ask(None, to(2, 0));
        assert!(flow.launch(other).is_none());
        assert!(once(&mut flow, to(1, 0)).is_none(), "it would come before the other");
        launches.into_iter().for_each(|launch| flow.settled(launch));
        assert!(flow.launch(other).is_some());
    }

    #[test]
    fn sets_on_other_drives_do_not_wait() {
        let mut flow = Flow::new(2);
        let launches: Vec<u64> = (0..SEGMENTS).map(|_| once(&mut flow, to(1, 0)).unwrap()).collect();
        let waiting = flow.ask(None, to(1, 0));
        assert!(flow.launch(waiting).is_none());
        assert!(once(&mut flow, to(2, 1)).is_some());
        // One that needs drives of both waits for both, and those behind it for it, until it goes away.
        let both = flow.ask(None, Target { drives: (0..6).map(DriveId).collect(), ..to(3, 0) });
        assert!(flow.launch(both).is_none());
        assert!(once(&mut flow, to(2, 1)).is_none());
        flow.leave(both);
        assert!(once(&mut flow, to(2, 1)).is_some());
        launches.into_iter().for_each(|launch| flow.settled(launch));
        assert!(flow.launch(waiting).is_some());
    }

    /// A writer that asks for another set than before is behind those that asked meanwhile.
    #[test]
    fn asking_for_another_set_is_asking_anew() {
        let mut flow = Flow::new(1);
        let first = flow.ask(None, to(1, 0));
        let second = flow.ask(None, to(2, 0));
        assert_eq!(flow.ask(Some(first), to(1, 0)), first);
        let again = flow.ask(Some(first), to(3, 0));
        assert!(again > second && flow.launch(again).is_none());
        assert!(flow.launch(second).is_some());
    }

    #[test]
    fn only_the_newest_may_be_torn() {
        let flow = Flow::new(2);
        assert_eq!(flow.torn_from(vec![3, 9, 5]), 0);
        assert_eq!(flow.torn_from((1..=100).rev().collect()), 100 - 2 * IN_FLIGHT_MAX as u64 + 1);
    }
}
