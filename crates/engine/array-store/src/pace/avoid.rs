//! The decision that new data keeps away from a drive for now, made from how long its writes take beside its peers'.
//!
//! **Knows nothing of** groups, and of where data goes instead.
//!
//! # Invariants
//! - AS-AVOID-1: a drive is avoided from the first write that holds an item up, or once half of its writes are late, until
//!   as many trials in a row ended in time as it takes. That is twice as many each time that it becomes slow again.
//! - AS-AVOID-2: nothing is recorded of it, and nothing relies on it. An item is durable when every member has it
//!   (AS-WRITE-1), those of drives that are avoided too.

use std::cell::Cell;
use std::time::Duration;

use shingle_runtime::Instant;

/// Trials in a row that end in time, before a drive that was slow once is written to again.
const TRIALS: u32 = 2;

/// They become no more than this.
const TRIALS_MOST: u32 = 64;

/// A drive that becomes slow again so soon was slow all the time.
const RELAPSE: Duration = Duration::from_secs(600);

/// A drive that is avoided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Away {
    /// Since when it is slow; it may have passed for well meanwhile.
    pub(super) since: Instant,
    /// Since when it is avoided.
    entered: Instant,
    /// When a write was late last, and how often since it is slow.
    pub(super) last: Instant,
    pub(super) late: u32,
    /// Writes in time, one after the other, and how many it takes.
    good: u32,
    needed: u32,
}

/// One drive, avoided or not.
#[derive(Default)]
pub(super) struct Avoidance {
    now: Cell<Option<Away>>,
    /// The last time that it was, and when that ended.
    past: Cell<Option<(Away, Instant)>>,
}

impl Avoidance {
    /// Its avoidance, if it is avoided.
    pub(super) fn away(&self) -> Option<Away> {
        self.now.get()
    }

    /// It is slow; whether that is news.
    pub(super) fn begin(&self, now: Instant) -> bool {
        if self.now.get().is_some() {
            return false;
        }
        let new = Away { since: now, entered: now, last: now, late: 1, good: 0, needed: TRIALS };
        let relapse = self.past.take().filter(|(_, ended)| now.since(*ended) < RELAPSE);
        let again = relapse.map(|(before, _)| Away {
            since: before.since,
            late: before.late + 1,
            needed: (before.needed * 2).min(TRIALS_MOST),
            ..new
        });
        self.now.set(Some(again.unwrap_or(new)));
        true
    }

    /// A write that began then, or a trial, has ended; whether the drive is well again.
    pub(super) fn wrote(&self, began: Instant, late: bool, now: Instant) -> bool {
        // Commands on their way by then say nothing new.
        let Some(mut away) = self.now.get().filter(|away| began >= away.entered) else { return false };
        if late {
            away = Away { last: now, late: away.late.saturating_add(1), good: 0, ..away };
        } else {
            away.good += 1;
        }
        let well = away.good >= away.needed;
        if well {
            self.past.set(Some((away, now)));
        }
        self.now.set(Some(away).filter(|_| !well));
        well
    }

    /// Forgets what came before: it has to be slow for as long again.
    pub(super) fn begin_anew(&self, now: Instant) {
        self.past.set(None);
        self.now.set(self.now.get().map(|away| Away { since: now, late: 0, ..away }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::default() + Duration::from_secs(seconds)
    }

    /// AS-AVOID-1.
    #[test]
    fn trials_in_time_end_it_and_each_relapse_takes_twice_as_many() {
        let drive = Avoidance::default();
        assert!(drive.begin(at(10)) && !drive.begin(at(11)));
        // It was on its way by then; one in time, one late, two in time.
        assert!(!drive.wrote(at(9), false, at(20)) && !drive.wrote(at(12), false, at(13)));
        assert!(!drive.wrote(at(30), true, at(33)) && !drive.wrote(at(40), false, at(40)));
        let away = drive.away().unwrap();
        assert_eq!((away.since, away.last, away.late), (at(10), at(33), 2));
        assert!(drive.wrote(at(50), false, at(50)) && drive.away().is_none());
        // Soon after: it was slow all the time.
        assert!(drive.begin(at(100)));
        assert_eq!(drive.away().unwrap().since, at(10));
        let well: Vec<bool> = (0..4).map(|number| drive.wrote(at(110 + number), false, at(110 + number))).collect();
        assert_eq!(well, [false, false, false, true]);
        // Much later.
        assert!(drive.begin(at(2000)));
        assert_eq!((drive.away().unwrap().since, drive.away().unwrap().needed), (at(2000), TRIALS));
    }
}
