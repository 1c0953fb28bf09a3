//! State of an engine, in words, known without asking it.

#![expect(clippy::disallowed_methods, reason = "times for people, outside simulations")]

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use crate::error::{Error, ErrorKind};

/// Longest time for an engine to answer, and for a client to send a request's head.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// State of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not serve yet: its present step.
    Opening(String),
    /// It serves.
    Serving,
    /// It does not serve: why.
    Failed(ErrorKind, String),
}

/// A missing drive of an engine that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) drive: String,
    /// Time when it was noticed, in seconds of Unix time.
    pub(crate) since: u64,
    /// Reason why it cannot be opened although it is there.
    pub(crate) why: Option<String>,
    /// It has been seen again since; advice about it.
    pub(crate) back: Option<&'static str>,
}

/// The health of an engine. Clones are of the same engine.
#[derive(Clone)]
pub(crate) struct Health {
    name: Arc<str>,
    facts: Arc<Mutex<Facts>>,
    changed: watch::Sender<()>,
}

struct Facts {
    state: State,
    waits_for: Vec<String>,
    missing: Vec<Missing>,
}

/// True if `words` are a drive's `name`, or a drive's number and that name: `drive 3 (/dev/sda)`. A relative path, as a drive may have been
/// named when the array was made, is the end of the whole one; `/dev/sda` is none of `/dev/sdaa`.
pub(crate) fn is_named(words: &str, name: &str) -> bool {
    let inner = words.strip_suffix(')').and_then(|words| words.split_once(" (")).map(|(_, inner)| inner);
    let is_end = |one: &str, other: &str| !other.is_empty() && Path::new(one).ends_with(other);
    std::iter::once(words).chain(inner).any(|words| is_end(words, name) || is_end(name, words))
}

impl Missing {
    /// True if it is the drive with this other name.
    pub(crate) fn is(&self, name: &str) -> bool {
        is_named(&self.drive, name) || is_named(name, &self.drive)
    }

    /// For people.
    pub(crate) fn words(&self) -> String {
        let why = self.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        let words = format!("drive {} missing since {}{why}", self.drive, utc(self.since));
        match self.back {
            Some(advice) => format!("{words}; it is there again: {advice}"),
            None => words,
        }
    }
}

impl Health {
    /// Health of the engine called `name`, which is about to open. Changes are sent to `changed`.
    pub(crate) fn new(name: &str, changed: watch::Sender<()>) -> Self {
        let state = State::Opening("opening".to_owned());
        let facts = Facts { state, waits_for: Vec::new(), missing: Vec::new() };
        Self { name: name.into(), facts: Arc::new(Mutex::new(facts)), changed }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        self.facts().state = state;
        self.changed.send_replace(());
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn state(&self) -> State {
        let facts = self.facts();
        match &facts.state {
            State::Opening(doing) if !facts.waits_for.is_empty() => {
                State::Opening(format!("{doing}; waiting for {}", facts.waits_for.join(", ")))
            }
            state => state.clone(),
        }
    }

    /// The drives that it serves without.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        self.facts().missing.clone()
    }

    /// It does not serve yet, and is `doing` this.
    pub(crate) fn opening(&self, doing: impl Into<String>) {
        self.set(State::Opening(doing.into()));
    }

    /// It serves from now on.
    pub(crate) fn serving(&self) {
        self.set(State::Serving);
    }

    /// It does not serve, for that reason.
    pub(crate) fn failed(&self, error: &Error) {
        self.facts().missing.clear();
        self.set(State::Failed(error.kind, error.message.clone()));
    }

    /// It waits for a drive, or does not any more.
    pub(crate) fn waits(&self, drive: &str, waits: bool) {
        let mut facts = self.facts();
        facts.waits_for.retain(|other| other != drive);
        if waits {
            facts.waits_for.push(drive.to_owned());
        }
    }

    /// It is opened without these drives.
    pub(crate) fn opened_without(&self, drives: impl IntoIterator<Item = String>) {
        let since = unix_time_s();
        let missing = |drive| Missing { drive, since, why: None, back: None };
        self.facts().missing = drives.into_iter().map(missing).collect();
    }

    /// A missing drive is there, but cannot be opened: why.
    pub(crate) fn cannot_open(&self, drive: &str, why: &str) {
        self.facts().missing.iter_mut().filter(|missing| missing.drive == drive).for_each(|missing| {
            missing.why = Some(why.to_owned());
        });
    }

