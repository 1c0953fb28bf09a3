//! A drive with a mapping layer: the layer decides, the mechanics take their time.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::disk::Disk;
use crate::flash::FlashDrive;
use crate::model::{Model, Written};
use crate::motion::Motion;
use crate::profile::Profile;

/// Number by which a layer knows one of its internal commands; several may have the same.
pub type Work = u64;

/// A mapping layer: the firmware of a drive that translates inside.
///
/// It hears of host commands, of the end of its own internal commands, and of its alarm, and reacts at once: it sends
/// internal commands to the media, and completes the host's.
pub trait Layer: fmt::Debug + Send {
    /// A command of the host arrives.
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command);

    /// An internal command ended.
    fn ended(&mut self, inside: &mut Inside, work: Work);

    /// Time at which the layer wants to be woken, if any.
    fn alarm(&self) -> Option<Nanos> {
        None
    }

    /// The alarm's time has come. Afterwards the alarm lies in the future, or is off.
    fn woken(&mut self, inside: &mut Inside) {
        let _ = inside;
    }

    /// Power failed now, and is back: no internal command is under way, the host's are forgotten, and what was volatile is gone.
    fn power_failed(&mut self, now: Nanos);

    /// Blocks that the host can address.
    fn blocks(&self) -> u64;

    /// Blocks that the host cannot read any more if power fails now: a band was being overwritten in its place. (Skylight,
    /// section 2.4.11.)
    fn torn(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Turns the volatile cache on or off. `false`: the layer has none, or it holds something.
    fn set_write_cache(&mut self, on: bool) -> bool {
        !on
    }

    /// A copy with the same state.
    fn boxed_clone(&self) -> Box<dyn Layer>;
}

impl Clone for Box<dyn Layer> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// Destination of an internal command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The platters.
    Disk,
    /// The flash chips.
    Flash,
}

/// The media of a drive, as its layer sees them, and the way back to the host.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    now: Nanos,
    disk: Option<Box<Disk>>,
    flash: Option<Box<FlashDrive>>,
    /// Internal commands under way: the layer's number of each, by the number that the medium knows.
    works: Vec<Option<Work>>,
    under_way: usize,
    /// Completions for the host, by time and order.
    ready: BTreeSet<(Nanos, u64, CommandId)>,
    completions: u64,
    /// Blocks written to media.
    written: u64,
}

impl Inside {
    /// The present time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Sends an internal command to a medium.
    ///
    /// # Panics
    /// If the drive has no such medium: a bug of the layer.
    pub fn run(&mut self, medium: Medium, op: Op, at: u64, blocks: u64, work: Work) {
        let number = self.take_number(work);
        if matches!(op, Op::Write | Op::WriteThrough) {
            self.written += blocks;
        }
        let command = Command { op, at, blocks, opens: false };
        match (medium, &mut self.disk, &mut self.flash) {
            (Medium::Disk, Some(disk), _) => disk.submit(self.now, number, command),
            (Medium::Flash, _, Some(flash)) => flash.submit(self.now, number, command),
            _ => panic!("the drive has no {medium:?}"),
        }
    }

    /// Reads, writes or erases ranges of the flash chips' blocks as one internal command, past the host's interface and the buffer.
    ///
    /// # Panics
    /// If the drive has no flash: a bug of the layer.
    pub fn run_cells(&mut self, op: Op, ranges: &[Range<u64>], work: Work) {
        let number = self.take_number(work);
        if op == Op::Write {
            self.written += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        }
        let Some(flash) = &mut self.flash else { panic!("the drive has no flash") };
        flash.cells(self.now, number, op, ranges);
    }

