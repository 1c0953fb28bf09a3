//! Lateness of a drive's appends, compared with others'.
//!
//! # Invariants
//! - OS-SLOWD-1: a drive of which two appends, one begun after the other had ended, took eight times as long as they take elsewhere, and a
//!   quarter of a second at least, gets new data only where no other takes it: for ten seconds, and twice as long each time that it
//!   still is slow then, five minutes at most. Nothing that it has is given up. `puts_go_to_drives_that_are_not_slow`.
//! - OS-SLOWD-2: what an append takes elsewhere is known once [`KNOWN`] were made there: the first ones of a process say little.
//!   `a_drive_is_not_slow_because_the_first_appends_elsewhere_were_quick`.

use std::time::Duration;

use shingle_runtime::Instant;

/// An append is late that took so many times as long as one of the others takes, and this long at least.
const LATE_FACTOR: u32 = 8;
const LATE_LEAST: Duration = Duration::from_millis(250);
/// So many, one after the other, make a drive slow that was not before.
const LATE_FIRST: u32 = 2;
/// Time that a drive gets no new data after a late append; twice as long after each further one, up to the most.
const SPARED: Duration = Duration::from_secs(10);
const SPARED_MOST: Duration = Duration::from_secs(300);
/// The weight of one more append in what appends usually take: one in so many.
const FADING: u32 = 16;
/// Appends from which it is known what one takes.
const KNOWN: u32 = 8;

/// The one in the middle, of two the lower.
pub(crate) fn middle(times: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied()
}

/// Lateness of a drive's appends.
#[derive(Default)]
pub(crate) struct Lateness {
    /// Usual time of an append; `None` before the first.
    usual: Option<Duration>,
    /// Appends that it comes from.
    appends: u32,
    /// An append was late: others are preferred until then, and for how long that was.
    slow_until: Option<Instant>,
    spared: Duration,
    /// Late appends, each begun after the one before had ended.
    late: u32,
    late_ended: Option<Instant>,
}

impl Lateness {
    /// True if new data goes to others, if there are any that take it (OS-SLOWD-1).
    pub(crate) fn is_slow(&self, now: Instant) -> bool {
        self.slow_until.is_some_and(|until| now < until)
    }

    /// Usual time of an append, if any was made.
    pub(crate) fn usual(&self) -> Option<Duration> {
        self.usual
    }

    /// The same once it is known (OS-SLOWD-2).
    pub(crate) fn known(&self) -> Option<Duration> {
        self.usual.filter(|_| self.appends >= KNOWN)
    }

    /// An append that began at `began` has ended, well or not; `others` is the usual time elsewhere. Returns true if
    /// the drive is slow, and was not before.
    pub(crate) fn appended(&mut self, began: Instant, good: bool, others: Option<Duration>, now: Instant) -> bool {
        let took = now.since(began);
        let late = others.is_some_and(|others| took > (others * LATE_FACTOR).max(LATE_LEAST));
        if good || late {
            // Late ones, too: where all drives have much to do, that is what an append takes.
            self.usual = Some(self.usual.map_or(took, |usual| usual - usual / FADING + took / FADING));
            self.appends = self.appends.saturating_add(1);
        }
        // Appends on their way by then say nothing new.
        if self.slow_until.is_some_and(|until| began < until) {
            return false;
        }
        if !late {
            (self.slow_until, self.spared) = if good { (None, Duration::ZERO) } else { (self.slow_until, self.spared) };
            (self.late, self.late_ended) = (0, None);
            return false;
        }
        // Of those that were on their way together one counts: they waited for the same.
        if self.late_ended.is_none_or(|ended| began >= ended) {
            self.late += 1;
            self.late_ended = Some(now);
        }
        let slow = self.late >= LATE_FIRST || self.spared > Duration::ZERO;
        if slow {
            self.spared = (self.spared * 2).clamp(SPARED, SPARED_MOST);
            self.slow_until = Some(now + self.spared);
        }
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant::default() + MS * ms
    }

    /// A drive of which appends took so long, one after the other.
    fn used(took: &[u32]) -> Lateness {
        let mut lateness = Lateness::default();
        let mut now = 0;
        for took in took {
            lateness.appended(at(now), true, None, at(now + took));
            now += took;
        }
        lateness
    }

    /// OS-SLOWD-2.
    #[test]
    fn a_drive_is_not_slow_because_the_first_appends_elsewhere_were_quick() {
        for (others, slow) in [(&[2][..], false), (&[2; 7], false), (&[2; 8], true)] {
            let others = used(others).known();
            let mut drive = Lateness::default();
            for number in 0..2 {
                drive.appended(at(number * 300), true, others, at(number * 300 + 300));
            }
            assert_eq!(drive.is_slow(at(600)), slow, "{others:?}");
        }
    }

    /// OS-SLOWD-1: a burst that waited for one thing is late once.
    #[test]
    fn appends_that_were_late_together_are_late_once() {
        let others = used(&[2; 20]).known();
        let mut drive = Lateness::default();
        for number in 0..20 {
            assert!(!drive.appended(at(number), true, others, at(300 + number)));
        }
        assert!(!drive.is_slow(at(320)));
        assert!(drive.appended(at(330), true, others, at(640)), "another one, begun later");
        assert!(drive.is_slow(at(640)) && !drive.is_slow(at(10_641)));
    }
}
