//! A drive: commands in, completions out.

use crate::command::{Command, CommandId, Nanos};
use crate::disk::Disk;
use crate::flash::FlashDrive;
use crate::profile::{Kind, Profile};

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
