//! What commands print: tables for people, JSON for programs, progress on a terminal.

use std::io::{IsTerminal, Write};

use crate::failure::Outcome;

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
            eprint!("\r\x1b[K{text}");
            // Progress that cannot be shown is no reason to stop.
            let _ = std::io::stderr().flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

/// The end of output that a reader had enough of (`| head`) is no failure.
pub(crate) fn ignore_closed_pipe(printed: std::io::Result<()>) -> Outcome {
    match printed {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
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

/// Writes to standard output, where `println!` would panic if its reader has gone.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
