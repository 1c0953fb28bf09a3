//! Blobs being written, and how fast their bytes come.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use shingle_array_store::Put;
use shingle_runtime::Instant;
use tokio::sync::Mutex;

use crate::names::Blob;

/// A blob that is being written. It is taken out to be finished.
pub(super) struct Slot {
    pub(super) blob: Blob,
    pub(super) put: Mutex<Option<Put>>,
    /// Bytes that came, in how many calls, and how long they were waited for.
    pub(super) bytes: Cell<u64>,
    pub(super) calls: Cell<u64>,
    pub(super) idle: Cell<Duration>,
    /// Since when the next are.
    pub(super) since: Cell<Instant>,
    /// When they came, where their call waits still.
    pub(super) came: Cell<Option<Instant>>,
}

/// Blobs being written, by the number of their writer.
#[derive(Default)]
pub(crate) struct Writers(RefCell<BTreeMap<u64, Rc<Slot>>>);

impl Writers {
    /// The writer has gone away: its bytes belong to no object.
    pub(crate) fn drop(&self, number: u64) {
        // Outside the borrow: dropping a put works on the index.
        let slot = self.0.borrow_mut().remove(&number);
        drop(slot);
    }

    pub(super) fn insert(&self, number: u64, slot: Slot) {
        self.0.borrow_mut().insert(number, Rc::new(slot));
    }

    pub(super) fn get(&self, number: u64) -> Option<Rc<Slot>> {
        self.0.borrow().get(&number).cloned()
    }

    pub(super) fn clear(&self) {
        let slots = self.0.take();
        drop(slots);
    }
}
