//! Verifying an array in the background: all data on its drives is read once in an interval, a zone set at a time, and
//! damage is repaired while parity still makes up for it.
//!
//! # Invariants
//! - SV-SCRUB-1: after a restart a pass goes on where it was, at most a zone set back; without its file, or with one that
//!   makes no sense, it begins anew.
//! - SV-SCRUB-2: sets are spread over the interval; a pass that is late rests for as long as it reads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shingle_array_store::{ArrayStore, ErrorKind, ScrubReport, SetId};
use shingle_runtime::Runtime;

use crate::reports::damage::{Damage, names_of};

/// Interval of looks at the clock when a pass is over: it may be set.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// Time between tries if an array could not be verified.
const RETRY: Duration = Duration::from_secs(60);

/// Subject and rate of the verification.
pub(crate) struct Plan {
    pub(crate) array: String,
    /// Known damage of the array's objects.
    pub(crate) damage: Arc<Damage>,
    /// Everything once in this time.
    pub(crate) interval: Duration,
    /// Read rate limit in bytes/s; `None` = none.
    pub(crate) rate: Option<u64>,
    /// File with the progress of a pass.
    pub(crate) file: PathBuf,
}

/// Results since the server started, and progress of the present pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Zone sets verified.
    pub(crate) sets: u64,
    /// Bytes read and verified.
    pub(crate) bytes: u64,
    /// Zones that were damaged.
    pub(crate) damaged: u64,
    /// Of them, those that were replaced, or whose sets were emptied.
    pub(crate) repaired: u64,
    /// Parts of objects that parity could not give back.
    pub(crate) lost: u64,
    /// Zone sets that the pass has yet to verify.
    pub(crate) left: u64,
    /// End of the last whole pass, in seconds of Unix time; 0 = none yet.
    pub(crate) ended: u64,
}

/// Figures that others look at.
pub(crate) type Shared = Arc<Mutex<Figures>>;

/// Progress of a pass. Times are in milliseconds of Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Pass {
    began: u64,
    /// The last set that was verified.
    after: Option<u32>,
    /// When it ended.
    ended: Option<u64>,
    /// End of the last whole pass.
    #[serde(default)]
    whole: u64,
}

impl Pass {
    fn begin(now: u64, before: Self) -> Self {
        Self { began: now, after: None, ended: None, whole: before.whole }
    }

    /// The pass in the file; a new one if the file makes no sense.
    fn read(file: &Path, now: u64) -> Self {
        let new = Self::begin(now, Self::default());
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return new,
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "verifying begins anew");
                return new;
            }
        };
        match toml::from_str::<Self>(&text) {
            // A clock that was set back must not put it off for years.
            Ok(pass) => Self { began: pass.began.min(now), ..pass },
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "verifying begins anew");
                new
            }
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Progress of verifying an array. May be deleted: verifying then begins anew.\nbegan = {}\n",
            self.began
        );
        for (name, value) in [("after", self.after.map(u64::from)), ("ended", self.ended)] {
            if let Some(value) = value {
                text += &format!("{name} = {value}\n");
            }
        }
        text + &format!("whole = {}\n", self.whole)
    }
}

