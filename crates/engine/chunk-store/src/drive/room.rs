//! Room of the file system that holds an emulated drive.

use std::cell::Cell;

/// Presence of room when something was last written.
#[derive(Debug, Default)]
pub(crate) struct HostRoom {
    full: Cell<bool>,
}

impl HostRoom {
    /// A write failed for want of room. Returns whether that is news.
    pub(crate) fn note_full(&self) -> bool {
        !self.full.replace(true)
    }

    /// True from a write that failed for want of room to the next that succeeds.
    pub(crate) fn is_full(&self) -> bool {
        self.full.get()
    }

    /// A write succeeded. Returns whether that is news.
    pub(crate) fn note_room(&self) -> bool {
        self.full.replace(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_news() {
        let room = HostRoom::default();
        assert_eq!([room.note_room(), room.is_full(), room.note_full(), room.note_full()], [false, false, true, false]);
        assert!(room.is_full());
        assert_eq!([room.note_room(), room.note_room(), room.note_full()], [true, false, true]);
    }
}
