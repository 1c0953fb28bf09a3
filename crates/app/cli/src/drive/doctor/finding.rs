//! Findings of the doctor.

use std::fmt::Write;

use serde_json::{Value, json};

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Works, and could be better.
    Advice,
    /// Does not work, or not safely.
    Problem,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Advice => "advice",
            Self::Problem => "problem",
        }
    }
}

/// A checked property.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// `machine`, or the drive.
    pub(crate) subject: String,
    /// Name of the check, which stays the same, for programs.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) found: String,
    /// The command that changes it.
    pub(crate) change: Option<String>,
    pub(crate) why: Option<&'static str>,
}

impl Finding {
    pub(crate) fn ok(subject: &str, check: &'static str, found: impl Into<String>) -> Self {
        Self { subject: subject.to_owned(), check, level: Level::Ok, found: found.into(), change: None, why: None }
    }

    pub(crate) fn advice(subject: &str, check: &'static str, found: impl Into<String>, why: &'static str) -> Self {
        Self { level: Level::Advice, why: Some(why), ..Self::ok(subject, check, found) }
    }

    pub(crate) fn problem(subject: &str, check: &'static str, found: impl Into<String>, why: &'static str) -> Self {
        Self { level: Level::Problem, why: Some(why), ..Self::ok(subject, check, found) }
    }

    pub(crate) fn change(self, command: impl Into<String>) -> Self {
        Self { change: Some(command.into()), ..self }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:<8} {}: {} ({})\n", self.level.word(), self.subject, self.found, self.check);
        if let Some(why) = self.why {
            let _ = writeln!(text, "         why:    {why}");
        }
        if let Some(change) = &self.change {
            let _ = writeln!(text, "         change: {}", change.replace('\n', "\n                 "));
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "subject": self.subject, "check": self.check, "level": self.level.word(), "found": self.found,
                "change": self.change, "why": self.why })
    }
}
