//! The numbers that order everything a store writes.

use std::cell::Cell;
use std::rc::Rc;

/// A store's sequence numbers, from 1; shared by its engine and its metadata log, so that records, journal entries and
/// zone generations have one order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SequenceSource(Rc<Cell<u64>>);

impl SequenceSource {
    /// A source whose next number is above `last`.
    pub fn after(last: u64) -> Self {
        Self(Rc::new(Cell::new(last)))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    /// The last number given out.
    pub fn last(&self) -> u64 {
        self.0.get()
    }

    /// Goes on above `number`, if that is larger than the last one given out.
    pub fn raise(&self, number: u64) {
        self.0.set(self.0.get().max(number));
    }
}
