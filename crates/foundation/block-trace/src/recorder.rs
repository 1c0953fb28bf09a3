//! Requests under way on a disk, as they become I/Os of a trace.
//!
//! A request stands in the trace by its arrival, and says how long it took, so it waits here until it was answered. Its `after` names no more
//! than is needed to know all requests that had been answered when it came: if one of them itself came after others were answered, those
//! follow from it. So of all that was answered, those are named that were under way when the last of them to come came.
//!
//! # Invariants
//! - BT-REC-1: I/Os come out in the order of arrival, each once, and meet the rules of a trace.
//! - BT-REC-2: the requests that lead to an I/O by `after` are those that had been answered when it came, as long as at most
//!   [`AFTER_MAX`] have to be named and none is farther back than [`WINDOW`]. It never waits for one that had not been answered.
//! - BT-REC-3: memory is bounded: at most [`HELD_MAX`] I/Os are held, and an earlier one that has not been answered by then
//!   comes out without the time that it took.

use std::collections::{BTreeMap, VecDeque};

use crate::io::{AFTER_MAX, Io, IoKind, SECTOR, WINDOW};

/// I/Os that wait for the answer of one before them, at most.
pub const HELD_MAX: usize = 1 << 14;

/// A request to a disk, as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its kind.
    pub kind: IoKind,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
    /// It is to be durable when it is answered.
    pub fua: bool,
}

/// An I/O that waits to come out.
struct Held {
    io: Io,
    /// Moment of its arrival.
    came: u64,
    answered: bool,
}

/// A request that was answered.
struct Answered {
    number: u64,
    moment: u64,
}

/// Requests as they come and are answered.
pub struct Recorder {
    size: u64,
    /// Time of the first arrival: the trace begins with it.
    begin: Option<u64>,
    last_at: u64,
    /// Arrivals and answers, counted.
    moment: u64,
    held: VecDeque<Held>,
    /// Number of the first of those.
    first: u64,
    /// Moments of arrival of those that came out before they were answered.
    overdue: BTreeMap<u64, u64>,
    /// Those that the next one names, the first answered in front.
    answered: VecDeque<Answered>,
    /// Moment of the last arrival among all that were answered.
    last_came: u64,
}

impl Recorder {
    /// For a disk of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            begin: None,
            last_at: 0,
            moment: 0,
            held: VecDeque::new(),
            first: 0,
            overdue: BTreeMap::new(),
            answered: VecDeque::new(),
            last_came: 0,
        }
    }

    /// Notes a request that came at the time `now`, in nanoseconds of any clock that does not go back, and returns its number; `None` for one
    /// that no trace can have. Whole sectors are noted.
    pub fn came(&mut self, now: u64, request: Request) -> Option<u64> {
        let Request { kind, offset, length, fua } = request;
        let (offset, length) = match kind {
            IoKind::Flush => (0, 0),
            _ => {
                let start = offset / SECTOR * SECTOR;
                let end = offset.checked_add(length)?.checked_next_multiple_of(SECTOR)?;
                (start, end - start)
            }
        };
        let number = self.first + self.held.len() as u64;
        let at = now.saturating_sub(*self.begin.get_or_insert(now)).max(self.last_at);
        let back = |before: &Answered| u32::try_from(number - before.number).ok();
        let after = self.answered.iter().rev().filter_map(back).filter(|&back| back as usize <= WINDOW).collect();
        let fua = fua && !matches!(kind, IoKind::Read | IoKind::Flush);
        let io = Io { at, kind, offset, length, fua, took: None, after };
        io.check(self.size, number).ok()?;
        self.last_at = at;
        self.moment += 1;
        self.held.push_back(Held { io, came: self.moment, answered: false });
        Some(number)
    }

    /// Notes the answer to a request, at the time `now`.
    pub fn answered(&mut self, now: u64, number: u64) {
        let since = now.saturating_sub(self.begin.unwrap_or(now));
        let came = match self.place(number) {
            Some(held) => {
                held.answered = true;
                held.io.took = Some(since.saturating_sub(held.io.at));
                held.came
            }
            None => match self.overdue.remove(&number) {
                Some(came) => came,
                None => return,
            },
        };
        self.moment += 1;
        self.last_came = self.last_came.max(came);
        self.answered.push_back(Answered { number, moment: self.moment });
        // One that was answered before the last of them came follows from that one.
        while self.answered.front().is_some_and(|first| first.moment < self.last_came)
            || self.answered.len() > AFTER_MAX
        {
            self.answered.pop_front();
        }
    }

    /// The next I/O that is complete.
    pub fn next_io(&mut self) -> Option<Io> {
        let first = self.held.front()?;
        if !first.answered && self.held.len() <= HELD_MAX {
            return None;
        }
        self.take()
    }

    /// The next I/O, be it complete or not: for the end.
    pub fn last_io(&mut self) -> Option<Io> {
        self.take()
    }

    fn take(&mut self) -> Option<Io> {
        let Held { io, came, answered } = self.held.pop_front()?;
        if !answered {
            self.overdue.insert(self.first, came);
            // As far back as anybody can name them.
            if self.overdue.len() > WINDOW {
                self.overdue.pop_first();
            }
        }
        self.first += 1;
        Some(io)
    }

    fn place(&mut self, number: u64) -> Option<&mut Held> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.held.get_mut(at).filter(|held| !held.answered)
    }
}

#[cfg(test)]
mod tests;
