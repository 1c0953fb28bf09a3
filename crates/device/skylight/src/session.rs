//! A session with a drive: accesses in pieces, so that it can be watched and stopped between them.
//!
//! **Owns** the seeded choice of places. **Knows nothing of** what is to be found out.

use std::fmt;

use crate::random::Random;
use crate::target::{Access, Nanos, Taken, Target, TargetError};

/// Accesses after which a session looks whether it is to stop, for each that is outstanding.
const PIECE: usize = 64;

/// The longest time in which it does not look.
const NAP: Nanos = 1_000_000_000;

/// Reason for the end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Its watcher asked for it.
    Stopped,
    /// The drive cannot go on.
    Target(TargetError),
}

impl fmt::Display for Halt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => out.write_str("stopped"),
            Self::Target(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for Halt {}

impl From<TargetError> for Halt {
    fn from(error: TargetError) -> Self {
        Self::Target(error)
    }
}

/// Result of work on a drive.
pub type Done<T> = Result<T, Halt>;

/// Watcher of a session.
pub trait Watch {
    /// True if the session is to end. It is asked about once a second of the drive's time.
    fn stops(&mut self, now: Nanos) -> bool;
}

/// Watcher that never stops a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn stops(&mut self, _: Nanos) -> bool {
        false
    }
}

/// A drive under test, chance, and who watches.
pub struct Session<'a> {
    target: &'a mut dyn Target,
    watch: &'a mut dyn Watch,
    /// Chance.
    pub random: Random,
    /// The volatile cache cannot be turned off: a write counts as ended once a flush behind it is.
    flushes: bool,
}

impl<'a> Session<'a> {
    /// A session. The drive's volatile cache is off in it, or is flushed after each write.
    ///
    /// # Errors
    /// The drive does not answer.
    pub fn new(target: &'a mut dyn Target, watch: &'a mut dyn Watch, seed: u64) -> Done<Self> {
        let flushes = target.is_writable() && !target.set_volatile_cache(false)?;
        Ok(Self { target, watch, random: Random::new(seed), flushes })
    }

    /// Blocks of the drive.
    pub fn blocks(&self) -> u64 {
        self.target.blocks()
    }

    /// The drive's time.
    pub fn now(&self) -> Nanos {
        self.target.now()
    }

    /// True if the drive may be written to.
    pub fn is_writable(&self) -> bool {
        self.target.is_writable()
    }

    /// True if the volatile cache stays on, and each write is flushed.
    pub fn flushes(&self) -> bool {
        self.flushes
    }

    /// The thing between the host and the drive, with its article, if it has times of its own.
    pub fn through(&self) -> Option<&'static str> {
        self.target.through()
    }

    fn look(&mut self) -> Done<()> {
        if self.watch.stops(self.target.now()) { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Keeps `depth` accesses outstanding until all are done; their times, in order. The queue empties between pieces of them.
    ///
    /// # Errors
    /// The session is to stop, or the drive cannot go on.
    pub fn run(&mut self, depth: usize, accesses: &[Access]) -> Done<Vec<Taken>> {
        let mut taken = Vec::with_capacity(accesses.len());
        for piece in accesses.chunks(depth.max(1) * PIECE) {
            self.look()?;
            taken.extend(self.target.run(depth, piece)?);
        }
        Ok(taken)
    }

    /// Durable writes, `depth` at a time; their times, in order.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn write(&mut self, depth: usize, blocks: u64, places: &[u64]) -> Done<Vec<Taken>> {
        self.write_sized(depth, places, |_| blocks)
    }

    /// Durable writes of any sizes: `blocks` gives that of each.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn write_sized(&mut self, depth: usize, places: &[u64], blocks: impl Fn(usize) -> u64) -> Done<Vec<Taken>> {
        let accesses: Vec<Access> =
            places.iter().enumerate().map(|(number, &at)| Access::write(at, blocks(number))).collect();
        if !self.flushes {
            return self.run(depth, &accesses);
        }
        let mut taken = Vec::with_capacity(places.len());
        for group in accesses.chunks(depth.max(1)) {
            let written = self.run(depth, group)?;
            let ended = self.run(1, &[Access::flush()])?.iter().map(|flush| flush.ended).max().unwrap_or(0);
            taken.extend(written.into_iter().map(|write| Taken { ended, ..write }));
        }
        Ok(taken)
    }

    /// Reads of single blocks, one at a time.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn read_each(&mut self, places: impl IntoIterator<Item = u64>) -> Done<Vec<Taken>> {
        let accesses: Vec<Access> = places.into_iter().map(|at| Access::read(at, 1)).collect();
        self.run(1, &accesses)
    }

    /// Leaves the drive alone for so many milliseconds.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn pause(&mut self, ms: f64) -> Done<()> {
        let mut left = (ms.max(0.0) * 1e6) as Nanos;
        while left > 0 {
            self.look()?;
            let nap = left.min(NAP);
            self.target.idle(nap)?;
            left -= nap;
        }
        Ok(())
    }

    /// Turns the volatile cache on, if it can be turned off again; `false`: it stays as it is.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn set_volatile_cache(&mut self, on: bool) -> Done<bool> {
        let done = self.target.set_volatile_cache(on)?;
        self.flushes = !on && !done;
        Ok(done)
    }

    /// Makes the drive as new; `false`: this cannot be done.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn erase(&mut self) -> Done<bool> {
        Ok(self.target.erase()?)
    }

    /// Takes the drive's power away, and gives it back; `false`: this cannot be done.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn cut_power(&mut self) -> Done<bool> {
        Ok(self.target.cut_power()?)
    }

    /// Different places of `count` stretches of `blocks` in a region of the drive, in random order.
    pub fn scattered(&mut self, start: u64, region: u64, blocks: u64, count: usize) -> Vec<u64> {
        let slots = region / blocks.max(1);
        let mut order: Vec<u64> = if slots <= 1 << 22 {
            let mut all: Vec<u64> = (0..slots).collect();
            self.random.shuffle(&mut all);
            all
        } else {
            // So few of so many that a second one at a place is rare, and harmless.
            (0..count).map(|_| self.random.below(slots)).collect()
        };
        order.truncate(count);
        order.into_iter().map(|slot| start + slot * blocks).collect()
    }
}

/// Latencies in milliseconds.
pub fn latencies(taken: &[Taken]) -> Vec<f64> {
    taken.iter().map(Taken::ms).collect()
}

/// Milliseconds from each completion to the next one.
pub fn intervals(taken: &[Taken]) -> Vec<f64> {
    taken.windows(2).map(|two| (two[1].ended as f64 - two[0].ended as f64) / 1e6).collect()
}
