//! Number of objects, and their bytes: kept with each change, while `counting` counts those that were there at opening.
//!
//! A change is visible in the metadata some time before or after its call knows its end, and so is a page of names that is read. So a name
//! that is being changed is counted as it was, and its change counts at its end; and a change that ends while a page is read counts in place
//! of what the page says.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Sizes by name; `None` is no object.
type Sizes = BTreeMap<Vec<u8>, Option<u64>>;

/// The counts, and how far counting has come.
#[derive(Default)]
pub(super) struct Tally {
    objects: Cell<u64>,
    bytes: Cell<u64>,
    /// The last name that was counted.
    reached: RefCell<Option<Vec<u8>>>,
    done: Cell<bool>,
    /// Objects that are being changed, as they were.
    under_way: RefCell<Sizes>,
    /// Objects whose change has ended while a page is read, as they are.
    ended: RefCell<Option<Sizes>>,
}

/// A change of an object that is under way; dropped without an end, it has not happened.
pub(super) struct Changing<'t> {
    tally: &'t Tally,
    name: Vec<u8>,
    before: Option<u64>,
    after: Option<u64>,
}

impl Changing<'_> {
    /// The object has this size now.
    pub(super) fn end(mut self, after: Option<u64>) {
        self.after = after;
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.tally.under_way.borrow_mut().remove(&self.name);
        self.tally.change(std::mem::take(&mut self.name), self.before, self.after);
    }
}

impl Tally {
    pub(super) fn get(&self) -> (u64, u64) {
        (self.objects.get(), self.bytes.get())
    }

    /// An object changes that had this size. One does so at a time.
    pub(super) fn begin(&self, name: Vec<u8>, before: Option<u64>) -> Changing<'_> {
        self.under_way.borrow_mut().insert(name.clone(), before);
        Changing { tally: self, name, before, after: before }
    }

    fn change(&self, name: Vec<u8>, before: Option<u64>, after: Option<u64>) {
        if self.done.get() || self.reached.borrow().as_ref().is_some_and(|reached| name <= *reached) {
            let count = |size: Option<u64>| u64::from(size.is_some());
            self.objects.set((self.objects.get() + count(after)).saturating_sub(count(before)));
            self.bytes.set((self.bytes.get() + after.unwrap_or(0)).saturating_sub(before.unwrap_or(0)));
        } else if let Some(ended) = &mut *self.ended.borrow_mut() {
            ended.insert(name, after);
        }
    }

    /// A page is read from here on.
    pub(super) fn begin_page(&self) {
        self.ended.replace(Some(Sizes::new()));
    }

    /// The page cannot be read: changes that end before the next one begins are on that.
    pub(super) fn drop_page(&self) {
        self.ended.take();
    }

    /// The page has these objects. It begins behind the one before it, and ends with `upto`; `None` is the end of all.
    pub(super) fn end_page(&self, page: impl Iterator<Item = (Vec<u8>, u64)>, upto: Option<Vec<u8>>) {
        let mut sizes: Sizes = page.map(|(name, size)| (name, Some(size))).collect();
        let from = self.reached.borrow().clone().map_or(Unbounded, Excluded);
        let range = (from, upto.clone().map_or(Unbounded, Included));
        let ended = self.ended.take().unwrap_or_default();
        for known in [&ended, &*self.under_way.borrow()] {
            sizes.extend(known.range::<Vec<u8>, _>(range.clone()).map(|(name, size)| (name.clone(), *size)));
        }
        for size in sizes.into_values().flatten() {
            self.objects.set(self.objects.get() + 1);
            self.bytes.set(self.bytes.get() + size);
        }
        self.done.set(upto.is_none());
        self.reached.replace(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Vec<u8> {
        text.as_bytes().to_vec()
    }

    #[test]
    fn a_change_counts_once_wherever_counting_is() {
        let tally = Tally::default();
        tally.begin(name("z"), None).end(Some(9));
        assert_eq!(tally.get(), (0, 0), "counting will come to it");
        let (held, late) = (tally.begin(name("b"), Some(5)), tally.begin(name("c"), None));
        tally.begin_page();
        tally.begin(name("a"), Some(3)).end(Some(4));
        tally.begin(name("d"), Some(3)).end(None);
        // The page has seen some of the changes, and others not.
        let page = [("a", 3), ("b", 6), ("c", 7), ("d", 3)].map(|(text, size)| (name(text), size));
        tally.end_page(page.into_iter(), Some(name("f")));
        assert_eq!(tally.get(), (2, 9), "a has 4, and b 5 still");
        held.end(Some(6));
        late.end(Some(7));
        assert_eq!(tally.get(), (3, 17));
        tally.begin(name("b"), Some(6)).end(None);
        drop(tally.begin(name("c"), Some(7)));
        assert_eq!(tally.get(), (2, 11), "one that failed has not happened");
        tally.begin_page();
        tally.end_page([(name("z"), 9)].into_iter(), None);
        tally.begin(name("zz"), None).end(Some(1));
        assert_eq!(tally.get(), (4, 21));
    }
}
