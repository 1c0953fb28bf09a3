//! Maps that have shrunk become dense again.

use super::ExtentMap;

/// Leaves that are looked at together. One is won where they are less than nine tenths full.
const TOGETHER: usize = 16;

impl<const N: usize, const D: usize> ExtentMap<N, D> {
    /// Packs the extents from sector `from` on into as few leaves as hold them, through `leaves` leaves or some more. Returns the
    /// sector at which the next call goes on, or `None` at the end of the map. (TL-MAP-2)
    ///
    /// Deletions may leave leaves three eighths full, 33 B an extent (TL-MAP-4); this is for idle times.
    pub fn tidy(&mut self, from: u64, leaves: usize) -> Option<u64> {
        let (mut from, mut left) = (from, leaves);
        loop {
            let window = self.window(self.directory.locate(from)?, TOGETHER);
            let [_, .., last] = window[..] else { return None };
            let total = self.total(&window);
            let mut next = self.directory.leaf(last)?.base();
            if total.div_ceil(Self::DENSE) < window.len() {
                self.spread(&window, Self::DENSE);
                // The last leaf is filled up by the next ones.
                next = self.scratch.last().map_or(next, |last| last.lba);
                self.scratch.clear();
                self.mend(next);
                next = self.directory.leaf(self.directory.locate(next)?)?.base();
            }
            left = left.saturating_sub(window.len());
            from = next;
            if left == 0 {
                return Some(from);
            }
        }
    }
}
