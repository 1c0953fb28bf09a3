//! Choice of the drive that is slow for so long that the array is better off without it: a pure decision.
//!
//! # Invariants
//! - AS-SLOW-1: a drive that answers is given up for slowness only while no other one is missing, and only one at a time:
//!   its zones are rebuilt before the next.
//! - AS-SLOW-2: where more drives are slow than parity makes up for, the cause is common to them, and none is given up.
//! - AS-SLOW-3: a drive is slow at reads or at writes; what makes one of them late says nothing of the other.
//! - AS-SLOW-4: only time at work counts: not a pause, and not a rebuild or repair, which keeps drives busy with what no
//!   client waits for.
//! - AS-SLOW-5: where no group of drives is without it, a drive that holds up most of what is written, by a second and
//!   more, is given up after a fifth of that time.

use std::collections::BTreeSet;
use std::time::Duration;

use shingle_runtime::Instant;

use crate::types::DriveId;

/// Late answers that it takes: a drive that is hardly read is not judged.
pub(crate) const LATE_COMMANDS_LEAST: u32 = 32;

/// A drive that is slow at one kind of commands, as the policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    pub(crate) drive: DriveId,
    /// Since when.
    pub(crate) since: Instant,
    /// When it last was late, or failed.
    pub(crate) last: Instant,
    /// Late commands since then.
    pub(crate) late: u32,
    /// And how often it takes to be judged.
    pub(crate) least: u32,
    /// Since when a read that nobody waits for is under way on it, if one is.
    pub(crate) waiting_since: Option<Instant>,
}

impl Slow {
    /// True if it has been slow all that time, and still is as far as known.
    fn is_for(&self, long: Duration, now: Instant) -> bool {
        let hangs = self.waiting_since.is_some_and(|since| now.since(since) >= long / 2);
        let late = self.late >= self.least && now.since(self.last) <= long / 2;
        now.since(self.since) >= long && (hangs || late)
    }
}

/// Number of these drives.
pub(crate) fn slow_drives(slow: &[Slow]) -> usize {
    slow.iter().map(|slow| slow.drive).collect::<BTreeSet<_>>().len()
}

/// The drive that is to be given up, if one is.
pub(crate) fn too_slow(slow: &[Slow], now: Instant, long: Duration, missing: usize, parity: usize) -> Option<DriveId> {
    if missing > 0 || slow_drives(slow) > parity {
        return None;
    }
    let longest = slow.iter().filter(|slow| slow.is_for(long, now)).min_by_key(|slow| slow.since);
    longest.map(|slow| slow.drive)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> Instant {
        Instant::default() + Duration::from_secs(seconds)
    }

    fn slow(drive: u8, since: u64, last: u64, late: u32) -> Slow {
        Slow {
            drive: DriveId(drive),
            since: at(since),
            last: at(last),
            late,
            least: LATE_COMMANDS_LEAST,
            waiting_since: None,
        }
    }

    #[test]
    fn a_drive_is_given_up_once_it_was_slow_for_long_and_is_now() {
        let decide = |slow: Slow, now: u64| too_slow(&[slow], at(now), LONG, 0, 2);
        assert_eq!(decide(slow(3, 100, 690, 40), 699), None);
        assert_eq!(decide(slow(3, 100, 690, 40), 700), Some(DriveId(3)));
        // Nobody has read of it for long; nobody has read much.
        assert_eq!(decide(slow(3, 100, 300, 40), 700), None);
        assert_eq!(decide(slow(3, 100, 690, 31), 700), None);
        // It hangs: the read that would tell does not end.
        let hangs = Slow { waiting_since: Some(at(400)), ..slow(3, 100, 110, 8) };
        assert_eq!((decide(hangs, 699), decide(hangs, 700)), (None, Some(DriveId(3))));
    }

    /// AS-SLOW-1 and AS-SLOW-2.
    #[test]
    fn one_at_a_time_and_none_where_many_are_slow_or_one_is_missing() {
        let both = [slow(5, 90, 690, 40), slow(3, 80, 690, 40)];
        assert_eq!(too_slow(&both, at(700), LONG, 0, 2), Some(DriveId(3)));
        assert_eq!(too_slow(&both, at(700), LONG, 1, 2), None);
        assert_eq!(too_slow(&both, at(700), LONG, 0, 1), None);
        assert_eq!(too_slow(&[], at(700), LONG, 0, 1), None);
        // One drive that is slow at both, and for longer at what it was not asked for of late.
        let one = [slow(3, 80, 100, 40), slow(3, 90, 690, 40)];
        assert_eq!(too_slow(&one, at(700), LONG, 0, 1), Some(DriveId(3)));
    }
}
