//! Layouts of objects in parts that were read last: a range of one is read without going through all of its parts again.
//!
//! The list of an object's parts never changes, and no other has its number. (BO-NUM-1)
//!
//! **Owns** the layouts in memory. **Knows nothing of** whether their objects are still there: who asks has looked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::layout::Layout;

/// Parts of all layouts in memory, about: a part takes 16 bytes.
const PARTS_MAX: usize = 1 << 16;

/// Layouts that were used last, the newest in front, each with its number.
#[derive(Default)]
pub(super) struct Layouts(RefCell<VecDeque<(u64, Arc<Layout>)>>);

impl Layouts {
    pub(super) fn get(&self, number: u64) -> Option<Arc<Layout>> {
        let mut kept = self.0.borrow_mut();
        let at = kept.iter().position(|(other, _)| *other == number)?;
        let found = kept.remove(at)?;
        kept.push_front(found);
        kept.front().map(|(_, layout)| layout.clone())
    }

    pub(super) fn keep(&self, number: u64, layout: &Arc<Layout>) {
        self.forget(number);
        let mut kept = self.0.borrow_mut();
        kept.push_front((number, layout.clone()));
        // One with few parts takes some room, too.
        let mut parts = 0;
        kept.retain(|(_, layout)| {
            let with = parts + layout.blobs() + 64;
            let fits = with <= PARTS_MAX;
            parts = if fits { with } else { parts };
            fits
        });
    }

    /// They are being removed.
    pub(super) fn forget(&self, number: u64) {
        self.0.borrow_mut().retain(|(other, _)| *other != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_used_last_stay() {
        let layouts = Layouts::default();
        let of = |parts: usize| {
            let mut layout = Layout::new(10);
            (0..parts as u64).for_each(|blob| layout.push(blob, 5).unwrap());
            Arc::new(layout)
        };
        for number in 0..4 {
            layouts.keep(number, &of(20_000));
            assert_eq!(layouts.get(0).map(|layout| layout.size()), Some(100_000));
        }
        let kept = |number| layouts.get(number).is_some();
        assert_eq!([kept(0), kept(1), kept(2), kept(3)], [true, false, true, true]);
        layouts.forget(3);
        assert!(!kept(3) && kept(2));
        layouts.keep(9, &of(PARTS_MAX + 1));
        assert!(!kept(9) && kept(2), "one that is too long");
    }
}
