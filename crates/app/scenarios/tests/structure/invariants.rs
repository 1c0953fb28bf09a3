//! Invariants have ids: each names its crate, is stated once, and a test or an assertion names it.
//!
//! The head of a module states one as `//! - AS-PUT-1: ...`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::sources::{self, Source};

/// Beginning of a crate's ids.
const PREFIXES: [(&str, &str); 34] = [
    ("crates/app/cli", "CLI"),
    ("crates/app/lab", "LAB"),
    ("crates/app/scenarios", "SC"),
    ("crates/app/server", "SV"),
    ("crates/device/drive-model", "DM"),
    ("crates/device/sim", "SIM"),
    ("crates/device/skylight", "SKY"),
    ("crates/device/zoned", "ZD"),
    ("crates/device/zoned-linux", "ZL"),
    ("crates/engine/array-store", "AS"),
    ("crates/engine/chunk-store", "CS"),
    ("crates/engine/partitions", "PT"),
    ("crates/engine/record", "RC"),
    ("crates/engine/translation", "TL"),
    ("crates/engine/zone-files", "ZF"),
    ("crates/engine/zone-kit", "ZK"),
    ("crates/foundation/base", "BS"),
    ("crates/foundation/block-trace", "BT"),
    ("crates/foundation/erasure", "EC"),
    ("crates/foundation/runtime", "RT"),
    ("crates/foundation/store-api", "API"),
    ("crates/frontend/files-server", "FS"),
    ("crates/frontend/nbd-server", "NBD"),
    ("crates/frontend/rocksdb-keys", "RKK"),
    ("crates/frontend/ublk-server", "UB"),
    ("crates/frontend/s3-gateway", "GW"),
    ("crates/store/array-objects", "AO"),
    ("crates/store/blue-objects", "BO"),
    ("crates/store/blue-store", "BLU"),
    ("crates/store/buckets", "BK"),
    ("crates/store/object-store", "OS"),
    ("crates/store/placement", "PL"),
    ("crates/store/store-testing", "ST"),
    ("crates/store/translation-layers", "TLL"),
];

/// Lines between an assertion and the comment that says what it holds.
const NEAR: usize = 3;

/// The statement of an invariant.
struct Statement<'a> {
    id: &'a str,
    source: &'a Source,
}

fn statements(sources: &[Source]) -> Vec<Statement<'_>> {
    let of_source = |source| {
        let ids = Source::lines(source).filter_map(|line| statement(line)?.split_once(": ").map(|(id, _)| id));
        ids.filter(|id| is_id(id)).map(move |id| Statement { id, source })
    };
    let found: Vec<_> = sources.iter().flat_map(of_source).collect();
    assert!(found.len() > 200, "only {} invariants were found", found.len());
    found
}

/// A line of a list in the head of a module or of an item.
fn statement(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//! - ").or_else(|| line.strip_prefix("/// - "))
}

/// Capitals and digits in words that a `-` joins; the last one is a number.
fn is_id(text: &str) -> bool {
    let Some((words, number)) = text.rsplit_once('-') else { return false };
    let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    words.starts_with(|c: char| c.is_ascii_uppercase())
        && words.split('-').all(plain)
        && !number.is_empty()
        && number.chars().all(|c| c.is_ascii_digit())
}

/// Everything in a text that has the form of an id.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .map(|word| word.trim_matches('-'))
        .filter(|id| is_id(id))
}

fn prefix(package: &str) -> &'static str {
    let found = PREFIXES.iter().find(|(known, _)| *known == package);
    found.unwrap_or_else(|| panic!("{package} has no prefix for the ids of its invariants")).1
}

fn names(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'))
}

#[test]
fn an_id_names_its_crate() {
    let sources = sources::all();
    for Statement { id, source } in statements(&sources) {
        let prefix = prefix(source.package());
        assert!(names(id, prefix), "{}: {id} does not begin with {prefix}-", source.path);
    }
}

#[test]
fn an_id_is_stated_once() {
    let sources = sources::all();
    let mut stated = BTreeMap::new();
    for Statement { id, source } in statements(&sources) {
        if let Some(before) = stated.insert(id, &source.path) {
            panic!("{id} is stated in {before} and in {}", source.path);
        }
    }
}

#[test]
fn a_test_or_an_assertion_names_each() {
    let sources = sources::all();
    let outside = sources::outside_tests();
    let outside = outside.iter().flat_map(|test| ids(&test.text));
    let held: BTreeSet<&str> = sources.iter().flat_map(named_in).chain(outside).collect();
    let unnamed: Vec<&str> =
        statements(&sources).into_iter().map(|one| one.id).filter(|id| !held.contains(id)).collect();
    assert!(unnamed.is_empty(), "no test and no assertion names these: {unnamed:?}");
}

/// Ids in tests and beside assertions.
fn named_in(source: &Source) -> Vec<&str> {
    let lines: Vec<&str> = source.lines().collect();
    let tests_from = lines.iter().position(|line| line.trim() == "#[cfg(test)]").unwrap_or(lines.len());
    let asserts = |line: &&str| line.contains("assert!(") || line.contains("assert_eq!(");
    let counts = |number: usize| {
        let near = number.saturating_sub(NEAR)..(number + NEAR + 1).min(lines.len());
        source.is_test() || number > tests_from || lines[near].iter().any(asserts)
    };
    // The statement of an invariant does not hold it.
    let lines = lines.iter().enumerate().filter(|(number, line)| statement(line).is_none() && counts(*number));
    lines.flat_map(|(_, line)| ids(line)).collect()
}

#[test]
fn an_id_that_is_cited_is_stated() {
    let sources = sources::all();
    let stated: BTreeSet<&str> = statements(&sources).iter().map(|statement| statement.id).collect();
    let prefixes: BTreeSet<&str> = PREFIXES.iter().map(|(_, prefix)| *prefix).collect();
    let is_ours =
        |id: &str| id.matches('-').count() == 2 && prefixes.contains(id.split('-').next().unwrap_or_default());
    let pages = sources::pages();
    let texts =
        sources.iter().chain(&pages).filter(|source| !Path::new(&source.path).ends_with("structure/invariants.rs"));
    for source in texts {
        for id in ids(&source.text).filter(|id| is_ours(id)) {
            assert!(stated.contains(id), "{} cites {id}, which no module states", source.path);
        }
    }
}

#[test]
fn ids_are_told_from_other_words() {
    let text = "(AS-PUT-1, REC-12): UTF-8, CRC-32C, LOG-, -4, a-1; RAID-Z-";
    assert_eq!(ids(text).collect::<Vec<_>>(), ["AS-PUT-1", "REC-12", "UTF-8"]);
}
