//! fio, beside which the device layer is measured: the same commands, in the same numbers, to the same medium.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// A load, as given to fio.
pub(crate) struct Job<'a> {
    /// The file, or the node of a drive.
    pub(crate) path: &'a Path,
    /// `write` or `randread`.
    pub(crate) pattern: &'static str,
    pub(crate) block_bytes: u64,
    /// Jobs side by side, each with a range of its own.
    pub(crate) jobs: u64,
    /// Commands that each job has outstanding.
    pub(crate) depth: u64,
    /// Start of the first job's range, and length of each range.
    pub(crate) offset_bytes: u64,
    pub(crate) range_bytes: u64,
    /// Bytes that each job moves.
    pub(crate) job_bytes: u64,
    /// Writes between two flushes; 0 for none.
    pub(crate) flush_every: u64,
    /// Past the page cache, and by the rules of zones.
    pub(crate) zoned: bool,
}

/// Checks that fio is installed.
///
/// # Errors
/// Advice to install it.
pub(crate) fn find() -> Outcome {
    let found = Command::new("fio").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::new("this is measured beside fio, which is not there: install it (apt install fio)")),
    }
}

impl Job<'_> {
    /// Bytes a second.
    ///
    /// # Errors
    /// fio's result in bytes or commands a second.
    pub(crate) fn run(&self) -> Outcome<f64> {
        let mut command = Command::new("fio");
        command.args(["--name=shingle", "--ioengine=io_uring", "--output-format=json", "--group_reporting"]);
        command.args(["--fallocate=none", "--invalidate=1", "--norandommap", "--randrepeat=0"]);
        // Shingle gives the kernel no hints about reads, so fio must not either.
        command.arg("--fadvise_hint=0");
        command.arg(format!("--filename={}", self.path.display()));
        let numbers = [
            ("bs", self.block_bytes),
            ("numjobs", self.jobs),
            ("iodepth", self.depth),
            ("offset", self.offset_bytes),
            ("offset_increment", self.range_bytes),
            ("size", self.range_bytes),
            ("io_size", self.job_bytes),
            ("fdatasync", self.flush_every),
        ];
        command.args(numbers.map(|(name, value)| format!("--{name}={value}")));
        command.arg(format!("--rw={}", self.pattern));
        if self.zoned {
            command.args(["--direct=1", "--zonemode=zbd"]);
        }
        let done = command.stdin(Stdio::null()).output()?;
        if !done.status.success() {
            return Err(Failure::new(format!("fio: {}", String::from_utf8_lossy(&done.stderr).trim())));
        }
        rate(&done.stdout, self.pattern).ok_or_else(|| Failure::new("fio's answer makes no sense"))
    }
}

/// Bytes a second out of fio's answer, which may begin with notes.
pub(crate) fn rate(answer: &[u8], pattern: &str) -> Option<f64> {
    let text = String::from_utf8_lossy(answer);
    let answer: Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let side = if pattern.contains("read") { "read" } else { "write" };
    let jobs = answer.get("jobs")?.as_array()?;
    let failed = jobs.iter().any(|job| job.get("error").and_then(Value::as_i64) != Some(0));
    let rate: f64 = jobs.iter().filter_map(|job| job.get(side)?.get("bw_bytes")?.as_f64()).sum();
    (!failed && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_behind_notes() {
        let answer = br#"fio: note {"jobs"}"#;
        assert_eq!(rate(answer, "write"), None);
        let answer =
            "note: nothing\n{\"jobs\": [{\"error\": 0, \"write\": {\"bw_bytes\": 12}, \"read\": {\"bw_bytes\": 0}}]}";
        assert_eq!(rate(answer.as_bytes(), "write"), Some(12.0));
        assert_eq!(rate(answer.as_bytes(), "randread"), None);
        let failed = answer.replace("\"error\": 0", "\"error\": 5");
        assert_eq!(rate(failed.as_bytes(), "write"), None);
    }
}
