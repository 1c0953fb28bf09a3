//! PUT of 1 MiB objects to object stores of one drive and of many: modelled drives in virtual time, through the object store's API.

use std::time::Duration;

use serde_json::json;
use shingle_lab::rig::scaling::{CLIENTS_EACH, Taken, puts};

use crate::bench::figure::round;
use crate::failure::{Failure, Outcome};

/// Numbers of drives by default.
pub(crate) const DRIVES: [usize; 6] = [1, 2, 4, 8, 16, 60];
/// Largest number of drives: a rack of shelves.
const DRIVES_MAX: usize = 256;
/// Virtual time that is measured.
const TIME: Duration = Duration::from_secs(10);
const SEED: u64 = 1;

pub(crate) fn run(drives: &[usize], as_json: bool) -> Outcome {
    if let Some(wrong) = drives.iter().find(|count| !(1..=DRIVES_MAX).contains(*count)) {
        return Err(Failure::new(format!("--drives: {wrong} is not between 1 and {DRIVES_MAX}")));
    }
    let one = puts(1, TIME, SEED)?;
    let mut rows = Vec::new();
    for &count in drives {
        let taken = if count == 1 { one } else { puts(count, TIME, SEED)? };
        let factor = taken.bytes_per_s / one.bytes_per_s / count as f64;
        let commands = taken.commands as f64 / taken.objects.max(1) as f64;
        say!(
            "s3-drives {count:>3} drives: {:>8.1} MB/s, {factor:.3} of {count} times one drive; the fullest has {:.3} of the mean; \
             {commands:.2} commands an object",
            taken.bytes_per_s / 1e6,
            taken.fullest
        );
        rows.push(row(&taken, factor, commands));
    }
    if as_json {
        let clients = CLIENTS_EACH;
        say!("{}", json!({ "bench": "s3-drives", "unit": "bytes/s", "clients_per_drive": clients, "figures": rows }));
    }
    Ok(())
}

fn row(taken: &Taken, factor: f64, commands: f64) -> serde_json::Value {
    json!({
        "drives": taken.drives, "value": round(taken.bytes_per_s), "factor": round(factor), "fullest": round(taken.fullest),
        "commands": taken.commands, "commands_per_object": round(commands)
    })
}
