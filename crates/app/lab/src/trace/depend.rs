//! Dependencies that the times of a recording allow: an I/O may have waited for what completed before it arrived.
//!
//! Of the I/Os that had completed when one arrived, the one that completed last is taken: a program that waited, waited for that one, and
//! with it for all before. A program that did not wait for it is bound too tightly by this. I/Os that do not say how long they took are
//! waited for by none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::io::{Io, Ios, WINDOW};
use crate::error::LabError;

/// I/Os with the dependencies that their times allow, in place of those that they had.
pub struct Inferred {
    ios: Ios,
    number: u64,
    /// Ends of I/Os under way, the earliest first, and their numbers.
    under_way: BinaryHeap<Reverse<(u64, u64)>>,
    /// The I/O that completed last.
    last: Option<u64>,
}

impl Inferred {
    /// Those of `ios`.
    pub fn new(ios: Ios) -> Self {
        Self { ios, number: 0, under_way: BinaryHeap::new(), last: None }
    }
}

impl Iterator for Inferred {
    type Item = Result<Io, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut io = match self.ios.next()? {
            Ok(io) => io,
            error => return Some(error),
        };
        while let Some(&Reverse((end, number))) = self.under_way.peek()
            && end <= io.at
        {
            self.last = Some(number);
            self.under_way.pop();
        }
        let back = self.last.and_then(|last| u32::try_from(self.number - last).ok());
        io.after = back.filter(|&back| back as usize <= WINDOW).into_iter().collect();
        // One that never ends would stay; a window's worth of them is plenty.
        if self.under_way.len() == WINDOW {
            self.under_way.pop();
        }
        if let Some(took) = io.took {
            self.under_way.push(Reverse((io.at.saturating_add(took), self.number)));
        }
        self.number += 1;
        Some(Ok(io))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::io::IoKind;

    #[test]
    fn an_io_waits_for_the_one_that_completed_last_before_it() {
        // Arrival, time taken, and how far back the one is that it may have waited for.
        let ios = [
            (0, Some(100), None),
            (10, Some(20), None),
            (35, Some(500), Some(1)),
            (40, None, Some(2)),
            (100, Some(1), Some(4)),
            (200, None, Some(1)),
        ];
        let read =
            |&(at, took, _): &(u64, Option<u64>, Option<u32>)| Ok(Io { took, ..Io::new(at, IoKind::Read, 0, 512) });
        let source: Vec<_> = ios.iter().map(read).collect();
        let found: Vec<Vec<u32>> = Inferred::new(Box::new(source.into_iter())).map(|io| io.unwrap().after).collect();
        let expected: Vec<Vec<u32>> = ios.iter().map(|io| io.2.into_iter().collect()).collect();
        assert_eq!(found, expected);
    }
}
