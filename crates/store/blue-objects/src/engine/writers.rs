//! Streams of bytes that come, and what is on its way of each.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_blue_store::BlueError;
use shingle_runtime::owner::Gone;
use shingle_store_api::StoreResult;
use tokio::sync::Notify;

use crate::errors::{from_blue, gone};

/// Bytes that come.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) size: Cell<u64>,
    pub(super) under_way: Cell<u32>,
    pub(super) failed: RefCell<Option<BlueError>>,
    /// Its writer has gone.
    pub(super) ended: Cell<bool>,
    pub(super) moved: Notify,
}

impl Stream {
    /// Waits until fewer than `limit` segments are under way.
    pub(super) async fn fewer_than(&self, limit: u32) {
        loop {
            let moved = self.moved.notified();
            if self.under_way.get() < limit {
                return;
            }
            moved.await;
        }
    }

    pub(super) fn working(&self) -> StoreResult<()> {
        match &*self.failed.borrow() {
            Some(error) => Err(from_blue(error.clone())),
            None if self.ended.get() => Err(gone(Gone)),
            None => Ok(()),
        }
    }
}

/// Streams by the number of their bytes.
#[derive(Default)]
pub(super) struct Writers(RefCell<BTreeMap<u64, Rc<Stream>>>);

impl Writers {
    pub(super) fn get(&self, number: u64) -> StoreResult<Rc<Stream>> {
        self.0.borrow().get(&number).cloned().ok_or_else(|| gone(Gone))
    }

    /// One begins.
    pub(super) fn insert(&self, number: u64, stream: Rc<Stream>) {
        self.0.borrow_mut().insert(number, stream);
    }

    /// It is over.
    pub(super) fn remove(&self, number: u64) -> Option<Rc<Stream>> {
        self.0.borrow_mut().remove(&number)
    }
}
