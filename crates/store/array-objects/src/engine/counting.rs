//! Number of objects: counted once in the background after opening, and kept from then on.

use std::rc::Rc;

use bytes::Bytes;

use super::{Core, size_of};
use crate::format::ObjectRecord;
use crate::names;

/// Names looked at between two looks at whether others have something to do.
pub(super) const PAGE: usize = 64;

impl Core {
    pub(super) async fn count(self: Rc<Self>) {
        let mut after: Option<Bytes> = None;
        while !self.closing.get() {
            let page = match self.store.list(&[names::OBJECT], after.as_deref(), PAGE) {
                Ok(page) => page,
                Err(error) => return tracing::warn!(%error, "objects could not be counted"),
            };
            let Some(last) = page.last() else {
                return self.counts.reach(None);
            };
            for object in &page {
                // One that is spoilt is counted as what it takes.
                let size =
                    ObjectRecord::decode(&object.attributes).map_or(object.size, |record| size_of(object, &record));
                self.counts.count(size);
            }
            after = Some(last.name.clone());
            self.counts.reach(after.clone());
            self.rt.yield_now().await;
        }
    }
}
