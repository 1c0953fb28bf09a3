//! Throughput over time in bounded memory: bytes in equal steps, which double when there are too many of them.

use std::time::Duration;

/// Steps at most.
const STEPS_MAX: usize = 120;

/// Bytes by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throughput {
    step: u64,
    bytes: Vec<u64>,
}

impl Throughput {
    /// Nothing yet, in steps of `step` at first.
    pub fn new(step: Duration) -> Self {
        Self { step: (step.as_nanos() as u64).max(1), bytes: Vec::new() }
    }

    /// So many bytes are done, that long after the beginning.
    pub fn note(&mut self, at: Duration, bytes: u64) {
        let nanos = at.as_nanos() as u64;
        while (nanos / self.step) as usize >= STEPS_MAX {
            self.step *= 2;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let step = (nanos / self.step) as usize;
        if self.bytes.len() <= step {
            self.bytes.resize(step + 1, 0);
        }
        self.bytes[step] += bytes;
    }

    /// Seconds at the middle of each step, and MB/s in it.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let seconds = self.step as f64 / 1e9;
        let point = |(step, &bytes): (usize, &u64)| ((step as f64 + 0.5) * seconds, bytes as f64 / seconds / 1e6);
        self.bytes.iter().enumerate().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_double_and_no_byte_is_lost() {
        let mut found = Throughput::new(Duration::from_secs(1));
        (0..10).for_each(|at| found.note(Duration::from_millis(at * 500), 1_000_000));
        assert_eq!(found.points(), [0.5, 1.5, 2.5, 3.5, 4.5].map(|at| (at, 2.0)));
        found.note(Duration::from_secs(5000), 1_000_000);
        let points = found.points();
        let (step, bytes) = (64.0, points.iter().map(|point| point.1 * 64e6).sum::<f64>());
        assert!(points.len() <= STEPS_MAX && (bytes - 11e6).abs() < 1.0, "{bytes}");
        assert_eq!(points[0], (step / 2.0, 10.0 / step));
    }
}
