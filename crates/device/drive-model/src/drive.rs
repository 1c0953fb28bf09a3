//! A drive: commands in, completions out.

use crate::disk::Disk;
use crate::flash::FlashDrive;
use crate::profile::{Kind, Profile};

/// Nanoseconds since the start of the caller's clock.
pub type Nanos = u64;

/// The caller's number of a command.
pub type CommandId = u64;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Opens a zone.
    Open,
    /// Closes or finishes a zone.
    Close,
    /// Empties a zone.
    Reset,
    /// Reports zones.
    Report,
    /// Makes every write before it durable.
    Flush,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its kind.
    pub op: Op,
    /// Its first block (of 4 KiB), from the start of the drive.
    pub at: u64,
    /// Blocks read or written; for a report, blocks of the answer.
    pub blocks: u64,
    /// This write opens its zone.
    pub opens: bool,
}

/// A modelled drive.
#[derive(Clone, Debug)]
pub struct Drive(Model);

#[derive(Clone, Debug)]
enum Model {
    Disk(Box<Disk>),
    Flash(Box<FlashDrive>),
}

impl Drive {
    /// A drive at rest. If `every` is above 1 it has only every `every`-th zone of the profile, so that a small drive
    /// has the large one's seeks (as SMORE's authors did, section V-A).
    pub fn new(profile: &Profile, every: u32) -> Self {
        Self(match profile.kind {
            Kind::Zns => Model::Flash(Box::new(FlashDrive::new(profile))),
            Kind::Cmr | Kind::HmSmr => Model::Disk(Box::new(Disk::new(profile, every))),
        })
    }

    /// Takes a command that arrives at `now`, which must not be before any time named earlier.
    pub fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        match &mut self.0 {
            Model::Disk(disk) => disk.submit(now, id, command),
            Model::Flash(flash) => flash.submit(now, id, command),
        }
    }

    /// Time of the drive's next event; `None` while it is idle.
    pub fn next_event(&self) -> Option<Nanos> {
        match &self.0 {
            Model::Disk(disk) => disk.next_event(),
            Model::Flash(flash) => flash.next_event(),
        }
    }

    /// Lets the drive work until `now`. Commands that completed are added to `done`, in order.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        match &mut self.0 {
            Model::Disk(disk) => disk.advance(now, done),
            Model::Flash(flash) => flash.advance(now, done),
        }
    }
}
