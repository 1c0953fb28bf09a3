//! Completions that reach the host late, each by a time of its own.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos};
use crate::model::{Model, Written};
use crate::motion::Motion;
use crate::profile::Jitter;
use crate::random;

/// The longest delay, in nanoseconds.
const LATEST: f64 = 1e9;

/// A drive of which the host hears late. The drive itself works as it does without.
#[derive(Clone, Debug)]
pub(crate) struct Late {
    drive: Box<dyn Model>,
    seed: u64,
    mean: f64,
    /// Commands that are done, by the time when the host hears of it.
    under_way: BTreeSet<(Nanos, u64, CommandId)>,
    /// Number of the next one.
    next: u64,
}

impl Late {
    pub(crate) fn new(drive: Box<dyn Model>, jitter: &Jitter) -> Self {
        Self { drive, seed: !jitter.seed, mean: jitter.completion_us * 1e3, under_way: BTreeSet::new(), next: 0 }
    }

    /// A delay with the mean of the drive, and with a long tail.
    fn delay(&mut self) -> Nanos {
        let share = random::share(self.seed, self.next);
        self.next += 1;
        (self.mean * (1.0 / (1.0 - share).sqrt() - 1.0)).min(LATEST) as Nanos
    }
}

impl Model for Late {
    fn submit(&mut self, now: Nanos, id: CommandId, command: Command) {
        self.drive.submit(now, id, command);
    }

    fn next_event(&self) -> Option<Nanos> {
        let heard = self.under_way.first().map(|&(at, ..)| at);
        self.drive.next_event().into_iter().chain(heard).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<CommandId>) {
        let mut ended = Vec::new();
        while let Some(at) = self.drive.next_event().filter(|&at| at <= now) {
            self.drive.advance(at, &mut ended);
            for id in ended.drain(..) {
                let delay = self.delay();
                self.under_way.insert((at + delay, self.next, id));
            }
        }
        while let Some(&heard) = self.under_way.first().filter(|&&(at, ..)| at <= now) {
            self.under_way.remove(&heard);
            done.push(heard.2);
        }
    }

    fn blocks(&self) -> u64 {
        self.drive.blocks()
    }

    fn watch_arm(&mut self, on: bool) {
        self.drive.watch_arm(on);
    }

    fn take_motions(&mut self) -> Vec<Motion> {
        self.drive.take_motions()
    }

    fn written(&self) -> Option<Written> {
        self.drive.written()
    }

    fn torn(&self) -> Vec<Range<u64>> {
        self.drive.torn()
    }

    fn cut_power(&mut self, now: Nanos) {
        self.drive.cut_power(now);
        self.under_way.clear();
    }

    fn set_write_cache(&mut self, on: bool) -> bool {
        self.drive.set_write_cache(on)
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
