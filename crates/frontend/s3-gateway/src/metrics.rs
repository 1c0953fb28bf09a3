//! Counters of the gateway.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::{Method, StatusCode};

/// Upper bounds of the latency histogram's buckets, in seconds; one more bucket takes the rest.
pub const LATENCY_BOUNDS_S: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Counters of a gateway since it began. Read them any time, from any thread.
#[derive(Debug, Default)]
pub struct GatewayMetrics {
    /// Bytes read from clients.
    pub received_bytes: AtomicU64,
    /// Bytes written to clients.
    pub sent_bytes: AtomicU64,
    /// Connections accepted.
    pub connections_accepted: AtomicU64,
    /// Connections open now.
    pub connections_open: AtomicU64,
    /// Silent connections that were closed to make room for others.
    pub connections_displaced: AtomicU64,
    /// Requests under way now.
    pub requests_in_flight: AtomicU64,
    methods: [MethodMetrics; 6],
}

/// Counters of the requests of one HTTP method.
#[derive(Debug, Default)]
pub struct MethodMetrics {
    /// Answers by the status's first digit, from 1.
    pub answers: [AtomicU64; 5],
    /// Answers by time from the request's head to the answer's head; see [`LATENCY_BOUNDS_S`].
    pub latency: [AtomicU64; LATENCY_BOUNDS_S.len() + 1],
    /// All those times together, in nanoseconds.
    pub latency_sum_ns: AtomicU64,
}

impl GatewayMetrics {
    /// The methods, and the counters of each.
    pub fn methods(&self) -> impl Iterator<Item = (&'static str, &MethodMetrics)> {
        ["GET", "PUT", "HEAD", "POST", "DELETE", "OTHER"].into_iter().zip(&self.methods)
    }

    pub(crate) fn answered(&self, method: &Method, status: StatusCode, took: Duration) {
        let index = match *method {
            Method::GET => 0,
            Method::PUT => 1,
            Method::HEAD => 2,
            Method::POST => 3,
            Method::DELETE => 4,
            _ => 5,
        };
        let Some(metrics) = self.methods.get(index) else { return };
        let class = usize::from(status.as_u16() / 100).clamp(1, metrics.answers.len()) - 1;
        let seconds = took.as_secs_f64();
        let bucket = LATENCY_BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS_S.len());
        for counter in [metrics.answers.get(class), metrics.latency.get(bucket)].into_iter().flatten() {
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
        let metrics = GatewayMetrics::default();
        metrics.answered(&Method::PUT, StatusCode::OK, Duration::from_millis(2));
        metrics.answered(&Method::PATCH, StatusCode::NOT_IMPLEMENTED, Duration::from_secs(60));
        let counted: Vec<_> = metrics
            .methods()
            .map(|(name, m)| {
                (name, m.answers.each_ref().map(|c| c.load(Relaxed)), m.latency.each_ref().map(|c| c.load(Relaxed)))
            })
            .filter(|(_, answers, _)| answers.iter().sum::<u64>() > 0)
            .collect();
        let put = ("PUT", [0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let other = ("OTHER", [0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counted, [put, other]);
    }
}
