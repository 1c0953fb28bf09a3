//! Names and counts in words.

/// A name for a terminal.
pub(super) fn shown(name: &[u8]) -> String {
    shingle_base::printable(name)
}

/// Words for a count: `one`, or `many` of them.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

/// Words for a count of zone sets.
pub(super) fn zone_sets(count: usize) -> String {
    counted(count, "zone set", "zone sets")
}
