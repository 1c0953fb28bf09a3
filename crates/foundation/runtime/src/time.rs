//! Points in time, in nanoseconds.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a clock that only moves forward; its zero has no meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    /// Nanoseconds since the clock's zero.
    pub nanos: u64,
}

impl Instant {
    /// Time from `earlier` to `self`; zero where `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self { nanos: self.nanos.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)) }
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Wall-clock time, for people and for S3's dates; engines never compare two of them to decide an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    /// Nanoseconds since 1970-01-01T00:00:00Z.
    pub nanos: u64,
}