    /// A number for an internal command, under which the medium knows it.
    fn take_number(&mut self, work: Work) -> CommandId {
        let free = self.works.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.works.push(None);
            self.works.len() - 1
        });
        self.works[number] = Some(work);
        self.under_way += 1;
        number as CommandId
    }

    /// True while no internal command is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Completes a command of the host, now.
    pub fn complete(&mut self, id: CommandId) {
        self.complete_in(0, id);
    }

    /// Completes a command of the host in `nanos` from now.
    pub fn complete_in(&mut self, nanos: Nanos, id: CommandId) {
        self.ready.insert((self.now + nanos, self.completions, id));
        self.completions += 1;
    }

    /// Nanoseconds until an idle disk could begin to write at `at`.
    pub(crate) fn reach(&self, at: u64) -> Nanos {
        self.disk.as_ref().map_or(0, |disk| disk.reach(self.now, at))
    }

    fn next_event(&self) -> Option<Nanos> {
        let disk = self.disk.as_ref().and_then(|disk| disk.next_event());
        let flash = self.flash.as_ref().and_then(|flash| flash.next_event());
        let ready = self.ready.first().map(|&(at, ..)| at);
        [disk, flash, ready].into_iter().flatten().min()
    }

    /// Power fails: the media forget what is under way.
    fn cut_power(&mut self, now: Nanos) {
        self.now = now;
        self.disk.iter_mut().for_each(|disk| disk.cut_power(now));
        self.flash.iter_mut().for_each(|flash| flash.cut_power(now));
        self.works.clear();
        self.under_way = 0;
        self.ready.clear();
    }

    /// Lets the media work until `now`; the layer's numbers of what ended.
    fn advance(&mut self, now: Nanos) -> Vec<Work> {
        self.now = now;
        let mut ended = Vec::new();
        if let Some(disk) = &mut self.disk {
            disk.advance(now, &mut ended);
        }
        if let Some(flash) = &mut self.flash {
            flash.advance(now, &mut ended);
        }
        self.under_way -= ended.len();
        ended.into_iter().filter_map(|number| self.works.get_mut(number as usize).and_then(Option::take)).collect()
    }
}

/// A drive with a mapping layer inside.
#[derive(Clone, Debug)]
pub struct Managed {
    layer: Box<dyn Layer>,
    inside: Inside,
    /// Blocks that the host wrote.
    host_written: u64,
}

impl Managed {
    /// A layer over the media that it uses.
    pub(crate) fn over(layer: impl Layer + 'static, disk: Option<Disk>, flash: Option<FlashDrive>) -> Self {
        let inside = Inside { disk: disk.map(Box::new), flash: flash.map(Box::new), ..Inside::default() };
        Self { layer: Box::new(layer), inside, host_written: 0 }
    }

    /// A layer over the platters of a profile, with so many blocks, and over its flash, if it has any. The queue's overhead and
    /// the volatile cache are the layer's matter.
    ///
    /// # Panics
    /// If the profile is not one of a disk.
    pub fn new(layer: impl Layer + 'static, profile: &Profile, blocks: u64) -> Self {
        let flash = profile.flash.is_some().then(|| FlashDrive::new(profile));
        Self::over(layer, Some(mechanics(profile, blocks)), flash)
    }
}

/// Platters and arm without a cache or a queue's overhead of their own: those are the layer's.
pub(super) fn mechanics(profile: &Profile, blocks: u64) -> Disk {
    let mut bare = profile.clone();
    bare.cache.write_cache = false;
    bare.queue.overhead_us = 0.0;
    Disk::of_blocks(&bare, blocks, 1)
}

impl Model for Managed {
    fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        self.inside.now = now;
        if matches!(command.op, Op::Write | Op::WriteThrough) {
            self.host_written += command.blocks;
        }
        self.layer.command(&mut self.inside, id, command);
    }

    fn next_event(&self) -> Option<Nanos> {
        // An alarm that was set for a time before now is due now.
        let alarm = self.layer.alarm().map(|alarm| alarm.max(self.inside.now));
        self.inside.next_event().into_iter().chain(alarm).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            for work in self.inside.advance(at) {
                self.layer.ended(&mut self.inside, work);
            }
            if self.layer.alarm().is_some_and(|alarm| alarm <= at) {
                self.layer.woken(&mut self.inside);
                debug_assert!(self.layer.alarm().is_none_or(|alarm| alarm > at), "an alarm that does not move on");
            }
            while let Some(&(due, number, id)) = self.inside.ready.first()
                && due <= at
            {
                self.inside.ready.remove(&(due, number, id));
                done.push(id);
            }
        }
    }

    fn blocks(&self) -> u64 {
        self.layer.blocks()
    }

    fn written(&self) -> Option<Written> {
        Some(Written { host: self.host_written, media: self.inside.written })
    }

    fn torn(&self) -> Vec<Range<u64>> {
        self.layer.torn()
    }

    fn cut_power(&mut self, now: Nanos) {
        self.inside.cut_power(now);
        self.layer.power_failed(now);
    }

    fn set_write_cache(&mut self, on: bool) -> bool {
        self.layer.set_write_cache(on)
    }

    fn watch_arm(&mut self, on: bool) {
        if let Some(disk) = &mut self.inside.disk {
            disk.watch_arm(on);
        }
    }

    fn take_motions(&mut self) -> Vec<Motion> {
        self.inside.disk.as_mut().map(|disk| disk.take_motions()).unwrap_or_default()
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
