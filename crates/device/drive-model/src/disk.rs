//! A disk: one arm, one spindle, and the queue that decides where the arm goes next.
//!
//! # Invariants
//! - DM-DISK-1: writes to one zone of a shingled disk go to the medium in the order of their arrival.
//! - DM-DISK-2: no command waits longer than the starvation bound plus the commands that were as old.

use std::collections::VecDeque;
use std::ops::Range;

use crate::cache::Segments;
use crate::command::{Command, CommandId, Nanos, Op};
use crate::profile::{Kind, Profile};
use crate::seek::{SeekBounds, SeekCurve};
use crate::surface::{Position, Surface, SurfaceSpec};

const BLOCK_BYTES: f64 = 4096.0;

/// Rounding error of an angle: a block this close behind the head has not passed it.
const ANGLE_SLACK: Nanos = 2_000;

/// Cached writes among which the next to destage is chosen.
const DESTAGE_WINDOW: usize = 64;

/// The longest run of cached writes that is destaged as one.
const DESTAGE_BLOCKS_MAX: u64 = 256;

/// A command in the drive.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// `None` for a cached write, which has completed for the host.
    id: Option<CommandId>,
    number: u64,
    op: Op,
    /// Physical.
    at: u64,
    blocks: u64,
    opens: bool,
    zone: u64,
    arrived: Nanos,
    position: Position,
}

impl Entry {
    fn range(&self) -> Range<u64> {
        self.at..self.at + self.blocks
    }

    fn is_transfer(&self) -> bool {
        matches!(self.op, Op::Read | Op::Write)
    }
}

/// The arm, and its last work.
#[derive(Clone, Copy, Debug)]
struct Arm {
    cylinder: u64,
    head: u32,
    /// When its last work ended, or will.
    free_at: Nanos,
    /// The block behind the last one it transferred.
    next_block: u64,
    /// First block of the last read, which the drive may be reading ahead of; `None` after anything else.
    reading_from: Option<u64>,
}

/// Angle of the platter at one time; the angle soon after follows without a division.
struct Rotation {
    at: Nanos,
    angle: Nanos,
    revolution: Nanos,
}

