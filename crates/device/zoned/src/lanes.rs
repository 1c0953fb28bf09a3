//! The order of commands within a zone.
//!
//! A drive's commands take effect in the order they start, yet the host runs them in any order. So the commands of a
//! zone form a lane: one write at a time, resets alone, reads beside each other and beside writes to other blocks.
//! Zones do not wait for each other.
//!
//! Devices whose commands leave this machine's hands use it: the file device and kernel devices.
//!
//! **Owns** the order in which commands may go. **Knows nothing of** files, drives or the commands' work.
//!
//! # Invariants
//! - ZD-LN-1: a lane exists only while a command of its zone is under way; without one, all of the zone is settled.
//! - ZD-LN-2: a write that was accepted behind a failed write, with no reset between them, does not go ahead.

use std::collections::{BTreeMap, VecDeque};

use shingle_base::{Blocks, ZoneId};
use tokio::sync::oneshot;

use crate::zone::{ZoneInfo, ZoneState};

/// Way in which a command shares its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A read of blocks that were settled when it started.
    Read,
    /// A read of blocks that a write under way may change: goes behind all before it.
    LateRead,
    /// A write, or a change of state.
    Write,
    /// A reset.
    Alone,
}

/// State of a zone that is certain: the effects of completed commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The zone's state.
    pub state: ZoneState,
    /// Blocks written from its start.
    pub written: u32,
}

impl Settled {
    /// State of a zone that does not exist: its commands are refused before this is used.
    pub const NOTHING: Self = Self { state: ZoneState::Offline, written: 0 };
}

impl From<ZoneInfo> for Settled {
    fn from(info: ZoneInfo) -> Self {
        Self { state: info.state, written: info.written.0 as u32 }
    }
}

/// A command's place in its lane.
pub struct LanePlace {
    /// Comes when the command may go; `None`: at once.
    pub go: Option<oneshot::Receiver<()>>,
    /// Rises with every reset and every failed write.
    pub epoch: u32,
}

struct Lane {
    settled: Settled,
    reads: u32,
    writing: bool,
    alone: bool,
    /// Writes and resets, under way or waiting.
    changes: u32,
    epoch: u32,
    failed: Option<u32>,
    waiting: VecDeque<(Kind, oneshot::Sender<()>)>,
}

/// The lanes of a drive.
#[derive(Default)]
pub struct Lanes(BTreeMap<ZoneId, Lane>);

impl Lanes {
    /// True if no command of `zone` is under way.
    pub fn idle(&self, zone: ZoneId) -> bool {
        !self.0.contains_key(&zone)
    }

    /// Certain state of `zone`; `None`: no command is under way, so its present state is certain.
    pub fn settled(&self, zone: ZoneId) -> Option<Settled> {
        self.0.get(&zone).map(|lane| lane.settled)
    }

    /// True if a write or reset of `zone` is under way or waiting.
    pub fn changing(&self, zone: ZoneId) -> bool {
        self.0.get(&zone).is_some_and(|lane| lane.changes > 0)
    }

    /// True if a reset of `zone` is under way or waiting.
    pub fn resetting(&self, zone: ZoneId) -> bool {
        self.0.get(&zone).is_some_and(|lane| lane.alone || lane.waiting.iter().any(|(kind, _)| *kind == Kind::Alone))
    }

    /// Way in which a read up to block `end` of `zone` shares it.
    pub fn read_kind(&self, zone: ZoneId, end: Blocks, conventional: bool) -> Kind {
        let unsettled = |settled: Settled| end.0 > u64::from(settled.written);
        let late =
            self.resetting(zone) || self.changing(zone) && (conventional || self.settled(zone).is_some_and(unsettled));
        if late { Kind::LateRead } else { Kind::Read }
    }

    /// Puts a command in its lane. `before` is the state of the zone before this command.
    pub fn enter(&mut self, zone: ZoneId, kind: Kind, before: Settled) -> LanePlace {
        let lane = self.0.entry(zone).or_insert_with(|| Lane {
            settled: before,
            reads: 0,
            writing: false,
            alone: false,
            changes: 0,
            epoch: 0,
            failed: None,
            waiting: VecDeque::new(),
        });
        if kind == Kind::Alone {
            lane.epoch += 1;
        }
        lane.changes += u32::from(matches!(kind, Kind::Write | Kind::Alone));
        let overtakes = kind == Kind::Read && !lane.waiting.iter().any(|(other, _)| *other == Kind::Alone);
        if (lane.waiting.is_empty() || overtakes) && lane.may_go(kind) {
            lane.start(kind);
            return LanePlace { go: None, epoch: lane.epoch };
        }
        let (sender, receiver) = oneshot::channel();
        lane.waiting.push_back((kind, sender));
        LanePlace { go: Some(receiver), epoch: lane.epoch }
    }

    /// Ends a command that was under way, and lets those behind it go.
    pub fn leave(&mut self, zone: ZoneId, kind: Kind) {
        let Some(lane) = self.0.get_mut(&zone) else { return };
        lane.stop(kind);
        while let Some((next, _)) = lane.waiting.front()
            && lane.may_go(*next)
            && let Some((next, sender)) = lane.waiting.pop_front()
        {
            lane.start(next);
            if sender.send(()).is_err() {
                lane.stop(next);
            }
        }
        if lane.reads == 0 && !lane.writing && !lane.alone && lane.waiting.is_empty() {
            self.0.remove(&zone);
        }
    }

