//! Decides if a drive is slow, by the share of its recent commands of one kind that were late.
//!
//! **Owns** that share, and since when it is too high. **Knows nothing of** what makes a command late.

use std::cell::Cell;
use std::time::Duration;

use shingle_runtime::Instant;

/// The scale: all of the recent commands were late.
const ALWAYS: u16 = 1024;

/// After so long without a command the next ones are an account of their own: a slow drive is one that is slow at work.
const PAUSE: Duration = Duration::from_secs(60);

/// A write is late that took so many times as long as the same item's in the middle, and [`WRITE_LATE_LEAST`] at least.
const WRITE_LATE_FACTOR: u32 = 8;
const WRITE_LATE_LEAST: Duration = Duration::from_millis(50);

/// Drives' writes of one item that it takes to compare them.
const WRITES_LEAST: usize = 3;

/// The recent commands of a drive.
#[derive(Default)]
pub(super) struct Lateness {
    share: Cell<u16>,
    slow_since: Cell<Option<Instant>>,
    /// Late or failed commands since it is slow, and the time of the last.
    late: Cell<(u32, Instant)>,
    /// The last command.
    last: Cell<Instant>,
}

/// Effect of one more command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Slow,
    Quick,
}

impl Lateness {
    /// One more command. Half of the recent ones late, or failed, is slow; it stays so until few are.
    pub(super) fn count(&self, late: bool, now: Instant) -> Option<Change> {
        if now.since(self.last.replace(now)) > PAUSE {
            self.share.set(0);
            self.slow_since.set(None);
        }
        let before = self.share.get();
        let after = if late { before + (ALWAYS - before) / 8 } else { before - before.div_ceil(8) };
        self.share.set(after);
        if late {
            let before = if self.slow_since.get().is_some() { self.late.get().0 } else { 0 };
            self.late.set((before.saturating_add(1), now));
        }
        match self.slow_since.get() {
            None if after > ALWAYS / 2 => {
                self.slow_since.set(Some(now));
                Some(Change::Slow)
            }
            Some(_) if after < ALWAYS / 8 => {
                self.slow_since.set(None);
                Some(Change::Quick)
            }
            _ => None,
        }
    }

    /// Earlier commands count no more, if the drive is slow: it has to be slow for as long again.
    pub(super) fn begin_anew(&self, now: Instant) {
        self.slow_since.set(self.slow_since.get().map(|_| now));
        self.late.set((0, now));
    }

    pub(super) fn slow_since(&self) -> Option<Instant> {
        self.slow_since.get()
    }

    /// Late commands since it is slow, and the time of the last.
    pub(super) fn late(&self) -> (u32, Instant) {
        self.late.get()
    }
}

/// Longest time of a write of one item, by the times of its writes of all drives; `None` if they are too few to tell.
pub(super) fn late_after(took: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut took: Vec<_> = took.collect();
    took.sort_unstable();
    let middle = *took.get(took.len().saturating_sub(1) / 2).filter(|_| took.len() >= WRITES_LEAST)?;
    Some((middle * WRITE_LATE_FACTOR).max(WRITE_LATE_LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_late_is_slow_until_few_are() {
        let lateness = Lateness::default();
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        let counted: Vec<_> = (0..8).map(|number| lateness.count(true, at(number))).collect();
        let found = counted.iter().position(|change| *change == Some(Change::Slow)).unwrap();
        assert_eq!(lateness.slow_since(), Some(at(found as u64)));
        assert_eq!(lateness.late(), ((8 - found) as u32, at(7)), "those before it was slow do not count");
        let quick = (8..40).position(|number| lateness.count(false, at(number)) == Some(Change::Quick));
        assert!(quick.is_some_and(|after| after > 8), "{quick:?}");
        assert_eq!(lateness.slow_since(), None);
    }

    #[test]
    fn one_late_command_in_eight_is_not_slow() {
        let lateness = Lateness::default();
        for number in 0..1000 {
            assert_eq!(lateness.count(number % 8 == 0, Instant::default()), None);
        }
    }

    /// AS-SLOW-4: the first command after a night is late, as the last ones before it were: that is no slow night.
    #[test]
    fn a_pause_is_not_slow_time() {
        let lateness = Lateness::default();
        let at = |seconds| Instant::default() + Duration::from_secs(seconds);
        for number in 0..40 {
            lateness.count(true, at(1000 + number));
        }
        assert!(lateness.slow_since().is_some());
        assert_eq!(lateness.count(true, at(30_000)), None);
        assert_eq!(lateness.slow_since(), None);
        // A drive that parks its heads between two commands.
        for number in 0..100 {
            assert_eq!(lateness.count(true, at(40_000 + number * 100)), None);
        }
    }

    #[test]
    fn writes_are_compared_with_those_of_the_same_item() {
        let of = |millis: &[u64]| late_after(millis.iter().map(|&millis| Duration::from_millis(millis)));
        assert_eq!(of(&[1, 900]), None);
        assert_eq!(of(&[1, 2, 900]), Some(WRITE_LATE_LEAST));
        // All wait for the same long queue.
        assert_eq!(of(&[300, 400, 500, 600]), Some(Duration::from_millis(3200)));
        assert_eq!(of(&[10, 10, 10, 10, 1000, 1000]), Some(Duration::from_millis(80)));
    }
}
