//! GC between its steps: what it empties, where it moves to, how fast it goes.
//!
//! **Owns** these. **Knows nothing of** chunks and zones: their numbers are handed in.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use shingle_base::ZoneId;
use shingle_runtime::Instant;

use crate::gc::throttle::Throttle;
use crate::stats::ZoneTrend;
use crate::types::Stream;

/// The zone that takes a stream's moved records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) zone: ZoneId,
    /// Block of the next record.
    pub(crate) next: u32,
}

/// A destination for each stream, by [slot](Stream::slot).
pub(crate) type Destinations = [Option<Destination>; 3];

/// A zone that rests.
pub(super) struct Resting {
    pub(super) zone: ZoneId,
    /// Its generation: in another one the rest means nothing.
    pub(super) epoch: u64,
    pub(super) since: Instant,
}

/// Zones that rest, in the order in which they began to.
#[derive(Default)]
pub(crate) struct Rests(RefCell<VecDeque<Resting>>);

impl Rests {
    pub(super) fn push(&self, resting: Resting) {
        self.0.borrow_mut().push_back(resting);
    }

    /// True if no zone rests.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// The time since which the first rests.
    pub(super) fn first_since(&self) -> Option<Instant> {
        self.0.borrow().front().map(|resting| resting.since)
    }

    /// Takes out the first, if it has rested long enough since then.
    pub(super) fn next(&self, enough: impl Fn(Instant) -> bool) -> Option<Resting> {
        self.0.borrow_mut().pop_front_if(|first| enough(first.since))
    }
}

/// The state of GC.
pub(crate) struct Collector {
    victim: Cell<Option<ZoneId>>,
    destinations: Cell<Destinations>,
    /// Bytes of the victim moved so far, and in all.
    moved: Cell<(u64, u64)>,
    /// The last sequence number when the store was opened.
    pub(crate) first_sequence: u64,
    pub(crate) throttle: Throttle,
    pub(crate) rests: Rests,
    pub(crate) trend: RefCell<ZoneTrend>,
}

impl Collector {
    pub(crate) fn new(latency_factor: f64, first_sequence: u64, destinations: Destinations) -> Self {
        Self {
            victim: Cell::new(None),
            destinations: Cell::new(destinations),
            moved: Cell::new((0, 0)),
            first_sequence,
            throttle: Throttle::new(latency_factor),
            rests: Rests::default(),
            trend: RefCell::default(),
        }
    }

    /// The zone being emptied.
    pub(crate) fn victim(&self) -> Option<ZoneId> {
        self.victim.get()
    }

    /// Begins to empty a zone. Returns `false` if another one is being emptied.
    pub(crate) fn begin(&self, victim: ZoneId) -> bool {
        let free = self.victim.get().is_none();
        if free {
            self.victim.set(Some(victim));
            self.moved.set((0, 0));
        }
        free
    }

    /// So many bytes live in the victim.
    pub(crate) fn expect(&self, live_bytes: u64) {
        self.moved.set((0, live_bytes));
    }

    /// So many bytes of the victim are done with. Returns their share of all.
    pub(crate) fn advance(&self, bytes: u64) -> f64 {
        let (moved, all) = self.moved.get();
        self.moved.set((moved + bytes, all));
        bytes as f64 / all.max(1) as f64
    }

    /// The victim is done with.
    pub(crate) fn end(&self) {
        self.victim.set(None);
    }

    /// Share of the victim's live bytes that has been moved, in 0..=1.
    pub(crate) fn progress(&self) -> f64 {
        let (moved, all) = self.moved.get();
        if self.victim.get().is_none() || all == 0 { 0.0 } else { moved as f64 / all as f64 }
    }

    pub(crate) fn destinations(&self) -> Destinations {
        self.destinations.get()
    }

    pub(crate) fn destination(&self, stream: Stream) -> Option<Destination> {
        self.destinations.get()[stream.slot()]
    }

    /// Streams that have a destination.
    pub(crate) fn streams(&self) -> Vec<Stream> {
        Stream::ALL.into_iter().filter(|&stream| self.destination(stream).is_some()).collect()
    }

    /// Moves of a stream go there from now on, or nowhere. Returns where they went.
    pub(crate) fn redirect(&self, stream: Stream, to: Option<Destination>) -> Option<Destination> {
        let mut destinations = self.destinations.get();
        let before = std::mem::replace(&mut destinations[stream.slot()], to);
        self.destinations.set(destinations);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_zone_is_emptied_at_a_time_and_its_progress_is_known() {
        let collector = Collector::new(2.0, 0, [None; 3]);
        assert!(collector.begin(ZoneId(4)));
        collector.expect(200);
        assert!(!collector.begin(ZoneId(5)), "another is being emptied");
        assert_eq!((collector.advance(50), collector.advance(100)), (0.25, 0.5));
        assert_eq!((collector.victim(), collector.progress()), (Some(ZoneId(4)), 0.75));
        collector.end();
        assert_eq!((collector.victim(), collector.progress()), (None, 0.0));
        assert!(collector.begin(ZoneId(5)));
        assert_eq!((collector.advance(0), collector.progress()), (0.0, 0.0));
    }

    #[test]
    fn each_stream_has_a_destination_of_its_own() {
        let at = |zone, next| Some(Destination { zone: ZoneId(zone), next });
        let collector = Collector::new(2.0, 0, [None, at(7, 3), None]);
        assert_eq!(collector.streams(), [Stream::Gc]);
        assert_eq!(collector.redirect(Stream::Meta, at(8, 1)), None);
        assert_eq!(collector.redirect(Stream::Gc, at(7, 9)), at(7, 3));
        assert_eq!((collector.destination(Stream::Gc), collector.destination(Stream::Meta)), (at(7, 9), at(8, 1)));
        assert_eq!(collector.redirect(Stream::Gc, None), at(7, 9));
        assert_eq!((collector.streams(), collector.destinations()), (vec![Stream::Meta], [None, None, at(8, 1)]));
    }
}
