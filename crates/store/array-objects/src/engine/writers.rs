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
pub(super) struct OpenBlob {
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
pub(crate) struct Writers(RefCell<BTreeMap<u64, Rc<OpenBlob>>>);

impl Writers {
    /// The writer has gone away: its bytes belong to no object.
    pub(crate) fn drop(&self, number: u64) {
        // Outside the borrow: dropping a put works on the index.
        let blob = self.0.borrow_mut().remove(&number);
        drop(blob);
    }

    pub(super) fn insert(&self, number: u64, blob: OpenBlob) {
        self.0.borrow_mut().insert(number, Rc::new(blob));
    }

    pub(super) fn get(&self, number: u64) -> Option<Rc<OpenBlob>> {
        self.0.borrow().get(&number).cloned()
    }

    pub(super) fn clear(&self) {
        let blobs = self.0.take();
        drop(blobs);
    }
}
