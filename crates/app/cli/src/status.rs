//! `shingle status`: the state of a running server, in words.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use shingle_base::ByteSize;

use crate::failure::{Failure, Outcome, status};
use crate::output::counted;

/// The configuration of the packaged service.
const PACKAGED: &str = "/etc/shingle/config.toml";

/// Asks the server of a data directory, through a socket there: this needs no key, only permission to enter the
/// directory.
///
/// Exit status: 0 healthy, 2 degraded but serving, 3 no server runs, 4 a part of it does not serve.
#[derive(Args)]
pub(crate) struct Status {
    /// The server's configuration [default: /etc/shingle/config.toml, unless there is a ./shingle-data].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: the configuration's, or ./shingle-data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn run(self) -> Outcome {
        let service = self.config.is_none() && self.data.is_none() && !Path::new("shingle-data").exists();
        let file = self.config.or_else(|| (service && Path::new(PACKAGED).exists()).then(|| PACKAGED.into()));
        let data = crate::serve::config(file.as_deref(), self.data)?.data;
        let Some(page) = shingle_server::ask_status(&data)? else {
            let message = format!("no server runs on {}", data.display());
            return Err(Failure::new(message).with_status(status::NOT_RUNNING));
        };
        let told: Value = serde_json::from_str(&page)?;
        if self.json {
            say!("{}", page.trim_end());
        } else {
            tell(&told);
        }
        match told["state"].as_str() {
            Some("healthy") => Ok(()),
            Some("degraded") => Err(Failure::silent(status::DEGRADED)),
            _ => Err(Failure::silent(status::NOT_SERVING)),
        }
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn each<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn tell(told: &Value) {
    let admin = told["admin"].as_str().map_or(String::new(), |admin| format!(", metrics at http://{admin}/metrics"));
    say!("{}", text(told, "state").to_uppercase());
    say!(
        "S3 at http://{}{admin}; version {}, process {}, since {}",
        text(told, "listen"),
        text(told, "version"),
        told["process"],
        text(told, "started")
    );
    for engine in each(told, "engines") {
        tell_engine(engine);
    }
    for volume in each(told, "volumes") {
        let state = match text(volume, "state") {
            "serving" => "ok".to_owned(),
            other => format!("{}: {}", other.to_uppercase(), text(volume, "reason")),
        };
        say!("");
        say!("{}: {state}", text(volume, "name"));
        each(volume, "addresses").filter_map(Value::as_str).for_each(|address| say!("  {address}"));
    }
}

fn tell_engine(engine: &Value) {
    let problems: Vec<_> = each(engine, "problems").filter_map(Value::as_str).collect();
    let state = match text(engine, "state") {
        "serving" if problems.is_empty() => "ok".to_owned(),
        "serving" => "DEGRADED".to_owned(),
        other => format!("{}: {}", other.to_uppercase(), text(engine, "reason")),
    };
    let kind = match text(engine, "kind") {
        "array" => "array",
        "blue" => "blue store",
        _ => "object store on the [[drive]]s",
    };
    say!("");
    say!("{} ({kind}): {state}", text(engine, "name"));
    for problem in problems {
        say!("  ! {problem}");
    }
    if let (Some(live), Some(capacity)) =
        (engine["space"]["live_bytes"].as_u64(), engine["space"]["capacity_bytes"].as_u64())
    {
        let percent = live.saturating_mul(100).checked_div(capacity).unwrap_or(0);
        let objects = counted(engine["space"]["objects"].as_u64().unwrap_or(0), "object");
        say!("  {objects}, {} of {} ({percent} %)", ByteSize(live), ByteSize(capacity));
    }
    for drive in each(engine, "drives") {
        let since = drive["since"].as_str().map_or(String::new(), |since| format!(" since {since}"));
        let free = drive["free_bytes"].as_u64().map_or(String::new(), |free| format!(", {} free", ByteSize(free)));
        say!("  drive {}: {}{since}{free}", text(drive, "drive"), text(drive, "state"));
    }
    let scrub = &engine["scrub"];
    if let Some(left) = scrub["sets_left"].as_u64() {
        let found = counted(scrub["damaged_zones"].as_u64().unwrap_or(0), "damaged zone");
        let found = format!("{found} found since the start");
        match (left, scrub["ended"].as_str()) {
            (0, None) => say!("  verifying: nothing was verified in the background so far"),
            (0, Some(ended)) => say!("  verifying: all was verified by {ended}; {found}"),
            (left, None) => say!("  verifying: {} to go in the first pass; {found}", counted(left, "zone set")),
            (left, Some(ended)) => {
                say!("  verifying: {} to go; the last pass ended {ended}; {found}", counted(left, "zone set"));
            }
        }
    }
}
