//! The report of a survey: each property with its answer, and the meaning for whoever uses the drive.
//!
//! **Owns** the words for people. **Knows nothing of** measuring.

mod meaning;
mod properties;
mod words;

pub use words::{Meaning, Property};

use serde::Serialize;

use crate::findings::Findings;

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The drive in one sentence.
    pub headline: String,
    /// Properties, in the order of the examinations.
    pub properties: Vec<Property>,
    /// The meaning; empty where nothing is known.
    pub meanings: Vec<Meaning>,
}

impl Report {
    /// The report of some findings. `writable`: the drive could be written to.
    pub fn of(findings: &Findings, writable: bool) -> Self {
        Self {
            headline: properties::headline(findings, writable),
            properties: properties::of(findings, writable),
            meanings: meaning::of(findings),
        }
    }

    /// It as a text of lines of at most so many columns.
    pub fn text(&self, columns: usize) -> String {
        let mut out = wrapped(&self.headline, "", columns);
        out.push('\n');
        let width = self.properties.iter().map(|property| property.title.len()).max().unwrap_or(0) + 2;
        for property in &self.properties {
            let said = match (&property.answer, &property.confidence, &property.reason) {
                (Some(answer), Some(sure), _) => format!("{answer} ({:.0} % sure)", sure * 100.0),
                (Some(answer), None, _) => answer.clone(),
                (None, _, Some(reason)) => format!("cannot tell: {reason}"),
                (None, _, None) => "not examined".to_owned(),
            };
            let lines = wrapped(&said, &" ".repeat(width), columns);
            out.push_str(&format!("{:width$}{}", property.title, lines.trim_start()));
        }
        for meaning in &self.meanings {
            out.push_str(&format!("\n{}\n", meaning.of));
            for sentence in &meaning.sentences {
                let lines = wrapped(sentence, "    ", columns);
                out.push_str(&format!("  - {}", lines.trim_start()));
            }
        }
        out
    }
}

/// Words in lines of at most so many columns behind an indent.
fn wrapped(text: &str, indent: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        if line.trim().is_empty() {
            line = format!("{indent}{word}");
        } else if line.chars().count() + 1 + word.chars().count() > columns {
            out.push_str(&line);
            out.push('\n');
            line = format!("{indent}{word}");
        } else {
            line = format!("{line} {word}");
        }
    }
    out + &line + "\n"
}
