//! A file has one subject, and at most 500 lines.

use crate::sources;

const MOST: usize = 500;

/// Files that are longer still. The list only gets shorter.
const LONGER: [&str; 0] = [];

#[test]
fn no_file_has_more_than_500_lines() {
    let sources = sources::all();
    let long = |path: &str| sources.iter().any(|source| source.path == path && source.text.lines().count() > MOST);
    for source in &sources {
        let lines = source.text.lines().count();
        let known = LONGER.contains(&source.path.as_str());
        assert!(lines <= MOST || known, "{} has {lines} lines: split it by subject", source.path);
    }
    for known in LONGER {
        assert!(long(known), "{known} is short enough now: take it off the list");
    }
}
