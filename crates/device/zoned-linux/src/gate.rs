//! Room for open and active zones at the drive.
//!
//! The state machine admits a command by the future effects of the commands before it; the drive counts their present
//! effects. A write that needs the place of a zone being finished must wait until it is. So a command that may take a
//! place waits here until the drive has one for it.
//!
//! **Owns** the waiting commands. **Knows nothing of** their way to the drive.
//!
//! # Invariants
//! - ZL-GT-1: the drive is never given a command for which it might have no place: open zones and zones with a command
//!   under way are at most the limit on open zones, active ones at most theirs. So it never has to close a zone by itself,
//!   which not all of them do when they should (null_blk does not while as many zones are active as may be).
//! - ZL-GT-2: if there are not enough places, commands get them in the order in which they started; so a command that the
//!   state machine admitted gets its place in the end, or is refused.
//! - ZL-GT-3: nobody waits for a place that no accepted command will free: a command that was to free one has failed.

use std::collections::{BTreeMap, BTreeSet};

use shingle_base::ZoneId;
use shingle_zoned::{Geometry, ZoneState};
use tokio::sync::oneshot;

#[derive(Clone, Copy, Default)]
struct Resources {
    active: bool,
    open: bool,
}

struct Ask {
    zone: ZoneId,
    waiting: Option<oneshot::Sender<Entry>>,
    refused: bool,
}

/// Answer to a waiting command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Go,
    /// The place that it was promised is not coming: the drive would refuse it.
    NoPlace,
}

/// The gate's answer to a command whose turn in its zone has come.
pub(crate) enum Room {
    Now(Entry),
    Later(oneshot::Receiver<Entry>),
}

/// The places of a drive.
pub(crate) struct Gate {
    open_max: u32,
    active_max: u32,
    resources: BTreeMap<ZoneId, Resources>,
    open: u32,
    active: u32,
    next: u64,
    asks: BTreeMap<u64, Ask>,
}

/// A command's reservation of a place.
#[derive(Clone, Copy)]
pub(crate) struct Reservation(u64);

impl Gate {
    /// The places of a drive whose zones are in these `states`. `None`: it has no limits.
    pub(crate) fn new(geometry: &Geometry, states: impl Iterator<Item = (ZoneId, ZoneState)>) -> Option<Self> {
        if geometry.open_zones_max.is_none() && geometry.active_zones_max.is_none() {
            return None;
        }
        let mut gate = Self {
            open_max: geometry.open_zones_max.unwrap_or(u32::MAX),
            active_max: geometry.active_zones_max.unwrap_or(u32::MAX),
            resources: BTreeMap::new(),
            open: 0,
            active: 0,
            next: 0,
            asks: BTreeMap::new(),
        };
        for (zone, state) in states {
            gate.put(zone, state);
        }
        Some(gate)
    }

    /// A command on `zone` has started that may take a place.
    pub(crate) fn ask(&mut self, zone: ZoneId) -> Reservation {
        let reservation = self.next;
        self.next += 1;
        self.asks.insert(reservation, Ask { zone, waiting: None, refused: false });
        Reservation(reservation)
    }

