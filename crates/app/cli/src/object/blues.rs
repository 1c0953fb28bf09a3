//! Blue stores in the answers of `shingle object`.

use serde_json::{Value, json};
use shingle_base::ByteSize;
use shingle_blue_objects::Checked;
use shingle_server::{BlueCounted, Error};

use crate::findings::{findings_json, words_of};
use crate::output::counted;

/// A check of a blue store, by its name.
pub(super) type BlueCheck = (String, Result<Checked, Error>);

pub(super) fn check_json((name, checked): &BlueCheck) -> Value {
    match checked {
        Err(error) => json!({ "blue": name, "error": error.message }),
        Ok(checked) => json!({ "blue": name, "clean": checked.findings.is_empty(), "objects": checked.objects,
            "object_bytes": checked.bytes, "damage": words_of(&[&checked.findings]),
            "findings": findings_json(&[("damage", &checked.findings)]) }),
    }
}

pub(super) fn tell_check((name, checked): &BlueCheck, verified: &str) {
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => return say!("blue store {name}: not checked: {}", error.message),
    };
    say!("blue store {name}: {}{verified}", counted(checked.objects, "object"));
    checked.findings.iter().for_each(|finding| say!("blue store {name}: damaged: {finding}"));
    let end = if checked.findings.is_empty() { "clean" } else { "damage is left: restore what is named above" };
    say!("blue store {name}: {end}");
}

pub(super) fn stat_json((name, stats): &(String, BlueCounted)) -> Value {
    let BlueCounted { objects, live_bytes, capacity_bytes } = stats;
    json!({ "blue": name, "objects": objects, "live_bytes": live_bytes, "capacity_bytes": capacity_bytes })
}

pub(super) fn tell_stat((name, stats): &(String, BlueCounted)) {
    let (live, capacity) = (ByteSize(stats.live_bytes), ByteSize(stats.capacity_bytes));
    say!("blue store {name}: {}, {live} of {capacity}", counted(stats.objects, "object"));
}
