//! The state of a survey in a file, from which a stopped one goes on.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use shingle_skylight::{Findings, SCHEMA};

use crate::failure::{Failure, Outcome};

/// Kind of the file.
const KIND: &str = "shingle-skylight-state";

#[derive(Serialize, Deserialize)]
struct State {
    kind: String,
    schema: u32,
    /// Names of the drive that stay.
    identity: String,
    findings: Findings,
}

/// Findings of the survey that was stopped; `None` if there is no such file.
///
/// # Errors
/// It cannot be read, is no state or of another version, or is that of another drive.
pub(super) fn load(path: &Path, identity: &str) -> Outcome<Option<Findings>> {
    let at = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::new(format!("{at}: {error}"))),
    };
    let other = || Failure::new(format!("{at} is no state of `shingle skylight`: name another file"));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| other())?;
    if value["kind"] != KIND {
        return Err(other());
    }
    if value["schema"] != SCHEMA {
        return Err(Failure::new(format!(
            "{at} is a state of version {}, and this program has {SCHEMA}: remove it to begin anew",
            value["schema"]
        )));
    }
    let state: State = serde_json::from_value(value).map_err(|error| Failure::new(format!("{at}: {error}")))?;
    if state.identity != identity {
        return Err(Failure::new(format!(
            "{at} is the state of another drive ({}, and this one is {identity}): name another file",
            shingle_base::printable(state.identity.as_bytes())
        )));
    }
    Ok(Some(state.findings))
}

/// Writes the state: the old one stays until the new one is whole.
///
/// # Errors
/// It cannot be written.
pub(super) fn save(path: &Path, identity: &str, findings: &Findings) -> Outcome {
    let state =
        State { kind: KIND.to_owned(), schema: SCHEMA, identity: identity.to_owned(), findings: findings.clone() };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    std::fs::write(&new, serde_json::to_string(&state)?).map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)
}
