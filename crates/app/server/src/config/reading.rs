//! Reading a TOML file with all of its mistakes, not only the first.
//!
//! # Invariants
//! - SV-READ-1: each reported mistake is one of its own: none is a consequence of another one that was reported.

use std::mem;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

/// A place in the text, in bytes.
type Span = Range<usize>;

/// Result of reading a text.
pub(super) struct Read<T> {
    /// Mistakes, a line for each.
    pub(super) wrong: Vec<String>,
    /// The rest of it: mistakes are left out, with the tables around them, or were never there. `None` if too little is
    /// left.
    pub(super) rest: Option<T>,
}

/// Reads a TOML file as `T`.
///
/// # Errors
/// All mistakes, a line for each, with line numbers.
pub fn read_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let Read { wrong, rest } = read(text);
    match rest {
        Some(value) if wrong.is_empty() => Ok(value),
        _ => Err(wrong.join("\n")),
    }
}

pub(super) fn read<T: DeserializeOwned>(text: &str) -> Read<T> {
    let (mut root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mut wrong = in_order(text, errors.iter().map(|error| (error, String::new())));
        // The first one of a line; others there follow from it. (SV-READ-1)
        wrong.dedup_by_key(|line| line.split(':').next().map(str::to_owned));
        return Read { wrong, rest: None };
    }
    let (mut errors, mut spoilt) = (Vec::new(), Vec::new());
    let whole = root.span();
    // Each turn takes something out.
    let fits = loop {
        let error = match deserialize::<T>(&root) {
            Ok(_) => break true,
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        // A table that lacks a field which was taken out as a mistake was reported. (SV-READ-1)
        let told = spoilt.contains(&span);
        let taken = take_out(root.get_mut(), &span, "");
        let (path, table) = taken.clone().unwrap_or_default();
        if !is_unknown(&error) && taken.is_some() {
            spoilt.push(table.unwrap_or_else(|| whole.clone()));
        }
        if !told {
            errors.push((error, path));
        }
        if taken.is_none() {
            break false;
        }
    };
    spoilt.iter().for_each(|span| remove_table(root.get_mut(), span));
    let rest = if fits { deserialize(&root).ok() } else { None };
    Read { wrong: in_order(text, errors.iter().map(|(error, path)| (error, path.clone()))), rest }
}

fn deserialize<T: DeserializeOwned>(root: &Spanned<DeTable<'_>>) -> Result<T, Error> {
    T::deserialize(Deserializer::from(root.clone()))
}

fn is_unknown(error: &Error) -> bool {
    error.message().starts_with("unknown field")
}

fn in_order<'a>(text: &str, errors: impl Iterator<Item = (&'a Error, String)>) -> Vec<String> {
    let mut errors: Vec<_> =
        errors.map(|(error, path)| (error.span().unwrap_or_default().start, path, error)).collect();
    errors.sort_by_key(|(at, ..)| *at);
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let words = |(at, path, error): (usize, String, &Error)| {
        let path = if path.is_empty() { path } else { format!("{path}: ") };
        format!("line {}: {path}{}", line(at), plain(error.message()))
    };
    errors.into_iter().map(words).collect()
}

/// A message without the names of the code's types.
fn plain(message: &str) -> String {
    let message = message.trim_end().replace('\n', ", ");
    let Some((before, expected)) = message.rsplit_once("expected ") else { return message };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number",
        "a sequence" => "a list",
        "a map" => "a table",
        "path string" => "a path",
        other => other.strip_prefix("struct ").map_or(other, |_| "a table"),
    };
    format!("{before}expected {expected}")
}

fn holds(outer: &Span, inner: &Span) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// A removed entry: its full name, and the table that it was in, if that is not the whole.
type Taken = (String, Option<Span>);

/// Takes the subject of an error at `span` out of a table: the innermost entry, or a table of a list that lacks
/// something.
fn take_out(table: &mut DeTable<'_>, span: &Span, path: &str) -> Option<Taken> {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let name = format!("{path}{}{}", if path.is_empty() { "" } else { "." }, key.get_ref());
        let of = value.span();
        if let Some(inside) = take_out_of(value, span, &name) {
            return Some(inside);
        }
        if key.span() == *span || (holds(&of, span) && found.is_none()) {
            found = Some((key.clone(), name));
        }
    }
    let (key, name) = found?;
    table.remove(&key);
    Some((name, None))
}

fn take_out_of(value: &mut Spanned<DeValue<'_>>, span: &Span, name: &str) -> Option<Taken> {
    let of = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take_out(table, span, name).map(|(path, table)| (path, table.or(Some(of)))),
        DeValue::Array(list) => {
            let inside = list.iter_mut().filter(|item| item.get_ref().is_table());
            if let Some(taken) = inside.into_iter().find_map(|item| take_out_of(item, span, name)) {
                return Some(taken);
            }
            let lacking = list.iter().position(|item| item.get_ref().is_table() && item.span() == *span)?;
            let items = mem::replace(list, DeArray::new()).into_iter().enumerate();
            *list = items.filter(|(at, _)| *at != lacking).map(|(_, item)| item).collect();
            Some((name.to_owned(), Some(span.clone())))
        }
        _ => None,
    }
}

/// Takes out the table at `span`.
fn remove_table(table: &mut DeTable<'_>, span: &Span) {
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let of = value.span();
        match value.get_mut() {
            DeValue::Table(_) if of == *span => found = Some(key.clone()),
            DeValue::Table(inner) => remove_table(inner, span),
            DeValue::Array(list) => {
                let items = mem::replace(list, DeArray::new()).into_iter();
                let is_it = |item: &Spanned<DeValue<'_>>| item.span() == *span && item.get_ref().is_table();
                *list = items.filter(|item| !is_it(item)).collect();
                for item in list.iter_mut() {
                    if let DeValue::Table(inner) = item.get_mut() {
                        remove_table(inner, span);
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(key) = found {
        table.remove(&key);
    }
}
