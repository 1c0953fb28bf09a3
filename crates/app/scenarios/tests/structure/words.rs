//! Comments name their subject: no sentence of one begins with a clause such as "What is written".

use std::collections::BTreeSet;

use crate::sources::{self, Source};

/// Words that begin such a clause.
const OPENERS: [&str; 12] =
    ["What", "Whatever", "Where", "Wherever", "Whether", "Which", "Whichever", "Who", "Whoever", "Whose", "How", "Why"];

/// Crates whose comments are not rewritten yet, and those that take code over from them. The list only gets shorter.
const LEFT: [&str; 0] = [];

#[test]
fn no_sentence_of_a_comment_begins_with_a_clause() {
    let sources = sources::all();
    let (mut found, mut left) = (Vec::new(), BTreeSet::new());
    for source in &sources {
        for (line, text) in comments(source) {
            if LEFT.contains(&source.package()) {
                left.extend(clauses(&text).next().map(|_| source.package()));
            } else {
                found.extend(clauses(&text).map(|sentence| format!("{}:{line}: {sentence}", source.path)));
            }
        }
    }
    assert!(found.is_empty(), "begin with a noun or a verb:\n{}", found.join("\n"));
    let there = |package: &&str| sources.iter().any(|source| source.package() == *package);
    for package in LEFT.into_iter().filter(there) {
        assert!(left.contains(package), "the comments of {package} name their subjects now: take it off the list");
    }
}

/// Paragraphs of a source's comments, each with the number of its first line.
fn comments(source: &Source) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut open, mut code) = (None, false);
    for (number, line) in source.lines().enumerate() {
        let comment = ["//! ", "/// ", "// "]
            .into_iter()
            .find_map(|sign| line.trim_start().strip_prefix(sign).map(|text| (sign, text.trim())));
        let Some((sign, text)) = comment else {
            open = None;
            continue;
        };
        if text.starts_with("```") {
            code = !code;
            open = None;
        } else if code || text.starts_with(['|', '#']) {
            open = None;
        } else if open == Some(sign) && !is_item(text) {
            let (_, last) = found.last_mut().expect("a paragraph is open");
            last.push(' ');
            last.push_str(text);
        } else {
            found.push((number + 1, text.to_owned()));
            open = Some(sign);
        }
    }
    found
}

fn is_item(text: &str) -> bool {
    text.starts_with("- ") || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

/// Sentences that begin with an opener. A question is none of them.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start_matches("- ");
    let text = text.split_once(": ").filter(|(id, _)| is_id(id)).map_or(text, |(_, rest)| rest);
    let starts = text.match_indices(". ").map(|(at, _)| at + 2);
    std::iter::once(0).chain(starts).map(|at| &text[at..]).filter_map(|rest| {
        let sentence = rest.split_inclusive(". ").next()?;
        let opener =
            OPENERS.iter().find(|opener| sentence.strip_prefix(**opener).is_some_and(|rest| rest.starts_with(' ')));
        opener.filter(|_| !sentence.contains('?')).map(|_| sentence)
    })
}

fn is_id(text: &str) -> bool {
    text.contains('-') && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-')
}

#[test]
fn clauses_are_told_from_other_sentences() {
    let of = |text: &'static str| clauses(text).collect::<Vec<_>>();
    assert_eq!(of("What a drive answers. Length in bytes. Whoever asks."), ["What a drive answers. ", "Whoever asks."]);
    assert_eq!(of("- AB-1: Where it lies."), ["Where it lies."]);
    assert_eq!(of("Answer of a drive to a read. Is it whole? How long is it? Whole."), Vec::<&str>::new());
    let text = "/// Length of\n/// - What is\n///   it.\nfn a() {}\n// How so.\n/// ```\n/// Who\n/// ```\n";
    let source = Source { path: "crates/a/b/src/lib.rs".to_owned(), text: text.to_owned() };
    let expected = [(1, "Length of"), (2, "- What is it."), (5, "How so.")];
    assert_eq!(comments(&source), expected.map(|(line, text)| (line, text.to_owned())));
}
