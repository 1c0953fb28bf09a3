//! What commands print: tables for people, JSON for programs, progress on a terminal.
//!
//! # Invariants
//! - OUT-1: a reader that has had enough (`| head`) ends a command without a word and with the status that shells give for
//!   it; `println!` would panic there. So nothing else writes to standard output or standard error. (`test_owner.py`)

use std::fmt;
use std::io::{ErrorKind, IsTerminal, Write};

use crate::failure::{Failure, Outcome, status};

/// Prints a line to standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}

/// Prints a line to standard error.
macro_rules! note {
    ($($words:tt)*) => { $crate::output::aside(format_args!($($words)*)) };
}

/// A line of progress that is overwritten; nothing where standard error is no terminal.
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: false, terminal: std::io::stderr().is_terminal() }
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

/// A line to standard output, through [`say!`]. Output that cannot be written ends the command.
pub(crate) fn line(words: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(failure) = written(writeln!(out, "{words}")) {
        note!("shingle: {}", failure.message);
        std::process::exit(failure.status.into());
    }
}

/// A line to standard error, through [`note!`]. What nobody reads is no reason to stop.
pub(crate) fn aside(words: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{words}");
}

/// What became of writing to standard output. Does not come back where its reader has gone: engines lose nothing to an
/// end at any instant.
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

/// Columns and rows of the terminal that standard output is, or what COLUMNS and LINES say.
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

/// Whether standard output takes colours: a terminal, and nobody asked for none (<https://no-color.org>).
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
