//! A disk: one arm, one spindle, and the queue that decides where the arm goes next.
//!
//! # Invariants
//! - DM-DISK-1: writes to one zone of a shingled disk go to the medium in the order of their arrival.
//! - DM-DISK-2: no command waits longer than the starvation bound, the commands that were as old, and a cached write between each two of them.
//! - DM-DISK-3: the drive holds no more commands than its queue is deep, those that wait for room in its cache included.

mod arm;
mod entry;
mod spindle;
mod work;

use std::collections::VecDeque;

use arm::Arm;
use entry::Entry;
use spindle::Spindle;

use crate::cache::Segments;
use crate::command::{Command, CommandId, Nanos, Op};
use crate::model::Model;
use crate::motion::Motion;
use crate::profile::{Kind, Profile};
use crate::seek::{SeekBounds, SeekCurve};
use crate::surface::{Surface, SurfaceSpec};

const BLOCK_BYTES: f64 = 4096.0;

/// Cached writes among which the next to destage is chosen.
const DESTAGE_WINDOW: usize = 64;

/// The longest run of cached writes that is destaged as one.
const DESTAGE_BLOCKS_MAX: u64 = 256;

#[derive(Clone, Debug)]
pub(crate) struct Disk {
    surface: Surface,
    seek: SeekCurve,
    seek_bounds: SeekBounds,
    shingled: bool,
    spindle: Spindle,
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
    streams_writes: bool,
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
    /// The arm last served a starving command before cached writes that others wait for: these are next.
    owes_cached: bool,
    /// Flushes that wait for cached writes with lower numbers.
    flushes: Vec<Flush>,
    number: u64,
    /// Motions of the arm, while it is watched.
    motions: Option<Vec<Motion>>,
}

/// A command that waits until the cache has no write of before `number`, or none of one zone.
#[derive(Clone, Copy, Debug)]
struct Flush {
    id: CommandId,
    number: u64,
    zone: Option<u64>,
}

/// An entry to which the arm could go next.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    /// Its place among those that it was chosen of.
    at: usize,
    /// Time until the arm reaches it; of a starving one none.
    reached: Nanos,
    starves: bool,
}

fn ms(value: f64) -> Nanos {
    (value * 1e6) as Nanos
}

impl Disk {
    /// # Panics
    /// If the profile is not one of a disk, which [`Profile::parse`] checks.
    pub(crate) fn new(profile: &Profile, every: u32) -> Self {
        let zone_blocks = u64::from(profile.shape.zone_mib) * 256;
        Self::of_blocks(profile, zone_blocks * u64::from(profile.shape.zones), every)
    }

    /// A disk with so many blocks, whatever the host sees of them.
    ///
    /// # Panics
    /// As [`Disk::new`].
    pub(crate) fn of_blocks(profile: &Profile, blocks: u64, every: u32) -> Self {
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
            blocks,
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
            spindle: Spindle::new(revolution, profile.jitter.as_ref()),
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
            streams_writes: profile.cache.streams_writes,
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
            owes_cached: false,
            flushes: Vec::new(),
            number: 0,
            motions: None,
            surface,
        }
    }

    /// The disk's surfaces.
    pub(crate) fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Nominal nanoseconds of a turn.
    pub(crate) fn revolution(&self) -> Nanos {
        self.spindle.revolution
    }

    fn finished(&mut self, until: Nanos, entry: &Entry, done: &mut Vec<CommandId>) {
        match entry.id {
            Some(id) => done.push(id),
            None => {
                self.dirty_blocks -= entry.blocks;
                self.admit_writes(until);
                let (over, left) = self.flushes.iter().partition(|flush| self.is_clean(flush.number, flush.zone));
                self.flushes = left;
                let over: Vec<Flush> = over;
                done.extend(over.iter().map(|flush| flush.id));
            }
        }
        self.take_in(until);
        self.start_next(until);
    }

    /// Commands that the drive holds.
    fn held(&self) -> usize {
        let served = self.running.as_ref().is_some_and(|(_, entry)| entry.id.is_some());
        self.queue.len() + self.waiting.len() + usize::from(served)
    }

    /// Takes commands from the host, as many as the queue is deep (DM-DISK-3).
    fn take_in(&mut self, now: Nanos) {
        while self.held() < self.depth
            && let Some(entry) = self.backlog.pop_front()
        {
            if entry.cached {
                self.waiting.push_back(entry);
                self.admit_writes(now);
            } else {
                self.queue.push_back(entry);
            }
        }
    }

    /// Lets `id` complete without the arm.
    fn complete_at(&mut self, at: Nanos, id: CommandId) {
        let place = self.ready.partition_point(|&(other, _)| other <= at);
        self.ready.insert(place, (at, id));
    }

    /// True if no write with a number below `number`, to a zone if one is given, is only in the cache.
    fn is_clean(&self, number: u64, zone: Option<u64>) -> bool {
        let concerns = |entry: &Entry| zone.is_none_or(|zone| entry.zone == zone);
        // A write that goes past the cache has a waiting caller: a flush does not make it durable sooner.
        let before = |entry: &Entry| entry.cached && entry.number < number && concerns(entry);
        let running = self.running.as_ref().is_some_and(|(_, entry)| before(entry));
        !(running || self.dirty.iter().chain(&self.waiting).chain(&self.backlog).any(before))
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
    ///
    /// A flush has cached writes go first, and a full cache only has them compete: it is a queue like the other. A starving command goes before
    /// them, and every other time one of them before it (DM-DISK-2).
    fn start_next(&mut self, now: Nanos) {
        let (flushing, full) = (!self.flushes.is_empty(), !self.waiting.is_empty());
        let destage = self.queue.is_empty() || flushing || full || self.dirty_blocks * 2 > self.cache_blocks;
        let queued = self.choose(now, self.queue.iter());
        let window = self.dirty.iter().take(DESTAGE_WINDOW);
        let cached = if destage { self.choose(now, window) } else { None };
        let wanted = flushing || full;
        let destages = match (&queued, &cached) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(queued), Some(_)) if wanted && queued.starves => self.owes_cached,
            (Some(queued), Some(cached)) => flushing || cached.reached < queued.reached,
        };
        self.owes_cached = wanted && cached.is_some() && !destages;
        let taken = if destages {
            cached.and_then(|chosen| self.dirty.remove(chosen.at))
        } else {
            queued.and_then(|chosen| self.queue.remove(chosen.at))
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
    fn choose<'a>(&self, now: Nanos, entries: impl Iterator<Item = &'a Entry>) -> Option<Chosen> {
        let turn = self.spindle.at(now);
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
                return Some(Chosen { at, reached: 0, starves: true });
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
        best.map(|at| Chosen { at, reached: least - now, starves: false })
    }
}

