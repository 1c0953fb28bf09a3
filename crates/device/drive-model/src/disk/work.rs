//! Time of a command's work: seek, rotation, transfer, reading ahead.

use super::Disk;
use super::arm::Arm;
use super::entry::Entry;
use super::spindle::Rotation;
use crate::command::{Nanos, Op};
use crate::motion::Motion;

/// Rounding error of an angle: a block this close behind the head has not passed it.
const ANGLE_SLACK: Nanos = 2_000;

impl Disk {
    /// Nanoseconds until a write at `at` could begin, if it were submitted now and the arm had nothing else to do.
    pub(crate) fn reach(&self, now: Nanos, at: u64) -> Nanos {
        let position = self.surface.position(at);
        let (op, zone) = (Op::Write, at / self.zone_blocks);
        let entry =
            Entry { id: None, number: 0, op, cached: false, at, blocks: 1, opens: false, zone, arrived: now, position };
        let start = self.start(now, &entry).max(self.arm.free_at);
        let turn = self.spindle.at(start);
        self.turned(start + self.moving(&entry, |way| self.seek.nanos(way)), &entry, &turn) - now
    }

    /// When work on a command can begin: the drive prepares queued commands while the arm is busy, and a write that it streams too.
    pub(super) fn start(&self, now: Nanos, entry: &Entry) -> Nanos {
        if self.streams(entry) { now.max(entry.arrived) } else { now.max(entry.arrived + self.overhead) }
    }

    /// True if a write goes on where the last command ended, and waits for no turn on a drive without a write cache: the drive has
    /// taken it into a buffer that outlives a loss of power.
    fn streams(&self, entry: &Entry) -> bool {
        self.streams_writes && !self.write_cache && entry.op == Op::Write && entry.at == self.arm.next_block
    }

    /// Time for the arm to reach the track of a transfer's first block; `seek` gives the time for a distance.
    pub(super) fn moving(&self, entry: &Entry, seek: impl Fn(u64) -> Nanos) -> Nanos {
        let position = &entry.position;
        let way = position.cylinder.abs_diff(self.arm.cylinder);
        let moving = if entry.at == self.arm.next_block {
            0
        } else if way > 0 {
            seek(way)
        } else if position.head != self.arm.head {
            self.head_switch
        } else {
            0
        };
        if moving > 0 && entry.op == Op::Write { moving + self.write_settle } else { moving }
    }

    /// Time when a transfer's first block comes by the head, which is on its track from `arrived` on.
    pub(super) fn turned(&self, arrived: Nanos, entry: &Entry, turn: &Rotation) -> Nanos {
        let goes_on = entry.op == Op::Write && entry.at == self.arm.next_block && arrived <= self.arm.free_at;
        if self.verify > 0.0 && self.write_cache && goes_on {
            // The turns of verification include coming round to the next block; not if it came later.
            return arrived;
        }
        if self.streams(entry) {
            return arrived;
        }
        let revolution = self.spindle.revolution;
        let (angle, passed) = (entry.position.angle, turn.angle_at(arrived));
        let wait = if angle >= passed { angle - passed } else { angle + revolution - passed };
        if wait + ANGLE_SLACK >= revolution { arrived } else { self.spindle.after(arrived, wait) }
    }

    /// Does a command's work, and returns when it ends.
    pub(super) fn run(&mut self, now: Nanos, entry: &Entry) -> Nanos {
        let start = self.start(now, entry);
        if entry.op == Op::Read
            && let Some(until) = self.read_ahead_hit(start, entry)
        {
            return until;
        }
        self.stop_reading_ahead(start);
        if !entry.is_transfer() {
            self.arm.reading_from = None;
            self.arm.free_at = start
                + match entry.op {
                    Op::Open => self.open,
                    Op::Close => self.close,
                    Op::Reset => self.erase,
                    _ => 0,
                };
            return self.arm.free_at;
        }
        let start = if entry.opens { start + self.open } else { start };
        let turn = self.spindle.at(start);
        let reached = self.turned(start + self.moving(entry, |way| self.seek.nanos(way)), entry, &turn);
        let (nanos, tracks) = self.surface.transfer(&entry.position, entry.blocks);
        let verify = if entry.op == Op::Write { self.verify_time(entry, tracks) } else { 0 };
        let ended = self.spindle.after(reached, nanos + verify);
        // A streamed write is on its way to the medium while the drive still prepares its end.
        let ended = if self.streams(entry) { ended.max(entry.arrived + self.overhead) } else { ended };
        let last = if entry.blocks <= entry.position.left {
            entry.position
        } else {
            self.surface.position(entry.at + entry.blocks.saturating_sub(1))
        };
        if let Some(motions) = &mut self.motions {
            motions.push(Motion {
                left: start,
                reached,
                ended,
                from: self.arm.cylinder,
                at: entry.position.cylinder,
                to: last.cylinder,
            });
        }
        self.arm = Arm {
            cylinder: last.cylinder,
            head: last.head,
            free_at: ended,
            next_block: entry.at + entry.blocks,
            reading_from: (entry.op == Op::Read).then_some(entry.at),
        };
        self.arm.free_at
    }

    /// Turns for reading back, in nominal time. With a write cache the drive verifies whole tracks, once it leaves them; without one each
    /// written part of a track comes round once more before the write completes.
    fn verify_time(&self, entry: &Entry, tracks: u64) -> Nanos {
        if self.verify == 0.0 {
            0
        } else if self.write_cache {
            let turns = self.verify * entry.blocks as f64 / entry.position.track_blocks as f64;
            (turns * self.spindle.revolution as f64) as Nanos
        } else {
            tracks * self.spindle.revolution
        }
    }

    /// Blocks that the arm has read ahead by `time`.
    fn ahead(&self, time: Nanos) -> u64 {
        let arm = &self.arm;
        let track = self.surface.track_blocks(arm.next_block.min(self.surface.blocks().saturating_sub(1)));
        let turned = self.spindle.between(arm.free_at, time);
        let blocks = turned * track / (self.spindle.revolution + self.skew);
        arm.next_block + blocks.min(self.read_ahead)
    }

    /// A read of blocks that are being read ahead: it waits for the head to come to its end, and never for a turn.
    fn read_ahead_hit(&mut self, start: Nanos, entry: &Entry) -> Option<Nanos> {
        let from = self.arm.reading_from?;
        let ahead = self.ahead(start);
        let end = entry.at + entry.blocks;
        // Past the limit the head has stopped, and the next block comes by once a turn.
        let stopped = ahead == self.arm.next_block + self.read_ahead;
        if entry.at < from || entry.at > ahead || (end > ahead && stopped) || self.read_ahead == 0 {
            return None;
        }
        if end > ahead {
            let position = self.surface.position(self.arm.next_block);
            let (nanos, _) = self.surface.transfer(&position, end - self.arm.next_block);
            let last = self.surface.position(end - 1);
            (self.arm.cylinder, self.arm.head) = (last.cylinder, last.head);
            (self.arm.free_at, self.arm.next_block) = (self.spindle.after(self.arm.free_at, nanos).max(start), end);
            return Some(self.arm.free_at);
        }
        Some(start + entry.blocks * self.interface_ns_block)
    }

    /// The arm leaves; the blocks it read are kept.
    pub(super) fn stop_reading_ahead(&mut self, time: Nanos) {
        if let Some(from) = self.arm.reading_from.take() {
            let ahead = self.ahead(time);
            self.segments.keep(from..ahead);
        }
    }
}
