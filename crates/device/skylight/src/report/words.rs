//! Parts of a report, and words for sizes, times and rates.

use serde::Serialize;

use crate::answer::Answer;

/// A property of the drive and what was found of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Property {
    /// Its name for programs.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The answer in words; `None`: there is none.
    pub answer: Option<String>,
    /// Probability with which the answer is right, where a test decided it.
    pub confidence: Option<f64>,
    /// The reason why there is no answer.
    pub reason: Option<String>,
}

/// Expectations of a use of the drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Meaning {
    /// The use: file systems, RAID, backups, power cuts.
    pub of: &'static str,
    /// Sentences.
    pub sentences: Vec<String>,
}

/// A property from an answer.
pub(super) fn property<T>(
    name: &'static str,
    title: &'static str,
    answer: Option<&Answer<T>>,
    words: impl Fn(&T) -> String,
) -> Property {
    let (mut text, mut sure, mut why) = (None, None, None);
    match answer {
        Some(Answer::Known { value, confidence }) => (text, sure) = (Some(words(value)), *confidence),
        Some(Answer::CannotTell { reason }) => why = Some(reason.clone()),
        None => {}
    }
    Property { name, title, answer: text, confidence: sure, reason: why }
}

/// A size in blocks, for people.
pub(super) fn size(blocks: f64) -> String {
    match blocks * 4.0 / 1024.0 {
        mib if mib >= 1024.0 * 1024.0 => format!("{:.1} TiB", mib / 1024.0 / 1024.0),
        mib if mib >= 10_240.0 => format!("{:.0} GiB", mib / 1024.0),
        mib if mib >= 1_024.0 => format!("{:.1} GiB", mib / 1024.0),
        mib if mib >= 10.0 => format!("{mib:.0} MiB"),
        mib if mib >= 1.0 => format!("{mib:.1} MiB"),
        mib => format!("{:.0} KiB", mib * 1024.0),
    }
}

/// A time in milliseconds, for people.
pub(super) fn time(ms: f64) -> String {
    match ms / 1e3 {
        s if s >= 48.0 * 3600.0 => format!("{:.0} days", s / 86_400.0),
        s if s >= 5_400.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 90.0 => format!("{:.0} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        _ if ms >= 10.0 => format!("{ms:.0} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

/// A rate of writes a second, for people.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        many if many >= 10.0 => format!("{many:.0} writes/s"),
        some if some >= 1.0 => format!("{some:.1} writes/s"),
        few => format!("one write in {}", time(1e3 / few)),
    }
}