    /// The command's turn in its zone has come.
    pub(crate) fn enter(&mut self, Reservation(reservation): Reservation) -> Room {
        if self.asks.get(&reservation).is_some_and(|ask| ask.refused) {
            self.cancel(Reservation(reservation));
            return Room::Now(Entry::NoPlace);
        }
        if self.may_go(reservation) {
            self.go(reservation);
            return Room::Now(Entry::Go);
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(ask) = self.asks.get_mut(&reservation) {
            ask.waiting = Some(sender);
        }
        Room::Later(receiver)
    }

    /// A command failed that was to free a place. Refuses the last of those that now can get none (ZL-GT-3): `active`
    /// zones remain when all accepted commands are done, and `activates` tells if a zone is among them.
    pub(crate) fn refuse_excess(&mut self, mut active: u32, activates: impl Fn(ZoneId) -> bool) {
        let held =
            |resources: &BTreeMap<ZoneId, Resources>, zone| resources.get(&zone).is_some_and(|taken| taken.active);
        let hopeful = self.asks.iter().rev().filter(|(_, ask)| !ask.refused && !held(&self.resources, ask.zone));
        let mut zones: Vec<ZoneId> = Vec::new();
        for (_, ask) in hopeful {
            if !zones.contains(&ask.zone) {
                zones.push(ask.zone);
            }
        }
        for zone in zones {
            let own = u32::from(activates(zone));
            if active.saturating_sub(own) < self.active_max {
                continue;
            }
            active -= own;
            let reservations: Vec<u64> =
                self.asks.iter().filter(|(_, ask)| ask.zone == zone).map(|(&at, _)| at).collect();
            for reservation in reservations {
                let Some(ask) = self.asks.get_mut(&reservation) else { continue };
                ask.refused = true;
                if let Some(waiting) = ask.waiting.take() {
                    self.asks.remove(&reservation);
                    let _ = waiting.send(Entry::NoPlace);
                }
            }
        }
        self.admit();
    }

    /// The command will not go.
    pub(crate) fn cancel(&mut self, Reservation(reservation): Reservation) {
        self.asks.remove(&reservation);
        self.admit();
    }

    /// A command on `zone` is done, and left it in this state.
    pub(crate) fn leave(&mut self, zone: ZoneId, state: ZoneState) {
        self.put(zone, state);
        self.admit();
    }

    fn put(&mut self, zone: ZoneId, state: ZoneState) {
        let taken = Resources { active: state.is_active(), open: state.is_open() };
        let old = if taken.active { self.resources.insert(zone, taken) } else { self.resources.remove(&zone) };
        let old = old.unwrap_or_default();
        self.open = self.open + u32::from(taken.open) - u32::from(old.open);
        self.active = self.active + u32::from(taken.active) - u32::from(old.active);
    }

    fn may_go(&self, reservation: u64) -> bool {
        let Some(ask) = self.asks.get(&reservation) else { return true };
        let taken = self.resources.get(&ask.zone).copied().unwrap_or_default();
        // Zones that commands before this one may yet take a place for.
        let (mut opens, mut activates) = (BTreeSet::new(), BTreeSet::new());
        for (_, other) in self.asks.range(..reservation).filter(|(_, other)| other.zone != ask.zone) {
            let taken = self.resources.get(&other.zone).copied().unwrap_or_default();
            if !taken.open {
                opens.insert(other.zone);
            }
            if !taken.active {
                activates.insert(other.zone);
            }
        }
        let fits = |held: bool, taken: u32, earlier: usize, most: u32| {
            held || u64::from(taken) + (earlier as u64) < u64::from(most)
        };
        fits(taken.open, self.open, opens.len(), self.open_max)
            && fits(taken.active, self.active, activates.len(), self.active_max)
    }

    fn go(&mut self, reservation: u64) -> Option<oneshot::Sender<Entry>> {
        let ask = self.asks.remove(&reservation)?;
        // As good as open while its command is under way.
        self.put(ask.zone, ZoneState::ImplicitOpen);
        ask.waiting
    }

    /// Lets those go that may now.
    fn admit(&mut self) {
        let waiting: Vec<u64> =
            self.asks.iter().filter(|(_, ask)| ask.waiting.is_some()).map(|(&reservation, _)| reservation).collect();
        for reservation in waiting {
            if self.may_go(reservation)
                && let Some(sender) = self.go(reservation)
            {
                // Its task is gone only when the device is.
                let _ = sender.send(Entry::Go);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;

    use super::*;

    fn gate(open: u32, active: u32) -> Gate {
        let geometry = Geometry::zns(Blocks(4), Blocks(4), 10, open, active);
        Gate::new(&geometry, std::iter::empty()).unwrap()
    }

    fn came(room: &mut Room) -> bool {
        match room {
            Room::Now(entry) => *entry == Entry::Go,
            Room::Later(receiver) => receiver.try_recv() == Ok(Entry::Go),
        }
    }

    /// True if the command goes at once.
    fn goes(gate: &mut Gate, reservation: Reservation) -> bool {
        matches!(gate.enter(reservation), Room::Now(Entry::Go))
    }

    #[test]
    fn a_drive_without_limits_needs_none() {
        let geometry = Geometry { open_zones_max: None, ..Geometry::hm_smr(Blocks(4), 10, 0, 1) };
        assert!(Gate::new(&geometry, std::iter::empty()).is_none());
    }

    /// ZL-GT-1.
    #[test]
    fn a_write_waits_for_the_place_of_a_zone_being_finished() {
        let mut gate = gate(2, 2);
        for zone in [1, 2] {
            let reservation = gate.ask(ZoneId(zone));
            assert!(goes(&mut gate, reservation));
            gate.leave(ZoneId(zone), ZoneState::ImplicitOpen);
        }
        let finish = gate.ask(ZoneId(1));
        let write = gate.ask(ZoneId(3));
        assert!(goes(&mut gate, finish));
        let mut wait = gate.enter(write);
        assert!(!came(&mut wait));
        gate.leave(ZoneId(1), ZoneState::Full);
        assert!(came(&mut wait));
        assert_eq!((gate.open, gate.active), (2, 2));
    }

    #[test]
    fn a_later_command_does_not_take_the_place_of_an_earlier_one() {
        let mut gate = gate(1, 1);
        let first = gate.ask(ZoneId(1));
        assert!(goes(&mut gate, first));
        // Behind it in its zone: its turn has not come.
        let second = gate.ask(ZoneId(1));
        let other = gate.ask(ZoneId(2));
        let mut wait = gate.enter(other);
        gate.leave(ZoneId(1), ZoneState::Empty);
        assert!(!came(&mut wait), "ZL-GT-2");
        assert!(goes(&mut gate, second));
        gate.leave(ZoneId(1), ZoneState::Full);
        assert!(came(&mut wait));
    }

    #[test]
    fn many_commands_behind_each_other_in_a_zone_take_one_place() {
        let mut gate = gate(2, 3);
        let first = gate.ask(ZoneId(1));
        assert!(goes(&mut gate, first));
        let behind: Vec<Reservation> = (0..10).map(|_| gate.ask(ZoneId(1))).collect();
        let other = gate.ask(ZoneId(2));
        assert!(goes(&mut gate, other));
        for reservation in behind {
            gate.cancel(reservation);
        }
        let third = gate.ask(ZoneId(3));
        let mut wait = gate.enter(third);
        assert!(!came(&mut wait), "two zones are busy");
        gate.leave(ZoneId(2), ZoneState::ImplicitOpen);
        assert!(!came(&mut wait), "two zones are open");
        gate.leave(ZoneId(2), ZoneState::Closed);
        assert!(came(&mut wait));
        assert_eq!((gate.open, gate.active), (2, 3));
    }

    #[test]
    fn who_was_promised_a_place_that_is_not_freed_hears_it_the_last_first() {
        let mut gate = gate(2, 2);
        for zone in [1, 2] {
            let reservation = gate.ask(ZoneId(zone));
            assert!(goes(&mut gate, reservation));
            gate.leave(ZoneId(zone), ZoneState::ImplicitOpen);
        }
        // Both are being finished; then one of these fails.
        let finishes = [gate.ask(ZoneId(1)), gate.ask(ZoneId(2))];
        let writes = [3, 4, 4].map(|zone| gate.ask(ZoneId(zone)));
        assert!(finishes.into_iter().all(|reservation| goes(&mut gate, reservation)));
        let [mut first, mut second] = [writes[0], writes[1]].map(|reservation| gate.enter(reservation));
        gate.leave(ZoneId(1), ZoneState::Closed);
        gate.refuse_excess(3, |zone| [1, 3, 4].contains(&zone.0));
        let Room::Later(told) = &mut second else { panic!("there was no place at first") };
        assert_eq!(told.try_recv(), Ok(Entry::NoPlace), "ZL-GT-3");
        assert!(matches!(gate.enter(writes[2]), Room::Now(Entry::NoPlace)), "nor those behind it");
        assert!(!came(&mut first));
        gate.leave(ZoneId(2), ZoneState::Full);
        assert!(came(&mut first));
        assert!(gate.asks.is_empty());
    }
}
