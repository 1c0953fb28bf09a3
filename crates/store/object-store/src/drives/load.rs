//! A drive's load: the bytes on their way to it, and how fast they arrive.
//!
//! **Knows nothing of** what they are, and which drive it is.

use std::time::Duration;

use shingle_runtime::Instant;

/// A drive's speed is known from so much time in which it had something to do, and forgotten half in as much.
const KNOWN: Duration = Duration::from_millis(50);
const FADES: Duration = Duration::from_secs(2);
/// A speed says nothing of now after so long a pause.
const STALE: Duration = Duration::from_secs(10);
/// A drive has stalled that ended nothing for so many times what an append takes elsewhere, and for this long at least.
const STALL_FACTOR: u32 = 4;
const STALL_LEAST: Duration = Duration::from_millis(50);

/// Work of a drive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    /// Bytes on their way, and in how many appends.
    queue: u64,
    appends: u32,
    /// When an append last ended, or began where none was on its way.
    mark: Instant,
    /// Bytes that arrived, and the time in which there was something to do.
    bytes: u64,
    busy: Duration,
    /// Bytes that it was given beyond its part ([`crate::drives::placement`]).
    pub(crate) lead: f64,
}

impl Load {
    pub(crate) fn begin(&mut self, bytes: u64, now: Instant) {
        if self.appends == 0 {
            self.mark = now;
        }
        self.appends += 1;
        self.queue += bytes;
    }

    pub(crate) fn end(&mut self, bytes: u64, good: bool, now: Instant) {
        if now.since(self.mark) > STALE {
            (self.bytes, self.busy) = (0, Duration::ZERO);
        } else {
            self.busy += now.since(self.mark);
            self.bytes += if good { bytes } else { 0 };
        }
        if self.busy > FADES {
            (self.bytes, self.busy) = (self.bytes / 2, self.busy / 2);
        }
        self.mark = now;
        self.appends = self.appends.saturating_sub(1);
        self.queue = self.queue.saturating_sub(bytes);
    }

    /// Bytes on their way.
    pub(crate) fn queue(&self) -> u64 {
        self.queue
    }

    /// Bytes that arrive in a second while there are some to send, if that is known.
    pub(crate) fn rate(&self, now: Instant) -> Option<f64> {
        let known = self.busy >= KNOWN && now.since(self.mark) < STALE;
        known.then(|| self.bytes as f64 / self.busy.as_secs_f64())
    }

    /// True if it has something to do and has ended nothing for long; `usual`, what an append takes elsewhere.
    pub(crate) fn stalled(&self, usual: Option<Duration>, now: Instant) -> bool {
        let patience = (usual.unwrap_or_default() * STALL_FACTOR).max(STALL_LEAST);
        self.appends > 0 && now.since(self.mark) > patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_of_a_drive_is_that_of_the_time_in_which_it_had_work() {
        let (mut load, start) = (Load::default(), Instant::default());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(load.rate(at(0)), None);
        load.begin(1_000_000, at(0));
        load.begin(1_000_000, at(0));
        load.end(1_000_000, true, at(30));
        load.end(1_000_000, true, at(60));
        // Nothing to do for a second.
        load.begin(3_000_000, at(1060));
        load.end(3_000_000, true, at(1100));
        assert_eq!(load.rate(at(1100)), Some(50_000_000.0));
        assert_eq!((load.queue(), load.rate(at(12_000))), (0, None));
    }

    #[test]
    fn a_drive_that_ends_nothing_has_stalled() {
        let (mut load, start) = (Load::default(), Instant::default());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert!(!load.stalled(None, at(5000)), "nothing is asked of it");
        load.begin(1, at(5000));
        load.begin(1, at(5000));
        assert!(!load.stalled(None, at(5040)) && load.stalled(None, at(5060)));
        assert!(!load.stalled(Some(Duration::from_millis(100)), at(5300)));
        load.end(1, true, at(5070));
        assert!(!load.stalled(None, at(5100)) && load.stalled(None, at(5200)));
    }
}