impl Rotation {
    fn angle_at(&self, time: Nanos) -> Nanos {
        let angle = self.angle + (time - self.at);
        if angle >= 4 * self.revolution {
            return angle % self.revolution;
        }
        let angle = angle.min(angle.wrapping_sub(2 * self.revolution));
        angle.min(angle.wrapping_sub(self.revolution))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    surface: Surface,
    seek: SeekCurve,
    seek_bounds: SeekBounds,
    shingled: bool,
    revolution: Nanos,
    skew: Nanos,
    write_settle: Nanos,
    head_switch: Nanos,
    verify: f64,
    overhead: Nanos,
    starvation: Nanos,
    interface_ns_block: Nanos,
    depth: usize,
    zone_blocks: u64,
    every: u64,
    open: Nanos,
    close: Nanos,
    erase: Nanos,
    read_ahead: u64,
    write_cache: bool,
    cache_blocks: u64,

    arm: Arm,
    segments: Segments,
    /// In the drive, in order of arrival.
    queue: VecDeque<Entry>,
    /// Still in the host.
    backlog: VecDeque<Entry>,
    /// The arm's present work, and its end.
    running: Option<(Nanos, Entry)>,
    /// Completions that need no arm, by time.
    ready: VecDeque<(Nanos, CommandId)>,
    /// Cached writes, in order of arrival, and their blocks.
    dirty: VecDeque<Entry>,
    dirty_blocks: u64,
    /// Writes that wait for room in the cache.
    waiting: VecDeque<Entry>,
    /// Flushes that wait for cached writes with lower numbers.
    flushes: Vec<(CommandId, u64)>,
    number: u64,
}

fn ms(value: f64) -> Nanos {
    (value * 1e6) as Nanos
}

impl Disk {
    /// # Panics
    /// If the profile is not one of a disk, which [`Profile::parse`] checks.
    pub(crate) fn new(profile: &Profile, every: u32) -> Self {
        let (Some(mechanics), Some(recording)) = (&profile.mechanics, &profile.recording) else {
            panic!("profile `{}` has no mechanics", profile.name);
        };
        let revolution = 60_000_000_000 / Nanos::from(mechanics.rpm);
        let skew = ms(recording.skew_ms);
        let zone_blocks = u64::from(profile.shape.zone_mib) * 256;
        let track = |mb_s: f64| mb_s * (revolution + skew) as f64 / 1e3 / BLOCK_BYTES;
        // A band's rate is that of its middle: the outermost band is to have the outer rate.
        let bands = f64::from(recording.bands.max(2));
        let half_band = (recording.outer_mb_s - recording.inner_mb_s) / (bands - 1.0) / 2.0;
        let surface = Surface::new(&SurfaceSpec {
            blocks: zone_blocks * u64::from(profile.shape.zones),
            heads: mechanics.heads,
            revolution,
            skew,
            outer_track: track(recording.outer_mb_s + half_band),
            inner_track: track(recording.inner_mb_s - half_band).max(1.0),
            bands: recording.bands,
            run_blocks: u64::from(recording.run_mib) * 256,
            serpentine: profile.kind == Kind::Cmr,
        });
        let seek = SeekCurve::new(mechanics.settle_ms, mechanics.average_seek_ms, mechanics.full_seek_ms)
            .over(surface.cylinders());
        Self {
            seek_bounds: seek.bounds(surface.cylinders()),
            seek,
            shingled: profile.kind == Kind::HmSmr,
            revolution,
            skew,
            write_settle: ms(mechanics.write_settle_ms),
            head_switch: ms(mechanics.head_switch_ms),
            verify: recording.verify_revolutions,
            overhead: (profile.queue.overhead_us * 1e3) as Nanos,
            starvation: ms(profile.queue.starvation_ms),
            interface_ns_block: (BLOCK_BYTES * 1e3 / profile.queue.interface_mb_s) as Nanos,
            depth: profile.queue.depth as usize,
            zone_blocks,
            every: u64::from(every.max(1)),
            open: ms(profile.zones.open_ms),
            close: ms(profile.zones.close_ms),
            erase: ms(profile.zones.erase_ms),
            read_ahead: u64::from(profile.cache.read_ahead_mib) * 256,
            write_cache: profile.cache.write_cache,
            cache_blocks: u64::from(profile.cache.write_cache_mib) * 256,
            arm: Arm { cylinder: 0, head: 0, free_at: 0, next_block: u64::MAX, reading_from: None },
            segments: Segments::new(profile.cache.read_segments),
            queue: VecDeque::new(),
            backlog: VecDeque::new(),
            running: None,
            ready: VecDeque::new(),
            dirty: VecDeque::new(),
            dirty_blocks: 0,
            waiting: VecDeque::new(),
            flushes: Vec::new(),
            number: 0,
            surface,
        }
    }

    pub(crate) fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        let zone = command.at / self.zone_blocks;
        let at = zone * self.every * self.zone_blocks + command.at % self.zone_blocks;
        let at = at.min(self.surface.blocks().saturating_sub(1));
        let position = self.surface.position(at);
        let (op, blocks, number) = (command.op, command.blocks, self.number);
        self.number += 1;
        let entry = Entry { id: Some(id), number, op, at, blocks, opens: command.opens, zone, arrived: now, position };
        match op {
            Op::Report => self.complete_at(now + self.overhead + blocks * self.interface_ns_block, id),
            Op::Flush if self.is_clean(number) => self.complete_at(now + self.overhead, id),
            Op::Flush => self.flushes.push((id, number)),
            Op::Read if self.is_buffered(&entry) => {
                self.complete_at(now + self.overhead + blocks * self.interface_ns_block, id);
            }
            Op::Write if self.write_cache => {
                self.segments.forget(&entry.range());
                self.waiting.push_back(entry);
                self.admit_writes(now);
            }
            _ => {
                if op == Op::Write {
                    self.segments.forget(&entry.range());
                }
                if self.queue.len() + usize::from(self.running.is_some()) < self.depth {
                    self.queue.push_back(entry);
                } else {
                    self.backlog.push_back(entry);
                }
            }
        }
        if self.running.is_none() {
            self.start_next(now);
        }
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let running = self.running.as_ref().map(|&(until, _)| until);
        let ready = self.ready.front().map(|&(at, _)| at);
        running.into_iter().chain(ready).min()
    }

