//! Counters of the server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::wire::command;

/// Upper bounds of the latency histogram's buckets, in seconds; one more bucket takes the rest.
pub const LATENCY_BOUNDS_S: [f64; 9] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0];

/// Counters of a server since it began. Read them any time, from any thread.
#[derive(Debug, Default)]
pub struct NbdMetrics {
    /// Bytes of the protocol that came from clients, without TLS around them.
    pub received_bytes: AtomicU64,
    /// Bytes of the protocol that went to clients, without TLS around them.
    pub sent_bytes: AtomicU64,
    /// Connections accepted.
    pub connections_accepted: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Connections closed at once since there were as many as may be.
    pub connections_refused: AtomicU64,
    /// Connections that ended in the handshake: timeouts, bytes that are no NBD, failures of TLS.
    pub handshakes_failed: AtomicU64,
    /// Requests under way now.
    pub requests_in_flight: AtomicU64,
    commands: [CommandMetrics; 7],
}

/// Counters of the requests with one command.
#[derive(Debug, Default)]
pub struct CommandMetrics {
    /// Requests that were done.
    pub done: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Bytes that the done ones were for.
    pub bytes: AtomicU64,
    /// Answers by time from the whole request to its answer; see [`LATENCY_BOUNDS_S`].
    pub latency: [AtomicU64; LATENCY_BOUNDS_S.len() + 1],
    /// All those times together, in nanoseconds.
    pub latency_sum_ns: AtomicU64,
}

/// Names of commands in the order of their counters.
const NAMES: [(&str, u16); 6] = [
    ("read", command::READ),
    ("write", command::WRITE),
    ("flush", command::FLUSH),
    ("trim", command::TRIM),
    ("write_zeroes", command::WRITE_ZEROES),
    ("block_status", command::BLOCK_STATUS),
];

impl NbdMetrics {
    /// The commands, and the counters of each.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &CommandMetrics)> {
        NAMES.iter().map(|(name, _)| *name).chain(["other"]).zip(&self.commands)
    }

    pub(crate) fn answered(&self, kind: u16, bytes: u64, done: bool, took: Duration) {
        let index = NAMES.iter().position(|(_, known)| *known == kind).unwrap_or(NAMES.len());
        let Some(metrics) = self.commands.get(index) else { return };
        if done {
            metrics.done.fetch_add(1, Relaxed);
            metrics.bytes.fetch_add(bytes, Relaxed);
        } else {
            metrics.failed.fetch_add(1, Relaxed);
        }
        let seconds = took.as_secs_f64();
        let bucket = LATENCY_BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS_S.len());
        if let Some(counter) = metrics.latency.get(bucket) {
            counter.fetch_add(1, Relaxed);
        }
        metrics.latency_sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_once_in_its_place() {
        let metrics = NbdMetrics::default();
        metrics.answered(command::TRIM, 4096, true, Duration::from_micros(200));
        metrics.answered(77, 5, false, Duration::from_secs(60));
        let counted: Vec<_> = metrics
            .commands()
            .map(|(name, m)| {
                (name, [&m.done, &m.failed, &m.bytes, &m.latency[1], &m.latency[9]].map(|c| c.load(Relaxed)))
            })
            .filter(|(_, counts)| counts.iter().sum::<u64>() > 0)
            .collect();
        assert_eq!(counted, [("trim", [1, 0, 4096, 1, 0]), ("other", [0, 1, 0, 0, 1])]);
    }
}
