//! Versions and stamps: nanoseconds since 1970, made to rise strictly whatever the clock does. (SMORE, section III-A.)

use std::cell::Cell;

use shingle_runtime::Runtime;

use crate::types::Version;

pub(crate) struct Stamps {
    rt: Runtime,
    last: Cell<u64>,
}

impl Stamps {
    pub(crate) fn new(rt: &Runtime) -> Self {
        Self { rt: rt.clone(), last: Cell::new(0) }
    }

    /// The next stamp.
    pub(crate) fn next(&self) -> u64 {
        self.last.set(self.rt.unix_time().nanos.max(self.last.get() + 1));
        self.last.get()
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.next())
    }

    /// The last stamp given out.
    pub(crate) fn last(&self) -> u64 {
        self.last.get()
    }

    /// Goes on above stamps that drives hold which are not there. They follow the clocks of their time, and a clock may have
    /// gone back since: by less than a day, it is taken. (AS-LOSS-2)
    pub(crate) fn leave_unseen_behind(&self) {
        const DAY: u64 = 86_400_000_000_000;
        self.last.set(self.next().saturating_add(DAY));
    }

    /// Goes on above `seen`.
    pub(crate) fn raise(&self, seen: u64) {
        self.last.set(self.last.get().max(seen));
    }
}
