//! A drive out of its profile.

use std::ops::Range;

use crate::command::{Command, CommandId, Nanos};
use crate::disk::Disk;
use crate::flash::FlashDrive;
use crate::late::Late;
use crate::model::{Model, Written};
use crate::motion::Motion;
use crate::profile::{Kind, Profile};
use crate::translation;

/// A modelled drive.
#[derive(Clone, Debug)]
pub struct Drive(Box<dyn Model>);

impl Drive {
    /// A drive at rest. If `every` is above 1 a disk has only every `every`-th zone of the profile, so that a small drive
    /// has the large one's seeks (as SMORE's authors did, section V-A). A drive that translates inside has all of its blocks.
    pub fn new(profile: &Profile, every: u32) -> Self {
        let drive: Box<dyn Model> = match profile.kind {
            Kind::Zns => Box::new(FlashDrive::new(profile)),
            Kind::Cmr | Kind::HmSmr => Box::new(Disk::new(profile, every)),
            Kind::DmSmr | Kind::Ssd => translation::drive(profile),
        };
        Self(match &profile.jitter {
            Some(jitter) if jitter.completion_us > 0.0 => Box::new(Late::new(drive, jitter)),
            _ => drive,
        })
    }

    /// A drive of somebody else's model, for instance of another mapping layer
    /// ([`Managed::new`](crate::translation::Managed::new)).
    pub fn of(model: impl Model + 'static) -> Self {
        Self(Box::new(model))
    }

    /// Takes a command that arrives at `now`, which must not be before any time named earlier.
    pub fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        self.0.submit(now, id, command);
    }

    /// Time of the drive's next event; `None` while it is idle.
    pub fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }

    /// Lets the drive work until `now`. Commands that completed are added to `done`, in order.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        self.0.advance(now, done);
    }

    /// Blocks that the host can address.
    pub fn blocks(&self) -> u64 {
        self.0.blocks()
    }

    /// Blocks written so far, by the host and inside; `None` of a drive that does not translate.
    pub fn written(&self) -> Option<Written> {
        self.0.written()
    }

    /// Blocks that the host cannot read any more if power fails now: tracks that are being overwritten in their places.
    /// (Skylight, section 2.4.11.)
    pub fn torn(&self) -> Vec<Range<u64>> {
        self.0.torn()
    }

    /// Power fails at `now`, and comes back at once: the drive works until then, commands under way never complete, and what was
    /// volatile is gone. The blocks that cannot be read any more, until they are written again; those up to `now` that completed
    /// are added to `done`.
    pub fn cut_power(&mut self, now: Nanos, done: &mut Vec<CommandId>) -> Vec<Range<u64>> {
        self.0.advance(now, done);
        let torn = self.0.torn();
        self.0.cut_power(now);
        torn
    }

    /// Turns the volatile cache on or off. `false`: the drive cannot, or cannot now, since the cache holds something: after a
    /// flush and a short pause it does not.
    pub fn set_write_cache(&mut self, on: bool) -> bool {
        self.0.set_write_cache(on)
    }

    /// Records the motions of the arm from now on, or no more.
    pub fn watch_arm(&mut self, on: bool) {
        self.0.watch_arm(on);
    }

    /// Motions of the arm recorded since the last call, in order. None on flash.
    pub fn take_motions(&mut self) -> Vec<Motion> {
        self.0.take_motions()
    }
}
