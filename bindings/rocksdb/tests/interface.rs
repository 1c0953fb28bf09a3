//! The header against the functions: each is in both.

use std::collections::BTreeSet;
use std::path::Path;

// The library is built with its functions for C.
use shingle_rocksdb as _;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names that follow `before` and stand before `after`.
fn names(text: &str, before: &str, after: char) -> BTreeSet<String> {
    let parts = text.match_indices(before).map(|(at, _)| &text[at + before.len() - "shingle_".len()..]);
    let names = parts.filter_map(|part| {
        let end = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        part[end..].starts_with(after).then(|| part[..end].to_owned())
    });
    names.collect()
}

#[test]
fn the_header_names_the_functions_that_there_are() {
    let code: String =
        ["drive", "names", "read", "status", "write"].map(|part| read(&format!("src/abi/{part}.rs"))).concat();
    let (declared, defined) =
        (names(&read("include/shingle/files.h"), "shingle_", '('), names(&code, "extern \"C\" fn shingle_", '('));
    assert!(defined.len() > 25, "{defined:?}");
    assert_eq!(declared, defined);
    assert_eq!(code.matches("#[unsafe(no_mangle)]").count(), defined.len(), "a function is not exported");
}

#[test]
fn the_header_has_the_numbers_of_errors() {
    use shingle_zone_files::FilesErrorKind::{Corrupt, Locked, NoSpace, NotFound, Unavailable};
    let header = read("include/shingle/files.h");
    let expected = [
        (NotFound, "NOT_FOUND"),
        (NoSpace, "NO_SPACE"),
        (Corrupt, "CORRUPT"),
        (Locked, "LOCKED"),
        (Unavailable, "UNAVAILABLE"),
    ];
    for (kind, name) in expected {
        let line = format!("SHINGLE_{name} = {}", shingle_files_server::error_number(kind));
        assert!(header.contains(&line), "the header lacks {line}");
    }
}
