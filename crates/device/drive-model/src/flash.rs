//! A zoned flash drive: dies that work side by side behind a buffer. No arm, so nothing to choose: a command's time
//! follows from when its dies are free.

use std::collections::VecDeque;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::model::Model;
use crate::motion::Motion;
use crate::profile::{Flash, Profile, Zones};

const BLOCK_BYTES: f64 = 4096.0;

#[derive(Clone, Debug)]
pub(crate) struct FlashDrive {
    flash: Flash,
    zones: Zones,
    overhead: Nanos,
    interface_ns_block: f64,
    stripe_blocks: u64,
    /// The buffer loses its contents without power.
    volatile: bool,
    /// Time when each die is free.
    dies: Vec<Nanos>,
    /// Time when the interface is free.
    interface: Nanos,
    /// Writes in the buffer: time when each is programmed, and its blocks.
    buffered: VecDeque<(Nanos, u64)>,
    buffered_blocks: u64,
    ready: VecDeque<(Nanos, CommandId)>,
    /// Blocks that can be addressed.
    blocks: u64,
}

impl FlashDrive {
    /// # Panics
    /// If the profile is not one of flash, which [`Profile::parse`] checks.
    pub(crate) fn new(profile: &Profile) -> Self {
        let Some(flash) = profile.flash else { panic!("profile `{}` has no flash", profile.name) };
        Self {
            flash,
            zones: profile.zones,
            overhead: (profile.queue.overhead_us * 1e3) as Nanos,
            interface_ns_block: BLOCK_BYTES * 1e3 / profile.queue.interface_mb_s,
            stripe_blocks: u64::from(flash.stripe_kib / 4),
            volatile: profile.cache.write_cache,
            dies: vec![0; flash.dies as usize],
            interface: 0,
            buffered: VecDeque::new(),
            buffered_blocks: 0,
            ready: VecDeque::new(),
            blocks: u64::from(profile.shape.zone_mib) * 256 * u64::from(profile.shape.zones),
        }
    }

    /// Takes a write into the buffer once there is room; it is programmed behind the host's back. Times when it is taken and
    /// when it is programmed, with all before it.
    fn write(&mut self, begin: Nanos, command: &Command) -> (Nanos, Nanos) {
        let begin = if command.opens { begin + (self.zones.open_ms * 1e6) as Nanos } else { begin };
        let room = u64::from(self.flash.buffer_mib) * 256;
        let mut admitted = begin;
        while let Some(&(at, blocks)) = self.buffered.front()
            && (at <= admitted || self.buffered_blocks + command.blocks > room)
        {
            admitted = admitted.max(at);
            self.buffered.pop_front();
            self.buffered_blocks -= blocks;
        }
        let taken = self.transfer(admitted, command.blocks);
        let programmed = self.on_dies(taken, command.at, command.blocks, self.flash.die_write_mb_s, 0.0);
        let after = self.buffered.back().map_or(programmed, |&(at, _)| at.max(programmed));
        self.buffered.push_back((after, command.blocks));
        self.buffered_blocks += command.blocks;
        let taken = taken + (self.flash.write_us * 1e3) as Nanos;
        (taken, after.max(taken))
    }

    /// Has the dies of a range work at it, and returns when the last is done.
    fn on_dies(&mut self, begin: Nanos, at: u64, blocks: u64, mb_s: f64, latency_us: f64) -> Nanos {
        let ns_block = BLOCK_BYTES * 1e3 / mb_s;
        let (mut at, end, mut last) = (at, at + blocks, begin);
        while at < end {
            let stripe = at / self.stripe_blocks;
            let part = ((stripe + 1) * self.stripe_blocks).min(end) - at;
            // Zones begin on different dies.
            let die = (stripe % self.dies.len() as u64) as usize;
            let nanos = (latency_us * 1e3 + ns_block * part as f64) as Nanos;
            self.dies[die] = self.dies[die].max(begin) + nanos;
            last = last.max(self.dies[die]);
            at += part;
        }
        last
    }

    /// Reads, programs or erases ranges of blocks for a layer inside, past the host's interface and the buffer.
    pub(crate) fn cells(&mut self, now: Nanos, id: CommandId, op: Op, ranges: &[Range<u64>]) {
        let mut ended = now;
        for range in ranges {
            let (at, blocks) = (range.start, range.end - range.start);
            let end = match op {
                Op::Read => self.on_dies(now, at, blocks, self.flash.die_read_mb_s, self.flash.read_us),
                Op::Write => self.on_dies(now, at, blocks, self.flash.die_write_mb_s, 0.0),
                _ => self.erase(now, at, blocks),
            };
            ended = ended.max(end);
        }
        self.complete_at(ended, id);
    }

    /// Has the dies of a range erase, and returns when the last is done.
    fn erase(&mut self, begin: Nanos, at: u64, blocks: u64) -> Nanos {
        let count = self.dies.len();
        let (first, stripes) = ((at / self.stripe_blocks) as usize, blocks.div_ceil(self.stripe_blocks) as usize);
        let mut last = begin;
        for die in first..first + stripes.min(count) {
            let die = &mut self.dies[die % count];
            *die = (*die).max(begin) + (self.zones.erase_ms * 1e6) as Nanos;
            last = last.max(*die);
        }
        last
    }

    fn complete_at(&mut self, at: Nanos, id: CommandId) {
        let place = self.ready.partition_point(|&(other, _)| other <= at);
        self.ready.insert(place, (at, id));
    }

    fn transfer(&mut self, begin: Nanos, blocks: u64) -> Nanos {
        self.interface = self.interface.max(begin) + (self.interface_ns_block * blocks as f64) as Nanos;
        self.interface
    }
}

impl Model for FlashDrive {
    fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        let begin = now + self.overhead;
        let at = match command.op {
            Op::Read => {
                let sensed =
                    self.on_dies(begin, command.at, command.blocks, self.flash.die_read_mb_s, self.flash.read_us);
                self.transfer(sensed, command.blocks)
            }
            Op::Write => self.write(begin, &command).0,
            Op::WriteThrough if self.volatile => self.write(begin, &command).1,
            Op::WriteThrough => self.write(begin, &command).0,
            Op::Trim => begin,
            Op::Open => begin + (self.zones.open_ms * 1e6) as Nanos,
            Op::Close => begin + (self.zones.close_ms * 1e6) as Nanos,
            Op::Reset => begin + (self.zones.erase_ms * 1e6) as Nanos,
            Op::Report => self.transfer(begin, command.blocks),
            // A buffer that outlives a loss of power is as good as a medium.
            Op::Flush if !self.volatile => begin,
            Op::Flush => self.buffered.iter().map(|&(at, _)| at).fold(begin, Nanos::max),
        };
        self.complete_at(at, id);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.ready.front().map(|&(at, _)| at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        while let Some(&(at, id)) = self.ready.front()
            && at <= now
        {
            self.ready.pop_front();
            done.push(id);
        }
    }

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn set_write_cache(&mut self, on: bool) -> bool {
        self.volatile == on
    }

    fn watch_arm(&mut self, _on: bool) {}

    fn take_motions(&mut self) -> Vec<Motion> {
        Vec::new()
    }

    fn cut_power(&mut self, now: Nanos) {
        self.ready.clear();
        self.interface = self.interface.min(now);
        if self.volatile {
            self.buffered.clear();
            self.buffered_blocks = 0;
            self.dies.iter_mut().for_each(|die| *die = (*die).min(now));
        }
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