    /// A missing drive is present again; the advice is shown with it.
    pub(crate) fn is_back(&self, drive: &str, advice: &'static str) {
        self.facts().missing.iter_mut().filter(|missing| missing.drive == drive).for_each(|missing| {
            missing.back = Some(advice);
        });
    }

    /// Text of a refused request.
    pub(crate) fn refusal(&self) -> String {
        let name = &self.name;
        match self.state() {
            State::Opening(doing) => format!("{name} does not serve yet: {doing}"),
            State::Serving => format!("{name} is stopping"),
            // The reason names paths: it is for the log, not for clients.
            State::Failed(..) => format!("{name} has failed; the server's log and `shingle status` say why"),
        }
    }

    /// Lines for people: the engine's state, then the drives that are `missing`.
    pub(crate) fn lines(&self, missing: &[Missing]) -> String {
        let name = &self.name;
        let mut lines = match self.state() {
            State::Opening(doing) => format!("{name}: {doing}\n"),
            State::Failed(_, why) => format!("{name}: failed: {why}\n"),
            State::Serving if missing.is_empty() => format!("{name}: ok\n"),
            State::Serving => String::new(),
        };
        for missing in missing {
            lines += &format!("{name}: degraded: {}\n", missing.words());
        }
        lines
    }
}

/// Seconds of Unix time.
pub(crate) fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time since 1970 as `2026-11-23T12:00:00.000Z`.
pub(crate) fn utc_ms(since: Duration) -> String {
    let text = utc(since.as_secs());
    format!("{}.{:03}Z", text.trim_end_matches('Z'), since.subsec_millis())
}

/// A time as `2026-11-23T12:00:00Z`.
pub fn utc(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    // The civil calendar in years that begin in March, from the day that began the first of 400 of them. (Hinnant,
    // "chrono-compatible low-level date algorithms")
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + later;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_772_323_200, "2026-03-01T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(unix_s), text);
        }
        assert_eq!(utc_ms(Duration::from_millis(1_005)), "1970-01-01T00:00:01.005Z");
    }

    #[test]
    fn a_drive_is_not_taken_for_one_whose_name_holds_its_own() {
        let missing = |drive: &str| Missing { drive: drive.to_owned(), since: 0, why: None, back: None };
        for (drive, name, same) in [
            ("/dev/sda", "/dev/sda", true),
            ("/dev/sda", "drive 3 (/dev/sda)", true),
            ("drive 3 (/dev/sda)", "/dev/sda", true),
            ("/srv/disk1", "drive 3 (disk1)", true),
            ("/srv/disk1", "drive 3 (disk11)", false),
            ("/tmp/disk (old)", "drive 3 (/tmp/disk (old))", true),
            ("/dev/sda", "/dev/sdaa", false),
            ("/dev/sdaa", "drive 3 (/dev/sda)", false),
            ("drive 1 (/dev/sdaa)", "/dev/sda", false),
        ] {
            assert_eq!(missing(drive).is(name), same, "{drive}, {name}");
        }
    }

    #[test]
    fn what_is_not_well_has_lines_of_its_own() {
        let (changed, _heard) = watch::channel(());
        let health = Health::new("shelf", changed);
        health.waits("serial:Z1", true);
        assert_eq!(health.lines(&health.missing()), "shelf: opening; waiting for serial:Z1\n");
        health.waits("serial:Z1", false);
        health.opened_without(["serial:Z1".to_owned()]);
        health.serving();
        let lines = health.lines(&health.missing());
        assert!(lines.starts_with("shelf: degraded: drive serial:Z1 missing since 20"), "{lines}");
        health.cannot_open("serial:Z1", "its header is damaged");
        assert!(health.lines(&health.missing()).ends_with("Z (its header is damaged)\n"));
        health.opened_without(["serial:Z1".to_owned()]);
        health.is_back("serial:Z1", "restart");
        assert!(
            health.lines(&health.missing()).ends_with("Z; it is there again: restart\n"),
            "{}",
            health.lines(&health.missing())
        );
        health.failed(&Error::new(ErrorKind::Drive, "it burned"));
        assert_eq!(health.lines(&health.missing()), "shelf: failed: it burned\n");
        assert!(!health.refusal().contains("burned"));
    }
}
