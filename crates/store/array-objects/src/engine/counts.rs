//! Number of objects, and their bytes: kept with each change, while `counting` counts those that were there.

use std::cell::{Cell, RefCell};

use bytes::Bytes;

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
    /// So many bytes of an object were counted.
    pub(super) fn count(&self, bytes: u64) {
        self.objects.set(self.objects.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Counting has come to this name; `None` is the end.
    pub(super) fn reach(&self, name: Option<Bytes>) {
        match name {
            Some(name) => drop(self.reached.replace(Some(name))),
            None => self.done.set(true),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_wherever_counting_is() {
        let counts = Counts::default();
        counts.change(b"b", None, Some(5));
        assert_eq!(counts.get(), (0, 0), "counting will come to it");
        counts.count(3);
        counts.reach(Some(Bytes::from_static(b"a")));
        counts.change(b"a", Some(3), Some(4));
        counts.change(b"b", Some(5), Some(6));
        assert_eq!(counts.get(), (1, 4));
        counts.count(6);
        counts.reach(None);
        counts.change(b"c", None, Some(1));
        counts.change(b"a", Some(4), None);
        assert_eq!(counts.get(), (2, 7));
    }
}
