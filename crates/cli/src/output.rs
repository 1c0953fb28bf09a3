//! What commands print: tables for people, JSON for programs, progress on a terminal.

use std::io::{IsTerminal, Write};

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