    /// Notes the certain state of `zone`.
    pub fn settle(&mut self, zone: ZoneId, settled: Settled) {
        if let Some(lane) = self.0.get_mut(&zone) {
            lane.settled = settled;
        }
    }

    /// A command failed. Those behind it in its epoch are to fail too; returns true if it is the current epoch, so that
    /// the zone stays as it is settled.
    pub fn fail(&mut self, zone: ZoneId, epoch: u32) -> bool {
        let Some(lane) = self.0.get_mut(&zone) else { return false };
        lane.failed = Some(epoch);
        let current = lane.epoch == epoch;
        lane.epoch += u32::from(current);
        current
    }

    /// True if a command of `epoch` is to fail because one before it did (ZD-LN-2).
    pub fn failed(&self, zone: ZoneId, epoch: u32) -> bool {
        self.0.get(&zone).is_some_and(|lane| lane.failed == Some(epoch))
    }
}

impl Lane {
    fn may_go(&self, kind: Kind) -> bool {
        match kind {
            Kind::Read => !self.alone,
            Kind::LateRead | Kind::Write => !self.alone && !self.writing,
            Kind::Alone => !self.alone && !self.writing && self.reads == 0,
        }
    }

    fn start(&mut self, kind: Kind) {
        match kind {
            Kind::Read | Kind::LateRead => self.reads += 1,
            Kind::Write => self.writing = true,
            Kind::Alone => self.alone = true,
        }
    }

    fn stop(&mut self, kind: Kind) {
        match kind {
            Kind::Read | Kind::LateRead => self.reads -= 1,
            Kind::Write => self.writing = false,
            Kind::Alone => self.alone = false,
        }
        self.changes -= u32::from(matches!(kind, Kind::Write | Kind::Alone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: ZoneId = ZoneId(1);
    const BEFORE: Settled = Settled { state: ZoneState::Closed, written: 4 };

    fn goes(place: &mut LanePlace) -> bool {
        place.go.as_mut().is_none_or(|go| go.try_recv().is_ok())
    }

    /// ZD-LN-1.
    #[test]
    fn one_write_goes_at_a_time_and_reads_beside_it() {
        let mut lanes = Lanes::default();
        let enter = |lanes: &mut Lanes, kind| lanes.enter(ZONE, kind, BEFORE);
        let [mut first, mut second] = [enter(&mut lanes, Kind::Write), enter(&mut lanes, Kind::Write)];
        let [mut read, mut late] = [enter(&mut lanes, Kind::Read), enter(&mut lanes, Kind::LateRead)];
        assert!(goes(&mut first) && goes(&mut read) && !goes(&mut second) && !goes(&mut late));
        lanes.leave(ZONE, Kind::Write);
        assert!(goes(&mut second) && !goes(&mut late));
        lanes.leave(ZONE, Kind::Write);
        assert!(goes(&mut late));
        lanes.leave(ZONE, Kind::Read);
        lanes.leave(ZONE, Kind::LateRead);
        assert!(lanes.idle(ZONE));
    }

    #[test]
    fn a_reset_goes_alone_and_nothing_overtakes_it() {
        let mut lanes = Lanes::default();
        let enter = |lanes: &mut Lanes, kind| lanes.enter(ZONE, kind, BEFORE);
        assert!(goes(&mut enter(&mut lanes, Kind::Read)));
        let mut reset = enter(&mut lanes, Kind::Alone);
        let mut behind = [enter(&mut lanes, Kind::Read), enter(&mut lanes, Kind::Write)];
        assert!(!goes(&mut reset) && !behind.iter_mut().any(goes));
        lanes.leave(ZONE, Kind::Read);
        assert!(goes(&mut reset) && !behind.iter_mut().any(goes));
        lanes.leave(ZONE, Kind::Alone);
        assert!(behind.iter_mut().all(goes));
    }

    /// ZD-LN-2.
    #[test]
    fn what_waits_behind_a_failed_write_fails_unless_a_reset_is_between() {
        let mut lanes = Lanes::default();
        let first = lanes.enter(ZONE, Kind::Write, BEFORE);
        let second = lanes.enter(ZONE, Kind::Write, BEFORE);
        let reset = lanes.enter(ZONE, Kind::Alone, BEFORE);
        let third = lanes.enter(ZONE, Kind::Write, BEFORE);
        assert!(!lanes.fail(ZONE, first.epoch), "the reset has the last word");
        let failed = [second, reset, third].map(|place| lanes.failed(ZONE, place.epoch));
        assert_eq!(failed, [true, false, false]);
        let mut lanes = Lanes::default();
        let first = lanes.enter(ZONE, Kind::Write, BEFORE);
        assert!(lanes.fail(ZONE, first.epoch));
        let later = lanes.enter(ZONE, Kind::Write, BEFORE);
        assert!(!lanes.failed(ZONE, later.epoch), "started after the failure");
    }
}
