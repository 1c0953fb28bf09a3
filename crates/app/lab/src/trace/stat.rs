//! Figures of a trace: shares of kinds, sizes, sequentiality, working set, arrivals.
//!
//! Memory is bounded: of a trace that touches more than [`PAGES_MAX`] pages, one page in two is counted, or in four, and so on, by a
//! hash of its address; the working set is estimated from those, to within a few tenths of a percent.

use std::collections::BTreeMap;

use serde::Serialize;

use super::io::{Io, IoKind};
use crate::load::latency::Latency;

/// Bytes of a page of the working set.
const PAGE: u64 = 4096;

/// Pages that are told apart, at most.
const PAGES_MAX: usize = 1 << 20;

/// An access is sequential if it begins where one of so many before it ended.
const STREAMS: usize = 32;

/// Figures of I/Os of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// Number of them.
    pub ios: u64,
    /// Bytes of them all.
    pub bytes: u64,
    /// Share of them, in percent of all reads and writes.
    pub share_percent: f64,
    /// Mean size.
    pub mean_bytes: f64,
    /// Share of those that begin where one of the 32 before them, of the same kind, ended; in percent.
    pub sequential_percent: f64,
}

/// Figures of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stat {
    /// I/Os of all kinds.
    pub ios: u64,
    /// Reads.
    pub reads: Kind,
    /// Writes.
    pub writes: Kind,
    /// Flushes.
    pub flushes: u64,
    /// Trims.
    pub trims: u64,
    /// Ranges that are made to read as zeros.
    pub zeros: u64,
    /// Writes, zeros and trims that are durable when they complete.
    pub fua: u64,
    /// Bytes of pages that reads or writes touch.
    pub footprint_bytes: u64,
    /// Bytes of pages that are written.
    pub written_footprint_bytes: u64,
    /// Writes of a page that is written at all, in the mean.
    pub writes_per_page: f64,
    /// One page in so many is counted.
    pub pages_one_in: u64,
    /// Seconds from the first arrival to the last.
    pub seconds: f64,
    /// I/Os a second.
    pub rate: f64,
    /// Most I/Os in one second.
    pub busiest_second: u64,
    /// Time from an arrival to the next, in milliseconds: median, 99 of 100.
    pub gap_p50_ms: f64,
    /// The same of 99 of 100.
    pub gap_p99_ms: f64,
    /// I/Os that depend on others.
    pub dependent: u64,
    /// I/Os that say how long they took.
    pub timed: u64,
}

/// Ends of the last accesses of a kind.
#[derive(Default)]
struct Streams {
    ends: Vec<u64>,
    next: usize,
    sequential: u64,
}

impl Streams {
    fn take(&mut self, io: &Io) {
        let end = io.offset + io.length;
        if let Some(stream) = self.ends.iter_mut().find(|stream| **stream == io.offset) {
            *stream = end;
            self.sequential += 1;
        } else if self.ends.len() < STREAMS {
            self.ends.push(end);
        } else {
            self.ends[self.next] = end;
            self.next = (self.next + 1) % STREAMS;
        }
    }
}

/// Pages that were touched, and how often.
#[derive(Default)]
struct Pages {
    /// One page in two to this power is counted.
    thinned: u32,
    touches: BTreeMap<u64, u64>,
}

/// True of one page in two to the power of `thinned`; each of those is also one of the pages for a smaller power.
fn is_counted(page: u64, thinned: u32) -> bool {
    page.wrapping_mul(0x9E37_79B9_7F4A_7C15).leading_zeros() >= thinned
}

impl Pages {
    fn take(&mut self, io: &Io) {
        for page in io.offset / PAGE..(io.offset + io.length).div_ceil(PAGE) {
            if is_counted(page, self.thinned) {
                *self.touches.entry(page).or_default() += 1;
            }
        }
        while self.touches.len() > PAGES_MAX {
            self.thinned += 1;
            self.touches.retain(|&page, _| is_counted(page, self.thinned));
        }
    }

    fn bytes(&self) -> u64 {
        (self.touches.len() as u64 * PAGE) << self.thinned
    }

    /// Touches of a page in the mean.
    fn mean(&self) -> f64 {
        self.touches.values().sum::<u64>() as f64 / self.touches.len().max(1) as f64
    }
}

/// Figures of I/Os in the order of their arrival.
#[derive(Default)]
pub struct Counter {
    stat: Stat,
    streams: BTreeMap<IoKind, Streams>,
    touched: Pages,
    written: Pages,
    gaps: Latency,
    last_at: Option<u64>,
    /// The present second, and the I/Os in it.
    second: (u64, u64),
}