impl Plan {
    /// Rest after a set, with `left` still to do. (SV-SCRUB-2)
    fn rest(&self, began: u64, now: u64, left: usize, bytes: u64, took: Duration) -> Duration {
        let end = Duration::from_millis(began).saturating_add(self.interval);
        // The last of them ends with the interval, so that there is time before the next pass.
        let pace = match u32::try_from(left) {
            Ok(left) if left > 0 => end.saturating_sub(Duration::from_millis(now)) / left.saturating_add(1),
            _ => Duration::ZERO,
        };
        let due = self.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64));
        pace.max(took).max(due.saturating_sub(took))
    }

    async fn save(&self, rt: &Runtime, pass: Pass) {
        let file = self.file.clone();
        let write = move || {
            let unfinished = file.with_extension("scrub-new");
            // Not made durable: a power cut costs a second verification.
            std::fs::write(&unfinished, pass.text())?;
            std::fs::rename(&unfinished, &file)
        };
        let done = rt.blocking(write).await;
        if let Err(error) = done.unwrap_or_else(|lost| Err(std::io::Error::other(lost))) {
            tracing::warn!(file = %self.file.display(), %error, "the progress of verifying could not be noted");
        }
    }

    fn tell(&self, report: &ScrubReport, figures: &Shared) {
        for zone in &report.damaged {
            tracing::error!(array = self.array, "damaged: {zone}");
        }
        for lost in &report.lost {
            tracing::error!(array = self.array, "lost: {lost}");
        }
        for away in &report.away {
            tracing::warn!(array = self.array, "away, until a drive is back: {away}");
        }
        self.damage.found(names_of(&report.lost));
        let left = report.damaged.len().saturating_sub(report.repaired);
        if left > 0 {
            let zones = if left == 1 { "zone" } else { "zones" };
            tracing::error!(
                array = self.array,
                "{left} damaged {zones} could not be replaced: add a drive, or free some space"
            );
        }
        let mut figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.sets += report.done as u64;
        figures.bytes += report.bytes;
        figures.damaged += report.damaged.len() as u64;
        figures.repaired += report.repaired as u64;
        figures.lost += report.lost.len() as u64;
        figures.left = report.sets.saturating_sub(report.done) as u64;
    }

    /// Verifies until the array is closed.
    pub(crate) async fn keep(self, rt: Runtime, store: ArrayStore, figures: Shared) {
        let now = || rt.unix_time().nanos / 1_000_000;
        let mut pass = Pass::read(&self.file, now());
        let note = |pass: &Pass| figures.lock().unwrap_or_else(PoisonError::into_inner).ended = pass.whole / 1000;
        loop {
            note(&pass);
            if pass.ended.is_some() {
                let due = Duration::from_millis(pass.began).saturating_add(self.interval);
                let left = due.saturating_sub(Duration::from_millis(now()));
                if !left.is_zero() {
                    rt.sleep(left.min(LOOK)).await;
                    // Closed meanwhile.
                    if store.stats().is_err() {
                        return;
                    }
                    continue;
                }
                pass = Pass::begin(now(), pass);
            }
            let began = rt.now();
            match store.scrub_next(pass.after.map(SetId)).await {
                Ok(Some((set, report))) => {
                    let took = rt.now().since(began);
                    self.tell(&report, &figures);
                    pass.after = Some(set.0);
                    self.save(&rt, pass).await;
                    let left = report.sets.saturating_sub(report.done);
                    rt.sleep(self.rest(pass.began, now(), left, report.bytes, took)).await;
                }
                Ok(None) => {
                    pass = Pass { ended: Some(now()), whole: now(), ..pass };
                    self.save(&rt, pass).await;
                    let Figures { sets, bytes, damaged, lost, .. } =
                        *figures.lock().unwrap_or_else(PoisonError::into_inner);
                    tracing::info!(
                        array = self.array,
                        sets,
                        bytes,
                        damaged,
                        lost,
                        "everything was verified; since the start"
                    );
                }
                Err(error) if error.kind == ErrorKind::Stopped => return,
                Err(error) => {
                    tracing::warn!(array = self.array, %error, "verifying goes on later");
                    rt.sleep(RETRY).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rate: Option<u64>) -> Plan {
        Plan {
            array: "a".to_owned(),
            damage: Arc::default(),
            interval: Duration::from_secs(100),
            rate,
            file: PathBuf::new(),
        }
    }

    /// SV-SCRUB-2.
    #[test]
    fn sets_are_spread_over_the_interval() {
        let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        assert_eq!(plan(None).rest(0, 0, 99, 1, ms), second);
        // Late: no faster than half of the time.
        assert_eq!(plan(None).rest(0, 200_000, 100, 1, 3 * second), 3 * second);
        assert_eq!(plan(None).rest(0, 99_000, 0, 1, 3 * second), 3 * second);
        // A rate slows it; being late does not make it faster.
        assert_eq!(plan(Some(1000)).rest(0, 0, 100, 10_000, 2 * second), 8 * second);
        assert_eq!(plan(Some(1000)).rest(0, 0, 9, 1000, ms), 10 * second);
    }

    #[test]
    fn how_far_a_pass_is_comes_back_and_nonsense_begins_anew() {
        let folder = std::env::temp_dir().join(format!("shingle-scrub-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("x.scrub");
        for pass in [
            Pass { began: 5, after: Some(7), ended: None, whole: 3 },
            Pass { began: 5, after: None, ended: Some(9), whole: 9 },
        ] {
            std::fs::write(&file, pass.text()).unwrap();
            assert_eq!(Pass::read(&file, 100), pass);
            assert_eq!(Pass::read(&file, 4).began, 4);
        }
        for nonsense in ["began = \"x\"", "\u{0}", "other = 1", "began = -1"] {
            std::fs::write(&file, nonsense).unwrap();
            assert_eq!(Pass::read(&file, 100), Pass::begin(100, Pass::default()), "{nonsense}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Pass::read(&file, 100), Pass::begin(100, Pass::default()));
    }
}
