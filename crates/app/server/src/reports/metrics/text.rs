//! The text of figures, as it is written.

use std::fmt::{Display, Write};

/// The text being written.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.0 += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        // Writing to memory cannot fail.
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, "", value);
    }

    pub(super) fn done(self) -> String {
        self.0
    }
}
