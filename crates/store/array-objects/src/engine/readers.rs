//! Objects open for reading.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use shingle_array_store::Reader;

use crate::format::Manifest;

/// An object open for reading.
pub(crate) struct Open {
    pub(super) source: Source,
}

pub(super) enum Source {
    /// One object of the array, held open.
    Whole(Reader),
    /// Blobs, which are pinned, and opened as they are read.
    Blobs {
        manifest: Manifest,
        /// End of each of them in the object.
        ends: Vec<u64>,
        open: RefCell<VecDeque<(usize, Rc<Reader>)>>,
    },
}

/// Objects open for reading, by number.
#[derive(Default)]
pub(crate) struct Readers(RefCell<BTreeMap<u64, Rc<Open>>>);

impl Readers {
    pub(super) fn insert(&self, number: u64, source: Source) {
        self.0.borrow_mut().insert(number, Rc::new(Open { source }));
    }

    pub(super) fn get(&self, number: u64) -> Option<Rc<Open>> {
        self.0.borrow().get(&number).cloned()
    }

    pub(super) fn remove(&self, number: u64) -> Option<Rc<Open>> {
        self.0.borrow_mut().remove(&number)
    }

    pub(super) fn all(&self) -> Vec<u64> {
        self.0.borrow().keys().copied().collect()
    }
}
