//! Calls under way. A token that is dropped is a call without an answer; one of a life that is over never has one.
//! (ST-SHADOW-2)

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::MappedRun;

use super::state::{Change, State};
use super::versions::Tick;

/// The life in which a call began.
pub(super) struct Life {
    state: Rc<RefCell<State>>,
    number: u64,
}

impl Life {
    pub(super) fn of(state: &Rc<RefCell<State>>) -> Self {
        Self { state: state.clone(), number: state.borrow().life }
    }

    /// The result of `answer`, unless the life is over.
    fn answered<T: Default>(&self, answer: impl FnOnce(&mut State) -> T) -> T {
        let state = &mut *self.state.borrow_mut();
        if state.life == self.number { answer(state) } else { T::default() }
    }
}

/// A write, a write of zeros or a trim.
#[must_use]
pub struct Changing {
    pub(super) life: Life,
    pub(super) number: u64,
    pub(super) sectors: Range<u64>,
    pub(super) change: Change,
}

impl Changing {
    /// The bytes to write. They name this call and their places.
    pub fn data(&self) -> Bytes {
        self.life.state.borrow().data(&self.sectors, self.number)
    }

    /// The store has said that it is done. A call that failed has no answer: it may have happened in part.
    pub fn completed(self) {
        self.life.answered(|state| state.complete(self.sectors.clone(), self.number, self.change));
    }
}

/// A read, or a look at what is mapped.
#[must_use]
pub struct Reading {
    pub(super) life: Life,
    pub(super) began: Tick,
    pub(super) sectors: Range<u64>,
}

impl Reading {
    /// Takes the bytes read.
    ///
    /// # Errors
    /// A description of the first sector with bytes that it cannot have.
    pub fn completed(self, bytes: &[u8]) -> Result<(), String> {
        let taken = self.life.answered(|state| Some(state.take_bytes(self.sectors.clone(), self.began, bytes)));
        taken.unwrap_or(Ok(()))
    }

    /// Takes the runs that the store told of, of which it was asked for at most `runs_max`.
    ///
    /// # Errors
    /// A description of a wrong run, or of the first unmapped sector that must have bytes.
    pub fn mapped(self, runs: &[MappedRun], runs_max: usize) -> Result<(), String> {
        let taken = self.life.answered(|state| Some(state.take_runs(self.sectors.clone(), self.began, runs, runs_max)));
        taken.unwrap_or(Ok(()))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.life.answered(|state| state.end_read(self.began));
    }
}

/// A flush.
#[must_use]
pub struct Flushing {
    pub(super) life: Life,
    pub(super) began: Tick,
}

impl Flushing {
    /// The store has said that it is done.
    pub fn completed(self) {
        self.life.answered(|state| state.flushed(self.began));
    }
}
