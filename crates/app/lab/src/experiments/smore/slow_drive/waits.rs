//! Waiting times, with one drive slow and with none.

use std::time::Duration;

use shingle_runtime::{Instant, Runtime};
use shingle_sim::Random;

use crate::error::LabError;
use crate::load::times::{Summary, Times};

/// Factor by which one drive is slower.
pub(super) const SLOWER: u32 = 100;
/// Time before calls are counted.
pub(super) const WARM_UP: Duration = Duration::from_secs(60);

/// Largest effect of a slow drive on the 99th percentile, as for GETs: clients notice more.
pub(super) const GOAL: f64 = 1.5;

/// Calls: when each came, from the start, and the time that it took.
#[derive(Default)]
pub(super) struct Calls(pub(super) Vec<(Duration, Duration)>);

impl Calls {
    /// Times of those that came in that interval, from the shortest.
    pub(super) fn between(&self, from: Duration, to: Duration) -> Vec<Duration> {
        let within = self.0.iter().filter(|(came, _)| (from..to).contains(came));
        let mut took: Vec<Duration> = within.map(|(_, took)| *took).collect();
        took.sort_unstable();
        took
    }

    /// The same, with the longest stall.
    pub(super) fn summary(&self, from: Duration, to: Duration) -> Summary {
        let within = self.0.iter().filter(|(came, _)| (from..to).contains(came));
        let mut calls: Vec<_> = within.map(|(came, took)| (*came, *came + *took)).collect();
        calls.sort_unstable_by_key(|call| call.1);
        let mut times = Times::default();
        let at = |since: Duration| Instant { nanos: since.as_nanos() as u64 };
        calls.into_iter().for_each(|(came, answered)| times.note(at(came), at(answered)));
        times.summary()
    }
}

/// Makes calls that come at random times, so many in ten seconds, also while earlier ones are under way. Returns
/// them in the order in which they came.
pub(super) async fn come<C: Future<Output = Result<(), LabError>> + 'static>(
    rt: &Runtime,
    in_ten_s: u64,
    time: Duration,
    mut random: Random,
    mut call: impl FnMut(&mut Random) -> C,
) -> Result<Calls, LabError> {
    let from = rt.now();
    let mut under_way = Vec::new();
    loop {
        rt.sleep(Duration::from_nanos(random.below(20_000_000_000 / in_ten_s.max(1)))).await;
        if rt.now().since(from) >= time {
            break;
        }
        let (on, call) = (rt.clone(), call(&mut random));
        under_way.push(rt.spawn(async move {
            let came = on.now();
            call.await.map(|()| (came.since(from), on.now().since(came)))
        }));
    }
    let mut took = Vec::new();
    for call in under_way {
        took.push(call.await.map_err(|_| LabError("a call was lost".to_owned()))??);
    }
    Ok(Calls(took))
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