impl Counter {
    /// Takes in the next I/O.
    pub fn take(&mut self, io: &Io) {
        let stat = &mut self.stat;
        stat.ios += 1;
        stat.fua += u64::from(io.fua);
        stat.dependent += u64::from(!io.after.is_empty());
        stat.timed += u64::from(io.took.is_some());
        let kind = match io.kind {
            IoKind::Read => Some(&mut stat.reads),
            IoKind::Write => Some(&mut stat.writes),
            IoKind::Flush => {
                stat.flushes += 1;
                None
            }
            IoKind::Trim => {
                stat.trims += 1;
                None
            }
            IoKind::Zero => {
                stat.zeros += 1;
                None
            }
        };
        if let Some(kind) = kind {
            kind.ios += 1;
            kind.bytes += io.length;
            self.streams.entry(io.kind).or_default().take(io);
            self.touched.take(io);
            if io.kind == IoKind::Write {
                self.written.take(io);
            }
        }
        if let Some(last) = self.last_at {
            self.gaps.note(io.at.saturating_sub(last));
        }
        self.last_at = Some(io.at);
        let second = io.at / 1_000_000_000;
        self.second = (second, if second == self.second.0 { self.second.1 + 1 } else { 1 });
        stat.busiest_second = stat.busiest_second.max(self.second.1);
    }

    /// The figures.
    pub fn stat(&self) -> Stat {
        let mut stat = self.stat.clone();
        let moved = (stat.reads.ios + stat.writes.ios).max(1) as f64;
        for (kind, of) in [(IoKind::Read, &mut stat.reads), (IoKind::Write, &mut stat.writes)] {
            let ios = of.ios.max(1) as f64;
            of.share_percent = of.ios as f64 / moved * 100.0;
            of.mean_bytes = of.bytes as f64 / ios;
            of.sequential_percent =
                self.streams.get(&kind).map_or(0, |streams| streams.sequential) as f64 / ios * 100.0;
        }
        stat.footprint_bytes = self.touched.bytes();
        stat.written_footprint_bytes = self.written.bytes();
        stat.pages_one_in = 1 << self.touched.thinned;
        stat.writes_per_page = self.written.mean();
        stat.seconds = self.last_at.unwrap_or(0) as f64 / 1e9;
        stat.rate = if stat.seconds > 0.0 { stat.ios as f64 / stat.seconds } else { 0.0 };
        let gaps = self.gaps.summary();
        (stat.gap_p50_ms, stat.gap_p99_ms) = (gaps.p50_ms, gaps.p99_ms);
        stat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_told_in_figures() {
        let mut counter = Counter::default();
        // Two streams of writes, in turns, each 100 times 8 KiB; one read of each MiB; and the first 16 KiB once more.
        for at in 0..100u64 {
            counter.take(&Io::new(at * 10_000_000, IoKind::Write, at * 8192, 8192));
            counter.take(&Io::new(at * 10_000_000, IoKind::Write, (1 << 30) + at * 8192, 8192));
        }
        for at in 0..50u64 {
            counter.take(&Io::new(1_000_000_000, IoKind::Read, at << 20, 4096));
        }
        counter.take(&Io {
            fua: true,
            took: Some(1),
            after: vec![1],
            ..Io::new(2_000_000_000, IoKind::Write, 0, 16_384)
        });
        counter.take(&Io::flush(2_000_000_000));
        let stat = counter.stat();
        assert_eq!((stat.ios, stat.reads.ios, stat.writes.ios, stat.flushes, stat.fua), (252, 50, 201, 1, 1));
        assert_eq!((stat.dependent, stat.timed, stat.seconds, stat.busiest_second), (1, 1, 2.0, 200));
        assert!((stat.writes.sequential_percent - 198.0 / 201.0 * 100.0).abs() < 1e-9, "{stat:?}");
        assert_eq!(stat.reads.sequential_percent, 0.0);
        assert_eq!(stat.written_footprint_bytes, 200 * 8192);
        // The first MiB is written in full, and so is the read in it.
        assert_eq!(stat.footprint_bytes, 200 * 8192 + 49 * 4096);
        assert!((stat.writes_per_page - 404.0 / 400.0).abs() < 1e-9, "{}", stat.writes_per_page);
        assert_eq!((stat.reads.mean_bytes, stat.pages_one_in), (4096.0, 1));
    }

    #[test]
    fn a_large_working_set_is_estimated() {
        let mut counter = Counter::default();
        // 1.5 million pages, every seventh, each twice.
        for page in (0..1_500_000u64).chain(0..1_500_000) {
            counter.take(&Io::new(0, IoKind::Write, page * 7 * PAGE, PAGE));
        }
        let stat = counter.stat();
        let share = stat.footprint_bytes as f64 / (1.5e6 * PAGE as f64);
        assert!((share - 1.0).abs() < 0.01 && stat.pages_one_in == 2, "{share} {}", stat.pages_one_in);
        assert_eq!((stat.writes_per_page, stat.written_footprint_bytes), (2.0, stat.footprint_bytes));
    }
}
