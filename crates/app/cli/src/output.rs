//! Output of commands: tables for people, JSON for programs, progress on a terminal.
//!
//! # Invariants
//! - CLI-OUT-1: if the reader of standard output goes away (`| head`), the command ends silently with the status that
//!   shells give for it; `println!` would panic there. So nothing else writes to standard output or standard error.
//!   (`test_owner.py`)

#![expect(clippy::disallowed_methods, reason = "progress is shown to a person, in that person's time")]

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::{Duration, Instant};

use shingle_base::ByteSize;

use crate::failure::{Failure, Outcome, status};

/// Prints a line to standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}

/// Prints a line to standard error.
macro_rules! note {
    ($($words:tt)*) => { $crate::output::aside(format_args!($($words)*)) };
}

/// A line of progress that is overwritten; nothing if standard error is no terminal.
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
    began: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: false, terminal: std::io::stderr().is_terminal(), began: Instant::now() }
    }

    /// Shows the bytes done of all, the rate, and the time left at that rate.
    pub(crate) fn show_bytes(&mut self, done: u64, all: u64) {
        self.show_part(&format!("{} of {}", ByteSize(done), ByteSize(all)), done, done, all);
    }

    /// Shows `words`, the rate of `bytes`, and the time left at the present rate.
    pub(crate) fn show_part(&mut self, words: &str, bytes: u64, done: u64, all: u64) {
        if self.terminal {
            self.show(&format!("{words}{}", pace(bytes, done, all, self.began.elapsed())));
        }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            self.shown = true;
            // Progress that cannot be shown is no reason to stop.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// `, 210 MiB/s, 25 s left`; without a rate if there are no bytes, and nothing in the first moments, whose rate means
/// nothing.
pub(crate) fn pace(bytes: u64, done: u64, all: u64, took: Duration) -> String {
    if took < Duration::from_secs(1) || done == 0 {
        return String::new();
    }
    let took = took.as_secs_f64();
    let rate = if bytes == 0 { String::new() } else { format!(", {}/s", ByteSize((bytes as f64 / took) as u64)) };
    format!("{rate}, {} left", time(all.saturating_sub(done) as f64 * took / done as f64))
}

/// Seconds in words.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 90.0 * 60.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// A number of things: `1 chunk`, `2 chunks`.
pub(crate) fn counted(count: impl Into<u64>, thing: &str) -> String {
    match count.into() {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A size for people, with its exact bytes if they are not what is shown: `3 B`, `1.5 MiB (1572864 bytes)`.
pub(crate) fn size(bytes: u64) -> String {
    let shown = ByteSize(bytes);
    if bytes < 1024 { shown.to_string() } else { format!("{shown} ({bytes} bytes)") }
}

/// A line to standard output, through [`say!`]. Output that cannot be written ends the command.
pub(crate) fn line(words: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(failure) = written(writeln!(out, "{words}")) {
        note!("shingle: {}", failure.message);
        std::process::exit(failure.status.into());
    }
}

/// A line to standard error, through [`note!`]. An unread line is no reason to stop.
pub(crate) fn aside(words: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

/// Handles the result of writing to standard output. Ends the process if its reader has gone: engines lose nothing to
/// an end at any instant.
///
/// # Errors
/// It could not be written for another reason.
pub(crate) fn written(result: std::io::Result<()>) -> Outcome {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(status::NOBODY_READS.into()),
        Err(error) => Err(Failure::new(format!("standard output: {error}"))),
    }
}

/// Columns and rows of standard output's terminal, or from COLUMNS and LINES.
pub(crate) fn terminal_size() -> Option<(usize, usize)> {
    let said = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok().filter(|&count| count > 0);
    let asked =
        std::io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(std::io::stdout()).ok()).flatten();
    let asked = asked.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    match asked {
        Some(size) => Some((usize::from(size.ws_col), usize::from(size.ws_row))),
        None => Some((said("COLUMNS")?, said("LINES").unwrap_or(32))),
    }
}

/// True if standard output takes colours: a terminal, and `NO_COLOR` is not set (<https://no-color.org>).
pub(crate) fn colours() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !unwanted && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Text to standard output.
///
/// # Errors
/// As [`written`].
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = std::io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Objects of a listing, printed as they come, for there may be many. Nothing is printed before the first: a listing that fails at once leaves
/// no half of a JSON document.
pub(crate) struct Objects {
    json: bool,
    any: bool,
}

impl Objects {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, any: false }
    }

    /// Prints one, as JSON or as text.
    pub(crate) fn row(&mut self, json: impl FnOnce() -> serde_json::Value, text: impl FnOnce() -> String) {
        let first = !std::mem::replace(&mut self.any, true);
        match (self.json, first) {
            (true, true) => say!("{{\"objects\": [\n{}", json()),
            (true, false) => say!(",{}", json()),
            (false, _) => say!("{}", text()),
        }
    }

    pub(crate) fn end(self) {
        match (self.json, self.any) {
            (true, true) => say!("]}}"),
            (true, false) => say!("{{\"objects\": []}}"),
            (false, _) => {}
        }
    }
}

/// Rows of a table, the first of them its head, each column as wide as it needs; those of `figures` to the right.
pub(crate) fn print_columns<const N: usize>(rows: &[[String; N]], figures: std::ops::Range<usize>) -> Outcome {
    let mut widths = [0; N];
    for row in rows {
        for (width, text) in widths.iter_mut().zip(row) {
            *width = text.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (text, width))| {
            if figures.contains(&column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        let cells: Vec<_> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    print(&rows.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_fast_and_how_long() {
        assert_eq!(pace(3 << 30, 3, 9, Duration::from_millis(900)), "");
        assert_eq!(pace(3 << 30, 3, 9, Duration::from_secs(12)), ", 256 MiB/s, 24 s left");
        assert_eq!(pace(0, 50, 150, Duration::from_secs(120)), ", 4 min left");
        assert_eq!(pace(0, 0, 9, Duration::from_secs(9)), "");
        let times = [(0.4, "0 s"), (300.0, "5 min"), (3.0 * 3600.0, "3.0 h"), (3e5, "3 days")];
        times.iter().for_each(|(seconds, words)| assert_eq!(time(*seconds), *words));
    }

    #[test]
    fn one_thing_is_not_many() {
        assert_eq!([0u64, 1, 2].map(|count| counted(count, "zone set")), ["0 zone sets", "1 zone set", "2 zone sets"]);
    }

    #[test]
    fn a_size_is_said_once() {
        let sizes = [0, 3, 1023, 1024, 1_572_864, 1_572_865];
        let shown =
            ["0 B", "3 B", "1023 B", "1 KiB (1024 bytes)", "1.5 MiB (1572864 bytes)", "1.5 MiB (1572865 bytes)"];
        assert_eq!(sizes.map(size), shown);
    }
}