impl Model for Disk {
    fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        let zone = command.at / self.zone_blocks;
        let at = zone * self.every * self.zone_blocks + command.at % self.zone_blocks;
        let at = at.min(self.surface.blocks().saturating_sub(1));
        let position = self.surface.position(at);
        let through = command.op == Op::WriteThrough;
        let op = if through { Op::Write } else { command.op };
        let (blocks, number) = (command.blocks, self.number);
        self.number += 1;
        // The order of a zone's writes is kept (DM-DISK-1): one that is to be durable waits for those before it. Elsewhere it goes past the cache.
        let cached = op == Op::Write && self.write_cache && (!through || self.shingled);
        let (opens, arrived) = (command.opens, now);
        let entry = Entry { id: Some(id), number, op, cached, at, blocks, opens, zone, arrived, position };
        match op {
            Op::Report => self.complete_at(now + self.overhead + blocks * self.interface_ns_block, id),
            Op::Flush if self.is_clean(number, None) => self.complete_at(now + self.overhead, id),
            Op::Flush => self.flushes.push(Flush { id, number, zone: None }),
            Op::Trim => self.complete_at(now + self.overhead, id),
            Op::Read if self.is_buffered(&entry) => {
                self.complete_at(now + self.overhead + blocks * self.interface_ns_block, id);
            }
            _ => {
                if op == Op::Write {
                    self.segments.forget(&entry.range());
                }
                let told_by_flush = cached && through;
                if told_by_flush {
                    self.flushes.push(Flush { id, number: number + 1, zone: Some(zone) });
                }
                self.backlog.push_back(Entry { id: entry.id.filter(|_| !told_by_flush), ..entry });
                self.take_in(now);
            }
        }
        if self.running.is_none() {
            self.start_next(now);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let running = self.running.as_ref().map(|&(until, _)| until);
        let ready = self.ready.front().map(|&(at, _)| at);
        running.into_iter().chain(ready).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
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

    fn blocks(&self) -> u64 {
        self.surface.blocks()
    }

    fn set_write_cache(&mut self, on: bool) -> bool {
        let holds = self.dirty_blocks > 0 || self.waiting.iter().chain(&self.backlog).any(|entry| entry.cached);
        if holds || (on && self.cache_blocks == 0) {
            return self.write_cache == on;
        }
        self.write_cache = on;
        true
    }

    fn watch_arm(&mut self, on: bool) {
        self.motions = on.then(Vec::new);
    }

    fn take_motions(&mut self) -> Vec<Motion> {
        self.motions.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn cut_power(&mut self, now: Nanos) {
        self.queue.clear();
        self.backlog.clear();
        self.running = None;
        self.ready.clear();
        self.dirty.clear();
        self.dirty_blocks = 0;
        self.waiting.clear();
        self.owes_cached = false;
        self.flushes.clear();
        self.segments.clear();
        (self.arm.free_at, self.arm.next_block, self.arm.reading_from) = (now, u64::MAX, None);
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
