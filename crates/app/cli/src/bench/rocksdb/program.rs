//! `db_bench`: its options, and what it says.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Outcome};

/// Keys of a database, with values of 100 bytes.
const KEYS: u64 = 500_000;
/// Reads of a load that only reads.
const READS: u64 = 200_000;

/// A load of `db_bench`.
pub(super) struct Load {
    /// Name of its figure.
    pub(super) id: &'static str,
    /// `db_bench`'s name of it.
    pub(super) name: &'static str,
    /// It begins with an empty database; else with that of the load before it.
    pub(super) fresh: bool,
    pub(super) threads: u32,
    /// Writes are synchronous.
    pub(super) sync: bool,
    /// Ends after so many seconds; `None` = after as many operations as there are keys.
    pub(super) seconds: Option<u32>,
}

/// Place of a database.
pub(super) struct Place<'a> {
    /// Options that say so.
    pub(super) options: &'a [String],
    /// Library to load first.
    pub(super) library: Option<&'a Path>,
}

impl Load {
    /// Operations a second.
    pub(super) fn run(&self, place: &Place<'_>) -> Outcome<f64> {
        let mut command = Command::new("db_bench");
        command.args(place.options).arg(format!("--benchmarks={}", self.name));
        command.arg(format!("--num={KEYS}")).arg(format!("--reads={READS}")).arg(format!("--threads={}", self.threads));
        command.arg(format!("--sync={}", self.sync)).arg(format!("--use_existing_db={}", !self.fresh));
        command.args(["--key_size=16", "--value_size=100", "--seed=1", "--verify_checksum=true"]);
        if let Some(seconds) = self.seconds {
            command.arg(format!("--duration={seconds}"));
        }
        if let Some(library) = place.library {
            command.env("LD_PRELOAD", library);
        }
        let done = command.stdin(Stdio::null()).output();
        let done = done.map_err(|error| Failure::new(format!("db_bench (package rocksdb-tools): {error}")))?;
        let said = String::from_utf8_lossy(&done.stdout);
        let failed = || {
            let words = String::from_utf8_lossy(&done.stderr);
            Failure::new(format!("db_bench, {}: {}", self.name, words.lines().last().unwrap_or_default()))
        };
        if !done.status.success() {
            return Err(failed());
        }
        rate(&said, self.name).ok_or_else(failed)
    }
}

/// The rate in a line such as `fillseq : 5.534 micros/op 180685 ops/sec 1.107 seconds ...`.
fn rate(said: &str, name: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/sec")?;
    words.get(at.checked_sub(1)?)?.parse().ok().filter(|rate: &f64| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_is_that_of_the_named_load() {
        let said = "Keys: 16 bytes\nDB path: [/db]\nfillseq      :       5.534 micros/op 180685 ops/sec 1.107 seconds 200000 operations;   20.0 MB/s\n";
        assert_eq!(rate(said, "fillseq"), Some(180_685.0));
        assert_eq!(rate(said, "overwrite"), None);
        for bad in ["", "fillseq :", "fillseq : ops/sec", "fillseq : x ops/sec", "fillseq : 0 ops/sec"] {
            assert_eq!(rate(bad, "fillseq"), None);
        }
    }
}