    pub(crate) fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        loop {
            let running = self.running.as_ref().map_or(Nanos::MAX, |&(until, _)| until);
            let ready = self.ready.front().map_or(Nanos::MAX, |&(at, _)| at);
            if running.min(ready) > now {
                return;
            }
            if ready <= running {
                done.extend(self.ready.pop_front().map(|(_, id)| id));
            } else if let Some((until, entry)) = self.running.take() {
                self.finished(until, &entry, done);
            }
        }
    }

    fn finished(&mut self, until: Nanos, entry: &Entry, done: &mut Vec<CommandId>) {
        match entry.id {
            Some(id) => done.push(id),
            None => {
                self.dirty_blocks -= entry.blocks;
                self.admit_writes(until);
                let flushed: Vec<CommandId> =
                    self.flushes.iter().filter(|flush| self.is_clean(flush.1)).map(|flush| flush.0).collect();
                self.flushes.retain(|flush| !flushed.contains(&flush.0));
                done.extend(flushed);
            }
        }
        if let Some(next) = self.backlog.pop_front() {
            self.queue.push_back(next);
        }
        self.start_next(until);
    }

    /// Lets `id` complete without the arm.
    fn complete_at(&mut self, at: Nanos, id: CommandId) {
        let place = self.ready.partition_point(|&(other, _)| other <= at);
        self.ready.insert(place, (at, id));
    }

    /// True if no write with a number below `number` is only in the cache.
    fn is_clean(&self, number: u64) -> bool {
        let before = |entry: &Entry| entry.op == Op::Write && entry.number < number;
        // A write that has a waiting caller is not cached: a flush does not make it durable sooner.
        let running = self.running.as_ref().is_some_and(|(_, entry)| entry.id.is_none() && before(entry));
        !(running || self.dirty.iter().chain(&self.waiting).any(before))
    }

    /// Moves waiting writes into the cache, as far as there is room.
    fn admit_writes(&mut self, now: Nanos) {
        while let Some(entry) = self.waiting.front().copied()
            && (self.dirty_blocks == 0 || self.dirty_blocks + entry.blocks <= self.cache_blocks)
        {
            self.waiting.pop_front();
            if let Some(id) = entry.id {
                self.complete_at(now + self.overhead + entry.blocks * self.interface_ns_block, id);
            }
            self.dirty_blocks += entry.blocks;
            match self.dirty.back_mut() {
                Some(last)
                    if last.at + last.blocks == entry.at
                        && last.zone == entry.zone
                        && last.blocks + entry.blocks <= DESTAGE_BLOCKS_MAX
                        && self.flushes.is_empty() =>
                {
                    last.blocks += entry.blocks;
                }
                _ => self.dirty.push_back(Entry { id: None, ..entry }),
            }
        }
    }

    /// True if a read finds all its blocks in the drive's memory.
    fn is_buffered(&self, entry: &Entry) -> bool {
        let range = entry.range();
        let cached = |write: &Entry| write.at <= range.start && range.end <= write.at + write.blocks;
        self.segments.holds(&range) || self.dirty.iter().any(cached)
    }

    /// Chooses the next command and sends the arm. `now` is the time when the arm became free, or a command arrived.
    fn start_next(&mut self, now: Nanos) {
        let flushing = !self.flushes.is_empty() || !self.waiting.is_empty();
        let destage = self.queue.is_empty() || flushing || self.dirty_blocks * 2 > self.cache_blocks;
        let chosen = self.choose(now, self.queue.iter());
        let window = self.dirty.iter().take(DESTAGE_WINDOW);
        let cached = if destage { self.choose(now, window) } else { None };
        let taken = match (chosen, cached) {
            (Some((_, ours)), Some((at, theirs))) if flushing || theirs < ours => self.dirty.remove(at),
            (Some((at, _)), _) => self.queue.remove(at),
            (None, Some((at, _))) => self.dirty.remove(at),
            (None, None) => None,
        };
        let Some(entry) = taken else { return };
        let until = self.run(now, &entry);
        self.running = Some((until, entry));
    }

    /// The entry that the arm reaches soonest, and the time it takes; a starving one before all others. Entries come in
    /// order of arrival; of a shingled zone's writes only the first can be chosen (DM-DISK-1).
    ///
    /// This decides the speed of the model. So a lower bound is computed first for each entry, which takes neither a
    /// root nor a division, and rules most of them out.
    fn choose<'a>(&self, now: Nanos, entries: impl Iterator<Item = &'a Entry>) -> Option<(usize, Nanos)> {
        let turn = Rotation { at: now, angle: now % self.revolution, revolution: self.revolution };
        let (mut zones, mut zone_count) = ([0; DESTAGE_WINDOW], 0);
        // `least` is the time of the best, or more than any time.
        let (mut best, mut least) = (None, Nanos::MAX);
        for (at, entry) in entries.enumerate() {
            if self.shingled && entry.op == Op::Write {
                if zones[..zone_count].contains(&entry.zone) {
                    continue;
                }
                if zone_count < zones.len() {
                    zones[zone_count] = entry.zone;
                    zone_count += 1;
                }
            }
            if best.is_none() && now.saturating_sub(entry.arrived) > self.starvation {
                return Some((at, 0));
            }
            let start = self.start(now, entry);
            let reached = if !entry.is_transfer() {
                start
            } else if entry.at == self.arm.next_block && now == self.arm.free_at {
                // A stream goes on, even where another block comes by a moment sooner.
                (best, least) = (Some(at), now);
                continue;
            } else {
                let moved = start + self.moving(entry, |way| self.seek_bounds.least(way));
                // Later arrival on the track is never followed by earlier arrival of the block.
                if moved >= least || self.turned(moved, entry, &turn) >= least {
                    continue;
                }
                self.turned(start + self.moving(entry, |way| self.seek.nanos(way)), entry, &turn)
            };
            if reached < least {
                (best, least) = (Some(at), reached);
            }
        }
        best.map(|at| (at, least - now))
    }

    /// When work on a command can begin: the drive prepares queued commands while the arm is busy.
    fn start(&self, now: Nanos, entry: &Entry) -> Nanos {
        now.max(entry.arrived + self.overhead)
    }

    /// Time for the arm to reach the track of a transfer's first block; `seek` gives the time for a distance.
    fn moving(&self, entry: &Entry, seek: impl Fn(u64) -> Nanos) -> Nanos {
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
    fn turned(&self, arrived: Nanos, entry: &Entry, turn: &Rotation) -> Nanos {
        if self.verify > 0.0 && self.write_cache && entry.op == Op::Write && entry.at == self.arm.next_block {
            // The turns of verification include coming round to the next block.
            return arrived;
        }
        let (angle, passed) = (entry.position.angle, turn.angle_at(arrived));
        let wait = if angle >= passed { angle - passed } else { angle + self.revolution - passed };
        if wait + ANGLE_SLACK >= self.revolution { arrived } else { arrived + wait }
    }

    /// Does a command's work, and returns when it ends.
    fn run(&mut self, now: Nanos, entry: &Entry) -> Nanos {
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
        let turn = Rotation { at: start, angle: start % self.revolution, revolution: self.revolution };
        let reached = self.turned(start + self.moving(entry, |way| self.seek.nanos(way)), entry, &turn);
        let (nanos, tracks) = self.surface.transfer(&entry.position, entry.blocks);
        let verify = if entry.op == Op::Write { self.verify_time(entry, tracks) } else { 0 };
        let last = if entry.blocks <= entry.position.left {
            entry.position
        } else {
            self.surface.position(entry.at + entry.blocks.saturating_sub(1))
        };
        self.arm = Arm {
            cylinder: last.cylinder,
            head: last.head,
            free_at: reached + nanos + verify,
            next_block: entry.at + entry.blocks,
            reading_from: (entry.op == Op::Read).then_some(entry.at),
        };
        self.arm.free_at
    }

    /// Time for reading back. With a write cache the drive verifies whole tracks, once it leaves them; without one each
    /// written part of a track comes round once more before the write completes.
    fn verify_time(&self, entry: &Entry, tracks: u64) -> Nanos {
        if self.verify == 0.0 {
            0
        } else if self.write_cache {
            let turns = self.verify * entry.blocks as f64 / entry.position.track_blocks as f64;
            (turns * self.revolution as f64) as Nanos
        } else {
            tracks * self.revolution
        }
    }

    /// Blocks that the arm has read ahead by `time`.
    fn ahead(&self, time: Nanos) -> u64 {
        let arm = &self.arm;
        let track = self.surface.track_blocks(arm.next_block.min(self.surface.blocks().saturating_sub(1)));
        let elapsed = time.saturating_sub(arm.free_at);
        let blocks = elapsed * track / (self.revolution + self.skew);
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
            (self.arm.free_at, self.arm.next_block) = ((self.arm.free_at + nanos).max(start), end);
            return Some(self.arm.free_at);
        }
        Some(start + entry.blocks * self.interface_ns_block)
    }

    /// The arm leaves; the blocks it read are kept.
    fn stop_reading_ahead(&mut self, time: Nanos) {
        if let Some(from) = self.arm.reading_from.take() {
            let ahead = self.ahead(time);
            self.segments.keep(from..ahead);
        }
    }
}
