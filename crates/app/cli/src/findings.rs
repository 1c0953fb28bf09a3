//! Findings of checks as JSON.

use serde_json::{Value, json};
use shingle_store_api::{Finding, Named};

/// Findings of each kind, with the names of the objects that they touch as fields.
pub(crate) fn findings_json(kinds: &[(&str, &[Finding])]) -> Value {
    let all = kinds.iter().flat_map(|(kind, findings)| findings.iter().map(|finding| json_of(kind, finding)));
    Value::Array(all.collect())
}

/// The words alone, in the same order.
pub(crate) fn words_of<'a>(kinds: &[&'a [Finding]]) -> Vec<&'a str> {
    kinds.iter().flat_map(|findings| findings.iter().map(|finding| finding.words.as_str())).collect()
}

fn json_of(kind: &str, Finding { words, objects }: &Finding) -> Value {
    let named = |Named { words, object }: &Named| match object {
        Some((bucket, key)) => json!({ "name": words, "bucket": bucket, "key": key }),
        None => json!({ "name": words }),
    };
    let first: Vec<_> = objects.first.iter().map(named).collect();
    json!({ "kind": kind, "words": words, "objects": first, "more_objects": objects.more, "unnamed": objects.untold })
}
