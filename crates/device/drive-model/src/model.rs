//! The contract of a modelled drive: commands in, completions out, time as a number.

use std::fmt;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos};
use crate::motion::Motion;

/// Blocks written to a drive that translates inside, and by it: their quotient is its write amplification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Blocks of the host's writes.
    pub host: u64,
    /// Blocks written to platters and flash, copies and the layer's own data included.
    pub media: u64,
}

/// A modelled drive, or one that somebody else models: a mechanical disk, flash, or a mapping layer over either.
///
/// Everything is a function of the commands and their times (DM-MODEL-1).
pub trait Model: fmt::Debug + Send {
    /// Takes a command that arrives at `now`, which must not be before any time named earlier.
    fn submit(&mut self, now: Nanos, id: CommandId, command: Command);

    /// Time of the next event; `None` while there is nothing to do.
    fn next_event(&self) -> Option<Nanos>;

    /// Works until `now`. Commands that completed are added to `done`, in order.
    fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>);

    /// Blocks that the host can address.
    fn blocks(&self) -> u64;

    /// Records the motions of the arm from now on, or no more.
    fn watch_arm(&mut self, on: bool);

    /// Motions of the arm recorded since the last call, in order.
    fn take_motions(&mut self) -> Vec<Motion>;

    /// Blocks written so far, of a drive that translates inside.
    fn written(&self) -> Option<Written> {
        None
    }

    /// Blocks that the host cannot read any more if power fails now. (Skylight, section 2.4.11.)
    fn torn(&self) -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Power fails at `now`, up to which the drive has worked, and comes back: commands under way never complete, and what was
    /// volatile is gone. [`Model::torn`] told before what cannot be read any more.
    fn cut_power(&mut self, now: Nanos);

    /// Turns the volatile cache on or off. `false`: the drive cannot, or cannot now, since the cache holds something.
    fn set_write_cache(&mut self, on: bool) -> bool {
        !on
    }

    /// A copy with the same state.
    fn boxed_clone(&self) -> Box<dyn Model>;
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
