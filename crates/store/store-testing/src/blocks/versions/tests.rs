//! Histories of one sector, each with the answers that must be taken and those that must be refused.

use super::*;

/// A sector, and its rules.
#[derive(Clone, Default)]
struct Sector {
    versions: Versions,
    rules: Rules,
}

impl Sector {
    fn steady() -> Self {
        Self { rules: Rules { steady_trims: true, ..Rules::default() }, ..Self::default() }
    }

    /// A write with an answer.
    fn wrote(&mut self, number: u64, began: Tick, ended: Tick, durable: bool) {
        self.versions.begin_write(number, false, began);
        self.versions.complete(number, durable, ended);
    }

    fn trimmed(&mut self, number: u64, began: Tick, ended: Tick) {
        self.versions.begin_trim(number, began);
        self.versions.complete(number, false, ended);
    }

    fn reads(&mut self, value: u64, began: Tick, ended: Tick) -> bool {
        self.versions.show(value, began, ended, self.rules)
    }

    /// True if a read that changes nothing may show this.
    fn may_read(&self, value: u64, began: Tick, ended: Tick) -> bool {
        self.clone().reads(value, began, ended)
    }

    fn cut(&mut self) -> &mut Self {
        self.versions.cut(self.rules);
        self
    }

    /// The values that a read after a power cut may show.
    fn after_a_cut(&self, values: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let after = self.clone().cut().clone();
        values.into_iter().filter(|value| after.may_read(*value, 1000, 1001)).collect()
    }
}

/// ST-VERSION-1
#[test]
fn a_completed_write_is_read_and_older_ones_are_not() {
    let mut sector = Sector::default();
    assert!(sector.may_read(ZEROS, 1, 2) && !sector.may_read(1, 1, 2));
    sector.versions.begin_write(1, false, 1);
    // Under way, it may be seen or not.
    assert!(sector.may_read(ZEROS, 2, 3) && sector.may_read(1, 2, 3));
    sector.versions.complete(1, false, 4);
    assert!(!sector.may_read(ZEROS, 5, 6) && sector.may_read(1, 5, 6));
    // A read that began before the write ended may have come first.
    assert!(sector.may_read(ZEROS, 3, 6));
}

/// ST-VERSION-1
#[test]
fn once_a_read_has_shown_a_write_no_later_one_shows_an_older() {
    let mut sector = Sector::default();
    sector.wrote(1, 1, 2, true);
    sector.versions.begin_write(2, false, 3);
    assert!(sector.may_read(1, 4, 5));
    assert!(sector.reads(2, 4, 6));
    assert!(!sector.may_read(1, 7, 8), "it was overwritten");
    assert!(sector.may_read(1, 5, 8), "that read was under way when the first had its answer");
    assert!(sector.reads(2, 7, 8));
}

/// ST-VERSION-1
#[test]
fn writes_that_overlapped_keep_the_order_that_was_seen() {
    for (first, last) in [(1, 2), (2, 1)] {
        let mut sector = Sector::default();
        sector.versions.begin_write(1, false, 1);
        sector.versions.begin_write(2, false, 2);
        sector.versions.complete(2, true, 3);
        sector.versions.complete(1, true, 4);
        assert!(sector.reads(last, 5, 6));
        assert!(sector.may_read(last, 7, 8) && !sector.may_read(first, 7, 8));
        assert_eq!(sector.after_a_cut(0..3), [last]);
    }
}

/// ST-VERSION-2: nobody has seen their order.
#[test]
fn a_cut_leaves_any_of_the_writes_that_overlapped_the_last_durable_one() {
    let mut sector = Sector::default();
    sector.wrote(1, 1, 2, true);
    sector.versions.begin_write(2, false, 3);
    sector.wrote(3, 4, 5, true);
    sector.wrote(4, 6, 7, false);
    assert_eq!(sector.after_a_cut(0..5), [2, 3, 4]);
    sector.versions.flushed(7);
    assert_eq!(sector.after_a_cut(0..5), [2, 3, 4], "the flush began before the write had completed");
    assert!(!sector.versions.flushed(8));
    assert_eq!(sector.after_a_cut(0..5), [2, 4], "a write without an answer may come at any time");
    assert!(sector.reads(2, 9, 10) && sector.reads(4, 8, 11));
    assert_eq!(sector.after_a_cut(0..5), [2, 4]);
}

