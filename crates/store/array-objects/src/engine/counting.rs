//! Number of objects: counted once in the background after opening, and kept from then on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;

use super::{Core, size_of};
use crate::format::ObjectRecord;
use crate::names;

/// Names looked at between two looks at whether others have something to do.
pub(super) const PAGE: usize = 64;

/// The counts, and how far counting has come.
#[derive(Default)]
pub(super) struct Counts {
    objects: Cell<u64>,
    bytes: Cell<u64>,
    /// The last name that was counted; `None` once all are.
    reached: RefCell<Option<Bytes>>,
    done: Cell<bool>,
}

impl Counts {
    pub(super) fn get(&self) -> (u64, u64) {
        (self.objects.get(), self.bytes.get())
    }

    /// An object of that name replaces one of `before` bytes; `None` is no object.
    pub(super) fn change(&self, name: &[u8], before: Option<u64>, after: Option<u64>) {
        // Names that counting has not reached are counted as they are then.
        if !self.done.get() && self.reached.borrow().as_deref().is_none_or(|reached| name > reached) {
            return;
        }
        let count = |size: Option<u64>| u64::from(size.is_some());
        self.objects.set((self.objects.get() + count(after)).saturating_sub(count(before)));
        self.bytes.set((self.bytes.get() + after.unwrap_or(0)).saturating_sub(before.unwrap_or(0)));
    }
}

impl Core {
    pub(super) async fn count(self: Rc<Self>) {
        let mut after: Option<Bytes> = None;
        while !self.closing.get() {
            let page = match self.store.list(&[names::OBJECT], after.as_deref(), PAGE) {
                Ok(page) => page,
                Err(error) => return tracing::warn!(%error, "objects could not be counted"),
            };
            let Some(last) = page.last() else {
                self.counts.done.set(true);
                return;
            };
            for object in &page {
                // One that is spoilt is counted as what it takes.
                let size =
                    ObjectRecord::decode(&object.attributes).map_or(object.size, |record| size_of(object, &record));
                self.counts.objects.set(self.counts.objects.get() + 1);
                self.counts.bytes.set(self.counts.bytes.get() + size);
            }
            after = Some(last.name.clone());
            self.counts.reached.replace(after.clone());
            self.rt.yield_now().await;
        }
    }
}
