//! Waiting times, with one drive slow and with none.

use std::time::Duration;

/// Factor by which one drive is slower.
pub(super) const SLOWER: u32 = 100;
/// Time before calls are counted.
pub(super) const WARM_UP: Duration = Duration::from_secs(60);

/// Largest effect of a slow drive on the 99th percentile, as for GETs: clients notice more.
pub(super) const GOAL: f64 = 1.5;

/// Puts by the time when they came, from the start: the time of each.
#[derive(Default)]
pub(super) struct Puts {
    pub(super) took: Vec<(Duration, Duration)>,
    pub(super) given_up: Option<Duration>,
}

impl Puts {
    /// Times of the puts that came in that interval, from the shortest.
    pub(super) fn between(&self, from: Duration, to: Duration) -> Vec<Duration> {
        let within = self.took.iter().filter(|(came, _)| (from..to).contains(came));
        let mut took: Vec<Duration> = within.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took
    }
}

/// In seconds, of times from the shortest.
pub(super) fn percentile(took: &[Duration], percent: usize) -> f64 {
    let at = (took.len() * percent / 100).min(took.len().saturating_sub(1));
    took.get(at).map_or(0.0, Duration::as_secs_f64)
}

pub(super) fn ratio(took: &[Duration], well: &[Duration]) -> f64 {
    percentile(took, 99) / percentile(well, 99)
}

pub(super) fn compared(took: &[Duration], well: &[Duration]) -> String {
    let [[p99, p99_well], [median, median_well]] =
        [99, 50].map(|at| [took, well].map(|took| percentile(took, at) * 1e3));
    format!("{p99:.0} ms over {p99_well:.0} ms; medians {median:.0} and {median_well:.0} ms")
}
