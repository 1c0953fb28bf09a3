//! A modelled drive in virtual time: hours of a real one's take seconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use shingle_drive_model::{Command, Drive, Kind, Op as ModelOp, Profile};

use super::{Access, Nanos, Op, Taken, Target, TargetError};
use crate::random::Random;

/// Tries to turn the volatile cache on or off, and the pause between them.
const TRIES: u32 = 50;
const TRY: Nanos = 100_000_000;

/// Time without power.
const POWER_OFF: Nanos = 5_000_000_000;

/// The host before a modelled drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Time from a completion to the next submission.
    pub think: Nanos,
    /// The most that chance adds to it, and to the time at which a completion is seen.
    pub jitter: Nanos,
    /// Seed of chance.
    pub seed: u64,
}

impl Default for Host {
    fn default() -> Self {
        Self { think: 20_000, jitter: 10_000, seed: 1 }
    }
}

/// A modelled drive under test.
#[derive(Clone, Debug)]
pub struct Modelled {
    profile: Profile,
    drive: Drive,
    host: Host,
    random: Random,
    now: Nanos,
    /// The volatile cache is on.
    volatile: bool,
    /// Blocks that power failures have torn.
    torn: Vec<Range<u64>>,
}

impl Modelled {
    /// The drive of a profile, as new. `None` of a zoned drive, which has no random writes to test.
    pub fn new(profile: &Profile, host: Host) -> Option<Self> {
        let drive = match profile.kind {
            Kind::Cmr | Kind::DmSmr | Kind::Ssd => Drive::new(profile, 1),
            Kind::HmSmr | Kind::Zns => return None,
        };
        let random = Random::new(host.seed);
        Some(Self {
            profile: profile.clone(),
            drive,
            host,
            random,
            now: 0,
            volatile: profile.cache.write_cache,
            torn: Vec::new(),
        })
    }

    fn chance(&mut self) -> Nanos {
        self.random.below(self.host.jitter + 1)
    }

    fn submit(&mut self, at: Nanos, number: usize, access: &Access) {
        let op = match access.op {
            Op::Read => ModelOp::Read,
            Op::Write => ModelOp::Write,
            Op::Flush => ModelOp::Flush,
        };
        let command = Command { op, at: access.at, blocks: access.blocks, opens: false };
        self.drive.submit(at, number as u64, command);
    }

    /// True of a read of torn blocks. A write mends them.
    fn is_unreadable(&mut self, access: &Access) -> bool {
        let range = access.at..access.at + access.blocks;
        match access.op {
            Op::Read => self.torn.iter().any(|torn| torn.start < range.end && range.start < torn.end),
            Op::Write => {
                let rests = self
                    .torn
                    .drain(..)
                    .flat_map(|torn| [torn.start..torn.end.min(range.start), torn.start.max(range.end)..torn.end]);
                self.torn = rests.filter(|rest| rest.start < rest.end).collect();
                false
            }
            Op::Flush => false,
        }
    }
}

impl Target for Modelled {
    fn blocks(&self) -> u64 {
        self.drive.blocks()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn run(&mut self, depth: usize, accesses: &[Access]) -> Result<Vec<Taken>, TargetError> {
        let end = self.drive.blocks();
        if accesses.iter().any(|access| access.at + access.blocks > end) {
            return Err(TargetError("an access behind the drive's end".to_owned()));
        }
        let mut taken = vec![Taken { begun: 0, ended: 0, unreadable: false }; accesses.len()];
        let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
        let mut next = depth.max(1).min(accesses.len());
        due.extend((0..next).map(|number| Reverse((self.now, number))));
        let (mut left, mut done) = (accesses.len(), Vec::new());
        while left > 0 {
            let event = self.drive.next_event().unwrap_or(Nanos::MAX);
            match due.peek() {
                Some(&Reverse((at, number))) if at <= event => {
                    due.pop();
                    taken[number].begun = at;
                    self.submit(at, number, &accesses[number]);
                }
                None if event == Nanos::MAX => return Err(TargetError("the drive does not answer".to_owned())),
                _ => self.drive.advance(event, &mut done),
            }
            for id in done.drain(..) {
                let seen = event + self.chance();
                let number = id as usize;
                taken[number].ended = seen;
                taken[number].unreadable = self.is_unreadable(&accesses[number]);
                self.now = self.now.max(seen);
                left -= 1;
                if next < accesses.len() {
                    due.push(Reverse((seen + self.host.think + self.chance(), next)));
                    next += 1;
                }
            }
        }
        let rest = self.host.think + self.chance();
        self.idle(rest)?;
        Ok(taken)
    }

    fn idle(&mut self, nanos: Nanos) -> Result<(), TargetError> {
        self.now += nanos;
        self.drive.advance(self.now, &mut Vec::new());
        Ok(())
    }

    fn set_volatile_cache(&mut self, on: bool) -> Result<bool, TargetError> {
        self.run(1, &[Access::flush()])?;
        for _ in 0..TRIES {
            if self.drive.set_write_cache(on) {
                self.volatile = on;
                return Ok(true);
            }
            self.idle(TRY)?;
        }
        Ok(false)
    }

    fn erase(&mut self) -> Result<bool, TargetError> {
        self.drive = Drive::new(&self.profile, 1);
        self.drive.set_write_cache(self.volatile);
        self.torn.clear();
        self.drive.advance(self.now, &mut Vec::new());
        Ok(true)
    }

    fn cut_power(&mut self) -> Result<bool, TargetError> {
        let torn = self.drive.cut_power(self.now, &mut Vec::new());
        self.torn.extend(torn);
        self.idle(POWER_OFF)?;
        Ok(true)
    }
}