/// ST-VERSION-2
#[test]
fn a_life_begins_with_one_of_the_values_and_keeps_it() {
    let mut sector = Sector::default();
    sector.wrote(1, 1, 2, true);
    sector.wrote(2, 3, 4, false);
    sector.wrote(3, 5, 6, false);
    sector.cut();
    assert!([1, 2, 3].into_iter().all(|value| sector.may_read(value, 7, 8)));
    assert!(!sector.may_read(ZEROS, 7, 8));
    assert!(sector.reads(2, 7, 8));
    assert!(!sector.may_read(1, 7, 9) && !sector.may_read(3, 9, 10));
    assert_eq!(sector.after_a_cut(0..4), [2]);
}

#[test]
fn zeros_of_several_versions_are_zeros() {
    let mut sector = Sector::steady();
    sector.wrote(1, 1, 2, true);
    sector.trimmed(2, 3, 4);
    sector.trimmed(3, 5, 6);
    assert!(sector.may_read(1, 7, 8));
    assert!(sector.reads(ZEROS, 7, 8));
    assert!(sector.may_read(ZEROS, 9, 10) && !sector.may_read(1, 9, 10));
    assert_eq!(sector.after_a_cut(0..4), [ZEROS, 1]);
    sector.versions.begin_write(4, true, 11);
    assert!(sector.reads(ZEROS, 12, 13));
    sector.versions.complete(4, true, 14);
    assert_eq!(sector.after_a_cut(0..5), [ZEROS]);
}

/// A trim has no durability, and no order with what was there before it.
#[test]
fn trimmed_bytes_may_come_and_go_until_they_are_written() {
    let mut sector = Sector::default();
    sector.wrote(1, 1, 2, true);
    sector.trimmed(2, 3, 4);
    for at in [5, 7, 9] {
        assert!(sector.reads(ZEROS, at, at + 1) && sector.reads(1, at, at + 1));
    }
    sector.cut();
    for at in [15, 17] {
        assert!(sector.reads(ZEROS, at, at + 1) && sector.reads(1, at, at + 1));
    }
    sector.wrote(3, 20, 21, false);
    assert!(!sector.may_read(ZEROS, 22, 23) && !sector.may_read(1, 22, 23));
    assert_eq!(sector.after_a_cut(0..4), [ZEROS, 1, 3]);
    sector.versions.flushed(24);
    assert_eq!(sector.after_a_cut(0..4), [3]);
}

#[test]
fn of_calls_in_order_the_last_begun_wins() {
    let mut sector = Sector { rules: Rules { in_order_of_calls: true, ..Rules::default() }, ..Sector::default() };
    sector.versions.begin_write(1, false, 1);
    sector.versions.begin_write(2, false, 2);
    sector.versions.complete(2, true, 3);
    sector.versions.complete(1, true, 4);
    assert!(sector.may_read(2, 5, 6) && !sector.may_read(1, 5, 6));
    assert_eq!(sector.after_a_cut(0..3), [2]);
    // One without an answer comes before.
    sector.versions.begin_write(3, false, 7);
    sector.wrote(4, 8, 9, true);
    assert!(!sector.may_read(3, 10, 11));
    sector.versions.forget(20, sector.rules);
    assert!(sector.versions.is_settled());
}

/// ST-VERSION-3
#[test]
fn a_version_is_kept_while_a_read_or_a_cut_may_show_it() {
    let mut sector = Sector::default();
    sector.wrote(1, 1, 2, true);
    sector.wrote(2, 3, 4, false);
    sector.wrote(3, 6, 7, true);
    sector.versions.forget(5, sector.rules);
    assert!(sector.may_read(2, 5, 8), "a read that began at 5 is under way");
    sector.versions.forget(8, sector.rules);
    assert!(sector.versions.is_settled() && sector.may_read(3, 8, 9));
}
