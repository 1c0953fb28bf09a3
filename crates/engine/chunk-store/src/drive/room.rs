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
        assert_eq!([room.note_room(), room.note_full(), room.note_full()], [false, true, false]);
        assert_eq!([room.note_room(), room.note_room(), room.note_full()], [true, false, true]);
    }
}
